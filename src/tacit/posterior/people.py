"""Estimators over one holder with one number for each person: what both of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, as_bounds
from tacit.data.features import labels_of, numbers, settled
from tacit.data.kinds import Category, Kind, Text
from tacit.data.reading import is_table, read_rows
from tacit.data.rows import shuffled
from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID, PrivateEstimator
from tacit.estimators.blanks import Blank
from tacit.estimators.site import Site
from tacit.posterior.agreement import PosteriorAgreement, SelectorAgreement
from tacit.posterior.mechanism import MECHANISMS
from tacit.posterior.numerics.infer import ParameterPosterior
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.statistics import as_statistic
from tacit.posterior.plain import plain_law, plain_prior, population_from_plain, prior_from_plain
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy

__all__ = ["COMMON", "PeopleEstimator", "as_people"]

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


def as_people(data: Any, size: int | None = None) -> Array:
    """Return one number for each person, read value by value; what is missing is refused."""
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
    _to_state: ClassVar[Mapping[str, Blank]] = {
        "parameters.population": Blank(
            'the law of the numbers: "Bernoulli", "Exponential", "NormalVariance", "Poisson", '
            '"UniformWidth", or {name = "NormalMean", sd = 2.0}'
        ),
        "columns.target": Blank("the column with one number for each person"),
    }
    _people: ClassVar[int] = 20  # of an imagined holder

    population: Population | None
    columns: Any
    bounds: tuple[float, float] | None
    size: int | None
    prior: ScalarPrior | Sequence[ScalarPrior] | None
    mechanism: str
    privacy: Privacy | None
    noise: str

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

    @staticmethod
    def _number_of(columns: Columns) -> tuple[str, Kind]:
        """Return the column with a number of each person, and its kind."""
        name = columns.target or next(iter(columns))
        if columns.target is None and len(columns) > 1:
            raise ParameterError(
                f"one number of each person is released: pass Columns(…, target=…) with one of "
                f"{list(columns)}"
            )
        if isinstance(columns[name], Category | Text):
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
        if privacy is not None and columns.drops:  # PRIVACY A13
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
        if privacy.neighbours != REPLACE:
            raise ParameterError(
                "the number of people enters the model and is public: pass "
                "Privacy(…, neighbours='replace-one')"
            )
        if privacy.trust not in ("central", "local"):
            raise ParameterError(
                f"privacy.trust must be 'central' or 'local', got {privacy.trust!r}"
            )

    def _people_in(self, data: Any) -> Array:
        """Return one number for each person of a holder."""
        columns = self._stated_columns
        if columns is None:
            return as_people(data)
        name, _ = self._number_of(columns)
        people = columns.read(data, [name]).matrix([name])[:, 0]
        return people if columns.person is None else people[shuffled(len(people))]

    def _as_sites(self, data: Any) -> list[Site]:
        sites = super()._as_sites(data)
        return [Site(site.name, settled(site.data), site.ledger) for site in sites]

    def _facts(self, data: Any) -> int:
        return len(self._people_in(data)) if self.size is None else self.size

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
        """Return what is public about releasing one statistic."""
        columns = self._stated_columns
        return PosteriorAgreement(
            as_statistic(statistic),
            self._range,
            size,
            self._request(),
            self.mechanism,
            self.noise,
            notes=() if columns is None else columns.assumptions(),
        )

    def _read(self, data: Any, agreement: Agreement) -> Array:
        assert isinstance(agreement, PosteriorAgreement | SelectorAgreement)
        people = self._people_in(data)
        if len(people) != agreement.size:
            raise ParameterError(
                f"data must hold the {agreement.size} people that size states, got {len(people)}"
            )
        if not len(people):
            raise ParameterError("there is nobody in the data: a statistic needs people")
        return people

    def _numbers_of(self, data: Any) -> Array:
        """Return numbers to judge, by the name of their column; no person is looked for."""
        columns = self._stated_columns
        if columns is None:
            return as_people(data)
        return columns.encode(data, [self._number_of(columns)[0]])[:, 0]

    def _learn(self, posterior: ParameterPosterior) -> None:
        """Keep what was inferred."""
        self.posterior_ = posterior
        self.mean_, self.sd_ = posterior.mean, posterior.sd

    def _settings(self) -> dict[str, Any]:
        columns = self._stated_columns
        return {
            "population": plain_law(self.population),
            "prior": plain_prior(self.prior),
            "columns": None if columns is None else columns.described(),
        }

    @staticmethod
    def _columns_of(settings: Mapping[str, Any], bounds: Any) -> dict[str, Any]:
        """Return the columns of a release, or the bounds where there are none."""
        stated = settings.get("columns")
        return {"bounds": bounds} if stated is None else {"columns": Columns.of(stated)}

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
