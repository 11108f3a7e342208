"""The regression tables of Alparslan (2023): bounds read from the data and mistyped noise.

Features are standardised by their mean and standard deviation, the response is centred by its
mean and divided by its largest absolute value, and R is the largest norm of a standardised row.
All of these are statistics of the private rows, so with them no finite ε holds at all (PRIVACY
A3, B5): agreements here are conditional on those bounds being public, and their certificates say
so. The noise is equal on z, u and the upper triangle of S on the thesis's own scale, on which
features exceed the mapped ones by R.

**Sensitivity**, if the bounds were public and for a row more or less: on the mapped scale ‖x‖ ≤ 1
and |y| ≤ 1, so (S, w·z, v·u) with w = 1/R and v = 1/R² moves by Δ² ≤ 1 + w² + v². By Weyl's
inequality the smallest eigenvalue of S moves by at most ‖x‖² ≤ 1.

**adaSSP** spends three parts, S, z and the smallest eigenvalue of S, at a third of ε each. The
thesis does not print their noise. Its mean errors fit any noise between 1.5 and 10 times each
part's sensitivity, as the ridge decides them; its intervals fit 1.487·√3, what a calibration that
scales as 1/√ε makes of 1.487 at ε/3. So that is the noise here. Three parts of it compose to what
1.487 on one part costs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import Constraint, InstanceOf, OneOf, Real, check
from tacit.errors import NotCertified, ParameterError
from tacit.estimators.price import Price, price_of
from tacit.estimators.site import ALONE, Site
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.privacy.events import ADD_REMOVE
from tacit.privacy.guarantee import Privacy
from tacit.published.constructor import constructor
from tacit.published.noise import PublishedNoise, mistyped_gaussian_noise
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.design import Design
from tacit.regression.estimator import PrivateLinearRegression
from tacit.regression.numerics.moments import Prior
from tacit.regression.outer import ExactSum
from tacit.regression.summary import SiteSummary

__all__ = ["ReadDesign", "ThesisAgreement", "ThesisRegression", "ThesisSummary", "read_design"]

METHODS = ("MCMC-normalX", "MCMC-fixedS", "Bayes-fixedS-fast", "MCMC-B&S", "adaSSP")
FAILURE = 0.05  # ϱ of adaSSP: the chance that its ridge is too small
_STATED = (
    "columns",
    "bounds",
    "y_bounds",
    "target",
    "intercept",
    "clip",
    "statistics",
)  # not here
_READ = "bounds, means and standard deviations were read from the data and count as public"


@dataclass(frozen=True)
class ReadDesign(Design):
    """The thesis's sums, weighted such that noise is equal on its own scale.

    Parameters
    ----------
    middle, half, intercept, neighbours, statistics, clip
        As in `Design`; ``"Sz"`` or ``"Szu"`` without an intercept, under add-remove.
    norm
        R, by which the thesis's features exceed the mapped ones.
    eigenvalue
        Whether the smallest eigenvalue of S is a third part, with the same noise on S, z and on
        it, on the mapped scale (adaSSP).
    """

    common: ClassVar[tuple[str, ...]] = (*Design.common, "norm", "eigenvalue")

    norm: float = 1.0
    eigenvalue: bool = False

    def __post_init__(self) -> None:
        check("norm", self.norm, Real(0, open_low=True))
        check("eigenvalue", self.eigenvalue, InstanceOf(bool))
        if self.neighbours != ADD_REMOVE or self.statistics not in ("Sz", "Szu") or self.intercept:
            raise ParameterError("published noise is that of (S, z) or (S, z, u) under add-remove")
        if self.eigenvalue and self.statistics != "Sz":
            raise ParameterError("an eigenvalue is released by published (S, z) only")
        super().__post_init__()

    @property
    def knows_rows(self) -> bool:
        """It is taken for public."""
        return True

    @property
    def stretch(self) -> float:
        """R."""
        return self.norm

    @property
    def off_diagonal(self) -> float:
        """The upper triangle of S has noise of its own."""
        return 1.0

    @cached_property
    def cross_weight(self) -> float:
        """The squared weight w² of z."""
        return 1.0 if self.eigenvalue else self.norm**-2

    @property
    def square_weight(self) -> float:
        """The squared weight v² of u."""
        return self.norm**-4

    def _separate(self, weight: float) -> float:
        smallest = self.rows.norm**4 if self.eigenvalue else 0.0
        return super()._separate(weight) + smallest

    @property
    def size(self) -> int:
        """How many numbers are released."""
        return len(self.pairs) + self.eigenvalue

    def vector(self, total: ExactSum, mechanism: Gaussian) -> GridSum:
        """Return a site's sums on the grid, and the smallest eigenvalue of S where it is asked."""
        entries = super().vector(total, mechanism)
        if not self.eigenvalue:
            return entries
        first = self.rows.size - 1 - self.coefficients
        smallest = float(np.linalg.eigvalsh(total.value()[first:-1, first:-1])[0])
        step = math.floor(max(smallest, 0.0) / mechanism.grid.step + 0.5)
        return GridSum(np.append(entries.integers, np.int64(step)), entries.grid)

    def assumptions(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return every public input, and that it was none."""
        *bounds, rows = super().assumptions(names)
        return (_READ, rows, *bounds)


def read_design(
    tables: Sequence[Any], statistics: str = "Sz", *, eigenvalue: bool = False
) -> ReadDesign:
    """Return the thesis's design for all sites' rows together, a pair (X, y) of arrays each.

    Statistics are ``"Sz"``, or ``"Szu"`` for Bernstein & Sheldon's method; for adaSSP the smallest
    eigenvalue of S is released as well.
    """
    if not all(isinstance(table, tuple) and len(table) == 2 for table in tables):
        raise ParameterError("published tables are reproduced from pairs (X, y) of arrays only")
    x = np.concatenate([np.asarray(table[0], float) for table in tables])
    y = np.concatenate([np.asarray(table[1], float) for table in tables])
    middle, spread = x.mean(axis=0), x.std(axis=0)
    if not (spread > 0.0).all():
        raise ParameterError("a feature is constant: leave it out")
    norm = float(np.linalg.norm((x - middle) / spread, axis=1).max())
    largest = float(np.abs(y - y.mean()).max())
    return ReadDesign(
        middle=(*middle.tolist(), float(y.mean())),
        half=(*(spread * norm).tolist(), largest),
        intercept=False,
        statistics=statistics,
        clip=1.0,
        norm=norm,
        eigenvalue=eigenvalue,
    )


@dataclass(frozen=True)
class ThesisAgreement(RegressionAgreement):
    """The thesis's release: noise of 1.487·Δ at a claimed ε = 1, whatever δ is."""

    conditional = True
    trusts: ClassVar[tuple[str, ...]] = ("central", "site")
    cites = ("alparslan2023",)

    @cached_property
    def published(self) -> PublishedNoise:
        """The thesis's noise, and what it claims for it."""
        if self.privacy is None:
            raise ParameterError("published noise needs Privacy(1.0, delta) under add-remove")
        return mistyped_gaussian_noise(self.privacy.epsilon, self.privacy.delta)

    @cached_property
    def mechanism(self) -> Gaussian:
        """Noise of a fixed multiple of the sensitivity."""
        return self.design.fixed_noise(self.published.noise_multiplier, self.noise)

    @property
    def claim(self) -> tuple[float, str]:
        """ε = 1, and what that leaves out."""
        return self.published.claimed_epsilon, self.published.claim

    @cached_property
    def charged(self) -> Privacy | None:
        """What the noise really gives."""
        assert self.privacy is not None
        return self.privacy.with_epsilon(self.published.epsilon() * 1.001)

    def worst_rows(self) -> tuple[Array, Array]:
        """A row along a feature that no other row has, at the edge, with the largest response."""
        middle, half = np.array(self.design.middle), np.array(self.design.half)
        edges = np.eye(len(middle))[: self.design.features]
        rows = middle + half * np.repeat(edges[1:], 2, axis=0)
        far = edges[0] + np.eye(len(middle))[-1]
        return np.vstack([rows, middle + half * far]), rows

    @classmethod
    def examples(cls) -> Iterator[ThesisAgreement]:
        """Every choice of sums, as if the bounds had been stated."""
        privacy = Privacy(1.0, 1e-4, unit="row", trust="site")
        for statistics, eigenvalue in (("Sz", False), ("Szu", False), ("Sz", True)):
            design = ReadDesign(
                (50.0, 0.0, 1.0),
                (50.0, 1.0, 2.0),
                False,
                ADD_REMOVE,
                statistics,
                1.0,
                norm=2.5,
                eigenvalue=eigenvalue,
            )
            yield cls(design, ("age", "dose", "pressure"), privacy, 2)


@dataclass(frozen=True)
class ThesisSummary(SiteSummary):
    """What one site released as the thesis does; ``eigenvalue`` where the design has one."""

    what: ClassVar[str] = "tacit regression summary of Alparslan (2023)"
    kind: ClassVar[type[Design]] = ReadDesign
    calibration: ClassVar[str] = "published"

    design: ReadDesign
    eigenvalue: float | None = None

    @classmethod
    def _beside(cls, design: Design, reply: Mapping[str, Any]) -> dict[str, Any]:
        assert isinstance(design, ReadDesign)
        return {"eigenvalue": float(reply["vector"][-1])} if design.eigenvalue else {}

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.eigenvalue is not None) != self.design.eigenvalue or not math.isfinite(
            self.eigenvalue or 0.0
        ):
            raise ParameterError(
                f"the summary of {self.site!r} has the eigenvalue {self.eigenvalue!r}, which its "
                "design does not give"
            )

    def _more(self) -> dict[str, Any]:
        return {} if self.eigenvalue is None else {"eigenvalue": self.eigenvalue}

    def ridge(self, privacy: Privacy) -> float:
        """Return λ of adaSSP (Wang 2018, algorithm 2).

        With τ = √ln(6/δ)·R²/(ε/3), which Wang takes for the noise of each part: λ̃_min is what was
        released less √ln(6/δ)·τ, and λ = max(0, √(d·ln(2d²/ϱ))·τ − λ̃_min).
        """
        assert self.eigenvalue is not None
        d, square = self.design.coefficients, self.design.norm**2
        slack = math.sqrt(math.log(6.0 / privacy.delta))
        noise = 3.0 * slack * square / privacy.epsilon
        smallest = max(self.eigenvalue * square - slack * noise, 0.0)
        return max(0.0, math.sqrt(d * math.log(2.0 * d * d / FAILURE)) * noise - smallest)


