"""What a site makes of what was learned, with its own cells and by its own names.

Everything here is the site's own and no release: it is computed from raw cells, at no cost, and
goes to whoever holds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.rng import generator
from tacit.data.members import Members, cells_of, shown
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.inference import mean_divergence
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.language.binding import as_relations
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.ranking import best_unseen, top_members
from tacit.factorization.together.shape import SiteFactors

__all__ = ["AtSite"]


@dataclass(frozen=True)
class AtSite:
    """A site with its cells, and its side that predicts.

    Parameters
    ----------
    side
        What was learned, as the site has it.
    relations
        The site's own.
    model
        What they are relations of.
    protected
        The entity whose members are the site's.
    """

    side: SiteFactors
    relations: Mapping[str, Relation]
    model: CoupledModel
    protected: str

    # -- whom names mean -------------------------------------------------------------------

    def relation(self, name: str | None, naming: str | None = None) -> str:
        """Return the relation of a name; without one the only one, or the only one of an entity.

        Parameters
        ----------
        name
            Which one.
        naming
            The entity that it must name.
        """
        held = [n for n, found in self.relations.items() if naming in (None, *found.entities)]
        if name is None:
            if len(held) != 1:
                raise ParameterError(f"pass relation=…, one of {held}")
            return held[0]
        if name not in self.relations:
            raise ParameterError(
                f"site {self.side.name!r} has no relation {name!r}: it has {list(self.relations)}"
            )
        if name not in held:
            raise ParameterError(f"relation {name!r} does not name {naming!r}: pass one of {held}")
        return name

    def modes(self, relation: str) -> list[Members]:
        """Return the members of every mode of a relation, in the order of its form."""
        own = self.relations[relation]
        return [own.members(e) for e in self.model.names(relation) if e in own.entities]

    def cells(self, relation: str, cells: Any, positions: bool = False) -> Integers:
        """Return the positions of cells, in the order of the form."""
        columns = self.relations[relation].columns
        return cells_of(cells, self.modes(relation), columns, positions=positions)

    def _ordered(self, relation: str, index: Integers) -> Any:
        """Return cells in the order that the side takes."""
        names = [one.entity for one in self.modes(relation)]
        order = self.side.modes(relation) or self.relations[relation].entities
        return index[:, [names.index(one) for one in order]].astype(np.int32)

    def _listed(self, relation: str) -> Integers:
        """Return the site's listed cells, in the order of the form."""
        own = self.relations[relation]
        order = [own.entities.index(one.entity) for one in self.modes(relation)]
        return own.indices[:, order].astype(np.int64)

    @property
    def stated(self) -> dict[str, Any]:
        """The members of every entity: names, or how many there are."""
        found = {e: one.members(e) for one in self.relations.values() for e in one.entities}
        return {e: one.names or one.size for e, one in found.items()}

    # -- verbs -----------------------------------------------------------------------------

    def values(self, relation: str, index: Integers) -> Floats:
        """Return the expected values of cells, by position in the order of the form."""
        return self.side.predict(relation, self._ordered(relation, index))

    def posterior(
        self, relation: str, index: Integers, interval: float | None, observation: bool
    ) -> tuple[Floats, ...]:
        """Return mean and variance of the expected values of cells; or mean, low and high.

        Parameters
        ----------
        relation, index
            As in `values`.
        interval
            The probability that low and high are for.
        observation
            Whether a new value is meant, with its own noise, and not its expectation.
        """
        drawn = self.side.draws_at(relation, self._ordered(relation, index))
        mean, phi = self.values(relation, index), float(self.model.dispersions[relation])
        power = self.model.powers[relation]
        if interval is None:
            own = phi * np.maximum(mean, 0.0) ** power if observation else 0.0
            return mean, drawn.var(axis=0) + own
        check("interval", interval, Real(0, 1, open_low=True, open_high=True))
        if observation:
            rng = generator(0, "observations")
            if power == 0.0:
                drawn = drawn + math.sqrt(phi) * rng.standard_normal(drawn.shape)
            else:
                drawn = np.asarray(phi * rng.poisson(np.maximum(drawn, 0.0) / phi), np.float64)
        low, high = np.quantile(drawn, [0.5 - interval / 2.0, 0.5 + interval / 2.0], axis=0)
        return mean, low, high

    def top(
        self,
        relation: str,
        entity: str,
        given: Mapping[str, Any],
        n: int,
        skip: Any,
        positions: bool,
    ) -> list[tuple[Any, float]]:
        """Return the members of an entity with the highest expected values."""
        modes = self.modes(relation)
        return top_members(
            lambda cells: self.values(relation, cells), modes, entity, given, n, skip, positions
        )

    def recommend(
        self,
        relation: str,
        members: Any,
        n: int,
        exclude_seen: bool,
        given: Mapping[str, Any] | None,
        positions: bool,
    ) -> Any:
        """Return the best of another entity for members; of one member just that list."""
        check("n", n, Integer(1))
        check("exclude_seen", exclude_seen, OneOf(True, False))
        modes, context = {one.entity: one for one in self.modes(relation)}, dict(given or {})
        rest = [e for e in modes if e != self.protected and e not in context]
        strange = [e for e in context if e not in modes or e == self.protected]
        if len(rest) != 1 or strange:
            others = [e for e in modes if e != self.protected]
            raise ParameterError(
                f"{relation!r} has {others} beside {self.protected!r}: name in given a member of "
                f"each of these but the one that is recommended, got {sorted(context)}"
            )
        who = modes[self.protected]
        alone = isinstance(members, str | bytes) or not hasattr(members, "__iter__")
        wanted = range(who.size) if members is None else [members] if alone else list(members)
        places = who.find(wanted, positions=positions or members is None)
        fixed = {
            e: int(modes[e].find([member], positions=positions)[0])
            for e, member in context.items()
        }
        distinct, where = np.unique(places, return_inverse=True)
        seen = self._listed(relation)
        found = best_unseen(
            lambda cells: self.values(relation, cells),
            list(modes.values()),
            (self.protected, distinct),
            rest[0],
            fixed,
            n,
            seen if exclude_seen else seen[:0],
        )
        named = int if positions else modes[rest[0]].name
        lists = [
            [(named(place), float(value)) for place, value in zip(*found[k], strict=True)]
            for k in where
        ]
        if alone and members is not None:
            return lists[0]
        keys = [int(p) if positions else who.name(p) for p in places]
        return dict(zip(keys, lists, strict=True))

    def score(self, data: Any) -> float:
        """Return minus the mean divergence of given cells, over all relations."""
        relations = as_relations(self.model, data, self.stated)
        for name, found in relations.items():
            if set(found.entities) != set(self.relations[self.relation(name)].entities):
                raise ParameterError(f"{name!r} must be over {self.relations[name].entities}")
        order = {n: [one.entity for one in self.modes(n)] for n in relations}

        def predicted(name: str, found: Relation) -> Floats:
            columns = [found.entities.index(entity) for entity in order[name]]
            return self.values(name, found.indices[:, columns].astype(np.int64))

        return -mean_divergence(predicted, self.model.powers, relations)

    # -- newcomers -------------------------------------------------------------------------

    def joined(self, data: Any) -> tuple[dict[str, Relation], tuple[Any, ...]]:
        """Return the site's relations with new members of the protected entity, and their names.

        Parameters
        ----------
        data
            Relation → table, array or `Relation` of new members only; any of the site's relations
            that name them may be left out.
        """
        entity = self.protected
        others = {e: members for e, members in self.stated.items() if e != entity}
        found = as_relations(self.model, data, others)
        for name in found:
            self.relation(name, naming=entity)
        held = {n: own for n, own in self.relations.items() if entity in own.entities}
        known = next(iter(held.values())).members(entity)
        new = next(iter(found.values())).members(entity)
        if (known.names is None) != (new.names is None):
            said = "have no names" if new.names is None else "have names"
            raise ParameterError(
                f"the new members of {entity!r} {said}, and those of site {self.side.name!r} "
                f"{'have some' if new.names is None else 'have none'}: pass a table, a Relation "
                "with labels, or an array, as for the site itself"
            )
        again = [one for one in new.names or () if known.known([one])[0] >= 0]
        if again:
            raise ParameterError(
                f"{entity} {shown(again)} is no newcomer at site {self.side.name!r}: adopt the "
                "site again with its new cells"
            )
        joined = {
            name: _appended(own, found.get(name), entity, new) if name in held else own
            for name, own in self.relations.items()
        }
        return joined, new.names or tuple(range(known.size, known.size + new.size))


def _appended(own: Relation, more: Relation | None, entity: str, new: Members) -> Relation:
    """Return a relation with cells of new members after those that it has."""
    at = own.entities.index(entity)
    old = own.members(entity)
    shape = tuple(size + (new.size if k == at else 0) for k, size in enumerate(own.shape))
    labels = dict(own.labels)
    if old.names is not None and new.names is not None:
        labels[entity] = (*old.names, *new.names)
    grown = replace(own, shape=shape, labels=labels)
    if more is None:
        return grown
    if more.zeros != own.zeros:
        raise ParameterError(f"unlisted cells are {own.zeros} here: pass zeros={own.zeros!r}")
    order = [more.entities.index(one) for one in own.entities]
    shift = np.zeros(len(order), np.int32)
    shift[at] = old.size

    def both(first: Any, second: Any) -> Any:
        moved = second.reshape(-1, len(order))[:, order] + shift
        return np.concatenate([first.reshape(-1, len(order)), moved]).astype(np.int32)

    return replace(
        grown,
        indices=both(own.indices, more.indices),
        values=np.concatenate([own.values, more.values]),
        held_out=both(own.held_out, more.held_out),
    )
