"""A naive dense reference: every cell of every relation by einsum, every mask as an array.

It reads the forms of the model and nothing of the compiled code. Factors are flat, (rows, latent
combinations), as inference keeps them.
"""

from __future__ import annotations

import math

import numpy as np

from tacit import CoupledModel, Relation
from tacit.factorization.alone.numerics.sums import Engine

# (forms, sizes of entities); names that have no size are cores
MODELS = {
    "vector": ({"x": "a:k"}, {"a": 4}),
    "matrix": ({"x": "a:k b:k"}, {"a": 4, "b": 3}),
    "three-way cp": ({"x": "a:k b:k c:k"}, {"a": 3, "b": 4, "c": 2}),
    "tucker": ({"x": "a:k b:l c:m g:klm"}, {"a": 3, "b": 4, "c": 2}),
    "matrix tucker": ({"x": "a:k b:l g:kl"}, {"a": 4, "b": 3}),
    "two cores": ({"x": "g:kl a:k b:l h:l"}, {"a": 4, "b": 3}),
    "tensor train": ({"x": "a:k b:kl c:l"}, {"a": 3, "b": 3, "c": 3}),
    "four-way": ({"x": "a:k b:l c:k d:l g:kl"}, {"a": 2, "b": 3, "c": 2, "d": 3}),
    "five-way cp": (
        {"x": "a:k b:k c:k d:k e:k"},
        dict(zip("abcde", (2, 3, 2, 2, 2), strict=True)),
    ),
    "six-way cp": (
        {"x": "a:k b:k c:k d:k e:k f:k"},
        dict(zip("abcdef", (2, 2, 3, 2, 1, 2), strict=True)),
    ),
    "coupled cp": (
        {"x": "a:k b:k c:k", "y": "a:k d:k", "z": "b:k e:k"},
        {"a": 3, "b": 4, "c": 2, "d": 3, "e": 2},
    ),
    "coupled tucker": (
        {"x": "a:k b:l c:m g:klm", "y": "a:k d:k", "z": "b:l c:m"},
        {"a": 3, "b": 4, "c": 2, "d": 3},
    ),
}
MASKS = ("full", "missing", "zeros", "zeros with held-out cells")
RANKS = {"k": 2, "l": 3, "m": 2}


def make(name, mask="missing", divergence=1.0, dispersion=1.0, seed=0):
    """Return a model of `MODELS` with random data of one kind of mask: (model, data)."""
    rng = np.random.default_rng([seed, *name.encode(), *mask.encode()])
    forms, sizes = MODELS[name]
    model = CoupledModel(forms, RANKS, divergence, dispersion)
    data = {}
    for relation, form in forms.items():
        entities = [e for e in (token.split(":")[0] for token in form.split()) if e in sizes]
        data[relation] = random_relation(rng, entities, [sizes[e] for e in entities], mask)
    return model, data


def random_relation(rng, entities, shape, mask):
    """Return positive values at random cells; rows may be empty."""
    everything = math.prod(shape)
    listed = everything if mask == "full" else max(1, int(0.5 * everything))
    apart = max(1, int(0.2 * everything)) if mask == "zeros with held-out cells" else 0
    codes = rng.permutation(everything)[: listed + apart]
    cells = np.column_stack(np.unravel_index(codes, shape))
    zeros = "observed" if mask.startswith("zeros") else "missing"
    return Relation.from_cells(
        entities, cells[:listed], rng.gamma(2.0, 1.0, listed) + 0.05, shape=shape, zeros=zeros,
        held_out=cells[listed:] if apart else None,
    )  # fmt: skip


def engine_of(model, data):
    return Engine(model.bind(data), data)


def random_factors(engine, seed=0, low=0.2):
    rng = np.random.default_rng(seed)
    return {
        name: rng.gamma(2.0, 0.5, (spec.rows, spec.columns)) + low
        for name, spec in engine.model.factors.items()
    }


