"""Factors by stochastic gradient Langevin dynamics over sites."""
