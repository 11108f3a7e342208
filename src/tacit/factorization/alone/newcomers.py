"""Factor rows for new members of an entity of a fitted `CoupledFactorization`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.data.indices import numbered
from tacit.errors import ParameterError
from tacit.factorization.alone.inference import row_prior
from tacit.factorization.alone.numerics.fold_in import fold_in_positive, fold_in_real
from tacit.factorization.alone.numerics.sums import Engine
from tacit.factorization.alone.stated import has_real_factors, real_names
from tacit.factorization.arrays import Floats
from tacit.factorization.language.binding import as_relations, restricted
from tacit.factorization.language.structure import CoupledModel

__all__ = ["folded_in"]


def folded_in(model: Any, mode: str, data: Any) -> tuple[tuple[Any, ...], Floats]:
    """Return the names of new members and their rows, all other factors fixed.

    In a relation of an entity with itself new members stand in one mode, and known ones in all
    others: there the modes are factors of their own, all but one of them known.
    """
    whole = model.coupled_model()
    entity = whole.entity(mode)
    named = set(data) & set(whole.forms) if isinstance(data, Mapping) else set(whole.forms)
    for name in named:
        if mode not in numbered([factor for factor, _ in whole.forms[name]]):
            raise ParameterError(f"relation {name!r} does not name the entity {mode!r}")
    apart = _modes_apart(whole)
    known = whole.of_modes(model._stated_members())
    others = {e: names for e, names in known.items() if e != mode}
    data = as_relations(apart, data, others)
    bound = restricted(apart, data).bind(data)
    given = model.get_params(deep=False)
    engine = Engine(bound, data, bounded=given["inference"] == "vb")
    means = whole.of_modes(model._flat_means())
    if has_real_factors(given, whole):
        rows = fold_in_real(mode, engine, means, *model._state.components[entity])
    else:
        real = real_names(given, whole)
        real |= {place for place, of in whole.modes.items() if of in real}
        rows = fold_in_positive(mode, engine, means, *row_prior(model, entity), real)
    labels = [found.labels[mode] for found in data.values() if mode in found.labels]
    return (tuple(labels[0]) if labels else tuple(range(len(rows)))), rows


def _modes_apart(model: CoupledModel) -> CoupledModel:
    """Return the model in which every mode has a factor of its own."""
    if not model.repeated:
        return model
    forms = {
        name: " ".join(
            f"{place}:{latents}"
            for place, (_, latents) in zip(numbered([f for f, _ in tokens]), tokens, strict=True)
        )
        for name, tokens in model.forms.items()
    }
    return CoupledModel(forms, model.ranks, model.powers, model.dispersions)
