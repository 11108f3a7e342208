"""Gibbs sampling from counts that were perturbed locally with two-sided geometric noise.

A relation is seen only through z = x + τ with P(τ) = (1−α)/(1+α)·α^|τ|, α = exp(−ε/Δ), while its
counts x follow the Poisson–gamma model. Given the rate λ = x̂ of a cell, its count has

    P(x | z, λ) ∝ λ^x/x!·α^|z−x|,

which `tacit.factorization.counts.numerics.latent` draws from exactly; given x, the factors are
drawn as in `tacit.factorization.alone.numerics.gibbs`. Schein et al. (2019) reach the same law in
three steps, with the rates of the noise as variables of their own (PRIVACY B1); here they are
summed out: the sampler has nothing to remember but the factors, and forgets its start sooner.

Relations with raw counts may stand beside perturbed ones and share factors with them: with all
relations perturbed this is the model LDP1 of Ermiş (2020), with a site's own counts raw LDP2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit._core.check import OneOf, check
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import FLOOR, estimate_cells
from tacit.factorization.alone.numerics.gibbs import GibbsSampler, GibbsState
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.counts.numerics.latent import latent_counts
from tacit.factorization.language.structure import BoundModel

__all__ = ["LocalGibbsSampler", "LocalInfo"]

_LARGEST = 1e9  # of a perturbed count: rates and Bessel arguments stay far from overflow


class LocalInfo(NamedTuple):
    """The expected count over all observed cells, and the counts x that the factors were given.

    Counts are those of perturbed relations, in the order of the data's cells.
    """

    total: float
    counts: Factors


class LocalGibbsSampler:
    """A kernel for Poisson–gamma models, some relations of which are perturbed.

    Parameters
    ----------
    model
        The model, bound to the data's sizes: KL divergence, dispersion 1.
    data
        Relation → `Relation` with whole counts; a perturbed one lists every cell that was
        released, zeros and negative values included.
    alpha
        Perturbed relation → α = exp(−ε/Δ) ∈ [0, 1) of its noise, one number or one per listed
        cell; relations that are not named hold raw counts, as those with α = 0 do.
    shape, mean
        The prior's shape A and mean B.
    mode
        ``"exact"``, or ``"naive"``: negative values become zero and all count as raw.

    Examples
    --------
    >>> from tacit import CoupledModel, Relation
    >>> from tacit._core.rng import generator
    >>> seen = {"visits": Relation.from_dense(("user", "place"), [[3.0, -1.0], [0.0, 2.0]])}
    >>> bound = CoupledModel({"visits": "user:k place:k"}, rank=1).bind(seen)
    >>> sampler = LocalGibbsSampler(bound, seen, {"visits": math.exp(-1.0)}, 1.0, 1.0)
    >>> rng = generator(0)
    >>> state, info = sampler.step(rng, sampler.init(rng))
    >>> state.factors["user"].shape, bool((info.counts["visits"] >= 0).all())
    ((2, 1), True)
    """

    def __init__(
        self,
        model: BoundModel,
        data: Mapping[str, Relation],
        alpha: Mapping[str, ArrayLike],
        shape: float = 0.5,
        mean: float = 10.0,
        *,
        mode: str = "exact",
    ) -> None:
        check("mode", mode, OneOf("exact", "naive"))
        names = [relation.name for relation in model.relations]
        unknown = [name for name in alpha if name not in names]
        if unknown:
            raise ParameterError(
                f"alpha names {unknown[0]!r}, which is no relation of the model: it has {names}"
            )
        self._order: dict[str, NDArray[np.intp]] = {}
        self._alpha: Arrays = {}
        self._perturbed: Arrays = {}
        start = {}
        for name in names:
            # draws follow the cells' own order: how they are listed makes no difference
            order = np.lexsort(data[name].indices.T[::-1])
            start[name] = found = data[name].subset(order)
            if name not in alpha:
                continue
            ratio = _ratios(name, alpha[name], found.cells)[order]
            _check_perturbed(name, found, ratio)
            self._order[name] = order
            if mode == "naive" or not ratio.any():
                counts = np.maximum(found.values, 0.0)
            else:
                self._alpha[name], self._perturbed[name] = ratio, found.values
                counts = _same_total(found.values)
            # where no cell is missing, sums over all cells need no visit to each
            whole = found.cells == math.prod(found.shape)
            zeros = "observed" if whole else found.zeros
            start[name] = replace(found, values=counts, zeros=zeros)
        self.mode = mode
        self._gibbs = GibbsSampler(Engine(model, start), shape, mean)

    def init(self, rng: np.random.Generator) -> GibbsState:
        """Draw random factors of the data's size."""
        return self._gibbs.init(rng)

    def prior(self, rng: np.random.Generator) -> GibbsState:
        """Draw the factors from their prior."""
        return self._gibbs.prior(rng)

    def step(self, rng: np.random.Generator, state: GibbsState) -> tuple[GibbsState, LocalInfo]:
        """Draw the counts behind perturbed ones, then every factor."""
        engine = self._gibbs.engine
        expanded = Expanded(engine.model, state.factors)
        values = {name: found.values for name, found in engine.data.items()}
        for name, perturbed in self._perturbed.items():
            rates = estimate_cells(engine.data[name].indices, expanded.banks[name])
            rates = np.clip(rates, FLOOR, _LARGEST)
            values[name] = latent_counts(rng, perturbed, rates, self._alpha[name])
        factors = self._gibbs.draw_factors(rng, expanded, values)
        total = sum(engine.total_estimate(expanded, r) for r in engine.model.relations)
        counts = {}
        for name, order in self._order.items():
            counts[name] = np.empty_like(values[name])
            counts[name][order] = values[name]
        return GibbsState(factors), LocalInfo(float(total), counts)


def _ratios(name: str, alpha: ArrayLike, cells: int) -> Floats:
    """Return α for every listed cell."""
    try:
        ratio = np.asarray(alpha, np.float64)
    except (ValueError, TypeError):
        ratio = np.asarray(np.nan)
    if ratio.shape not in ((), (cells,)) or not ((ratio >= 0.0) & (ratio < 1.0)).all():
        raise ParameterError(
            f"alpha of {name!r} must be a number in [0, 1), exp(−ε/Δ) of the noise, or one for "
            f"each of the {cells} listed cells"
        )
    return np.broadcast_to(ratio, (cells,))


def _check_perturbed(name: str, found: Relation, ratio: Floats) -> None:
    """Refuse what two-sided geometric noise on counts cannot have given."""
    values = found.values
    if (values != np.floor(values)).any() or (np.abs(values) > _LARGEST).any():
        raise ParameterError(
            f"perturbed relation {name!r} must hold whole numbers of at most {_LARGEST:g}"
        )
    if ((values < 0.0) & (ratio == 0.0)).any():
        raise ParameterError(
            f"relation {name!r} has negative values where alpha is 0, which means no noise"
        )
    if found.zeros == "observed" and found.observed != found.cells:
        raise ParameterError(
            f"perturbed relation {name!r} has {found.observed - found.cells} observed cells that "
            "are not listed. Noise was added to zeros, too: list every released cell with its "
            "perturbed value (Relation.from_dense, or zeros='missing' if only listed ones were "
            "released)"
        )


def _same_total(perturbed: Floats) -> Floats:
    """Return whole counts with the sum of the perturbed ones, spread evenly.

    They stand in for the unknown counts where random factors of the data's size are drawn; the
    noise has mean zero, and clipping would give it another one.
    """
    total = max(float(perturbed.sum()), 1.0)
    return np.diff(np.floor(np.linspace(0.0, total, len(perturbed) + 1)))
