"""Choosing the rank: on a holder's own data for its own fit, or where nothing is secret.

Three things speak for a rank: how well it predicts cells that were held out, the evidence (the
bound of variational Bayes), and whether fits from other starts find the same components. The rank
that is taken is the smallest whose held-out loss is within one standard error, over the same
splits, of the least; the others are shown beside it.

**Where data are private**, a rank that they chose is a release of its own. Here it is chosen on
public or simulated data, at the noise that the real fit will have, and costs nothing; what it
would cost on the private data (a release for each candidate) is said beside it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from tacit._core.answers import Answer, Answering, Table
from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.pictures import Lines
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.data.split import hold_out_cells
from tacit.errors import ParameterError
from tacit.planning.choosing import ChoicePrice, price_of_choosing
from tacit.planning.simulations import Facts, error_of

if TYPE_CHECKING:
    from tacit.factorization.alone.estimator import CoupledFactorization

__all__ = ["RankChoice", "choose_rank"]

_RAW = "made on raw data: for their holder's own fit alone, and no part of a release"
_PUBLIC = "made on public or simulated data: it costs no ε"


@dataclass(frozen=True)
class RankChoice(Answering):
    """What `choose_rank` found.

    Attributes
    ----------
    rank
        The rank to take.
    table
        For every rank that was tried its held-out loss, the standard error of its difference to
        the least, the evidence and the replicability; NaN where there is none.
    raw
        Whether raw data made the choice.
    price
        What the choice would cost on private data; None where there are none.
    """

    rank: int
    table: tuple[tuple[int, float, float, float, float], ...]
    raw: bool
    price: ChoicePrice | None = None

    def _answer(self, level: float) -> Answer:
        names = "rank", "held-out loss", "standard error", "evidence", "replicability"
        found: dict[str, list[Any]] = dict(
            zip(names, (list(column) for column in zip(*self.table, strict=True)), strict=True)
        )
        kept = {
            name: values
            for name, values in found.items()
            if name == "rank" or any(math.isfinite(v) for v in values)
        }
        kept["rank"] = [str(rank) for rank in kept["rank"]]
        told = _RAW if self.raw else _PUBLIC
        unsure = [
            f"fits of rank {rank} from other starts agree to {same:.2f} only: read its components "
            "with care"
            for rank, *_, same in self.table
            if rank == self.rank and same < 0.8
        ]
        points = [(float(row[0]), row[1]) for row in self.table]
        return Answer(
            f"{len(self.table)} ranks tried",
            f"Rank {self.rank} is the smallest that predicts about as well as any.",
            (Table("ranks", "Ranks", kept, (told,)),),
            tuple(unsure),
            details={} if self.price is None else {"On private data": f"{self.price}."},
            pictures={"ranks": Lines("Held-out loss", "rank", "loss", {"loss": points})},
        )


def choose_rank(
    what: Any,
    ranks: Sequence[int],
    data: Any = None,
    *,
    share: float = 0.1,
    repeats: int = 5,
    restarts: int = 3,
    sites: int = 1,
    random_state: int = 0,
) -> RankChoice:
    """Choose the rank of a factorization.

    Parameters
    ----------
    what
        A `tacit.CoupledFactorization`, whose holder chooses by its own raw data; a
        `tacit.PrivateFactorization`, for which ``data`` must be public or simulated; or a kind,
        ``"factorization"`` or ``"recommender"``, for which data are simulated.
    ranks
        Which to try.
    data
        As in ``fit`` of the first; a public or simulated matrix for the second
        (`tacit.data.synthetic.simulated_ratings`); `Facts` for a kind.
    share
        The share of observed cells that is held out, of every relation.
    repeats
        Random splits.
    restarts
        Fits to all data from other starts, which are compared (of a `tacit.CoupledFactorization`).
    sites
        Over how many sites protected members are spread (of a `tacit.PrivateFactorization`).
    random_state
        The seed of splits and fits.

    Examples
    --------
    >>> import numpy as np, tacit as tc
    >>> rng = np.random.default_rng(0)
    >>> counts = rng.poisson(rng.gamma(1, 3, (40, 2)) @ rng.gamma(1, 1, (2, 30))).astype(float)
    >>> found = choose_rank(tc.CoupledFactorization("user:k item:k"), [1, 2, 3, 4], counts)
    >>> found.rank
    2
    """
    from tacit.factorization.alone.estimator import CoupledFactorization
    from tacit.factorization.together.estimator import PrivateFactorization

    if not ranks:
        raise ParameterError("ranks must name at least one rank to try")
    for rank in ranks:
        check("ranks", rank, Integer(1))
    check("share", share, Real(0, 1, open_low=True, open_high=True))
    check("repeats", repeats, Integer(1))
    check("restarts", restarts, Integer(1))
    tried = [int(rank) for rank in ranks]
    if isinstance(what, CoupledFactorization):
        return _own(what, tried, data, share, repeats, restarts, random_state)
    if isinstance(what, PrivateFactorization):
        return _public(what, tried, data, sites, share, repeats, random_state)
    check("what", what, OneOf("factorization", "recommender"))
    facts = data or Facts()
    table = [(r, *error_of(what, replace(facts, rank=r), repeats, random_state)) for r in tried]
    rows = tuple((rank, error, spread, math.nan, math.nan) for rank, error, spread in table)
    return RankChoice(min(rows, key=lambda row: row[1])[0], rows, False)


def _public(
    what: Any,
    tried: Sequence[int],
    data: Any,
    sites: int,
    share: float,
    repeats: int,
    seed: int,
) -> RankChoice:
    """Choose by public or simulated data, and say what private ones would cost."""
    if not isinstance(data, Relation):
        raise ParameterError(
            "data must be a public or simulated Relation: a rank that private data choose "
            "is a release for each candidate; tacit.planning.price_of_choosing says what that "
            "costs"
        )
    from tacit.planning.tuning import tune

    found = tune(
        what,
        data,
        {"rank": tried},
        sites=sites,
        share=share,
        repeats=repeats,
        random_state=seed,
    )
    errors = {choice["rank"]: error for choice, error in found.table}
    asked = what.privacy
    price = price_of_choosing(asked, len(tried)) if asked and asked.delta else None
    rows = tuple((rank, errors[rank], math.nan, math.nan, math.nan) for rank in tried)
    return RankChoice(found.best["rank"], rows, False, price)


def _own(
    what: CoupledFactorization,
    ranks: Sequence[int],
    data: Any,
    share: float,
    repeats: int,
    restarts: int,
    seed: int,
) -> RankChoice:
    """Choose by a holder's own data."""
    from tacit.factorization.language.binding import as_relations
    from tacit.factorization.matching import agreement_of_fits

    model = what.coupled_model()
    relations = as_relations(model, data)
    losses = np.empty((len(ranks), repeats))
    for repeat in range(repeats):
        train, apart = _held_out(relations, share, generator(seed, f"ranks {repeat}"))
        for k, rank in enumerate(ranks):
            losses[k, repeat] = -_with(what, rank, seed + repeat).fit(train).score(apart)
    means = losses.mean(axis=1)
    gaps = losses - losses[int(np.argmin(means))]
    errors = gaps.std(axis=1, ddof=1) / math.sqrt(repeats) if repeats > 1 else 0.0 * means
    rows = []
    for k, rank in enumerate(ranks):
        fits = [_with(what, rank, seed + start).fit(relations) for start in range(restarts)]
        evidence = max(fit.history_[-1] for fit in fits) if what.inference == "vb" else math.nan
        pairs = [
            agreement_of_fits(fits[a], fits[b], relations)
            for b in range(restarts)
            for a in range(b)
        ]
        same = float(np.mean(pairs)) if pairs else math.nan
        rows.append((rank, float(means[k]), float(errors[k]), float(evidence), same))
    near = gaps.mean(axis=1) <= errors
    best = min(rank for rank, enough in zip(ranks, near, strict=True) if enough)
    return RankChoice(best, tuple(rows), True)


def _with(what: CoupledFactorization, rank: int, seed: int) -> CoupledFactorization:
    fresh: CoupledFactorization = clone(what)
    return fresh.set_params(rank=rank, random_state=seed, warm_start=False)


def _held_out(
    relations: dict[str, Relation], share: float, rng: np.random.Generator
) -> tuple[dict[str, Relation], dict[str, Relation]]:
    """Return relations without a share of their cells, and those cells."""
    train, apart = {}, {}
    for name, found in relations.items():
        split = hold_out_cells(found, share, rng)
        train[name] = split.train
        nothing = np.empty((0, found.modes), np.int32)
        apart[name] = replace(
            found, indices=split.cells, values=split.values, zeros="missing", held_out=nothing
        )
    return train, apart
