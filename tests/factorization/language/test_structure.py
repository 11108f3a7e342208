"""The model language: what a form means, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit import CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.cells import estimate_cells
from tacit.factorization.alone.numerics.sums import Expanded


def empty(entities, shape, **options):
    return Relation.from_cells(
        entities, np.empty((0, len(shape)), int), np.empty(0), shape=shape, **options
    )


def bind(forms, data, **options):
    return CoupledModel(forms, **options).bind(data)


# --- what a form means ----------------------------------------------------------------------


def test_a_cp_form_gives_one_matrix_per_entity():
    bound = bind("user:k item:k", {"data": empty(("user", "item"), (3, 4))}, rank=2)
    assert {n: f.shape for n, f in bound.factors.items()} == {"user": (3, 2), "item": (4, 2)}
    (relation,) = bound.relations
    assert (relation.name, relation.modes, relation.combinations) == ("data", 2, 2)
    assert not any(f.core for f in bound.factors.values())


def test_a_tucker_form_has_a_core_and_ranks_per_latent():
    bound = bind(
        {"x": "a:k b:l c:m g:klm"},
        {"x": empty(("a", "b", "c"), (5, 6, 7))},
        rank={"k": 2, "l": 3, "m": 4},
    )
    shapes = {n: f.shape for n, f in bound.factors.items()}
    assert shapes == {"a": (5, 2), "b": (6, 3), "c": (7, 4), "g": (2, 3, 4)}
    assert bound.factors["g"].core and bound.factors["g"].rows == 1
    assert bound.relations[0].combinations == 24


def test_relations_that_name_the_same_entity_share_its_factor():
    bound = bind(
        {"visits": "user:k place:k", "poi": "place:k feature:k"},
        {"visits": empty(("user", "place"), (3, 4)), "poi": empty(("place", "feature"), (4, 5))},
    )
    assert [(r.name, position) for r, position in bound.using("place")] == [
        ("visits", 1),
        ("poi", 0),
    ]
    assert [r.name for r, _ in bound.using("user")] == ["visits"]


def test_a_core_may_be_shared():
    data = {"x": empty(("a", "b"), (2, 3)), "y": empty(("c", "d"), (4, 5))}
    bound = bind({"x": "a:k b:l g:kl", "y": "c:k d:l g:kl"}, data, rank=2)
    assert [r.name for r, _ in bound.using("g")] == ["x", "y"]


def test_the_order_of_the_data_decides_the_order_of_the_modes():
    bound = bind("g:kl a:k b:l", {"data": empty(("b", "a"), (3, 4))}, rank={"k": 2, "l": 3})
    assert bound.relations[0].factors == ("b", "a", "g")


def test_divergence_and_dispersion_go_to_their_relations():
    data = {"x": empty(("a", "b"), (2, 3)), "y": empty(("a", "c"), (2, 4))}
    bound = bind(
        {"x": "a:k b:k", "y": "a:k c:k"}, data, divergence={"y": "is"}, dispersion={"x": 10}
    )
    assert [(r.power, r.dispersion) for r in bound.relations] == [(1.0, 10.0), (2.0, 1.0)]
    everywhere = bind({"x": "a:k b:k", "y": "a:k c:k"}, data, divergence=0.5, dispersion=3)
    assert [(r.power, r.dispersion) for r in everywhere.relations] == [(0.5, 3.0), (0.5, 3.0)]


FORMS = [
    "a:k",
    "a:kl",
    "a:k g:k",
    "a:k b:k",
    "a:k b:l g:kl",
    "a:kl b:l",
    "a:k b:k c:k",
    "a:k b:l c:m g:klm",
    "a:km b:kl c:lm",  # a triangle
    "a:k b:kl c:lm d:m",  # a tensor train
    "a:k b:l c:k d:l g:kl h:lk",
    "a:k b:k c:k d:k e:k",
    "a:k b:l c:k d:l e:k f:l g:kl",
    "a:k b:k c:k d:k e:k f:k",
]


def einsum_of(form, factors, ranks):
    """Every cell of a form, by einsum; entities are capitals."""
    tokens = [token.split(":") for token in form.split()]
    entities = "".join(n for n, _ in tokens if n in "abcdef")
    terms, arrays = [], []
    for name, latents in tokens:
        terms.append(("" if name in "gh" else name.upper()) + latents)
        rows = () if name in "gh" else (len(factors[name]),)
        arrays.append(factors[name].reshape(*rows, *(ranks[k] for k in latents)))
    return np.einsum(",".join(terms) + "->" + entities.upper(), *arrays)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.sampled_from(FORMS), st.integers(0, 2**32), st.data())
def test_estimates_are_the_einsum_of_the_form(form, seed, data):
    rng = np.random.default_rng(seed)
    ranks = {k: data.draw(st.integers(1, 3)) for k in "klm"}
    entities = [t[0] for t in form.split() if t[0] in "abcdef"]
    shape = tuple(rng.integers(1, 4, len(entities)))
    bound = bind(form, {"data": empty(entities, shape)}, rank=ranks)
    factors = {n: rng.normal(size=(f.rows, f.columns)) for n, f in bound.factors.items()}
    cells = np.argwhere(np.ones(shape)).astype(np.int32)
    bank = Expanded(bound, factors).banks["data"]
    expected = einsum_of(form, factors, ranks)
    np.testing.assert_allclose(estimate_cells(cells, bank), expected.ravel(), atol=1e-12)


def test_a_factor_that_is_put_again_replaces_the_old_one():
    bound = bind("a:k b:l g:kl", {"data": empty(("a", "b"), (2, 3))}, rank=2)
    rng = np.random.default_rng(0)
    factors = {n: rng.normal(size=(f.rows, f.columns)) for n, f in bound.factors.items()}
    expanded = Expanded(bound, factors)
    for name in factors:
        factors[name] = rng.normal(size=factors[name].shape)
        expanded.put(name, factors[name])
    fresh = Expanded(bound, factors).banks["data"]
    np.testing.assert_array_equal(expanded.banks["data"].rows, fresh.rows)
    np.testing.assert_array_equal(expanded.banks["data"].weights, fresh.weights)


# --- what is refused ------------------------------------------------------------------------

BAD_MODELS = {
    "no relations": ({"relations": {}}, "at least one relation"),
    "no latents": ({"relations": {"x": "a:k b"}}, "'b' in the form of 'x' must read name:latents"),
    "empty latents": ({"relations": "a:k b:"}, "'b:' in the form of 'data' must read"),
    "no name": ({"relations": "a:k :k"}, "':k' in the form of 'data' must read"),
    "a number as latent": ({"relations": "a:1"}, "'a:1' in the form of 'data' must read"),
    "a latent twice": ({"relations": "a:kk"}, "'a:kk' repeats a latent index"),
    "a mode's name": ({"relations": "a:k a:l a_2:k"}, "'a_2' is what another mode of 'a' is"),
    "an empty form": ({"relations": {"x": " "}}, "the form of 'x' must name at least one factor"),
    "a rank is missing": (
        {"relations": "a:k b:l", "rank": {"k": 2}},
        "rank of 'l' is missing: pass rank={'l': …}",
    ),
    "rank zero": ({"relations": "a:k", "rank": 0}, "rank of 'k' must be a whole number"),
    "half a rank": ({"relations": "a:k", "rank": {"k": 1.5}}, "rank of 'k' must be a whole"),
    "divergence of another relation": (
        {"relations": {"x": "a:k"}, "divergence": {"y": "kl"}},
        "divergence names 'y', which is no relation of the model",
    ),
    "dispersion of another relation": (
        {"relations": {"x": "a:k"}, "dispersion": {"y": 2.0}},
        "dispersion names 'y'",
    ),
    "no dispersion": (
        {"relations": {"x": "a:k"}, "dispersion": 0.0},
        r"dispersion of 'x' must be a number in \(0",
    ),
    "unknown divergence": ({"relations": "a:k", "divergence": "hellinger"}, "divergence must be"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_model_that_makes_no_sense_is_refused(case):
    options, message = BAD_MODELS[case]
    with pytest.raises(ParameterError, match=message):
        CoupledModel(**options)


def contradiction(forms, message, **data):
    return forms, {name: empty(*value) for name, value in data.items()}, message


BAD_DATA = {
    "a relation is missing": contradiction(
        {"x": "a:k b:k", "y": "a:k c:k"},
        r"the model has the relations \['x', 'y'\], the data \['x'\]",
        x=(("a", "b"), (2, 3)),
    ),
    "a relation too many": contradiction(
        {"x": "a:k b:k"},
        r"the model has the relations \['x'\], the data \['x', 'y'\]",
        x=(("a", "b"), (2, 3)),
        y=(("a", "b"), (2, 3)),
    ),
    "an entity the form lacks": contradiction(
        {"x": "a:k b:k"},
        "relation 'x' has the entity 'item', which its form lacks",
        x=(("a", "item"), (2, 3)),
    ),
    "two sizes of one entity": contradiction(
        {"x": "a:k b:k", "y": "a:k c:k"},
        r"'a' means different things: \(2, 5\) over 'k' and \(3, 5\) over 'k' in 'y'",
        x=(("a", "b"), (2, 3)),
        y=(("a", "c"), (3, 4)),
    ),
    "two latents of one entity": contradiction(
        {"x": "a:k b:k", "y": "a:l c:l"},
        "'a' means different things: .* over 'k' and .* over 'l' in 'y'",
        x=(("a", "b"), (2, 3)),
        y=(("a", "c"), (2, 4)),
    ),
    "core here, entity there": contradiction(
        {"x": "a:k b:k", "y": "c:k b:k"},
        "'b' means different things",
        x=(("a", "b"), (2, 3)),
        y=(("c",), (4,)),
    ),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_data_that_contradict_the_model_are_refused(case):
    forms, data, message = BAD_DATA[case]
    with pytest.raises(ParameterError, match=message):
        bind(forms, data)


def test_relations_whose_labels_of_an_entity_disagree_are_refused():
    visits = Relation.from_frame({"user": ["ann", "bob"], "place": [1, 2]}, ("user", "place"))
    gps = Relation.from_frame({"user": ["bob", "cyd"], "road": [1, 2]}, ("user", "road"))
    with pytest.raises(ParameterError, match="user"):
        bind({"v": "user:k place:k", "g": "user:k road:k"}, {"v": visits, "g": gps})
