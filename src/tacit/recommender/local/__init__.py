"""Recommenders in which every person perturbs their own answers."""
