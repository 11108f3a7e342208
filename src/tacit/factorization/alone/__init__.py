"""Coupled factorization by one holder, without privacy."""
