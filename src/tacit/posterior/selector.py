"""`StatisticSelector`: which statistic to release, before any data is read, or adaptively.

How candidates are ranked stands in `tacit.posterior.ranking`.

**Adaptively** (thesis 6.5). A first chunk of people releases a first statistic; the candidates are
ranked under the posterior given that; the best is released of everybody else; both releases
together give the posterior. Each person takes part in one (ε, δ) release, and the ledger is
charged that once, before the first draw: see `tacit.posterior.selecting`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from tacit._core.answers import Answer
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, check
from tacit._core.rng import generator
from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.estimators.blanks import Blank
from tacit.estimators.features import NotFitted
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.posterior.answers import selector_answer
from tacit.posterior.mechanism import MECHANISMS
from tacit.posterior.numerics.infer import check_inference
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.statistics import as_statistic, clipped_moments
from tacit.posterior.people import COMMON, TOLD, PeopleEstimator, is_pair
from tacit.posterior.plain import population_from_plain, prior_from_plain
from tacit.posterior.ranking import DRAWN, Comparison, Ranking
from tacit.posterior.released import with_certificates
from tacit.posterior.selecting import Selected, SelectorAgreement
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["StatisticSelector"]


class StatisticSelector(PeopleEstimator):
    """Rank statistics by what a private release of them tells about the parameters.

    Parameters
    ----------
    population
        The law of the data; see `tacit.posterior.numerics.populations.laws`.
    candidates
        Names (``"|x|"``, ``"x^3 ∧ 8"``, ``"median |x|"``, …) or ``Custom(function, bounds=…)``,
        or pairs of such and a mechanism, ``("mean", "averaged")``;
        ``"auto"`` takes the moments |x|^a ∧ c for many a and c together.
    columns
        What is public about the table: `tacit.Columns`, a mapping of such or a file's path, with
        the column of a person's number (its ``target``, or the only one) and perhaps the person.
        Instead of ``bounds``.
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
        How noise is drawn: ``"exact"``, or faster on a ``"grid"``.
    random_state
        A seed for noise, sampling and Monte Carlo, for tests only.

    Attributes
    ----------
    ranking_
        After `fit`, the ranking given the first chunk.
    selected_, releases_, posterior_, mean_, sd_
        After `fit`: the chosen statistic, both releases and the posterior.
    unexplained_
        Why nothing could be inferred from both, such as a prior that excludes them; else there is
        no such attribute.
    certificate_, certificates_
        The certificate, alone and by holder.
    shared_
        What a release holds: the noisy numbers of both parts, and the posterior's means and
        standard deviations.

    Examples
    --------
    >>> from tacit.posterior.numerics.populations.laws import NormalVariance
    >>> selector = StatisticSelector(
    ...     NormalVariance(), ["|x|", "|x|^2"], bounds=(-10, 10), size=100, parameters=[2.0],
    ...     privacy=Privacy(1.0, 1e-4, neighbours="replace-one"))
    >>> selector.rank().best.name
    '|x|'
    """

    _purpose = "adaptive statistic"
    _takes_shards = False  # who is among the first people goes by the order of all of them
    _told = TOLD
    _to_state: ClassVar[Mapping[str, Blank]] = {
        **PeopleEstimator._to_state,
        "parameters.candidates": Blank(
            "the statistics to choose from, such as mean, |x|, |x|^2, median |x|", '["…"]'
        ),
    }
    _people = 400  # fewer tell too little
    _inference_only = ("population", "prior", "parameters", "chains", "draws", "warmup")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **COMMON,
        "candidates": AnyOf(InstanceOf(tuple, list, text="list of statistics"), OneOf("auto")),
        "size": AnyOf(Integer(2), None),
        "first_share": Real(0, 0.5, open_low=True),
        "privacy": InstanceOf(Privacy),
    }

    def __init__(
        self,
        population: Population | None = None,
        candidates: Sequence[Any] | str = (),
        *,
        columns: Columns | Mapping[str, Any] | str | None = None,
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
        self.columns = columns
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
        if not self.candidates:
            raise ParameterError("candidates must name at least one statistic")
        for candidate in self._choices:
            if is_pair(candidate):
                candidate, how = candidate
                check("mechanism of a candidate", how, OneOf(*MECHANISMS))
            as_statistic(candidate)

    @property
    def _choices(self) -> Sequence[Any]:
        """The candidates, those of "auto" by the public bounds."""
        return clipped_moments(self._range) if self.candidates == "auto" else self.candidates

    def _model(self) -> Comparison:
        sampling = self.chains, self.draws, self.warmup
        return Comparison(self._law, self.prior, self._range, self.parameters, *sampling)

    def rank(self) -> Ranking:
        """Rank the candidates; no data is read, and nothing is spent."""
        self._check_parameters()
        if self.size is None:
            raise ParameterError("size must be given: pass size=n, the public number of people")
        assert self.privacy is not None
        planned = [self._released(candidate, self.size).planned for candidate in self._choices]
        model = self._model()
        return model.rank(planned, model.points, self.privacy, self.random_state)

    # -- what every family says ------------------------------------------------------------

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> SelectorAgreement:
        size = self._size(facts)
        first = max(2, round(self.first_share * size))
        if size - first < first:
            raise ParameterError(f"{size} people are too few for two chunks")
        if self.chains * self.draws < DRAWN:
            raise ParameterError(
                f"chains·draws must be at least {DRAWN}, the draws at which candidates are "
                f"compared: got {self.chains * self.draws}"
            )
        choices = self._choices
        start = choices[0] if self.first_statistic is None else self.first_statistic
        rest = tuple(self._released(candidate, size - first) for candidate in choices)
        model = self._model()
        agreement = SelectorAgreement(self._released(start, first), rest, model, self._request())
        for part in agreement.rest:  # what cannot be inferred from is not released
            planned = [agreement.first.planned, part.planned]
            check_inference(planned, model.population, self.prior)
        known = agreement.rank(model.points, self.random_state)
        if not known.informative:  # before anybody pays
            raise ParameterError(known.advice)
        return agreement

    def _conclude(self, outcome: Outcome) -> None:
        found: Selected = outcome.result
        self.releases_, self.ranking_ = list(found.releases), found.ranking
        self._sources = [with_certificates(s, outcome.certificates) for s in self.releases_]
        self.selected_ = self.releases_[1].statistic
        if found.posterior is not None:
            self._learn(found.posterior)
            return
        self.unexplained_ = found.unexplained
        self.shared_ = outcome.agreement.shared(found)

    def _parts(self) -> list[str]:
        return ["first", "rest"]

    def infer(self) -> StatisticSelector:
        """Infer the parameters from both releases again, as after reading them back: no cost."""
        if not hasattr(self, "releases_"):
            raise NotFitted("nothing was released here: call fit first")
        rng = generator(self.random_state, "posterior")
        self._learn(self._model().infer(self.releases_, rng))
        return self

    def _found(self, level: float) -> Answer:
        return selector_answer(self, level)

    def _adopt(self, release: Release) -> None:
        settings = release.settings
        self._take_up(release, ["first", "rest"], settings["releases"])
        self.releases_ = list(self._sources)
        early, late = self.releases_
        self.selected_ = late.statistic
        StatisticSelector.__init__(
            self,
            population_from_plain(settings["population"]),
            [late.statistic],
            **self._columns_of(settings, late.bounds),
            size=early.size + late.size,
            prior=prior_from_plain(settings["prior"]),
            first_statistic=early.statistic,
            privacy=self._asked_of(settings),
        )
