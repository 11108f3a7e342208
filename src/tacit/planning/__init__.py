"""What ε, how many rows or how many sites a wanted accuracy needs; before any data is read.

A plan is a simulation on public facts: data with a known truth, of the size that is meant, go
through the real estimator at the real noise, and the error is looked at. What is searched for (ε,
rows or sites) is bracketed and halved on a logarithmic scale, with the same random numbers
throughout, so that the answer is that of one curve. Simulated data are a guess at the private
ones: a plan says what to expect where they resemble each other, and no more.

=============  =====================================================  ===========================
kind           what is simulated                                      error
=============  =====================================================  ===========================
summary        a column, uniform in its bounds                        of the mean, in half-ranges
regression     uniform features, half of the variance explained       of fitted values, relative to
                                                                      their spread
factorization  ratings with tastes (`simulated_ratings`)              held-out, relative to own
                                                                      means of members
recommender    the same, single ratings protected                     likewise
topics         documents of one topic each                            of word probabilities, mean
                                                                      total variation
=============  =====================================================  ===========================

**Choosing on private data** costs: every candidate is a release of its own. `price_of_choosing`
composes them, and says how much ε each may have if the total is fixed. Choosing here is free.
"""

from __future__ import annotations

from tacit.planning.choosing import ChoicePrice, price_of_choosing
from tacit.planning.ranks import RankChoice, choose_rank
from tacit.planning.search import Plan, plan
from tacit.planning.simulations import Facts, error_of, kinds

__all__ = [
    "ChoicePrice",
    "Facts",
    "Plan",
    "RankChoice",
    "choose_rank",
    "error_of",
    "kinds",
    "plan",
    "price_of_choosing",
]
