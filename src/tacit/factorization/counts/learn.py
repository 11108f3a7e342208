"""Inference of `tacit.factorization.counts.agreement`: the sites' views as one coupled model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from tacit.data.relations import Relation
from tacit.factorization.alone.numerics.gibbs import GibbsSampler
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.counts.method import LocalCounts
from tacit.factorization.counts.numerics.gibbs import LocalGibbsSampler
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.together.problem import Problem, members_in
from tacit.mechanisms.geometric import TwoSidedGeometric

__all__ = ["Learned", "SiteLayout", "learn", "learn_rows", "levels_of", "members_of_sites"]

_FIRST, _EACH = 30, 6  # steps of new rows: until the first draw, and from one to the next
_SPREAD = (0.1, 3.0)  # of the prior's rate, relative to its mean


class Learned(NamedTuple):
    """Draws of every factor, (draws, rows, columns), and the shapes of factors for people.

    ``prior`` is the shape and the mean of the gamma prior that they have.
    """

    draws: Arrays
    shapes: dict[str, tuple[int, ...]]
    prior: tuple[float, float]


class SiteLayout:
    """How the sites' relations become one coupled model.

    Where sites share all factors but that of the protected entity, their relations are stacked:
    one relation, in which each site has its own rows of the protected entity. Otherwise every
    site's relations stand side by side, with names of their own for what is not shared.
    """

    def __init__(self, problem: Problem, members: Sequence[int]) -> None:
        self.problem = problem
        self.starts = np.concatenate([[0], np.cumsum(members)]).astype(np.int64)
        self.stacked = {*problem.used} - {problem.protected} <= {*problem.shared}

    def factor(self, name: str, site: int) -> str:
        """Return the name of a site's factor in the joint model."""
        common = name in self.problem.shared or (self.stacked and name == self.problem.protected)
        return name if common else f"{name}@{site}"

    def rows(self, name: str, site: int) -> slice:
        """Return which rows of a factor of the joint model are a site's."""
        if not self.stacked or name != self.problem.protected:
            return slice(None)
        return slice(int(self.starts[site]), int(self.starts[site + 1]))

    def parts(
        self, sites: Sequence[Mapping[str, Relation]]
    ) -> list[tuple[str, list[tuple[int, Relation]]]]:
        """Return the relations of the joint model, each with the sites' parts that it holds."""
        found: list[tuple[str, list[tuple[int, Relation]]]] = []
        for name in self.problem.bounds:
            held = [(k, part[name]) for k, part in enumerate(sites) if name in part]
            if self.stacked and self.problem.protected in self.problem.modes(name):
                found += [(name, held)] if held else []
            else:
                found += [(name, [entry]) for entry in held]
        # the first relation fixes the size of the factors that a chain starts from
        return sorted(found, key=lambda entry: -sum(part.cells for _, part in entry[1]))

    def joined(self, held: Sequence[tuple[int, Relation]]) -> Relation:
        """Return the sites' parts as one relation of the joint model."""
        first, part = held[0]
        entities = tuple(self.factor(entity, first) for entity in part.entities)
        values = np.concatenate([part.values for _, part in held])
        cells = np.concatenate([part.indices for _, part in held])
        shape = list(part.shape)
        if self.stacked and self.problem.protected in part.entities:
            at = part.entities.index(self.problem.protected)
            cells[:, at] += np.repeat(
                [self.starts[k] for k, _ in held], [part.cells for _, part in held]
            ).astype(np.int32)
            shape[at] = int(self.starts[-1])
        return Relation(entities, tuple(shape), cells, values)


def members_of_sites(problem: Problem, sites: Sequence[Mapping[str, Relation]]) -> list[int]:
    """Return how many members of the protected entity each site has, at least one."""
    return [max(1, members_in(held, problem.protected)) for held in sites]


def learn(
    method: LocalCounts,
    problem: Problem,
    noises: Sequence[TwoSidedGeometric],
    sites: Sequence[Mapping[str, Relation]],
    raw: int | None,
    level: Mapping[str, tuple[float, int]],
    rng: np.random.Generator,
) -> Learned:
    """Sample the factors of all sites together, public relations included.

    ``sites`` are each site's relations: perturbed views, and raw counts for the site number
    ``raw``, of which alone the rows of the protected entity are kept then. ``level`` is what
    `levels_of` says, for the prior; ``noises`` are those of the sites.
    """
    layout = SiteLayout(problem, members_of_sites(problem, sites))
    forms: dict[str, str] = {}
    data: dict[str, Relation] = {}
    alpha: Arrays = {}
    for name, held in layout.parts(sites):
        k, joint = held[0][0], f"{name}@{held[0][0]}"
        forms[joint] = " ".join(
            f"{layout.factor(f, k)}:{ks}" for f, ks in problem.model.forms[name]
        )
        data[joint] = layout.joined(held)
        alpha[joint] = np.concatenate(
            [np.full(part.cells, 0.0 if k == raw else noises[k].alpha) for k, part in held]
        )
    for name, found in problem.public.items():
        forms[name], data[name] = problem.model.form(name), found
    bound = CoupledModel(forms, problem.model.ranks).bind(data)
    shape, mean = _prior(
        method, problem, [noise.variance() for noise in noises], level, sites, raw
    )
    sampler = LocalGibbsSampler(bound, data, alpha, shape, mean, mode=method.inference)
    kept = {name: slice(None) if raw is None else layout.rows(name, raw) for name in bound.factors}
    draws: Arrays = {
        name: np.empty((method.draws, len(range(spec.rows)[kept[name]]), spec.columns))
        for name, spec in bound.factors.items()
    }
    state = sampler.init(rng)
    for _ in range(method.burn_in):
        state, _info = sampler.step(rng, state)
    for number in range(method.draws):
        for _ in range(method.thin):
            state, _info = sampler.step(rng, state)
        for name, values in state.factors.items():
            draws[name][number] = values[kept[name]]
    shapes = {name: spec.shape for name, spec in bound.factors.items()}
    return Learned(draws, shapes, (shape, mean))


