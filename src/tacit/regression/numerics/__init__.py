"""Moments, posteriors and samplers of linear regression."""
