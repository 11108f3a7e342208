"""`Stated`: what a proposal or a file states about the data of all sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.language.binding import (
    as_relations,
    empty_relation,
    joined_members,
    restricted,
)
from tacit.factorization.language.structure import CoupledModel

__all__ = ["Stated"]


class Stated(NamedTuple):
    """Public facts, as a proposal or a file has them."""

    entities: Mapping[str, Any]  # members' names, or how many; of all but the protected one
    members: int = 0  # of the protected entity, at all sites, where that is public
    public: Mapping[str, Any] = MappingProxyType({})  # relation → its cells, as a table
    zeros: Mapping[str, str] = MappingProxyType({})  # relation → what unlisted cells are

    @property
    def labels(self) -> dict[str, tuple[Any, ...]]:
        """Entity → names of its members, where they are listed."""
        return {e: tuple(n) for e, n in self.entities.items() if not isinstance(n, int)}

    def relations(self, model: CoupledModel) -> dict[str, Relation]:
        """Return the relations that are no secret, which the coordinator holds."""
        strange = [name for name in self.public if name not in model.forms]
        if strange:
            raise ParameterError(f"public names {strange[0]!r}: the model has {list(model.forms)}")
        if not self.public:
            return {}
        found = as_relations(restricted(model, self.public), dict(self.public), self.entities)
        return {n: replace(one, zeros=self.zeros.get(n, one.zeros)) for n, one in found.items()}

    def modes(self, model: CoupledModel, relation: str, protected: str) -> list[str]:
        """Return the entities of a relation: what is protected or has public members."""
        return [n for n in model.names(relation) if n == protected or n in self.entities]

    def facts(self, model: CoupledModel, protected: str, sites: int) -> list[dict[str, Relation]]:
        """Return relations without cells for every site, of which sizes and labels are known.

        The first site stands for the members of all of them.
        """
        if protected in self.entities:
            raise ParameterError(f"the members of {protected!r} are protected: do not list them")
        sizes = {e: n if isinstance(n, int) else len(n) for e, n in self.entities.items()}
        found = []
        for k in range(sites):
            relations = {}
            for name in model.forms:
                if name in self.public and protected not in model.names(name):
                    continue  # of protected members some may be public: sites hold the others
                modes = self.modes(model, name, protected)
                shape = tuple(sizes.get(e, self.members if k == 0 else 0) for e in modes)
                labels = {e: names for e, names in self.labels.items() if e in modes}
                empty = empty_relation(modes, shape, labels)
                relations[name] = replace(empty, zeros=self.zeros.get(name, "missing"))
            found.append(relations)
        return found

    def read(
        self,
        tables: Mapping[str, Any],
        model: CoupledModel,
        protected: str,
        duplicates: str = "error",
    ) -> dict[str, Relation]:
        """Return a site's tables as relations, one row per cell."""
        relations = {}
        for name, found in tables.items():
            if name not in model.forms:
                raise ParameterError(f"the model has no relation {name!r}")
            if name in self.public and protected not in model.names(name):
                raise ParameterError(f"{name!r} is stated as public: it is no table of a site")
            modes = self.modes(model, name, protected)
            for entity in set(model.names(name)) - set(modes):
                if entity in found["columns"] or entity in found["table"]:
                    raise ParameterError(
                        f"the members of {entity!r} must be stated, and are never read from the "
                        f"data: pass entities = {{{entity} = …}}, a public list or its length"
                    )
            columns = {e: found["columns"].get(e, e) for e in modes}
            stated = {e: n for e, n in self.entities.items() if e in modes}
            listed = {e: range(n) if isinstance(n, int) else n for e, n in stated.items()}
            read = Relation.from_frame(
                found["table"],
                columns,
                found.get("value"),
                labels=listed,
                duplicates=duplicates,
                zeros=self.zeros.get(name, "missing"),
            )
            named = {*self.labels, protected}
            labels = {e: names for e, names in read.labels.items() if e in named}
            relations[name] = replace(read, labels=labels)
        return joined_members(relations)
