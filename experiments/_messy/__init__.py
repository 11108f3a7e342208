"""Messy tables, everything that reads them, and broken readers that must be found out."""
