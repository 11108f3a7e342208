"""Empirical lower bounds on ε: what an attacker achieves, next to what is certified."""

from tacit.audit.bounds import ErrorRates, LowerBound, epsilon_at_least, one_run_epsilon

__all__ = ["ErrorRates", "LowerBound", "epsilon_at_least", "one_run_epsilon"]
