"""Generators, checks and compiled kernels; knows nothing of the field."""
