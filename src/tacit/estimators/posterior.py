"""`PrivatePosterior`: release one noisy statistic, and infer the parameter from it.

What is released, and why it is private, stands in `tacit.estimators.statistic_release`; how the
posterior follows in `tacit.inference.posterior`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import (
    AnyOf,
    Constraint,
    InstanceOf,
    Integer,
    OneOf,
    as_bounds,
)
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.release import write_release
from tacit.estimators.site import Site
from tacit.estimators.statistic_release import MECHANISMS, ReleasePlan, plan_release
from tacit.inference.metropolis import SAMPLERS
from tacit.inference.posterior import check_inference, infer
from tacit.models.populations import Population
from tacit.models.priors import ScalarPrior
from tacit.models.releases import NoisyStatistic
from tacit.models.statistics import as_statistic
from tacit.privacy.events import REPLACE, DpEvent
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PrivatePosterior", "as_people", "check_request"]


def check_request(privacy: Privacy | None) -> None:
    """Raise unless a request is one that statistics of n public people can meet."""
    if privacy is None:
        return
    if privacy.unit not in ("row", "user"):
        raise ParameterError(f"privacy.unit must be 'row' or 'user', got {privacy.unit!r}")
    if privacy.neighbours != REPLACE:
        raise ParameterError(
            "the number of people enters the model and is public: pass "
            "Privacy(…, neighbours='replace-one')"
        )
    if privacy.trust not in ("central", "local"):
        raise ParameterError(f"privacy.trust must be 'central' or 'local', got {privacy.trust!r}")


def as_people(data: Any, size: int | None = None) -> NDArray[np.float64]:
    """Return one number for each person; shapes are public, values are not looked at."""
    try:
        x = np.asarray(data, np.float64)
    except (TypeError, ValueError):
        raise ParameterError("data must hold one number for each person") from None
    if x.ndim == 2 and x.shape[1] == 1:
        x = x[:, 0]
    if x.ndim != 1 or not len(x):
        raise ParameterError(f"data must hold one number for each person, got shape {x.shape}")
    if size is not None and len(x) != size:
        raise ParameterError(f"data must hold the {size} people that size states, got {len(x)}")
    return x


class PrivatePosterior(PrivateEstimator):
    """Bayesian inference from one noisy statistic, or from each person's own noisy answer.

    Parameters
    ----------
    population
        The law of the data, such as ``NormalVariance()``; see `tacit.models.populations`.
    statistic
        What is released: a name (``"mean"``, ``"|x|^0.5"``, ``"median |x|"``, …) or
        ``Custom(function, bounds=…)``.
    bounds
        (low, high), the public range of a person's number; what lies outside is clipped.
    size
        The public number of people; None takes that of the data.
    prior
        A prior from `tacit.models.priors`, or one for each parameter; None is flat over what the
        bounds leave possible.
    mechanism
        ``"auto"``, ``"gaussian"``, ``"laplace"``, ``"smooth"`` or ``"randomized-response"``.
    sampler
        ``"auto"`` or one of ``"mh"``, ``"pseudo-marginal"``, ``"correlated"``, ``"mhaar-rb"``,
        ``"gibbs"``, ``"mhaar"``, ``"mhaar-sequential"``.
    particles
        How many, for samplers that use them; None takes each sampler's default.
    chains, draws, warmup
        How much to sample.
    privacy
        The guarantee asked for, under ``neighbours="replace-one"``; with ``trust="local"`` each
        person answers alone. None adds no noise.
    ledger
        Who pays.
    noise
        ``"exact"`` or ``"grid"``.
    random_state
        A seed for noise and sampling, for tests only: the certificate then says so.

    Attributes
    ----------
    released_
        The `NoisyStatistic`: all that left the data holder.
    posterior_
        Draws with diagnostics, and ``to_arviz()``.
    mean_, sd_
        Posterior means and standard deviations, one for each parameter.
    certificate_
        The certificate.

    Examples
    --------
    >>> from tacit.models.populations import Exponential
    >>> waits = generator(1).exponential(3.0, 2000)
    >>> model = PrivatePosterior(
    ...     Exponential(), "mean", bounds=(0, 30),
    ...     privacy=Privacy(1.0, 1e-6, neighbours="replace-one")).fit(waits)
    >>> bool(abs(model.mean_[0] - 3.0) < 0.5)
    True
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "population": InstanceOf(Population),
        "size": AnyOf(Integer(1), None),
        "prior": AnyOf(InstanceOf(ScalarPrior, tuple, list, text="prior(s)"), None),
        "mechanism": OneOf(*MECHANISMS),
        "sampler": OneOf("auto", *SAMPLERS),
        "particles": AnyOf(Integer(1), None),
        "chains": Integer(1, 64),
        "draws": Integer(4),
        "warmup": Integer(0),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "noise": OneOf("exact", "grid"),
        "random_state": AnyOf(Integer(0), None),
    }

    def __init__(
        self,
        population: Population | None = None,
        statistic: Any = "mean",
        *,
        bounds: tuple[float, float] | None = None,
        size: int | None = None,
        prior: ScalarPrior | Sequence[ScalarPrior] | None = None,
        mechanism: str = "auto",
        sampler: str = "auto",
        particles: int | None = None,
        chains: int = 4,
        draws: int = 2000,
        warmup: int = 1000,
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        noise: str = "exact",
        random_state: int | None = None,
    ) -> None:
        self.population = population
        self.statistic = statistic
        self.bounds = bounds
        self.size = size
        self.prior = prior
        self.mechanism = mechanism
        self.sampler = sampler
        self.particles = particles
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.privacy = privacy
        self.ledger = ledger
        self.noise = noise
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        bounds = as_bounds("bounds", self.bounds, "the public range of a person's number")
        assert self.population is not None
        self.population.check_bounds(bounds)
        as_statistic(self.statistic)
        check_request(self.privacy)

    def _plan(self) -> ReleasePlan:
        if (size := self.size or getattr(self, "size_", None)) is None:
            raise ParameterError(
                "size must be given to know the price: pass size=n, a public number"
            )
        bounds = as_bounds("bounds", self.bounds, "the public range of a person's number")
        return plan_release(
            as_statistic(self.statistic), bounds, size, self.privacy, self.mechanism, self.noise
        )

    def schedule(self) -> DpEvent:
        """Return the event of the one release that a fit makes."""
        return self._plan().mechanism.event

    def fit(self, data: Any, y: None = None) -> PrivatePosterior:
        """Release the statistic of the data once, and infer the parameters from it.

        Parameters
        ----------
        data
            One number for each person, or a `Site` that holds them.
        y
            Ignored.
        """
        self._check_parameters()
        assert self.population is not None
        (site,) = self._one_site(data)
        x = as_people(site.data, self.size)
        self.size_ = len(x)
        plan = self._plan()
        # what cannot be inferred from is not released
        check_inference([plan.planned], self.population, self.prior, self.sampler, self.particles)
        reservation = self._reserve([site], "noisy statistic")[site.name]
        source = self._noise(self.noise, site.name)
        self.released_ = plan.release(x, reservation, source)
        self.certificate_ = self._certify(site, reservation, source, plan.assumptions)
        self.certificates_ = {site.name: self.certificate_}
        return self.infer(self.released_)

    def _one_site(self, data: Any) -> list[Site]:
        sites = self._as_sites(data)
        if len(sites) != 1:
            raise ParameterError("one holder releases one statistic: pass one site")
        return sites

    def infer(self, released: NoisyStatistic | Sequence[NoisyStatistic]) -> PrivatePosterior:
        """Infer the parameters from what was released, by this holder or by others: no cost."""
        population = self.population
        if not isinstance(population, Population):
            raise ParameterError("population must be given: pass population=NormalMean(), …")
        self.posterior_ = infer(
            released, population, self.prior, self.sampler, particles=self.particles,
            chains=self.chains, draws=self.draws, warmup=self.warmup,
            rng=generator(self.random_state, "posterior"),
        )  # fmt: skip
        self.mean_, self.sd_ = self.posterior_.mean, self.posterior_.sd
        return self

    def _needs_fit(self) -> None:
        if not hasattr(self, "posterior_"):
            raise ParameterError("there is no posterior yet: call fit or infer first")

    def interval(self, level: float = 0.9) -> NDArray[np.float64]:
        """Return the central interval of each parameter, (parameters, 2)."""
        self._needs_fit()
        return self.posterior_.interval(level)

    def to_arviz(self) -> Any:
        """Return the draws as ArviZ ``InferenceData``."""
        self._needs_fit()
        return self.posterior_.to_arviz()

    def score(self, data: Any, y: None = None) -> float:
        """Return the mean log density of given numbers, such as public ones: not private."""
        self._needs_fit()
        assert self.population is not None
        return float(np.mean(self.population.log_density(as_people(data), self.mean_)))

    def release(self, folder: str | os.PathLike[str]) -> None:
        """Write the noisy numbers, the posterior's summary and the certificate to a folder."""
        self._needs_fit()
        if not hasattr(self, "released_"):
            raise ParameterError("nothing was released here: call fit first")
        arrays = {"values": self.released_.values, "mean": self.mean_, "sd": self.sd_}
        planned = self.released_
        settings = {
            "statistic": planned.statistic.name, "bounds": list(planned.bounds),
            "size": planned.size, "noise": planned.noise.kind, "scale": planned.noise.scale,
            "beta": planned.noise.beta, "local": planned.local,
            "population": type(self.population).__name__, "sampler": self.posterior_.sampler,
        }  # fmt: skip
        write_release(folder, "PrivatePosterior", arrays, self.certificates_, settings)
