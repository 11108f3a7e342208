"""Sums over observed cells, and the updates and samplers built on them."""
