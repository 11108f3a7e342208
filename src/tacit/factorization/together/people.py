"""Who counts where: people whom several sites know, members who are public, weights of members.

**Assigned people.** Nobody can tell who is known at which sites, and nobody is asked. Where
``sites_per_person="assigned"``, a key that the sites share and nobody else has decides: somebody
called u counts at the site s of all whose HMAC-SHA256(key, (s, u)) is the largest (highest random
weight, Thaler & Ravishankar 1998), and at no other. That is a function of u alone, given the key,
so u enters the release of one site however many know u, and a guarantee for one site is one for
the person. It does not rest on the key being secret; a coordinator who knew it could only tell
which site u counts at. What other sites know of u is left out of what is released, also where
the assigned one knows nothing of u: **of somebody whom one of N sites knows a share of (N − 1)/N
is lost on average**, so this is for people whom most sites know. At every site predictions use
all of its cells.

**Public members.** Cells of members who are no secret are held by the coordinator, whose side of
them is like that of one more site without noise (`with_public_members`): it contributes what
a site's members would, clipped in the same way, and is not charged.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.members import key as text_of
from tacit.data.members import marked, shown
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.agreement import Ask, Coordinating
from tacit.estimators.shards import Holder
from tacit.estimators.site import Site
from tacit.factorization.arrays import Floats
from tacit.factorization.together.problem import Problem, members_in
from tacit.rounds.messages import Message
from tacit.rounds.sides import Collected

__all__ = [
    "PUBLIC_MEMBERS",
    "Counted",
    "about_people",
    "assigned_to",
    "counted_at",
    "counting",
    "marks_of",
    "openness_of",
    "with_public_members",
]

PUBLIC_MEMBERS = "members who are public"


class Counted(dict[str, Relation]):
    """A site's relations, and which members of the protected entity count towards a release."""

    counts: NDArray[np.bool_]


def assigned_to(key: bytes, name: Any, sites: Sequence[str]) -> str:
    """Return the one site at which somebody counts.

    >>> sites = ("North", "South", "West")
    >>> assigned_to(b"a shared secret", 17, sites) == assigned_to(b"a shared secret", "17", sites)
    True
    """

    def weight(site: str) -> bytes:
        said = site.encode()
        message = len(said).to_bytes(8, "little") + said + text_of(name).encode()
        return hmac.new(key, message, hashlib.sha256).digest()

    return max(sorted(sites), key=weight)


def counted_at(problem: Problem, site: Site, relations: Mapping[str, Relation]) -> Any:
    """Return a site's relations, with those marked who count here; as they are where all do."""
    if not problem.is_assigned:
        return relations
    if site.key is None:
        raise ParameterError(
            "sites_per_person='assigned' needs the key that the sites share: pass Site(…, key=…), "
            "or name people_key in the site's own file"
        )
    names = _names(problem, relations)
    if names is None:
        raise ParameterError(
            f"sites_per_person='assigned' goes by the names of members of {problem.protected!r}, "
            "and there are none: pass labels, or a table with a column of names"
        )
    found = Counted(relations)
    mine = [assigned_to(site.key, name, problem.names) == site.name for name in names]
    found.counts = np.array(mine, bool)
    return found


def _names(problem: Problem, relations: Mapping[str, Relation]) -> tuple[Any, ...] | None:
    """Return the names of a site's members, where they have any."""
    for found in relations.values():
        if problem.protected in found.labels:
            return tuple(found.labels[problem.protected])
    return None


def counting(relations: Mapping[str, Relation], entity: str) -> dict[str, Relation]:
    """Return a site's relations without the cells of those who do not count here."""
    if not isinstance(relations, Counted):
        return dict(relations)
    found = {}
    for name, relation in relations.items():
        found[name] = relation
        if entity in relation.entities:
            members = relation.indices[:, relation.entities.index(entity)]
            found[name] = relation.subset(np.flatnonzero(relations.counts[members]))
    return found


def openness_of(problem: Problem, relations: Mapping[str, Relation]) -> Floats | None:
    """Return the public weight of every member of a site; None where all have 1.

    Members without names go by their numbers, at every site.
    """
    if not problem.weights:
        return None
    names = _names(problem, relations)
    known = range(members_in(relations, problem.protected)) if names is None else names
    return np.array([problem.weights.get(text_of(name), 1.0) for name in known], np.float64)


def marks_of(problem: Problem, relations: Mapping[str, Relation]) -> NDArray[np.uint64] | None:
    """Return a number of each protected member; None where they have no names."""
    names = _names(problem, relations)
    return None if names is None else marked(names)


def about_people(problem: Problem) -> list[str]:
    """Return what certificates list about assigned people, public members and weights."""
    whose, notes = problem.protected, []
    if problem.is_assigned:
        notes.append(
            f"a key that the sites share assigns every member of {whose!r} to one of "
            f"{', '.join(problem.names)} by name; what others hold of them is left out"
        )
    for relation, found in problem.open.items():
        labels = found.labels.get(whose)
        who = f": {shown(labels)}" if labels else ""
        size = found.shape[found.entities.index(whose)]
        notes.append(
            f"public, and not protected: the cells of {relation!r} of {size} members of "
            f"{whose!r}{who}"
        )
    asked = problem.table or problem.privacy
    if asked is not None and asked.by_site:
        each = ", ".join(f"{name} {epsilon:g}" for name, epsilon in asked.by_site.items())
        notes.append(f"sites have an ε of their own, by a public table: {each}")
    if asked is not None and asked.public_sites:
        notes.append(f"sites whose data are public: {', '.join(asked.public_sites)}")
    if problem.weights:
        notes.append(
            f"who of {whose!r} has which privacy weight is public: {len(problem.weights)} have "
            "one below 1, and whoever has the weight w is (w·μ)-private where others are "
            "μ-private; the headline is for weight 1"
        )
    return notes


def with_public_members(
    asking: Coordinating, side: Holder | None, share: float = 1.0, *, apart: bool = False
) -> Coordinating:
    """Go through a coordinator's questions, with the answers of members who are public added.

    Parameters
    ----------
    asking
        The coordinator's generator.
    side
        The side of those members; None where there are none.
    share
        Of their sums that is added: where sites take samples, sums are of that share.
    apart
        Whether the coordinator looks at every site's own answer.
    """
    if side is None:
        return (yield from asking)
    number, ask = 0, next(asking)
    while True:
        found = yield ask
        reply = side.respond(_request(side, number, ask))
        number += 1
        own = {n: a if share == 1.0 else share * a for n, a in reply.arrays.items()}
        total = {name: array + own[name] for name, array in found.total.items()}
        sites, by_site = found.sites, found.by_site
        if apart and by_site is not None:
            sites = (*sites, PUBLIC_MEMBERS)
            by_site = {**by_site, PUBLIC_MEMBERS: Message(reply.round, own, reply.step)}
        try:
            ask = asking.send(Collected(sites, total, by_site))
        except StopIteration as end:
            return end.value


def _request(side: Holder, number: int, ask: Ask) -> Message:
    step = side.agreement.step(ask.step)
    arrays = {name: np.asarray(array) for name, array in ask.arrays.items()}
    if step.kinds:
        arrays["kind"] = np.array([list(step.kinds).index(ask.kind)], np.int64)
    return Message(number, arrays, step.name)
