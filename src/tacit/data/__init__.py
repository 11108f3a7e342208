"""Data as it comes: tables, and generators with known truth."""
