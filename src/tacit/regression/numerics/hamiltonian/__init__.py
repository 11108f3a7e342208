"""Hamiltonian Monte Carlo of regression from noisy moments."""
