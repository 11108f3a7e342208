"""Empirical lower bounds on ε: what an attacker achieves, next to what is certified."""

from tacit.audit.attack import Audit, audit, distinguish
from tacit.audit.bounds import ErrorRates, LowerBound, epsilon_at_least, one_run_epsilon
from tacit.audit.canaries import OneRun, audit_one_run
from tacit.audit.neighbours import Neighbours, worst_case

__all__ = [
    "Audit",
    "ErrorRates",
    "LowerBound",
    "Neighbours",
    "OneRun",
    "audit",
    "audit_one_run",
    "distinguish",
    "epsilon_at_least",
    "one_run_epsilon",
    "worst_case",
]
