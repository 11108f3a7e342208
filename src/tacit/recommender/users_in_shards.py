"""Ratings in shards, all of a user's in one of them; and whose ratings are here after a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tacit.data.members import Members, members_stated
from tacit.data.relations import Relation
from tacit.data.shards import Read, Shards
from tacit.data.spooling import by_unit
from tacit.errors import ParameterError
from tacit.estimators.site import Site
from tacit.factorization.together.people_in_shards import joined_shards, members_together
from tacit.recommender.ratings import Facts, Ratings, from_table, users_of

__all__ = ["facts_of_shards", "people_here", "tables_of_ratings", "users_together"]

_ONE = ("ratings",)  # the name of the one relation


def users_together(shards: Shards, read: Callable[[Any], Ratings], *, whole: bool) -> Any:
    """Return shards in which everybody's ratings lie in one; or all of them as one relation.

    Parameters
    ----------
    shards
        As a holder passes them.
    read
        How a piece becomes ratings.
    whole
        Whether a method looks at all users at once.
    """
    if whole:
        return joined_shards(shards, lambda piece: {_ONE[0]: _relation(read(piece))}, "user")[
            _ONE[0]
        ]
    return members_together(shards, _ONE, "user")


def _relation(ratings: Ratings) -> Relation:
    if ratings.relation is None:
        raise ParameterError("pass the ratings: a shape has a price and nothing to learn from")
    return ratings.relation


def facts_of_shards(shards: Shards, read: Callable[[Any], Ratings]) -> Facts:
    """Return what is public about ratings in shards.

    Parameters
    ----------
    shards
        As `users_together` returned them.
    read
        How a piece becomes ratings.
    """
    first = read(shards.pieces[0].read())
    if first.facts.unstated:
        raise ParameterError(
            "shards are read one by one, and the items follow from none of them: pass items=[…], "
            "the list of all items that may be rated, or how many there are"
        )
    users = shards.units
    if users is None:
        users = sum(read(piece.read()).shape[0] for piece in shards)
    return first.facts._replace(users=users, openness=None, item_weights=None)


def tables_of_ratings(found: Mapping[str, Any], facts: Facts, duplicates: str) -> Ratings | Shards:
    """Return a site's ratings from its table, or from the shards of one.

    Parameters
    ----------
    found
        The table, what its columns are, and which one has the values.
    facts
        What is public.
    duplicates
        What a rating is that is listed several times.
    """
    shards = found["table"]
    if not isinstance(shards, Shards):
        return from_table(found, facts, duplicates)
    if "weight" in found["columns"] or facts.by_rating:
        raise ParameterError("privacy weights go with one table of ratings, and not with shards")
    parted = shards
    if len(shards) > 1:
        parted = by_unit(shards, [found["columns"].get("user", "user")])
    how = partial(_from_piece, dict(found), facts, duplicates)
    return parted.made((Read(piece, how) for piece in parted), parted.units)


def _from_piece(found: dict[str, Any], facts: Facts, duplicates: str, piece: Any) -> Ratings:
    return from_table({**found, "table": piece}, facts, duplicates)


def people_here(
    sites: Sequence[Site], took_part: Sequence[str], items: Any
) -> tuple[Members, dict[str, str], Any]:
    """Return the users whose ratings are here, the columns that named them, and the items' names.

    Parameters
    ----------
    sites
        With their ratings, or shards of such.
    took_part
        Those of them that did.
    items
        As stated.
    """
    here = {site.name: site.data for site in sites if isinstance(site.data, Ratings)}
    people = users_of({name: own for name, own in here.items() if name in took_part})
    if not here:
        return people, {}, None if items is None else members_stated("item", items).names
    first = next(iter(here.values()))
    return people, first.columns, first.items.names