class ThesisRegression(PrivateLinearRegression):
    """Linear regression as in the tables of Alparslan (2023), to reproduce them.

    Bounds are read from the data and the noise is too small: certificates show the claimed ε
    beside the recomputed one, which holds only if those bounds were public. It has no price
    before ``fit``, and never runs in a federation.

    Parameters
    ----------
    method
        ``"MCMC-normalX"``, ``"MCMC-fixedS"``, ``"Bayes-fixedS-fast"``, ``"MCMC-B&S"`` or
        ``"adaSSP"``.
    prior
        A prior; the thesis's hyper-parameters a = 20, b = ½, C = (a − 1)/b·I unless given.
    chains, draws, warmup, privacy, ledger, noise, on_failure, progress, random_state
        As in `PrivateLinearRegression`; the claim is ``Privacy(1.0, delta)`` under add-remove.
    """

    _agreements, _summaries = ThesisAgreement, ThesisSummary
    _takes_shards = False  # bounds are read from all of the data
    _stored = ("method",)
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **{
            name: rule
            for name, rule in PrivateLinearRegression._constraints.items()
            if name not in _STATED
        },
        "method": OneOf(*METHODS),
    }
    # read from the data, or as the thesis has them
    columns = bounds = y_bounds = target = clip = None
    intercept = False

    __init__ = constructor(PrivateLinearRegression, *_STATED, method="Bayes-fixedS-fast")

    @property
    def statistics(self) -> str:  # type: ignore[override]
        """(S, z), and yᵀy for the method that needs it."""
        return "Szu" if self.method == "MCMC-B&S" else "Sz"

    def _check_public(self) -> None:
        if not self._noisy or self.privacy is None or self.privacy.neighbours != ADD_REMOVE:
            raise ParameterError("published noise needs Privacy(1.0, delta) under add-remove")

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> RegressionAgreement:
        raise ParameterError("bounds are read from the data: there is nothing to agree on without")

    def _agreed(self, sites: Sequence[Site]) -> RegressionAgreement:
        return self._together([], list(sites))

    def _together(self, known: list[SiteSummary], sites: list[Site]) -> RegressionAgreement:
        design: Design
        if sites:
            tables, smallest = [site.data for site in sites], self.method == "adaSSP"
            design = read_design(tables, self.statistics, eigenvalue=smallest)
        else:
            design = known[0].design
        return self._agreement(design, len(known) + len(sites))

    def price(self, sites: Sequence[Site] | Site | None = None) -> Price:
        """Return what the fit cost each site, by what the noise gives and not by its claim.

        Parameters
        ----------
        sites
            The sites; without them, the price for one holder.
        """
        if not hasattr(self, "design_"):
            raise NotCertified("bounds are read from the data: there is no price before fit")
        holders = self._as_sites(sites or Site(ALONE, None))
        return price_of(self._agreement(self.design_, len(holders)), holders)

    def _options(self) -> dict[str, Any]:
        """Return the thesis's hyper-parameters, σ̃² = ‖Y‖/3, and the ridges of adaSSP."""
        prior = self.prior or Prior(sd=38.0**0.5, noise_shape=20.0, noise_scale=0.5)
        options: dict[str, Any] = {"prior": prior}
        if self.method == "Bayes-fixedS-fast":
            options["noise_variance"] = 1.0 / 3.0
        if self.method == "adaSSP":
            assert self.privacy is not None
            options["ridges"] = [
                summary.ridge(self.privacy)
                for summary in self.summaries_.values()
                if isinstance(summary, ThesisSummary)
            ]
        return options
