"""Exact draws of latent counts, and the sampler given perturbed ones."""
