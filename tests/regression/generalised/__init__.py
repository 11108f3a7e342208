"""Logistic and Poisson regression."""
