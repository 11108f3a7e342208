"""`PrivatePosterior`: release one noisy statistic, and infer the parameter from it.

What is released, and why it is private, stands in `tacit.posterior.agreement`; how the
posterior follows in `tacit.posterior.numerics.infer`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from tacit._core.answers import Answer
from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, Integer, OneOf
from tacit._core.reasons import told_to_holder
from tacit._core.rng import generator
from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.estimators.features import NotFitted
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.posterior.agreement import PosteriorAgreement
from tacit.posterior.answers import people_answer
from tacit.posterior.numerics.infer import INVERSION, check_inference, infer
from tacit.posterior.numerics.metropolis.kernel import SAMPLERS
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.statistics import Custom, as_statistic
from tacit.posterior.people import COMMON, TOLD, PeopleEstimator
from tacit.posterior.plain import population_from_plain, prior_from_plain
from tacit.posterior.released import certificates_behind, with_certificates, with_own_code
from tacit.posterior.uncounted import UncountedAgreement
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["PrivatePosterior"]

_SAMPLING = ("sampler", "particles", "chains", "draws", "warmup")
_TRUSTS = ("central", "site", "local")
_GUESS = 1000  # people of a site of which nothing is known; checks that are public need some


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
        The public number of people; None takes that of the data. Of several sites, or where it is
        private, there is none.
    prior
        A prior from `tacit.posterior.numerics.priors`, or one for each parameter; None is flat
        over what the bounds leave possible.
    mechanism
        ``"auto"``, ``"gaussian"``, ``"laplace"``, ``"exponential"``, ``"smooth"``,
        ``"randomized-response"`` or ``"averaged"``: the mean of people's own noisy answers.
    sampler
        ``"auto"`` or one of ``"inversion"``, ``"mh"``, ``"pseudo-marginal"``, ``"correlated"``,
        ``"mhaar-rb"``, ``"gibbs"``, ``"mhaar"``, ``"mhaar-sequential"``.
    particles
        How many, for samplers that use them; None takes each sampler's default.
    chains, draws, warmup
        How much to sample.
    privacy
        The guarantee asked for: under ``neighbours="replace-one"`` (the default) the number of
        people is public, under ``"add-remove-one"`` a noisy number is part of the release. With
        ``trust="site"`` several sites add noise each, with ``"local"`` each person answers alone.
        None adds no noise.
    ledger
        Who pays.
    noise
        How noise is drawn: ``"exact"``, or faster on a ``"grid"``.
    random_state
        A seed for noise and sampling, for tests only: the certificate then says so.

    Attributes
    ----------
    released_
        The `NoisyStatistic`: all that left the data holder. Of several sites a list, in the order
        of their names; each knows its certificate.
    posterior_
        Draws with diagnostics, and ``to_arviz()``; a release has them too.
    mean_, sd_
        Posterior means and standard deviations, one for each parameter.
    unexplained_
        Why nothing could be inferred from what was released, such as a prior that excludes it;
        else there is no such attribute. Another prior and `infer` cost nothing.
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
    _told = (*TOLD, *_SAMPLING, "own")
    _inference_only = ("population", "prior", "sampler", "particles", "chains", "draws", "warmup")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **COMMON,
        "size": AnyOf(Integer(1), None),
        "sampler": OneOf("auto", INVERSION, *SAMPLERS),
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

    def _check_request(self, privacy: Privacy) -> None:
        if privacy.trust not in _TRUSTS:
            raise ParameterError(
                f"privacy.trust must be {', '.join(map(repr, _TRUSTS[:-1]))} or {_TRUSTS[-1]!r}, "
                f"got {privacy.trust!r}"
            )
        if privacy.trust == "local" and privacy.neighbours != REPLACE:
            raise ParameterError(
                "everybody who answers is seen to answer: pass Privacy(…, trust='local', "
                "neighbours='replace-one')"
            )
        if self.size is not None and privacy.neighbours != REPLACE:
            raise ParameterError(
                "size is a public number of people, and under add-remove-one it is private: leave "
                "size out, or pass neighbours='replace-one'"
            )

    def _agree(
        self, facts: Sequence[Any], shares: int = 1
    ) -> PosteriorAgreement | UncountedAgreement:
        privacy = self._request(len(facts))
        together = len(facts) > 1 or (privacy is not None and privacy.trust == "site")
        agreement: PosteriorAgreement | UncountedAgreement
        if together or self._secret_size:
            agreement = self._uncounted(privacy, len(facts))
            planned = [agreement.planned_for(_GUESS)] * len(facts)
        else:
            agreement = self._released(self.statistic, self._size(facts))
            planned = [agreement.planned]
        # what cannot be inferred from is not released
        check_inference(planned, self._law, self.prior, self.sampler, self.particles)
        return agreement

    def _uncounted(self, privacy: Privacy | None, sites: int) -> UncountedAgreement:
        """Return what is public where the number of people is not agreed on."""
        if privacy is not None and privacy.trust == "local":
            raise ParameterError("several sites add noise each: pass Privacy(…, trust='site')")
        if self.size is not None:
            raise ParameterError(
                "size is for one holder: every site's own number leaves with its statistic"
            )
        columns = self._stated_columns
        return UncountedAgreement(
            as_statistic(self.statistic),
            self._range,
            privacy,
            self.mechanism,
            self.noise,
            sites,
            () if columns is None else columns.assumptions(),
            self._step,
        )

    def _conclude(self, outcome: Outcome) -> None:
        found = outcome.result
        if isinstance(found, NoisyStatistic):
            self._sources = [with_certificates(found, outcome.certificates)]
        else:
            own = {site: one for site, one in outcome.certificates.items() if site in found}
            self._sources = [
                with_certificates(one, {site: own[site]} if site in own else {})
                for site, one in found.items()
            ]
        self.released_ = self._sources[0] if len(self._sources) == 1 else list(self._sources)
        self.shared_ = dict(
            zip(self._parts(), (source.values for source in self._sources), strict=True)
        )
        try:
            self.infer()
        except Exception as error:  # paid for and released: a fit does not fail any more
            self.unexplained_ = told_to_holder(error)

    def _found(self, level: float) -> Answer:
        return people_answer(self, self._sources, level)

    def _settings(self) -> dict[str, Any]:
        more: dict[str, Any] = {name: getattr(self, name) for name in _SAMPLING}
        own = self._own
        taken = own == self._sources[: len(own)]
        return {**super()._settings(), **more, "own": len(own) if taken else 1}

    @property
    def _own(self) -> list[NoisyStatistic]:
        """What the own fit released, of every site."""
        found = self.released_
        return [found] if isinstance(found, NoisyStatistic) else found

    def _adopt(self, release: Release) -> None:
        settings = release.settings
        said = settings.get("releases", [settings])  # the first schema had one, and no list
        numbered = [f"values/{k}" for k in range(2, len(said) + 1)]
        self._take_up(release, ["values", *numbered], said)
        own = self._sources[: settings.get("own", 1)]
        self.released_ = own if len(own) > 1 else own[0]
        counted = len(own) == 1 and own[0].count is None
        PrivatePosterior.__init__(
            self,
            population_from_plain(settings["population"]),
            own[0].statistic,
            **self._columns_of(settings, own[0].bounds),
            size=own[0].size if counted else None,
            prior=prior_from_plain(settings["prior"]),
            privacy=self._asked_of(settings),
            **{name: settings[name] for name in _SAMPLING if name in settings},
        )

    @classmethod
    def from_release(
        cls,
        folder: str | os.PathLike[str],
        *,
        statistic: Custom | None = None,
        population: Population | None = None,
    ) -> Self:
        """Read a release back, every byte and certificate of it verified.

        Parameters
        ----------
        folder
            Where `release` wrote it.
        statistic, population
            Those of the fit, where they were the caller's own functions: a release holds numbers,
            and no code. Without them everything is there that was inferred; to infer again, or
            to score, they are needed.
        """
        model = super().from_release(folder)
        own = len(model._own)
        model._sources = with_own_code(model._sources, statistic)
        model.released_ = model._sources[:own] if own > 1 else model._sources[0]
        model.statistic = model._sources[0].statistic
        if population is not None:
            if model.population is not None and model.population != population:
                raise ParameterError("population must be that of the release")
            if list(population.names) != list(model._dimensions()[1].get("parameter", [])):
                raise ParameterError(
                    f"population must have the parameters of the release, got {population.names}"
                )
            model.population = population
        return model

    # -- what is learned -------------------------------------------------------------------

    def infer(
        self, released: NoisyStatistic | Sequence[NoisyStatistic] | None = None
    ) -> PrivatePosterior:
        """Infer the parameters from what was released, by this holder or by others: no cost.

        What is inferred rests on all of it: `certificates_` and a release have those of each.

        Parameters
        ----------
        released
            One noisy statistic, or several of different people; None takes the own one.
        """
        if released is None:
            if not hasattr(self, "released_"):
                raise NotFitted("nothing was released here: call fit, or pass what was")
            released = self.released_
        sources = [released] if isinstance(released, NoisyStatistic) else list(released)
        found = infer(
            sources,
            self._law,
            self.prior,
            self.sampler,
            particles=self.particles,
            chains=self.chains,
            draws=self.draws,
            warmup=self.warmup,
            rng=generator(self.random_state, "posterior"),
        )
        self._sources = sources
        self._rest_on(certificates_behind(sources))
        self._learn(found)
        return self

    def interval(self, level: float = 0.9) -> Array:
        """Return the central interval of each parameter, (parameters, 2)."""
        self._needs_posterior()
        return self.posterior_.interval(level)

    def score(self, data: Any, y: None = None) -> float:
        """Return the mean log density of given numbers, such as public ones: not private."""
        self._needs_posterior()
        return float(np.mean(self._law.log_density(self._numbers_of(data), self.mean_)))
