"""The model language: CP, Tucker and any other multilinear form, one line per relation.

``"user:k place:l activity:m core:klm"`` reads: the cell (user, place, activity) is the sum over
k, l, m of user[·, k]·place[·, l]·activity[·, m]·core[k, l, m]. Latent indices stand after the
colon. Relations that name the same entity share its factor. A name that is no entity of the
relation's data is a core: a factor without an index of its own.

A form may name an entity more than once: ``"user:k user:k"`` is a symmetric relation of users with
users, ``"user:k user:l core:kl"`` one that need not be symmetric. Both modes share one factor; the
second mode is called ``user_2``, in tables and wherever a mode is meant.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.data.indices import numbered
from tacit.errors import ParameterError
from tacit.factorization.divergences import NEGATIVE_BINOMIAL, as_power, loss_code

__all__ = ["BoundModel", "BoundRelation", "CoupledModel", "FactorSpec", "FromData"]


@dataclass(frozen=True)
class FactorSpec:
    """A factor: its name, latent indices, number of rows, and whether it is a core."""

    name: str
    latents: str
    rows: int
    ranks: tuple[int, ...]
    core: bool

    @property
    def columns(self) -> int:
        """The number of latent combinations."""
        return math.prod(self.ranks)

    @property
    def table(self) -> tuple[int, int]:
        """The shape for inference: (rows, columns)."""
        return self.rows, self.columns

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape for people: (rows, ranks …), cores without rows."""
        return self.ranks if self.core else (self.rows, *self.ranks)


@dataclass(frozen=True)
class BoundRelation:
    """A relation of the model with sizes.

    A cell is Σ_r Π_f F_f[i_f, columns_f[r]] over all combinations r of the latent indices; a
    core is a factor whose row is always 0.
    """

    name: str
    factors: tuple[str, ...]  # those of the data's modes first, in order, then cores
    columns: tuple[NDArray[np.intp], ...]  # for each factor, the one that combination r uses
    modes: int
    power: float  # p_v, or what stands for it
    dispersion: float  # φ_v
    entities: tuple[str, ...] = ()  # what the modes are called: of one entity, numbered

    @property
    def loss(self) -> float:
        """The number that stands for the loss in compiled code."""
        return loss_code(self.power, self.dispersion)

    @property
    def weight(self) -> float:
        """What the loss is multiplied by: 1/φ, but where φ is a part of the loss."""
        return 1.0 if self.power == NEGATIVE_BINOMIAL else 1.0 / self.dispersion

    def times(self, factor: str) -> int:
        """Return how often the relation names a factor."""
        return self.factors.count(factor)

    @property
    def combinations(self) -> int:
        """The number R of latent combinations."""
        return len(self.columns[0])

    def is_plain(self, position: int, width: int) -> bool:
        """Whether a factor with that many columns is used as it is, column by column."""
        columns = self.columns[position]
        return width == len(columns) and bool((columns == np.arange(width)).all())


@dataclass(frozen=True)
class BoundModel:
    """A coupled model with the sizes of all entities."""

    factors: Mapping[str, FactorSpec]
    relations: tuple[BoundRelation, ...]

    def relation(self, name: str) -> BoundRelation:
        """Return a relation by its name."""
        for relation in self.relations:
            if relation.name == name:
                return relation
        known = [relation.name for relation in self.relations]
        raise ParameterError(f"there is no relation {name!r}: the model has {known}")

    def using(self, factor: str) -> list[tuple[BoundRelation, int]]:
        """Return the relations that a factor occurs in, with its position."""
        return [
            (relation, position)
            for relation in self.relations
            for position, name in enumerate(relation.factors)
            if name == factor
        ]


OPEN = OneOf("estimate", "choose")  # dispersions that are still to be found


class FromData(float):
    """A number that was read from raw data, wherever it goes: nothing private may follow from it.

    >>> FromData(0.5), isinstance(FromData(0.5), float)
    (0.5, True)
    """