def as_dense(relation):
    """Return the same observed cells as a dense array with explicit zeros, NaN where missing."""
    array = np.full(relation.shape, 0.0 if relation.zeros == "observed" else np.nan)
    array[tuple(relation.indices.T)] = relation.values
    if len(relation.held_out):
        array[tuple(relation.held_out.T)] = np.nan
    return array


class Oracle:
    """Estimates, costs, numerators and denominators of a coupled model, densely."""

    def __init__(self, model, data):
        self.model, self.data = model, data
        dense = {name: as_dense(relation) for name, relation in data.items()}
        self.mask = {name: ~np.isnan(array) for name, array in dense.items()}
        self.values = {name: np.nan_to_num(array) for name, array in dense.items()}

    def _terms(self, relation):
        """Return factor → its einsum term: a capital per entity, then its latents."""
        capitals = dict(zip(self.data[relation].entities, "ABCDEF", strict=False))
        return {name: capitals.get(name, "") + ks for name, ks in self.model.forms[relation]}

    def _shaped(self, relation, factors):
        shaped = {}
        for name, latents in self.model.forms[relation]:
            ranks = [self.model.ranks[k] for k in latents]
            rows = factors[name].shape[:1] if name in self.data[relation].entities else ()
            shaped[name] = factors[name].reshape(*rows, *ranks)
        return shaped

    def using(self, factor):
        return [name for name in self.model.forms if factor in self.model.names(name)]

    def estimate(self, relation, factors):
        """Return x̂ for every cell."""
        terms, shaped = self._terms(relation), self._shaped(relation, factors)
        cells = "ABCDEF"[: self.data[relation].modes]
        return np.einsum(",".join(terms.values()) + "->" + cells, *(shaped[n] for n in terms))

    def delta(self, relation, factor, coefficients, factors):
        """Return Σ over the other indices of coefficients × the other factors (PRIVACY B1)."""
        terms, shaped = self._terms(relation), self._shaped(relation, factors)
        others = [n for n in terms if n != factor]
        cells = "ABCDEF"[: self.data[relation].modes]
        # ones over the factor's own latents: an index that no other factor has is kept, too
        latents = dict(self.model.forms[relation])[factor]
        ones = np.ones([self.model.ranks[k] for k in latents])
        out = np.einsum(
            ",".join([cells, latents, *(terms[n] for n in others)]) + "->" + terms[factor],
            coefficients, ones, *(shaped[n] for n in others),
        )  # fmt: skip
        return out.reshape(factors[factor].shape)

    def numerator(self, relation, factor, factors, power):
        estimate = self.estimate(relation, factors)
        ratio = self.mask[relation] * self.values[relation] * estimate**-power
        return self.delta(relation, factor, ratio, factors)

    def denominator(self, relation, factor, factors, power):
        estimate = self.estimate(relation, factors)
        return self.delta(
            relation, factor, self.mask[relation] * estimate ** (1.0 - power), factors
        )

    def cost(self, relation, factors):
        """Return Σ d_p over observed cells, straight from the definition."""
        power, mask = self.model.powers[relation], self.mask[relation]
        x, y = self.values[relation][mask], self.estimate(relation, factors)[mask]
        if power == 0.0:
            return float(((x - y) ** 2).sum() / 2)
        if power == 1.0:
            safe = np.where(x > 0, x, 1.0)
            return float((x * np.log(safe / y) - x + y).sum())
        if power == 2.0:
            return float((x / y - np.log(x / y) - 1).sum())
        beta = 2 - power
        cost = x**beta / (beta - 1) + y**beta - beta * x * y ** (beta - 1) / (beta - 1)
        return float(cost.sum() / beta)

    def objective(self, factors, shape=1.0, rate=0.0):
        """Return Σ cost/φ minus the log of a gamma prior."""
        total = sum(self.cost(v, factors) / self.model.dispersions[v] for v in self.model.forms)
        for theta in factors.values():
            total += float((rate * theta - (shape - 1.0) * np.log(theta)).sum())
        return total
