"""Sums of moments, whitening, and the power method."""