class CoupledModel:
    """A collection of relations that share entities.

    Parameters
    ----------
    relations
        Relation → its form in the model language; a single string stands for one relation
        named ``"data"``.
    rank
        The rank of every latent index, or one per index.
    divergence
        ``"kl"`` (or ``"poisson"``), ``"euclidean"`` (``"gaussian"``), ``"is"`` (``"gamma"``),
        ``"inverse-gaussian"``, any p ≥ 0 of a β-divergence, ``"negative-binomial"`` or ``"logit"``
        (``"bernoulli"``); for all relations or one each.
    dispersion
        φ_v > 0, ``"estimate"`` or ``"choose"``, for all relations or one each (others are 1). Of
        negative binomial counts it is φ in their variance, x̂ + φ·x̂².

    Examples
    --------
    >>> model = CoupledModel({"visits": "user:k place:k", "poi": "place:k feature:k"}, rank=3)
    >>> sorted(model.names("visits"))
    ['place', 'user']
    """

    def __init__(
        self,
        relations: Mapping[str, str] | str,
        rank: int | Mapping[str, int] = 5,
        divergence: Any = "kl",
        dispersion: float | Mapping[str, float] = 1.0,
    ) -> None:
        forms = {"data": relations} if isinstance(relations, str) else dict(relations)
        if not forms:
            raise ParameterError("relations must name at least one relation")
        self.forms = {name: _parse(name, form) for name, form in forms.items()}
        self.modes = _modes(self.forms)
        self.rank = rank
        latents = sorted({k for tokens in self.forms.values() for _, ks in tokens for k in ks})
        ranks = dict(rank) if isinstance(rank, Mapping) else dict.fromkeys(latents, rank)
        for latent in latents:
            if latent not in ranks:
                raise ParameterError(f"rank of {latent!r} is missing: pass rank={{{latent!r}: …}}")
            check(f"rank of {latent!r}", ranks[latent], Integer(1))
        self.ranks = ranks
        self.powers = {
            n: as_power(v) for n, v in _spread("divergence", divergence, forms, "kl").items()
        }
        self.dispersions = _spread("dispersion", dispersion, forms, 1.0)
        for name, phi in self.dispersions.items():
            check(f"dispersion of {name!r}", phi, AnyOf(Real(0, open_low=True), OPEN))

    @property
    def open(self) -> list[str]:
        """The relations whose dispersion is still to be found."""
        return [name for name, phi in self.dispersions.items() if isinstance(phi, str)]

    @property
    def chosen(self) -> list[str]:
        """The relations whose dispersion is to be chosen by what they help to predict."""
        return [name for name, phi in self.dispersions.items() if phi == "choose"]

    @property
    def estimated(self) -> list[str]:
        """The relations whose dispersion was estimated from data."""
        return [name for name, phi in self.dispersions.items() if isinstance(phi, FromData)]

    def with_dispersions(self, found: Mapping[str, Any]) -> CoupledModel:
        """Return the model with some dispersions filled in that it leaves open."""
        model = copy.copy(self)
        filled = {name: found[name] for name in self.open if name in found}
        model.dispersions = {**self.dispersions, **filled}
        return model

    def combinations(self, relation: str) -> int:
        """Return the number of combinations of a relation's latent indices."""
        return math.prod(self.ranks[k] for k in {k for _, ks in self.forms[relation] for k in ks})

    def names(self, relation: str) -> list[str]:
        """Return the factor names of a relation, each once."""
        return list(dict.fromkeys(name for name, _ in self.forms[relation]))

    def entity(self, mode: str) -> str:
        """Return the entity that a mode belongs to: that of ``user_2`` is ``user``."""
        return self.modes.get(mode, mode)

    @property
    def repeated(self) -> list[str]:
        """The relations that name an entity more than once."""
        return [name for name, tokens in self.forms.items() if len(self.names(name)) < len(tokens)]

    def of_modes(self, stated: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is stated of entities for all of their modes."""
        more = {mode: stated[e] for mode, e in self.modes.items() if e in stated}
        return {**stated, **more}

    def form(self, relation: str) -> str:
        """Return the form of a relation as it is written."""
        return " ".join(f"{name}:{latents}" for name, latents in self.forms[relation])

    @property
    def latents(self) -> dict[str, str]:
        """The latent indices of every factor, in the order of the forms."""
        found: dict[str, str] = {}
        for tokens in self.forms.values():
            for name, latents in tokens:
                found.setdefault(name, latents)
        return found

    def bind(self, data: Mapping[str, Any]) -> BoundModel:
        """Check the model against data (relation → `Relation`) and fix all sizes."""
        if set(data) != set(self.forms):
            raise ParameterError(
                f"the model has the relations {sorted(self.forms)}, the data {sorted(data)}"
            )
        if self.open:
            raise ParameterError(
                f"the dispersion of {self.open[0]!r} is open: estimate it first "
                "(tacit.CoupledFactorization does), or give it"
            )
        factors: dict[str, FactorSpec] = {}
        members: dict[str, tuple[Any, ...]] = {}
        bound = [self._bound(name, data[name], factors, members) for name in self.forms]
        return BoundModel(factors, tuple(bound))

    def _bound(
        self,
        name: str,
        found: Any,
        factors: dict[str, FactorSpec],
        members: dict[str, tuple[Any, ...]],
    ) -> BoundRelation:
        """Return one relation with sizes; add its factors and their members to those known."""
        tokens = self.forms[name]
        sizes = dict(zip(found.entities, found.shape, strict=True))
        places = numbered([token for token, _ in tokens])
        latents = dict(zip(places, (ks for _, ks in tokens), strict=True))
        lacking = [entity for entity in found.entities if entity not in latents]
        if lacking:
            raise ParameterError(
                f"relation {name!r} has the entity {lacking[0]!r}, which its form lacks"
            )
        for mode, names in found.labels.items():
            if members.setdefault(self.entity(mode), names) != names:
                raise ParameterError(
                    f"the members of {self.entity(mode)!r} differ between relations: pass the "
                    "same labels to both"
                )
        cores = [place for place in places if place not in sizes]
        for place, (token, ks) in zip(places, tokens, strict=True):
            ranks = tuple(self.ranks[k] for k in ks)
            if place != token and place in cores:
                raise ParameterError(
                    f"{token!r} stands more than once in the form of {name!r} and is no entity of "
                    f"the data, which has {list(found.entities)}: only entities may be repeated"
                )
            known = factors.get(token)
            again = known is not None and place != token and known.ranks == ranks
            spec = FactorSpec(
                token,
                known.latents if again and known is not None else ks,
                sizes.get(place, 1),
                ranks,
                place in cores,
            )
            if factors.setdefault(token, spec) != spec:
                raise ParameterError(
                    f"{token!r} means different things: {factors[token].shape} over "
                    f"{factors[token].latents!r} and {spec.shape} over {ks!r} in {name!r}"
                )
        order = (*found.entities, *cores)
        columns = self._columns([latents[place] for place in order])
        used = tuple(self.entity(place) for place in order)
        power, phi = self.powers[name], float(self.dispersions[name])
        return BoundRelation(name, used, columns, len(sizes), power, phi, tuple(found.entities))

    def _columns(self, latents: list[str]) -> tuple[NDArray[np.intp], ...]:
        """Return which column each factor uses in every combination of latent indices."""
        letters = list(dict.fromkeys(k for ks in latents for k in ks))
        grid = np.indices([self.ranks[k] for k in letters]).reshape(len(letters), -1)
        where = {k: grid[position] for position, k in enumerate(letters)}
        columns = []
        for ks in latents:
            column = np.zeros(grid.shape[1], np.intp)
            for k in ks:
                column = column * self.ranks[k] + where[k]
            columns.append(column)
        return tuple(columns)


def _parse(name: str, form: str) -> tuple[tuple[str, str], ...]:
    """Return the (factor, latents) tokens of a form."""
    tokens = []
    for token in form.split():
        factor, colon, latents = token.partition(":")
        if not colon or not factor or not latents or not latents.isalpha():
            raise ParameterError(
                f"{token!r} in the form of {name!r} must read name:latents, such as user:k"
            )
        if len(set(latents)) != len(latents):
            raise ParameterError(f"{token!r} repeats a latent index")
        tokens.append((factor, latents))
    if not tokens:
        raise ParameterError(f"the form of {name!r} must name at least one factor, got {form!r}")
    return tuple(tokens)


def _modes(forms: Mapping[str, tuple[tuple[str, str], ...]]) -> dict[str, str]:
    """Return the modes that are called otherwise than their entity, with the entity."""
    modes: dict[str, str] = {}
    for tokens in forms.values():
        names = [factor for factor, _ in tokens]
        modes |= {m: e for m, e in zip(numbered(names), names, strict=True) if m != e}
    taken = {factor for tokens in forms.values() for factor, _ in tokens} & modes.keys()
    if taken:
        name = min(taken)
        raise ParameterError(
            f"{name!r} is what another mode of {modes[name]!r} is called: give the factor "
            f"{name!r} another name"
        )
    return modes


def _spread(what: str, value: Any, forms: Mapping[str, Any], default: Any) -> dict[str, Any]:
    """Return a setting per relation from one for all or a mapping."""
    if not isinstance(value, Mapping):
        return dict.fromkeys(forms, value)
    unknown = [name for name in value if name not in forms]
    if unknown:
        raise ParameterError(f"{what} names {unknown[0]!r}, which is no relation of the model")
    return {name: value.get(name, default) for name in forms}
