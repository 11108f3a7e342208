"""`LocalCounts`: the settings of learning from counts that every site perturbed once."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit._core.lazy import late
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.factorization.together.problem import Problem
from tacit.factorization.together.shape import FactorizationMethod
from tacit.privacy.events import REPLACE

__all__ = ["LocalCounts"]


@dataclass(frozen=True)
class LocalCounts(FactorizationMethod):
    """Learn from counts that every site perturbed once (LDP1 and LDP2).

    Parameters
    ----------
    views
        ``"perturbed"``: everybody learns from perturbed counts, also about their own users (LDP1).
        ``"own"``: each site learns from its own counts and the others' perturbed ones (LDP2); what
        it learns stays there.
    inference
        ``"exact"``: the counts are unknown, and drawn. ``"naive"``: the perturbed ones are taken
        for counts, negative ones for zero.
    cells
        For a guarantee per user: the most cells of a user that are sent. None: ε is per cell.
    shape, mean
        The gamma prior of every factor entry; None follows the rule in
        `tacit.factorization.counts.agreement`.
    burn_in, draws, thin
        Steps that are dropped first, draws that are kept, and steps from one to the next.
    own_effects
        Whether predictions at a site also rest on what its own counts say by themselves: factors
        of its members, and of items over its members (`numerics.own_rates`). What was learned
        together counts as far as it helps there. Without it predictions are means over draws.

    Examples
    --------
    >>> import numpy as np
    >>> import tacit as tc
    >>> counts = np.random.default_rng(0).poisson(3.0, (20, 10)).astype(float)
    >>> model = tc.PrivateFactorization(
    ...     "user:k item:k", rank=2, divergence="kl", bounds=(0, 10), random_state=0,
    ...     method=LocalCounts(burn_in=10, draws=10, thin=1),
    ...     privacy=tc.Privacy(1.0, unit="entry", trust="local"))
    >>> fitted = model.fit([tc.Site("north", counts[:12]), tc.Site("south", counts[12:])])
    >>> fitted.predict("south", [[0, 0], [7, 9]]).shape
    (2,)
    >>> round(fitted.certificate_.epsilon, 6), fitted.certificate_.unit
    (1.0, 'entry')
    """

    relation = REPLACE
    trusts = ("site", "local")

    views: str = "perturbed"
    inference: str = "exact"
    cells: int | None = None
    shape: float | None = None
    mean: float | None = None
    burn_in: int = 100
    draws: int = 50
    thin: int = 6
    own_effects: bool = True

    told = (
        "views",
        "inference",
        "cells",
        "shape",
        "mean",
        "burn_in",
        "draws",
        "thin",
        "own_effects",
    )

    def __post_init__(self) -> None:
        check("views", self.views, OneOf("perturbed", "own"))
        check("inference", self.inference, OneOf("exact", "naive"))
        check("cells", self.cells, AnyOf(Integer(1), None))
        check("shape", self.shape, AnyOf(Real(0, open_low=True), None))
        check("mean", self.mean, AnyOf(Real(0, open_low=True), None))
        check("burn_in", self.burn_in, Integer(0))
        check("draws", self.draws, Integer(1))
        check("thin", self.thin, Integer(1))
        check("own_effects", self.own_effects, OneOf(True, False))

    @property
    def unit(self) -> str:
        """A cell, or a user whose cells are bounded."""
        return "entry" if self.cells is None else "user"

    def agree(self, problem: Problem) -> Agreement:
        """Return what is public about a fit; raise where this cannot solve the problem."""
        self._check(problem)
        agreement = late(f"{__package__}.agreement").CountsAgreement(problem, self)
        mechanism = agreement.mechanism(0)
        if problem.noisy and mechanism.sensitivity > 1e7 * mechanism.epsilon:
            raise ParameterError(
                f"ε = {mechanism.epsilon:g} for a change of {mechanism.sensitivity} needs noise "
                "of more than 1e7: nothing could be learned from it"
            )
        found: Agreement = agreement
        return found

    def _check(self, problem: Problem) -> None:
        model = problem.model
        for name, (low, high) in problem.bounds.items():
            if model.powers[name] != 1.0 or model.dispersions[name] != 1.0:
                raise ParameterError(
                    f"perturbed counts need a Poisson–gamma model: pass divergence='kl' and "
                    f"dispersion 1 for relation {name!r}"
                )
            if low != math.floor(low) or high != math.floor(high):
                raise ParameterError(
                    f"bounds of {name!r} must be whole numbers: {low:g}, {high:g}"
                )
            entities = [factor for factor, _ in model.forms[name]]
            if self.cells is not None and problem.protected not in entities:
                raise ParameterError(
                    f"relation {name!r} says nothing about {problem.protected!r}, whom the budget "
                    "is split for: pass it as public, or cells=None for a guarantee per cell"
                )
        if problem.weights:
            raise ParameterError("weights go with method='als' or 'offsets'")
        self._check_privacy(problem)

    def _check_privacy(self, problem: Problem) -> None:
        privacy = problem.privacy
        if privacy is None:
            return
        if privacy.unit not in ("entry", "user"):
            raise ParameterError(
                f"privacy.unit must be 'entry' (ε per cell) or 'user', got {privacy.unit!r}"
            )
        if (privacy.unit == "user") != (self.cells is not None):
            raise ParameterError(
                "unit='user' and a bound on a user's cells go together: pass "
                "LocalCounts(cells=…), the most cells of a user that are sent, or unit='entry' "
                "for ε per cell"
            )
        if privacy.neighbours != REPLACE:
            raise ParameterError(
                "which cells are observed shows when counts are perturbed one by one: pass "
                "neighbours='replace-one'"
            )
        if privacy.trust not in ("local", "site"):
            raise ParameterError(f"privacy.trust must be 'local' or 'site', got {privacy.trust!r}")
