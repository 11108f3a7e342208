"""`LocalCounts`: every site perturbs its counts once; factors are learned from what was sent.

**Privacy.** A site's observed cells hold whole numbers, brought into public bounds one by one, and
are sent once with two-sided geometric noise (Ghosh et al. 2009), P(τ) ∝ α^|τ|, α = exp(−ε/S).
Everything after that, at the coordinator and at other sites, works on what was sent. S is the
largest L1 change of the numbers that are sent, the cells themselves being public:

- ``unit="entry"``: one value is replaced by another one within its bounds, S = max (high − low)
  over the relations. ε is *per cell*: somebody with n cells has n·ε at worst.
- ``unit="user"``: all values of one user are replaced. At most c cells of a user are sent, drawn
  without a look at the values, so S = c·max (high − low). Which cells a user has is no secret here
  either, and a user who is added or removed would show: only replace-one is offered.

**Inference.** Counts above the lower bound, x − low, are Poisson given gamma factors; the counts
behind the perturbed ones are drawn along with the factors (`tacit.inference.local`). With
``views="perturbed"`` the coordinator does this for all sites (LDP1 of Ermiş 2020), with ``"own"``
each site does it with its own counts as they are and the others' perturbed (LDP2).

**Prior.** Unless given, it follows from public facts and from what was released. With m the mean
of the perturbed numbers, F factors to a relation and R latent combinations, factor entries have
the mean B with R·B^F = m. Their shape A has ((1 + 1/A)^F − 1)/R = c²·I/(1 + I):

- c = (Δ/m − 1)/2, kept within [0.1, 3]: the prior's mean plus two standard deviations of a rate
  reaches the upper bound;
- I = n·(c·m)²/(v + m), what the n cells of one member say about such a spread through noise of
  variance v. Differences that the noise hides cannot be learned; sampling them all the same would
  only leave the sampler's own error in the predictions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.joint import JointCoordinator, JointMethod, Problem, SitePart
from tacit.mechanisms.additive import TwoSidedGeometric
from tacit.privacy.events import REPLACE, DpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Arrays = dict[str, NDArray[np.float64]]

__all__ = ["LocalCounts"]

_LARGEST = 10**9  # of a perturbed count: what is beyond is cut off, far out in the tail
_MOST_MEMBERS = 10**8  # of the protected entity at one site
_SPREAD = (0.1, 3.0)  # of the prior's rate, relative to its mean


@dataclass(frozen=True)
class LocalCounts(JointMethod):
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
        The gamma prior of every factor entry; None follows the rule in this module's docstring.
    burn_in, draws, thin
        Steps that are dropped first, draws that are kept, and steps from one to the next.

    Examples
    --------
    >>> import tacit as tc
    >>> counts = np.random.default_rng(0).poisson(3.0, (20, 10)).astype(float)
    >>> model = tc.CoupledFactorization(
    ...     "user:k item:k", rank=2, divergence="kl", bounds=(0, 10), random_state=0,
    ...     method=LocalCounts(burn_in=10, draws=10, thin=1),
    ...     privacy=tc.Privacy(1.0, unit="entry", trust="local"))
    >>> fitted = model.fit([tc.Site("north", counts[:12]), tc.Site("south", counts[12:])])
    >>> fitted.predict("south", [[0, 0], [7, 9]]).shape
    (2,)
    >>> round(fitted.certificate_.epsilon, 6), fitted.certificate_.unit
    (1.0, 'entry')
    """

    views: str = "perturbed"
    inference: str = "exact"
    cells: int | None = None
    shape: float | None = None
    mean: float | None = None
    burn_in: int = 100
    draws: int = 50
    thin: int = 6

    def __post_init__(self) -> None:
        check("views", self.views, OneOf("perturbed", "own"))
        check("inference", self.inference, OneOf("exact", "naive"))
        check("cells", self.cells, AnyOf(Integer(1), None))
        check("shape", self.shape, AnyOf(Real(0, open_low=True), None))
        check("mean", self.mean, AnyOf(Real(0, open_low=True), None))
        check("burn_in", self.burn_in, Integer(0))
        check("draws", self.draws, Integer(1))
        check("thin", self.thin, Integer(1))

    def check(self, problem: Problem) -> None:
        """Raise where the method cannot solve the problem as it is stated."""
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
        if problem.calibration != "certified":
            raise ParameterError(
                "local counts have no published calibration but the certified one"
            )
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
        mechanism = self.mechanism(problem)
        if mechanism.sensitivity > 1e7 * mechanism.epsilon:
            raise ParameterError(
                f"ε = {mechanism.epsilon:g} for a change of {mechanism.sensitivity} needs noise "
                "of more than 1e7: nothing could be learned from it"
            )

    def mechanism(self, problem: Problem, cells: int = 0) -> TwoSidedGeometric:
        """Return the noise on a number of cells, calibrated to the request."""
        widest = max(int(high - low) for low, high in problem.bounds.values())
        epsilon = math.inf if problem.privacy is None else problem.privacy.epsilon
        return TwoSidedGeometric(epsilon, widest * (self.cells or 1), (cells,))

    def schedule(self, problem: Problem) -> DpEvent:
        """Return the one release of a site: all its cells at once, in parallel."""
        return self.mechanism(problem).event

    def length(self, problem: Problem) -> int:
        """Return how many rounds a fit has: views are sent, then what was learned."""
        return 2

    def coordinator(
        self, problem: Problem, public: Mapping[str, Relation], rng: np.random.Generator
    ) -> JointCoordinator:
        """Return the coordinator."""
        from tacit.estimators.joint_local_sides import LocalCoordinator

        return LocalCoordinator(self, problem, public, rng)

    def part(
        self,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> SitePart:
        """Return a site's part."""
        from tacit.estimators.joint_local_sides import LocalPart

        return LocalPart(self, problem, name, relations, reservation, noise, rng)

    def assumptions(self, problem: Problem) -> tuple[str, ...]:
        """Return what is public, what ε means, and what stays at a site."""
        notes = ["values are rounded to whole numbers",
                 f"how many members of {problem.protected!r} a site has is public"]  # fmt: skip
        if self.cells is None:
            notes.append(
                "ε is per cell: whoever has n observed cells is protected by n·ε at worst"
            )
        else:
            notes += [
                f"which cells a member of {problem.protected!r} has is public: what is protected "
                "is all of their values",
                f"at most {self.cells} cells of a member are sent, drawn at random",
            ]
        if problem.privacy is not None and problem.privacy.trust == "local":
            notes.append("whoever runs a site is taken for the person, and sees its raw values")
        if self.views == "own":
            notes.append(
                "a site's own factors and predictions are made from its raw values: they are not "
                "covered, and stay there"
            )
        return tuple(notes)
