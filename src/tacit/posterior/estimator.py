"""`PrivatePosterior`: release one noisy statistic, and infer the parameter from it.

What is released, and why it is private, stands in `tacit.posterior.agreement`; how the
posterior follows in `tacit.posterior.numerics.infer`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, Integer, OneOf
from tacit._core.rng import generator
from tacit.data.schema import Columns
from tacit.estimators.features import NotFitted
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.posterior.agreement import PosteriorAgreement
from tacit.posterior.numerics.infer import check_inference, infer
from tacit.posterior.numerics.metropolis.kernel import SAMPLERS
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.statistics import as_statistic
from tacit.posterior.people import COMMON, PeopleEstimator
from tacit.posterior.plain import (
    noisy_from_plain,
    plain_noisy,
    population_from_plain,
    prior_from_plain,
)
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["PrivatePosterior"]


class PrivatePosterior(PeopleEstimator):
    """Bayesian inference from one noisy statistic, or from each person's own noisy answer.

    Parameters
    ----------
    population
        The law of the data, such as ``NormalVariance()``; see
        `tacit.posterior.numerics.populations.laws`.
    statistic
        What is released: a name (``"mean"``, ``"|x|^0.5"``, ``"median |x|"``, …) or
        ``Custom(function, bounds=…)``.
    columns
        What is public about the table: `tacit.Columns`, a mapping of such or a file's path, with
        the column of a person's number (its ``target``, or the only one) and perhaps the person.
        Instead of ``bounds``.
    bounds
        (low, high), the public range of a person's number; what lies outside is clipped.
    size
        The public number of people; None takes that of the data.
    prior
        A prior from `tacit.posterior.numerics.priors`, or one for each parameter; None is flat
        over what the bounds leave possible.
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
        How noise is drawn: ``"exact"``, or faster on a ``"grid"``.
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
    certificate_, certificates_
        The certificate, alone and by holder.
    shared_
        What a release holds: the noisy numbers, and the posterior's means and standard
        deviations.

    Examples
    --------
    >>> from tacit.posterior.numerics.populations.laws import Exponential
    >>> waits = generator(1).exponential(3.0, 2000)
    >>> model = PrivatePosterior(
    ...     Exponential(), "mean", bounds=(0, 30),
    ...     privacy=Privacy(1.0, 1e-6, neighbours="replace-one")).fit(waits)
    >>> bool(abs(model.mean_[0] - 3.0) < 0.5)
    True
    """

    _purpose = "noisy statistic"
    _inference_only = ("population", "prior", "sampler", "particles", "chains", "draws", "warmup")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **COMMON,
        "size": AnyOf(Integer(1), None),
        "sampler": OneOf("auto", *SAMPLERS),
        "particles": AnyOf(Integer(1), None),
    }

    def __init__(
        self,
        population: Population | None = None,
        statistic: Any = "mean",
        *,
        columns: Columns | Mapping[str, Any] | str | None = None,
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
        self.columns = columns
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
        as_statistic(self.statistic)

    # -- what every family says ------------------------------------------------------------

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> PosteriorAgreement:
        agreement = self._released(self.statistic, self._size(facts))
        # what cannot be inferred from is not released
        planned = [agreement.planned]
        check_inference(planned, self._law, self.prior, self.sampler, self.particles)
        return agreement

    def _conclude(self, outcome: Outcome) -> None:
        self.released_: NoisyStatistic = outcome.result
        self.shared_ = outcome.agreement.shared(self.released_)
        self.infer()
        self.shared_ |= {"mean": self.mean_, "sd": self.sd_}

    def _settings(self) -> dict[str, Any]:
        return {**plain_noisy(self.released_), **super()._settings(), "sampler": self.sampler}

    def _adopt(self, release: Release) -> None:
        settings = release.manifest["settings"]
        self.released_ = noisy_from_plain(settings, release.arrays["values"])
        PrivatePosterior.__init__(
            self,
            population_from_plain(settings["population"]),
            self.released_.statistic,
            **self._columns_of(settings, self.released_.bounds),
            size=self.released_.size,
            prior=prior_from_plain(settings["prior"]),
            sampler=settings["sampler"],
        )
        if "mean" in release.arrays:  # else nothing could be inferred with that prior
            self.mean_, self.sd_ = release.arrays["mean"], release.arrays["sd"]

    # -- what is learned -------------------------------------------------------------------

    def infer(
        self, released: NoisyStatistic | Sequence[NoisyStatistic] | None = None
    ) -> PrivatePosterior:
        """Infer the parameters from what was released, by this holder or by others: no cost.

        Parameters
        ----------
        released
            One noisy statistic, or several of different people; None takes the own one.
        """
        if released is None:
            if not hasattr(self, "released_"):
                raise NotFitted("nothing was released here: call fit, or pass what was")
            released = self.released_
        population = self._law
        found = infer(
            released,
            population,
            self.prior,
            self.sampler,
            particles=self.particles,
            chains=self.chains,
            draws=self.draws,
            warmup=self.warmup,
            rng=generator(self.random_state, "posterior"),
        )
        self._learn(found)
        return self

    def _needs_posterior(self) -> None:
        if not hasattr(self, "posterior_"):
            raise NotFitted("there is no posterior yet: call fit or infer first")

    def interval(self, level: float = 0.9) -> Array:
        """Return the central interval of each parameter, (parameters, 2)."""
        self._needs_posterior()
        return self.posterior_.interval(level)

    def to_arviz(self) -> Any:
        """Return the draws as ArviZ ``InferenceData``."""
        self._needs_posterior()
        return self.posterior_.to_arviz()

    def score(self, data: Any, y: None = None) -> float:
        """Return the mean log density of given numbers, such as public ones: not private."""
        self._needs_posterior()
        return float(np.mean(self._law.log_density(self._numbers_of(data), self.mean_)))
