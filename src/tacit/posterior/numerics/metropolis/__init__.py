"""Metropolis–Hastings on parameters: the kernel, and its compiled loops."""
