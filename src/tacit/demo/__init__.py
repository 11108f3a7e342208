"""Demonstrations on simulated data: hospitals, a table, a recommender, topics."""
