"""`StatisticSelector`: which statistic to release, before any data is read, or adaptively.

How candidates are ranked stands in `tacit.estimators.ranking`.

**Adaptively** (thesis 6.5). A first chunk of people releases a first statistic; the candidates are
ranked under the posterior given that; the best is released of everybody else; both releases
together give the posterior. The chunks are disjoint, so each person takes part in one (ε, δ)
release and the whole is (ε, δ)-private: the derivation stands in
`tacit.estimators.statistic_release`. The ledger is charged (ε, δ) once, before the first draw.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, as_bounds
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.posterior import as_people, check_request
from tacit.estimators.ranking import Ranking, compare
from tacit.estimators.statistic_release import MECHANISMS, ReleasePlan, plan_release
from tacit.inference.posterior import check_inference, infer
from tacit.inference.tables import clip_to_range, scale_codes
from tacit.models.populations import Population
from tacit.models.priors import ScalarPrior
from tacit.models.releases import NoisyStatistic
from tacit.models.statistics import as_statistic
from tacit.privacy.calibration import SOURCE_SHARE
from tacit.privacy.events import ApproximateDpEvent, DpEvent, NonPrivateDpEvent
from tacit.privacy.guarantee import Certificate, Privacy
from tacit.privacy.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["StatisticSelector"]

_POINTS = 17  # parameters at which candidates are compared


class StatisticSelector(PrivateEstimator):
    """Rank statistics by what a private release of them tells about the parameters.

    Parameters
    ----------
    population
        The law of the data; see `tacit.models.populations`.
    candidates
        Names (``"|x|"``, ``"x^3"``, ``"median |x|"``, …) or ``Custom(function, bounds=…)``.
    bounds
        (low, high), the public range of a person's number.
    size
        The public number of people.
    prior
        What is known about the parameters; None is flat over what the bounds leave possible.
    parameters
        The θ at which to compare; None spreads 17 over the prior.
    mechanism
        As in `PrivatePosterior`; ``"auto"`` takes the least noise for each candidate.
    first_statistic, first_share
        For `fit`: what the first chunk releases, and its share of the people.
    chains, draws, warmup
        How much `fit` samples.
    privacy
        The guarantee asked for, under ``neighbours="replace-one"``.
    ledger
        Who pays for `fit`.
    noise
        ``"exact"`` or ``"grid"``.
    random_state
        A seed for noise, sampling and Monte Carlo, for tests only.

    Attributes
    ----------
    ranking_
        After `fit`, the ranking given the first chunk.
    selected_, releases_, posterior_, mean_, sd_, certificate_
        After `fit`: the chosen statistic, both releases, the posterior and the certificate.

    Examples
    --------
    >>> from tacit.models.populations import NormalVariance
    >>> selector = StatisticSelector(
    ...     NormalVariance(), ["|x|", "|x|^2"], bounds=(-10, 10), size=100, parameters=[2.0],
    ...     privacy=Privacy(1.0, 1e-4, neighbours="replace-one"))
    >>> selector.rank().best.name
    '|x|'
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "population": InstanceOf(Population),
        "candidates": InstanceOf(tuple, list, text="list of statistics"),
        "size": AnyOf(Integer(2), None),
        "prior": AnyOf(InstanceOf(ScalarPrior, tuple, list, text="prior(s)"), None),
        "mechanism": OneOf(*MECHANISMS),
        "first_share": Real(0, 0.5, open_low=True),
        "chains": Integer(1, 64),
        "draws": Integer(4),
        "warmup": Integer(0),
        "privacy": InstanceOf(Privacy),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "noise": OneOf("exact", "grid"),
        "random_state": AnyOf(Integer(0), None),
    }

    def __init__(
        self,
        population: Population | None = None,
        candidates: Sequence[Any] = (),
        *,
        bounds: tuple[float, float] | None = None,
        size: int | None = None,
        prior: ScalarPrior | Sequence[ScalarPrior] | None = None,
        parameters: Any = None,
        mechanism: str = "auto",
        first_statistic: Any = None,
        first_share: float = 0.1,
        chains: int = 4,
        draws: int = 2000,
        warmup: int = 1000,
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        noise: str = "exact",
        random_state: int | None = None,
    ) -> None:
        self.population = population
        self.candidates = candidates
        self.bounds = bounds
        self.size = size
        self.prior = prior
        self.parameters = parameters
        self.mechanism = mechanism
        self.first_statistic = first_statistic
        self.first_share = first_share
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.privacy = privacy
        self.ledger = ledger
        self.noise = noise
        self.random_state = random_state

    # -- what is public -------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        bounds = as_bounds("bounds", self.bounds, "the public range of a person's number")
        assert self.population is not None
        self.population.check_bounds(bounds)
        if not self.candidates:
            raise ParameterError("candidates must name at least one statistic")
        for candidate in self.candidates:
            as_statistic(candidate)
        check_request(self.privacy)

    @property
    def _range(self) -> tuple[float, float]:
        return as_bounds("bounds", self.bounds, "the public range of a person's number")

    def _priors(self) -> tuple[ScalarPrior, ...]:
        assert self.population is not None
        if self.prior is None:
            return self.population.default_prior(self._range)
        return (self.prior,) if isinstance(self.prior, ScalarPrior) else tuple(self.prior)

    def _thetas(self) -> NDArray[np.float64]:
        """Return the parameters at which candidates are compared, (points, p)."""
        assert self.population is not None
        p = self.population.dimension
        if self.parameters is not None:
            return np.asarray(self.parameters, np.float64).reshape(-1, p)
        levels = (np.arange(_POINTS) + 0.5) / _POINTS
        columns = []
        scales = scale_codes(self.population.scales)
        for k, (prior, scale) in enumerate(zip(self._priors(), scales, strict=True)):
            # a different order for each parameter, so that together they fill the prior
            turn = np.argsort((np.arange(_POINTS) * (5 * k + 1)) % _POINTS)
            columns.append(clip_to_range(prior, int(scale), prior.quantile(levels)[turn]))
        return np.column_stack(columns)

    def _plans(self, size: int) -> list[ReleasePlan]:
        return [
            plan_release(
                as_statistic(candidate), self._range, size, self.privacy, self.mechanism,
                self.noise,
            )
            for candidate in self.candidates
        ]  # fmt: skip

    def rank(self) -> Ranking:
        """Rank the candidates; no data is read, and nothing is spent."""
        self._check_parameters()
        if self.size is None:
            raise ParameterError("size must be given: pass size=n, the public number of people")
        return self._rank(self.size, self._thetas())

    def _rank(self, size: int, thetas: NDArray[np.float64]) -> Ranking:
        assert self.population is not None and self.privacy is not None
        request = f"at ε = {self.privacy.epsilon:g}, δ = {self.privacy.delta:g} for {size} people"
        rng = generator(self.random_state, "information")
        return compare(self._plans(size), self.population, self._priors(), thetas, request, rng)

    # -- adaptively -----------------------------------------------------------------------

    def schedule(self) -> DpEvent:
        """Return what one fit costs a person: one (ε, δ) release, of one of two chunks."""
        assert self.privacy is not None
        if math.isinf(self.privacy.epsilon):
            return NonPrivateDpEvent()
        # what calibration leaves of δ for the noise source
        return ApproximateDpEvent(self.privacy.epsilon, self.privacy.delta * (1.0 - SOURCE_SHARE))

    def fit(self, data: Any, y: None = None) -> StatisticSelector:
        """Choose on a first private chunk, release the rest, and infer from both.

        Parameters
        ----------
        data
            One number for each person, in an order that says nothing, or a `Site`.
        y
            Ignored.
        """
        self._check_parameters()
        privacy, population = self.privacy, self.population
        assert privacy is not None and population is not None
        sites = self._as_sites(data)
        if len(sites) != 1:
            raise ParameterError("one holder releases its statistics: pass one site")
        site = sites[0]
        x = as_people(site.data, self.size)
        first = max(2, round(self.first_share * len(x)))
        if len(x) - first < first:
            raise ParameterError(f"{len(x)} people are too few for two chunks")
        start = self.candidates[0] if self.first_statistic is None else self.first_statistic
        opening = plan_release(
            as_statistic(start), self._range, first, privacy, self.mechanism, self.noise
        )
        for plan in self._plans(len(x) - first):  # what cannot be inferred from is not released
            check_inference([opening.planned, plan.planned], population, self.prior)
        prior_view = self._rank(len(x) - first, self._thetas())
        if not prior_view.informative:  # known before anybody pays
            raise ParameterError(prior_view.advice)
        reservation = self._reserve([site], "adaptive statistic")[site.name]
        if reservation is not None:
            reservation.claim(self.schedule())  # paid as a whole, before the first draw
        source = self._noise(self.noise, site.name)
        early = self._chunk(opening, x[:first], source)
        rng = generator(self.random_state, "adaptive")
        sample: dict[str, Any] = {
            "chains": self.chains, "draws": self.draws, "warmup": self.warmup, "rng": rng
        }  # fmt: skip
        before = infer(early, population, self.prior, **sample)
        picked = rng.choice(len(before.flat), _POINTS * 2, replace=False)
        self.ranking_ = self._rank(len(x) - first, before.flat[picked])
        self.selected_ = self.ranking_.best.statistic
        plan = plan_release(
            self.selected_, self._range, len(x) - first, privacy, self.mechanism, self.noise
        )
        late = self._chunk(plan, x[first:], source)
        self.releases_ = [early, late]
        self.posterior_ = infer(self.releases_, population, self.prior, **sample)
        self.mean_, self.sd_ = self.posterior_.mean, self.posterior_.sd
        # a chunk's own number of people follows from the two that are stated
        ranges = (note for part in (opening, plan) for note in part.ranges)
        notes = (
            f"the first {first} people and the others are disjoint; the order says nothing",
            f"the number of people, {len(x)}, is public",
            *dict.fromkeys(ranges),
        )
        self.certificate_: Certificate = self._certify(site, reservation, source, notes)
        return self

    def _chunk(self, plan: ReleasePlan, x: NDArray[np.float64], source: Any) -> NoisyStatistic:
        """Release one chunk from a purse of its own, which holds exactly one release."""
        privacy = self.privacy
        assert privacy is not None
        if math.isinf(privacy.epsilon):
            return plan.release(x, None, source)
        purse = Ledger.memory(epsilon=privacy.epsilon, delta=privacy.delta)
        held = purse.reserve(
            plan.mechanism.event, purpose="one chunk", delta=privacy.delta, asked=privacy.epsilon
        )
        return plan.release(x, held, source)
