"""Which computations a federation can run, and how each is put together on the two sides.

A computation is an estimator of tacit whose coordinator and sites are in different places. Both
sides build it from the same `Proposal`, so they agree on everything public or do not start.
"""

from __future__ import annotations

from tacit.errors import ParameterError, TacitError
from tacit.federation.computations.base import Computation
from tacit.federation.computations.factorization import Factorization
from tacit.federation.computations.recommender import Recommender
from tacit.federation.computations.regression import Regression
from tacit.federation.computations.spectral import Mixture, Topics
from tacit.federation.proposal import Proposal

__all__ = ["COMPUTATIONS", "Computation", "computation_of"]

COMPUTATIONS: dict[str, type[Computation]] = {
    "factorization": Factorization,
    "mixture": Mixture,
    "recommender": Recommender,
    "regression": Regression,
    "topics": Topics,
}


def computation_of(proposal: Proposal) -> Computation:
    """Build the computation that is proposed, or say why it cannot be run."""
    if proposal.computation not in COMPUTATIONS:
        raise ParameterError(
            f"there is no computation {proposal.computation!r}: choose from {sorted(COMPUTATIONS)}"
        )
    try:
        return COMPUTATIONS[proposal.computation](proposal)
    except TacitError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ParameterError(f"the settings cannot be used: {error}") from None
