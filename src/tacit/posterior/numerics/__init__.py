"""Populations, priors, statistics, and posteriors given noisy ones."""