def learn_rows(
    problem: Problem,
    counts: Mapping[str, Relation],
    draws: Factors,
    prior: tuple[float, float],
    rng: np.random.Generator,
) -> Floats:
    """Sample the rows of the protected entity, one for each draw of all other factors.

    They are drawn from their own raw counts, at the site, with the other factors as they are; the
    chain of rows goes on from one draw of these to the next.

    Parameters
    ----------
    problem
        What is public.
    counts
        The site's own counts; relations that do not name the protected entity say nothing here.
    draws
        Every other factor, (draws, rows, columns).
    prior
        Shape and mean of the rows' gamma prior.
    rng
        Of inference.
    """
    owner = problem.protected
    used = {n: found for n, found in counts.items() if owner in found.entities}
    bound = problem.bound(used)
    sampler = GibbsSampler(Engine(bound, used), *prior)
    values = {name: found.values for name, found in used.items()}
    rows = sampler.prior(rng).factors[owner]
    number = min(len(draws[name]) for name in bound.factors if name != owner)
    found = np.empty((number, *rows.shape))
    for k in range(number):
        fixed = {name: draws[name][k] for name in bound.factors if name != owner}
        expanded = Expanded(bound, {**fixed, owner: rows})
        for _ in range(_EACH if k else _FIRST):
            rows = sampler.draw_factors(rng, expanded, values, only=[owner])[owner]
        found[k] = rows
    return found


def levels_of(
    problem: Problem,
    noises: Sequence[TwoSidedGeometric],
    sites: Sequence[Mapping[str, Relation]],
) -> dict[str, tuple[float, int]]:
    """Return the mean of the perturbed counts of every relation, and their number.

    A mean within its own standard error of zero says no more than that.
    """
    found = {}
    for name, (low, high) in problem.bounds.items():
        parts = [
            (k, relations[name].values) for k, relations in enumerate(sites) if name in relations
        ]
        count = sum(len(values) for _, values in parts)
        # sites count by their noise, and by how far counts differ anyway
        shares = [1.0 / (noises[k].variance() + (0.25 * (high - low)) ** 2) for k, _ in parts]
        cells = sum(share * len(part) for share, (_, part) in zip(shares, parts, strict=True))
        total = sum(
            share * float(part.sum()) for share, (_, part) in zip(shares, parts, strict=True)
        )
        spread = sum(
            share**2 * len(part) * noises[k].variance()
            for share, (k, part) in zip(shares, parts, strict=True)
        )
        mean = total / max(cells, 1e-300)
        least = max(math.sqrt(spread) / max(cells, 1e-300), 1e-6 * (high - low))
        found[name] = (min(max(mean, least), high - low), count)
    return found


def _prior(
    method: LocalCounts,
    problem: Problem,
    noise: Sequence[float],
    level: Mapping[str, tuple[float, int]],
    sites: Sequence[Mapping[str, Relation]],
    raw: int | None,
) -> tuple[float, float]:
    """Return shape and mean of the prior; several relations are averaged on a log scale."""
    weights, shapes, means = [], [], []
    for name, (mean, count) in level.items():
        tokens, combinations = problem.model.forms[name], problem.model.combinations(name)
        low, high = problem.bounds[name]
        spread = min(max(0.5 * ((high - low) / mean - 1.0), _SPREAD[0]), _SPREAD[1])
        members, precision = 0, 0.0
        for k, relations in enumerate(sites):
            if name in relations:
                found = relations[name]
                precision += found.cells / (mean + (0.0 if k == raw else noise[k]))
                members += sum(
                    n
                    for e, n in zip(found.entities, found.shape, strict=True)
                    if not (members and e in problem.shared)  # counted once
                )
        each = precision * len(tokens) / max(members, 1)
        information = each * (spread * mean) ** 2
        variance = spread**2 * max(information / (1.0 + information), 1e-6)
        weights.append(count + 1.0)
        means.append(math.log(mean / combinations) / len(tokens))
        shapes.append(-math.log((1.0 + combinations * variance) ** (1.0 / len(tokens)) - 1.0))
    shape = math.exp(float(np.average(shapes, weights=weights)))
    mean = math.exp(float(np.average(means, weights=weights)))
    return method.shape or shape, method.mean or mean
