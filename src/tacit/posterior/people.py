"""Estimators over one holder with one number for each person: what both of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, as_bounds
from tacit.data.features import labels_of, numbers, settled
from tacit.data.kinds import Category, Kind
from tacit.data.reading import Table, is_table, read_rows
from tacit.data.rows import shuffled
from tacit.data.schema import Columns
from tacit.data.shards import Shards
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID, PrivateEstimator
from tacit.estimators.features import NotFitted
from tacit.estimators.predicting import beside, columns_schema
from tacit.estimators.release import Release
from tacit.estimators.site import Site
from tacit.posterior.agreement import PosteriorAgreement
from tacit.posterior.blanks import TO_STATE
from tacit.posterior.mechanism import MECHANISMS
from tacit.posterior.numerics.infer import ParameterPosterior
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.statistics import as_statistic
from tacit.posterior.plain import (
    plain_law,
    plain_noisy,
    plain_prior,
    population_from_plain,
    prior_from_plain,
)
from tacit.posterior.released import DIMS, posterior_arrays, posterior_of, sources_of
from tacit.posterior.selecting import SelectorAgreement
from tacit.posterior.uncounted import UncountedAgreement
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy

__all__ = ["COMMON", "TOLD", "PeopleEstimator", "as_people", "is_pair"]

# the settings that a release carries
TOLD = ("releases", "population", "prior", "columns", "privacy", "sampled_by")

COMMON: Mapping[str, Constraint] = {
    "population": InstanceOf(Population),
    "prior": AnyOf(InstanceOf(ScalarPrior, tuple, list, text="prior(s)"), None),
    "mechanism": OneOf(*MECHANISMS),
    "chains": Integer(1, 64),
    "draws": Integer(4),
    "warmup": Integer(0),
    "noise": OneOf("exact", "grid"),
    **PAID,
}


def is_pair(candidate: Any) -> bool:
    """Whether a candidate is a statistic with the mechanism that releases it."""
    return isinstance(candidate, tuple | list) and len(candidate) == 2


def as_people(data: Any, size: int | None = None, *, none: bool = False) -> Array:
    """Return one number for each person, read value by value; what is missing is refused.

    Parameters
    ----------
    data
        The numbers.
    size
        How many there must be.
    none
        Whether there may be nobody, as where their number is private.
    """
    labels = labels_of(data)
    if len(labels) > 1:
        raise ParameterError(
            f"data must hold one number for each person, got the columns {labels[:20]}: name the "
            "one in columns"
        )
    x = data
    if not is_table(data):
        try:
            x = np.asarray(data)
        except ValueError:
            raise ParameterError("data must hold one number for each person") from None
        x = x[:, None] if x.ndim == 1 else x
        if none and x.ndim <= 2 and not x.size:
            return np.empty(0)
        if x.ndim != 2 or x.shape[1] != 1 or not len(x):
            shape = np.shape(data)
            raise ParameterError(f"data must hold one number for each person, got shape {shape}")
    found = np.asarray(numbers(x, finite=False), np.float64)[:, 0]
    if size is not None and len(found) != size:
        raise ParameterError(
            f"data must hold the {size} people that size states, got {len(found)}"
        )
    return found


class PeopleEstimator(PrivateEstimator):
    """Base: a population, bounds of a person's number, and a public number of people."""

    _default_neighbours = REPLACE
    _takes_shards = True
    _to_state = TO_STATE
    _people: ClassVar[int] = 20  # of an imagined holder

    population: Population | None
    columns: Any
    bounds: tuple[float, float] | None
    size: int | None
    prior: ScalarPrior | Sequence[ScalarPrior] | None
    mechanism: str
    privacy: Privacy | None
    noise: str
    _sources: list[NoisyStatistic]  # what the posterior was inferred from

    @property
    def _law(self) -> Population:
        if not isinstance(self.population, Population):
            raise ParameterError("population must be given: pass population=NormalMean(), …")
        return self.population

    @property
    def _range(self) -> tuple[float, float]:
        columns = self._stated_columns
        if columns is not None:
            return self._number_of(columns)[1].range
        return as_bounds("bounds", self.bounds, "the public range of a person's number")

    @property
    def _step(self) -> float:
        """How far apart people's possible numbers are: as the column says, or 1 of counts."""
        columns = self._stated_columns
        stated = 0.0
        if columns is not None:
            stated = float(getattr(self._number_of(columns)[1], "step", 0.0))
        return stated or (0.0 if self._law.ties((0.0, 1.0)) is None else 1.0)

    @staticmethod
    def _number_of(columns: Columns) -> tuple[str, Kind]:
        """Return the column with a number of each person, and its kind."""
        name = columns.target or next(iter(columns))
        if columns.target is None and len(columns) > 1:
            raise ParameterError(
                f"one number of each person is released: pass Columns(…, target=…) with one of "
                f"{list(columns)}"
            )
        if isinstance(columns[name], Category) or not columns[name].modelled:
            raise ParameterError(f"column {name!r} must hold numbers, not {columns[name].word}")
        return name, columns[name]

    def _check_columns(self, columns: Columns) -> None:
        if self.bounds is not None:
            raise ParameterError("columns hold the range: leave bounds out")
        if columns.rows_per_unit > 1:
            raise ParameterError(
                "each person counts with one number: pass per_person='average', or "
                "rows_per_person=1 for one of theirs, chosen at random"
            )
        privacy = self._request()
        if privacy is not None and privacy.unit != columns.unit:
            hint = ": name the person in columns" if privacy.unit == "user" else ""
            raise ParameterError(
                f"privacy.unit must be {columns.unit!r}, got {privacy.unit!r}{hint}"
            )
        if privacy is not None and columns.drops and not self._secret_size:  # PRIVACY A13
            raise ParameterError(
                "the number of people is public, so nobody may be left out for what they hold: "
                "pass missing='impute' and outside='clip'"
            )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        columns = self._stated_columns
        if columns is not None:
            self._check_columns(columns)
        self._law.check_bounds(self._range)
        privacy = self._request()
        if privacy is None:
            return
        if privacy.unit not in ("row", "user"):
            raise ParameterError(f"privacy.unit must be 'row' or 'user', got {privacy.unit!r}")
        self._check_request(privacy)

    def _check_request(self, privacy: Privacy) -> None:
        """Raise where a request has a relation or a trust that is not given."""
        if privacy.neighbours != REPLACE:
            raise ParameterError(
                "the number of people decides who is among the first, and is public: pass "
                "Privacy(…, neighbours='replace-one')"
            )
        if privacy.trust not in ("central", "local"):
            raise ParameterError(
                f"privacy.trust must be 'central' or 'local', got {privacy.trust!r}: one party "
                "holds both parts of the people"
            )

    @property
    def _secret_size(self) -> bool:
        """Whether the number of people is private."""
        privacy = self._request()
        return privacy is not None and privacy.neighbours == ADD_REMOVE

    def _people_in(self, data: Any) -> Array:
        """Return one number for each person of a holder."""
        columns = self._stated_columns
        if columns is None:
            return as_people(data, none=self._secret_size)
        name, _ = self._number_of(columns)
        people = columns.read(data, [name]).matrix([name])[:, 0]
        return people if columns.person is None else people[shuffled(len(people))]

    def _as_sites(self, data: Any) -> list[Site]:
        return [replace(site, data=self._settled(site.data)) for site in super()._as_sites(data)]

    def _settled(self, data: Any) -> Any:
        """Return data that can be read more than once, each person in one shard."""
        return self._laid_out(data) if isinstance(data, Shards) else settled(data)

    def _facts(self, data: Any) -> int | None:
        if self.size is not None or self._secret_size:
            return self.size
        if isinstance(data, Shards):
            return sum(len(self._people_in(piece.read())) for piece in data)
        return len(self._people_in(data))

    _facts_held = _facts

    def _imagined(self) -> int:
        return self.size or self._people

    def _size(self, facts: Sequence[Any]) -> int:
        """Return the public number of people of the one holder: as stated, else the data's."""
        if len(facts) != 1:
            raise ParameterError("one party releases its statistics: pass one table, or one site")
        size: int | None = facts[0] if self.size is None else self.size
        if size is None:
            raise ParameterError(
                "size must be given to know the price: pass size=n, a public number"
            )
        if size < 1:
            raise ParameterError("there are no rows: a posterior needs at least one person")
        return size

    def _released(self, statistic: Any, size: int) -> PosteriorAgreement:
        """Return what is public about releasing one statistic, or one with its mechanism."""
        columns, how = self._stated_columns, self.mechanism
        if is_pair(statistic):
            statistic, how = statistic
        return PosteriorAgreement(
            as_statistic(statistic),
            self._range,
            size,
            self._request(),
            how,
            self.noise,
            notes=() if columns is None else columns.assumptions(),
            spacing=self._step,
        )

    def _read(self, data: Any, agreement: Agreement) -> Array:
        people = self._people_in(data)
        if self._secret_size:
            return people
        assert isinstance(agreement, PosteriorAgreement | SelectorAgreement | UncountedAgreement)
        if not isinstance(agreement, UncountedAgreement) and len(people) != agreement.size:
            raise ParameterError(
                f"data must hold the {agreement.size} people that size states, got {len(people)}"
            )
        if not len(people):
            raise ParameterError("there is nobody in the data: a statistic needs people")
        return people

    def _read_shard(self, data: Any, agreement: Agreement) -> Array:
        """Return the people of one shard; their number is that of all shards together."""
        return self._people_in(data)

    def _numbers_of(self, data: Any) -> Array:
        """Return numbers to judge, by the name of their column; no person is looked for."""
        columns = self._stated_columns
        if columns is None:
            return as_people(data)
        return columns.encode(data, [self._number_of(columns)[0]])[:, 0]

    def _learn(self, posterior: ParameterPosterior) -> None:
        """Keep what was inferred."""
        self.posterior_ = posterior
        if hasattr(self, "unexplained_"):
            del self.unexplained_
        self.mean_, self.sd_ = posterior.mean, posterior.sd
        self.shared_ = {
            **{name: s.values for name, s in zip(self._parts(), self._sources, strict=True)},
            **posterior_arrays(posterior),
            "mean": self.mean_,
            "sd": self.sd_,
        }

    def _parts(self) -> list[str]:
        """Return how the numbers of what was inferred from are called in a release."""
        return ["values", *(f"values/{k}" for k in range(2, len(self._sources) + 1))]

    def _needs_posterior(self) -> None:
        if hasattr(self, "posterior_"):
            return
        if hasattr(self, "unexplained_"):
            raise NotFitted(f"nothing could be inferred: {self.unexplained_}")
        raise NotFitted("there are no draws here: call fit, or infer after reading them back")

    def to_arviz(self) -> Any:
        """Return the draws as ArviZ ``InferenceData`` (extra ``diagnostics``)."""
        self._needs_posterior()
        return self.posterior_.to_arviz()

    def _settings(self) -> dict[str, Any]:
        columns, asked = self._stated_columns, self.privacy
        posterior = getattr(self, "posterior_", None)
        releases = []
        for source in self._sources:
            names = [
                name
                for name, found in self.certificates_.items()
                if any(found == own for _, own in source.certificates)
            ]
            releases.append({**plain_noisy(source), "certificates": names})
        return {
            "releases": releases,
            "population": plain_law(self.population),
            "prior": plain_prior(self.prior),
            "columns": None if columns is None else columns.described(),
            "privacy": None if asked is None else asked.stated(),
            "sampled_by": None if posterior is None else posterior.sampler,
        }

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        if not hasattr(self, "posterior_"):
            return {}, {}
        dims = {name: own for name, own in DIMS.items() if name in self.shared_}
        return dims, {"parameter": list(self.posterior_.names)}

    def _take_up(
        self, release: Release, names: Sequence[str], said: Sequence[Mapping[str, Any]]
    ) -> None:
        """Take up the statistics and the posterior of a release."""
        self._sources = sources_of(release, names, said)
        found = posterior_of(release)
        if found is not None:
            self.posterior_ = found
        if "mean" in release.arrays:  # else nothing could be inferred with that prior
            self.mean_, self.sd_ = release.arrays["mean"], release.arrays["sd"]

    @staticmethod
    def _asked_of(settings: Mapping[str, Any]) -> Privacy | None:
        """Return what was asked for, where a release says so."""
        asked = settings.get("privacy")
        return None if asked is None else Privacy(**asked)

    @staticmethod
    def _columns_of(settings: Mapping[str, Any], bounds: Any) -> dict[str, Any]:
        """Return the columns of a release, or the bounds where there are none."""
        stated = settings.get("columns")
        return {"bounds": bounds} if stated is None else {"columns": Columns.of(stated)}

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        """Return the log density of every number, at the posterior's means."""
        if not hasattr(self, "mean_"):
            raise ParameterError("there is no posterior in this release: infer one in Python")
        if self.population is None:
            raise ParameterError(
                "the released posterior has a population of the caller's own, which a release "
                "does not hold: pass from_release(folder, population=…)"
            )
        density = self._law.log_density(self._numbers_of(dict(table)), self.mean_)
        return beside(table, {"prediction": density})

    def _row_schema(self) -> dict[str, dict[str, Any]]:
        columns = self._stated_columns
        name = "value" if columns is None else self._number_of(columns)[0]
        return columns_schema(columns, [name])

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], None]:
        """Return the parameters of a file or a proposal: populations and priors by name."""
        found = dict(settings)
        if "bounds" in found:
            found["bounds"] = tuple(found["bounds"])
        found["population"] = population_from_plain(found.get("population"))
        found["prior"] = prior_from_plain(found.get("prior"))
        return found, None

    def _tables(self, tables: Mapping[str, Any], facts: Any) -> Any:
        """Return the column with a number of each person: the only one, or named ``value``."""
        table = super()._tables(tables, facts)
        if self.columns is not None:
            return table
        (found,) = tables.values()
        names = [found["value"]] if found["value"] else list(table)
        if len(names) != 1 or names[0] not in table:
            raise ParameterError("value must name the column with one number for each person")
        return numbers(read_rows(table), names, finite=False)[:, 0]
