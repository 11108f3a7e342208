"""Empirical lower bounds on ε: what an attacker achieves, next to what is certified."""

from tacit.audit.bounds import ErrorRates, LowerBound, epsilon_at_least, one_run_epsilon
from tacit.audit.canaries import OneRun, audit_one_run
from tacit.audit.distinguishing import Audit, audit, distinguish
from tacit.audit.neighbours import Neighbours, worst_case
from tacit.audit.recommender import Membership, Messages, audit_sums, membership, read_ratings

__all__ = [
    "Audit",
    "ErrorRates",
    "LowerBound",
    "Membership",
    "Messages",
    "Neighbours",
    "OneRun",
    "audit",
    "audit_one_run",
    "audit_sums",
    "distinguish",
    "epsilon_at_least",
    "membership",
    "one_run_epsilon",
    "read_ratings",
    "worst_case",
]
