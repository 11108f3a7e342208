"""Coupled factorization over sites."""
