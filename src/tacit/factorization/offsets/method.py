"""`AlternatingLeastSquares`: the settings of offsets and least squares over sites."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.lazy import late
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.divergences import loss_name
from tacit.factorization.offsets.sums import HALF
from tacit.factorization.together.problem import Problem
from tacit.factorization.together.shape import FactorizationMethod
from tacit.privacy.events import REPLACE

__all__ = ["AlternatingLeastSquares"]

_PRODUCTS = 6  # of the public pattern


@dataclass(frozen=True)
class AlternatingLeastSquares(FactorizationMethod):
    """Offsets, and factors by alternating least squares, for one matrix of bounded values.

    Parameters
    ----------
    rounds
        Rounds of alternating least squares after the covariance, where noise is small enough for
        them; otherwise their share of the budget goes to the covariance as well. Where cells
        that are not listed are observed zeros it always does.
    factors
        Whether factors are learned from private values at all; ``"auto"``: where they would stand
        out from the noise, by ε and the number of members (public for entries, released for
        users), and beside the public pattern clearly so. Not where zeros are observed: on
        simulated links of three sizes, at ε = 3, 10 and without noise, popularity and members'
        own activity ranked unseen cells better alone.
    pattern
        Whether, for entries, item features are taken from which cells are observed, which is
        public then and costs nothing.
    popular
        Over how many items, the most popular ones, the covariance is taken.
    clip
        c, where a value's distance from its member's mean is clipped, of a half-range of 2; not
        where zeros are observed, whose values are measured from zero.
    prior_weight
        κ, the number of cells that the overall mean counts for in a member's own mean.
    """

    rounds: int = 2
    factors: bool | str = "auto"
    pattern: bool = True
    popular: int = 300
    clip: float = 1.5
    prior_weight: float = 5.0

    parts = True
    told = ("rounds", "factors", "pattern", "popular", "clip", "prior_weight")

    def __post_init__(self) -> None:
        check("rounds", self.rounds, Integer(0))
        check("factors", self.factors, OneOf("auto", True, False))
        check("pattern", self.pattern, OneOf(True, False))
        check("popular", self.popular, Integer(2))
        check("clip", self.clip, Real(0, 2 * HALF, open_low=True))
        check("prior_weight", self.prior_weight, Real(0, open_low=True))

    def agree(self, problem: Problem) -> Any:
        """Return what is public about a fit; raise unless there is one matrix to factorize."""
        self._check(problem)
        kind = late(f"{__package__}.agreement").LeastSquaresAgreement
        ((relation, bounds),) = problem.bounds.items()
        item, tokens = problem.item, problem.model.forms[relation]
        pattern, filled = problem.unit == "entry" and self.pattern, relation in problem.filled
        draft = kind(
            items=problem.sizes[item],
            rank=math.prod(problem.model.ranks[k] for k in tokens[0][1]),
            bounds=bounds,
            unit=problem.unit,
            privacy=problem.privacy,
            sites=problem.sites,
            plan=(),
            # links to few items say too little of these for rounds on all items
            later=("covariance",) if filled else ("covariance", "factors"),
            clip=self.clip,
            prior_weight=self.prior_weight,
            popular=min(self.popular, problem.sizes[item]),
            products=_PRODUCTS if pattern and not filled else 0,
            filled=filled,
            weighted=bool(problem.weights) or (problem.is_summed and problem.privacy_differs),
            problem=problem,
            factors=False if filled and self.factors == "auto" else self.factors,
        )
        return draft.planned(0 if filled else self.rounds)

    def _check(self, problem: Problem) -> None:
        if not problem.is_matrix:
            raise ParameterError(
                "this method factorizes one matrix, such as 'user:k item:k', beside public ones "
                "about its items: use method='sgld'"
            )
        for name in problem.bounds:
            if problem.model.powers[name] != 0.0:
                raise ParameterError(
                    f"relation {name!r} has {loss_name(problem.model.powers[name])}: this method "
                    "is least squares. Pass divergence='euclidean', or method='sgld' for 'kl'"
                )
        if problem.unit not in ("entry", "user"):
            raise ParameterError(
                f"privacy.unit must be 'entry' or 'user' for a factorization, got {problem.unit!r}"
            )
        for name, found in problem.public.items():
            _check_public(problem, name, found)
        privacy = problem.privacy
        if privacy is None or not problem.noisy:
            return
        if privacy.unit == "entry" and privacy.neighbours != REPLACE:
            raise ParameterError("entries are replaced: pass neighbours='replace-one'")
        if problem.is_summed and privacy.public_sites:
            raise ParameterError(
                "under trust='aggregator' every site adds its share of the noise: pass what is "
                "public as public members, fit(sites, public={…}), which add none"
            )
        if privacy.trust in ("local", "shuffler"):
            raise ParameterError(
                f"a site adds up its members' cells, and trust={privacy.trust!r} says that nobody "
                "sees them: use method='local'"
            )
        if privacy.delta == 0.0:
            raise ParameterError("this method adds Gaussian noise: pass Privacy(…, delta=1e-6)")


def _check_public(problem: Problem, name: str, found: Relation) -> None:
    """Raise unless a public relation is about the same items, and about nobody protected."""
    item = problem.item
    if problem.protected in problem.model.names(name):
        raise ParameterError(
            f"the public relation {name!r} names the protected entity {problem.protected!r}: pass "
            f"what is public of {item!r}"
        )
    if item not in found.entities:
        return  # a site that adopts has what it says from what was released
    size, known = found.shape[found.entities.index(item)], problem.labels.get(item)
    if size != problem.sizes[item] or found.labels.get(item, known) != known:
        raise ParameterError(
            f"public data and sites disagree about the members of {item!r}: {size} in {name!r}, "
            f"{problem.sizes[item]} at sites. Pass the same list of labels to both"
        )
