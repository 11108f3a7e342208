"""Shards of one holder, read before anybody pays: every problem of every shard, in one pass.

Each shard is read where it will be worked on, by the estimator's own reader, and looked at: how
many units it holds, and how many bounded parts it adds to a sum. Where a unit may have several
rows, shards are laid out anew first, so that it lies in one of them. Randomness that chooses among
a person's rows is keyed by the holder: a shard that is read again is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.base import clone

from tacit._core.rng import keyed_choices
from tacit.data.problems import BadTable, Problem
from tacit.data.schema import Columns
from tacit.data.shards import Piece, Shards
from tacit.data.spooling import by_unit
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.executors import Here, Loaded, executor_of
from tacit.estimators.gate import Gate
from tacit.estimators.site import Site
from tacit.mechanisms.noise import Noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_shards", "closing_shards", "held_by", "laid_out", "own_part"]

_PLACES = 20  # of one problem that are kept


@dataclass(frozen=True, eq=False)
class _Reading:
    """How one shard is read, wherever that is: a function of the piece.

    Attributes
    ----------
    read
        The estimator's reader.
    hand
        The side that contributes: what is public.
    piece
        What is read.
    key
        Of what is chosen at random.
    site
        The site, without data and ledger.
    """

    read: Callable[[Any, Agreement], Any]
    hand: Any
    piece: Piece
    key: bytes = field(repr=False)
    site: Site

    def __call__(self) -> Any:
        agreement = self.hand.agreement
        with keyed_choices(self.key):
            found = self.read(self.piece.read(), agreement)
        return self.hand.prepared(agreement.own_part(self.site, found))


class _Looked(NamedTuple):
    """How many units and parts a shard has, and the marks of its units."""

    size: tuple[int, int]
    marks: NDArray[np.uint64] | None


@dataclass(frozen=True, eq=False)
class _Look:
    """What is looked at of a shard before anybody pays."""

    hand: Any

    def __call__(self, shard: Any) -> _Looked:
        self.hand.ready(shard)
        units, parts = int(self.hand.units(shard)), int(self.hand.contributions(shard))
        return _Looked((units, parts), self.hand.marks(shard))


def held_by(model: Any, site: Site, agreement: Agreement) -> Any:
    """Return what a site's holder takes: all of its data, or where its shards are.

    Parameters
    ----------
    model
        A private estimator, whose reader it is; its ledger goes nowhere.
    site
        Who holds what, and where its shards are worked on.
    agreement
        What is public.
    """
    if not isinstance(site.data, Shards):
        return model._read(site.data, agreement)
    executor = site.data.executor if site.executor is None else site.executor
    return _loaded(model, site, agreement.at(site.name), executor)


def _loaded(model: Any, site: Site, agreement: Agreement, executor: Any) -> Loaded:
    """Read all shards where they will be worked on, or raise all that is wrong with them."""
    laid_out = model._laid_out(site.data)
    place = executor_of(executor, laid_out.at_once)
    reader, key, bare = _reader(model), os.urandom(32), Site(site.name, None, key=site.key)
    nothing = Loaded(Here(1), ())
    hand = agreement.holder(site.name, nothing, Gate(None, Noise("grid")), 0).hand()  # type: ignore[attr-defined]
    reading = [
        _Reading(reader, hand, piece, key + number.to_bytes(8, "little"), bare)
        for number, piece in enumerate(laid_out)
    ]
    found = place.load(reading, _Look(hand))
    _raise_for(one for one in found if isinstance(one, Exception))
    looked = [one for one in found if not isinstance(one, Exception)]
    order = _ordered([one.marks for one in looked if one.marks is not None], len(looked))
    return Loaded(place, tuple(one.size for one in looked), laid_out, order)


def _ordered(marks: Sequence[NDArray[np.uint64]], shards: int) -> NDArray[np.int64] | None:
    """Return the order of units by their marks; raise where one is in several shards."""
    if not marks or len(marks) < shards:
        return None
    every = np.concatenate(marks)
    order = np.argsort(every, kind="stable")
    if (np.diff(every[order]) == 0).any():
        raise ParameterError(
            "somebody has data in several shards: pass tables with a row for each cell, whose "
            "rows are brought together, or shards in which everybody is once"
        )
    return order


def own_part(agreement: Agreement, site: Site, data: Any) -> Any:
    """Return what of a holder's data counts; shards were asked where they were read."""
    return data if isinstance(data, Loaded) else agreement.own_part(site, data)


@contextmanager
def closing_shards(loaded: Iterable[Any]) -> Iterator[None]:
    """Let go of shards when a run is over, whatever became of it."""
    try:
        yield
    finally:
        for one in loaded:
            if isinstance(one, Loaded):
                one.executor.close()


def check_shards(sites: Sequence[Site], *, taken: bool) -> None:
    """Raise where sites have shards and an estimator takes none, or an executor and no shards."""
    for site in sites:
        held = issubclass(type(site.data), Shards)  # a price looks at no data, not at this much
        if held and not taken:
            raise ParameterError(
                f"the data of {site.name!r} are shards, and this estimator looks at all of a "
                "holder's data at once: pass one table"
            )
        if site.executor is not None and not held and site.data is not None:
            raise ParameterError(
                "executor says where shards are worked on: pass Shards([…]) as the site's data"
            )


def laid_out(shards: Shards, columns: Columns | None) -> Shards:
    """Return shards in which each unit lies in one: whom columns name; else each row is one."""
    if columns is None or len(shards) == 1 or shards.units is not None:
        return shards
    units = (columns.person,) if columns.person is not None else tuple(columns.key or ())
    return by_unit(shards, units) if units else shards


def _reader(model: Any) -> Callable[[Any, Agreement], Any]:
    """Return how one table is read, by an estimator that pays for nothing."""
    twin = clone(model)
    if "ledger" in twin.get_params(deep=False):
        twin.set_params(ledger=None)
    read: Callable[[Any, Agreement], Any] = twin._read_shard
    return read


def _raise_for(errors: Iterable[Exception]) -> None:
    """Raise everything that is wrong with tables at once; else the first error."""
    problems: dict[tuple[str, str, str], Problem] = {}
    others = []
    for error in errors:
        if not isinstance(error, BadTable):
            others.append(error)
            continue
        for one in error.problems:
            kind = one.what, one.column, one.remedy
            known = problems.get(kind)
            if known is None:
                problems[kind] = one
                continue
            places = (*known.places, *one.places)[:_PLACES]
            problems[kind] = replace(known, places=places, count=known.count + one.count)
    if problems:
        raise BadTable(list(problems.values()))
    if others:
        raise others[0]
