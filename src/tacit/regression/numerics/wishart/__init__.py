"""Gibbs sampling with Wishart proposals of regression from noisy moments."""
