"""Demonstrations on simulated hospitals."""
