"""Estimators over one holder with one number for each person: what both of them have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, as_bounds
from tacit.data.columns import check_present
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID, PrivateEstimator
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


class PeopleEstimator(PrivateEstimator):
    """Base: a population, bounds of a person's number, and a public number of people."""

    _default_neighbours = REPLACE
    _people: ClassVar[int] = 20  # of an imagined holder

    population: Population | None
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
        return as_bounds("bounds", self.bounds, "the public range of a person's number")

    def _check_parameters(self) -> None:
        super()._check_parameters()
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

    def _facts(self, data: Any) -> int:
        return len(as_people(data))

    def _imagined(self) -> int:
        return self.size or self._people

    def _size(self, facts: Sequence[Any]) -> int:
        """Return the public number of people of the one holder: as stated, else the data's."""
        if len(facts) != 1:
            raise ParameterError("one holder releases its statistics: pass one site")
        size: int | None = facts[0] if self.size is None else self.size
        if size is None:
            raise ParameterError(
                "size must be given to know the price: pass size=n, a public number"
            )
        return size

    def _released(self, statistic: Any, size: int) -> PosteriorAgreement:
        """Return what is public about releasing one statistic."""
        return PosteriorAgreement(
            as_statistic(statistic), self._range, size, self._request(), self.mechanism, self.noise
        )

    def _read(self, data: Any, agreement: Agreement) -> Array:
        assert isinstance(agreement, PosteriorAgreement | SelectorAgreement)
        people = as_people(data, agreement.size)
        check_present(people, "the data")
        return people

    def _learn(self, posterior: ParameterPosterior) -> None:
        """Keep what was inferred."""
        self.posterior_ = posterior
        self.mean_, self.sd_ = posterior.mean, posterior.sd

    def _settings(self) -> dict[str, Any]:
        return {"population": plain_law(self.population), "prior": plain_prior(self.prior)}

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], None]:
        """Return the parameters of a file or a proposal: populations and priors by name."""
        found = dict(settings)
        if "bounds" in found:
            found["bounds"] = tuple(found["bounds"])
        found["population"] = population_from_plain(found.get("population"))
        found["prior"] = prior_from_plain(found.get("prior"))
        return found, None

    def _tables(self, tables: Mapping[str, Any], facts: Any) -> Array:
        """Return the column with a number of each person: the only one, or named ``value``."""
        table = super()._tables(tables, facts)
        (found,) = tables.values()
        names = [found["value"]] if found["value"] else list(table)
        if len(names) != 1 or names[0] not in table:
            raise ParameterError("value must name the column with one number for each person")
        return as_people(table[names[0]])
