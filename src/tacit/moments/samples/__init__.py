"""Mixtures: what a table of samples releases."""
