"""Names in, names out: every family that learns about named members, every kind of id.

Each family is fitted twice: on cells by position, and on the same cells by name, with names whose
order is that of the positions. Whatever is asked by name must then be what the first fit says of
the positions, whichever way it is asked. What a private fit may not read, and what may not leave
in a pickle, is held here too.
"""

from __future__ import annotations

import copy
import datetime as dt
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

import tacit as tc
from tacit.data.problems import BadTable
from tacit.errors import HoldsData, ParameterError, UnboundedData
from tacit.factorization.counts.method import LocalCounts
from tacit.published.hua2015_hu2023 import GradientRecommender

USERS, ITEMS = 14, 6
CELLS = np.array([[u, (u * k + k) % ITEMS] for u in range(USERS) for k in (1, 2, 3)])
CELLS = np.unique(CELLS, axis=0)
VALUES = 1.0 + (CELLS[:, 0] * 7 + CELLS[:, 1] * 3) % 5
ASKED = np.array([[u, i] for u in range(0, USERS, 3) for i in range(ITEMS)])
SHUFFLED = np.random.default_rng(0).permutation(len(CELLS))

# kinds of ids, each in an order of its own that is the order of positions
KINDS: dict[str, tuple[list[Any], list[Any]]] = {
    "text": ([f"u{k:02}" for k in range(USERS)], list("abcdef")),
    "leading zeros": (
        sorted([f"{k:04}" for k in range(7)] + [str(k) for k in range(7)]),
        ["0012", "012", "12", "120", "13", "2"],
    ),
    "numbers": ([100 + 3 * k for k in range(USERS)], [7, 9, 1000, 2**40, 2**40 + 1, 2**53 + 1]),
    "numbers that are positions of others": (
        [k + 1 for k in range(USERS)],
        [k + 2 for k in range(ITEMS)],
    ),
    "days": (
        [dt.date(2026, 1, 1 + k) for k in range(USERS)],
        [dt.date(2025, 12, 1 + k) for k in range(ITEMS)],
    ),
    "moments": (
        [dt.datetime(2026, 1, 1 + k, 12, 30) for k in range(USERS)],
        [dt.datetime(2025, 1, 1 + k) for k in range(ITEMS)],
    ),
}


def user_privacy(trust: str = "central") -> tc.Privacy:
    return tc.Privacy(2.0, 1e-5, unit="user", trust=trust)


class Recommender:
    entities = ("user", "item")
    private = True

    def fit(self, data: Any, items: Any = None, **more: Any) -> Any:
        asked = tc.Privacy(2.0, 1e-5, unit="entry", trust="aggregator")
        given = {"rank": 2, "random_state": 0, "privacy": asked, "items": items, **more}
        return self.make(**given).fit(data)

    def make(self, **given: Any) -> Any:
        return tc.PrivateRecommender((1, 5), **given)

    def predict(self, model: Any, cells: Any, **more: Any) -> Any:
        return model.predict(cells, **more)


class Published(Recommender):
    def make(self, **given: Any) -> Any:
        return GradientRecommender((1, 5), method="hdpmf", **given)


class Together:
    entities = ("user", "item")
    private = True

    def __init__(self, **settings: Any) -> None:
        self.settings = {
            "rank": 2, "bounds": (1, 5), "random_state": 0, "privacy": user_privacy(), **settings,
        }  # fmt: skip

    def fit(self, data: Any, items: Any = None, **more: Any) -> Any:
        entities = None if items is None else {"item": items}
        given = {**self.settings, **more, "entities": entities}
        return tc.PrivateFactorization("user:k item:k", **given).fit(data)

    def predict(self, model: Any, cells: Any, **more: Any) -> Any:
        return model.predict("the data", cells, **more)


class Alone:
    entities = ("user", "item")
    private = False

    def fit(self, data: Any, items: Any = None, **more: Any) -> Any:
        model = tc.CoupledFactorization("user:k item:k", rank=2, iterations=20, random_state=0)
        return model.fit(data)

    def predict(self, model: Any, cells: Any, **more: Any) -> Any:
        return model.predict("data", cells, **more)


COUNTS = {
    "divergence": "kl",
    "privacy": tc.Privacy(5.0, unit="entry", trust="local"),
    "method": LocalCounts(burn_in=2, draws=2, thin=1, own_effects=False),
}
FAMILIES: dict[str, Any] = {
    "recommender": Recommender(),
    "published recommender": Published(),
    "least squares": Together(method="als"),
    "langevin": Together(method="sgld"),
    "counts": Together(**COUNTS),
    "alone": Alone(),
}
PRIVATE = [name for name, family in FAMILIES.items() if family.private]


def long(users: Any, items: Any, order: Any = slice(None)) -> dict[str, list[Any]]:
    """Return a table with one row per cell."""
    cells, values = CELLS[order], VALUES[order]
    return {
        "user": [users[u] for u in cells[:, 0]],
        "item": [items[i] for i in cells[:, 1]],
        "rating": values.tolist(),
    }


def asked(users: Any, items: Any) -> dict[str, list[Any]]:
    return {"user": [users[u] for u, _ in ASKED], "item": [items[i] for _, i in ASKED]}


@pytest.fixture(scope="module")
def reference() -> Callable[[str], Any]:
    """Return a family's answers about positions, computed once."""
    known: dict[str, Any] = {}

    def of(name: str) -> Any:
        if name not in known:
            family = FAMILIES[name]
            cells = tc.Relation.from_cells(("user", "item"), CELLS, VALUES, shape=(USERS, ITEMS))
            known[name] = family.predict(family.fit(cells), ASKED)
        return known[name]

    return of


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FAMILIES)
def test_members_go_by_their_own_names(name: str, kind: str, reference: Any) -> None:
    family, (users, items) = FAMILIES[name], KINDS[kind]
    model = family.fit(pandas.DataFrame(long(users, items, SHUFFLED)), items)
    expected, table = reference(name), asked(users, items)
    ways: dict[str, Any] = {
        "pandas": pandas.DataFrame(table),
        "columns in another order": pandas.DataFrame(table)[["item", "user"]],
        "another case": pandas.DataFrame(table).rename(columns=str.upper),
        "categories": pandas.DataFrame(table).astype("category"),
        "polars": polars.DataFrame(table),
        "arrow": pyarrow.table(table),
        "mapping": table,
        "pairs": list(zip(table["user"], table["item"], strict=True)),
        "objects": np.array(list(zip(table["user"], table["item"], strict=True)), object),
    }
    for way, cells in ways.items():
        found = family.predict(model, cells)
        np.testing.assert_allclose(found, expected, rtol=1e-12, err_msg=way)
    positions = family.predict(model, ASKED, positions=True)
    np.testing.assert_allclose(positions, expected, rtol=1e-12)
    back = np.arange(len(ASKED))[::-1]
    shuffled = pandas.DataFrame(table).iloc[back]
    np.testing.assert_allclose(family.predict(model, shuffled), expected[back], rtol=1e-12)


@pytest.mark.parametrize("name", FAMILIES)
def test_whole_numbers_are_the_same_whatever_holds_them(name: str, reference: Any) -> None:
    family = FAMILIES[name]
    users, items = [k + 1 for k in range(USERS)], [k + 2 for k in range(ITEMS)]
    model = family.fit(long(users, items), items)
    table = pandas.DataFrame(asked(users, items))
    for dtype in ("int8", "uint16", "int64", "Int64", "float64", "string", "category"):
        np.testing.assert_allclose(family.predict(model, table.astype(dtype)), reference(name))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_stated_order_of_members_is_kept(name: str) -> None:
    """Position k is the member that was stated k-th; its number is the name of another one."""
    family, users = FAMILIES[name], [f"u{k:02}" for k in range(USERS)]
    items = list(range(ITEMS))[::-1]
    table = tc.Relation.from_frame(
        long(users, items), ("user", "item"), "rating", labels={"item": items}
    )
    model = family.fit(table)
    by_name = family.predict(model, [("u03", items[k]) for k in range(ITEMS)])
    by_position = family.predict(model, [(3, k) for k in range(ITEMS)], positions=True)
    np.testing.assert_array_equal(by_name, by_position)
    assert not np.array_equal(by_name, by_position[::-1])


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([(0, "a")], "user 0 is unknown"),
        ([("u01", 1)], "item 1 is unknown"),
        ([("u1", "a"), ("u01", "a")], "user 'u1' is unknown"),
        ([("u01", None)], "row 1"),
        ({"user": ["u01"]}, "no column 'item'"),
        ([["u01"]], "cells must have shape"),
        (np.array([[0, 1]]), "positions=True"),
    ],
)
def test_an_unknown_id_is_named_and_never_a_position(name: str, cells: Any, said: str) -> None:
    family, (users, items) = FAMILIES[name], KINDS["text"]
    with pytest.raises(ParameterError, match=said):
        family.predict(_fitted(name, users, items), cells)


_CACHE: dict[str, Any] = {}


def _fitted(name: str, users: Any, items: Any) -> Any:
    if name not in _CACHE:
        _CACHE[name] = FAMILIES[name].fit(long(users, items), items)
    return _CACHE[name]


# --- wide and long ------------------------------------------------------------------------------


def wide(users: Any, items: Any) -> pandas.DataFrame:
    table = np.full((USERS, ITEMS), np.nan)
    table[tuple(CELLS.T)] = VALUES
    return pandas.DataFrame(table, index=list(users), columns=list(items))


@pytest.mark.parametrize("kind", ["text", "numbers", "days"])
@pytest.mark.parametrize("name", FAMILIES)
def test_a_wide_frame_keeps_its_index_and_columns(name: str, kind: str, reference: Any) -> None:
    family, (users, items) = FAMILIES[name], KINDS[kind]
    frame = wide(users, items)
    model = family.fit(frame if not family.private else frame[items[::-1]], items)
    np.testing.assert_allclose(family.predict(model, asked(users, items)), reference(name))


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize(
    "frame",
    [
        pandas.DataFrame({"userId": [3, 4, 5], "movieId": [1, 2, 3], "rating": [4.0, 5.0, 3.0]}),
        pandas.DataFrame(
            {"userId": [3, 4], "movieId": [1, 2], "rating": [4.0, 5.0]}, index=[7, 9]
        ),
        pandas.DataFrame({"a": [3, 4], "b": [1, 2], "c": [4.0, 5.0]}),
        pandas.DataFrame({"a": [3, 4], "b": [1, 2], "c": [4.0, 5.0]}).set_index("a"),
        pandas.DataFrame(np.ones((3, 3))),
        polars.DataFrame({"userId": [3, 4], "movieId": [1, 2], "rating": [4.0, 5.0]}),
        pyarrow.table({"userId": [3, 4], "movieId": [1, 2], "rating": [4.0, 5.0]}),
        pandas.DataFrame({"userId": [3], "movieId": [1], "rating": [4.0]}, index=["first"]),
    ],
    ids=range(8),
)
def test_a_long_frame_is_never_taken_for_a_matrix(name: str, frame: Any) -> None:
    with pytest.raises((ParameterError, UnboundedData), match=r"Relation\.from_frame"):
        FAMILIES[name].fit(frame)


@pytest.mark.parametrize("name", FAMILIES)
def test_columns_of_the_fit_are_found_again_in_any_order(name: str, reference: Any) -> None:
    family, (users, items) = FAMILIES[name], KINDS["numbers"]
    frame = pandas.DataFrame(long(users, items)).rename(
        columns={"user": "userId", "item": "movieId"}
    )
    relation = tc.Relation.from_frame(
        frame, {"user": "userId", "item": "movieId"}, "rating", labels={"item": items}
    )
    model = family.fit(relation)
    table = pandas.DataFrame(asked(users, items)).set_axis(["userId", "movieId"], axis=1)
    for columns in (["userId", "movieId"], ["movieId", "userId"]):
        np.testing.assert_allclose(family.predict(model, table[columns]), reference(name))


# --- what is never read from private data -------------------------------------------------------


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_fit_reads_no_list_of_items_from_the_data(name: str) -> None:
    family, (users, items) = FAMILIES[name], KINDS["text"]
    unstated = [
        long(users, items),
        tc.Relation.from_frame(long(users, items), ("user", "item"), "rating"),
        tc.Relation.from_cells(("user", "item"), CELLS, VALUES),
        tc.Relation.from_dense(("user", "item"), wide(users, items)),
        wide(users, items),
    ]
    for data in unstated:
        with pytest.raises(UnboundedData, match=r"must be stated.*pass (items|entities)="):
            family.fit(data)
        if name != "published recommender":
            assert family.fit(data, privacy=None) is not None


def test_a_private_topic_model_reads_no_vocabulary_from_the_documents() -> None:
    asked_for = tc.Privacy(3.0, 1e-5, unit="document")
    documents = [["a", "b", "a"], ["b", "c", "c"], ["a", "c", "c"]] * 40
    counts = pandas.DataFrame({"a": [2, 0] * 40, "b": [1, 1] * 40, "c": [0, 2] * 40})
    private = tc.SingleTopicModel(2, privacy=asked_for, random_state=0)
    free = tc.SingleTopicModel(2, random_state=0)
    for data in (documents, counts):
        with pytest.raises(UnboundedData, match=r"pass vocabulary=\[…\]"):
            private.fit(data)
        assert free.fit(data).vocabulary_ == ("a", "b", "c")
    free.set_params(privacy=asked_for)  # what a raw fit read does not reach a private one
    with pytest.raises(UnboundedData, match="vocabulary"):
        free.fit(documents)
    with pytest.raises(UnboundedData, match="vocabulary"):
        free.price([tc.Site("a", documents)])


# --- duplicates ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FAMILIES)
def test_duplicates_are_an_error_or_go_by_the_stated_rule(name: str, reference: Any) -> None:
    family, (users, items) = FAMILIES[name], KINDS["text"]
    table = pandas.DataFrame(long(users, items))
    twice = pandas.concat([table, table.iloc[:2].assign(rating=5.0 - 1.0)])
    said = rf"\(user u00, item {table['item'][0]}\) is listed twice.*duplicates='first'"
    with pytest.raises(ParameterError, match=said):
        family.fit(twice, items)
    first = tc.Relation.from_frame(
        twice, ("user", "item"), "rating", labels={"item": items}, duplicates="first"
    )
    model = family.fit(first)
    np.testing.assert_allclose(family.predict(model, asked(users, items)), reference(name))
    if family.private:
        rule = "a cell that is listed several times counts once, by the "
        assert f"{rule}first value" in model.certificate_.assumptions
        stated = family.fit(twice, items, duplicates="mean")
        assert f"{rule}mean" in stated.certificate_.assumptions


def test_each_rule_looks_at_one_cell() -> None:
    cells, values = [[0, 1], [2, 0], [0, 1], [0, 1]], [1.0, 7.0, 2.0, 6.0]
    for rule, expected in (("first", 1.0), ("mean", 3.0), ("sum", 9.0)):
        found = tc.Relation.from_cells(
            ("user", "item"), cells, values, shape=(3, 2), duplicates=rule
        )
        assert found.indices.tolist() == [[0, 1], [2, 0]]
        assert found.values.tolist() == [expected, 7.0]
    with pytest.raises(ParameterError, match=r"cell \[0, 1\] is listed 3 times"):
        tc.Relation.from_cells(("user", "item"), cells, values, shape=(3, 2))
    with pytest.raises(ParameterError, match="duplicates"):
        tc.Relation.from_cells(("user", "item"), cells, values, duplicates="last")


# --- recommending, tops, new members, releases --------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_recommendations_are_items_of_the_caller(kind: str, tmp_path: Any) -> None:
    users, items = KINDS[kind]
    model = Recommender().fit(long(users, items), items, random_state=None)
    by_number = model.recommend(3, 2, positions=True)
    assert model.recommend(users[3], 2) == [(items[k], score) for k, score in by_number]
    assert model.recommend([users[3], users[5]], 1) == {
        user: model.recommend(user, 1) for user in (users[3], users[5])
    }
    assert model.items_ == tuple(items)
    own = {items[2]: 5.0, items[0]: 1.0}
    again = tc.PrivateRecommender.from_release(model.release(tmp_path / "release"))
    assert again.items_ == tuple(items)
    assert again.recommend(own, 3) == model.recommend(own, 3)
    device = tc.Device.from_release(tmp_path / "release", list(own), list(own.values()))
    assert device.top(3) == model.recommend(own, 3)
    assert {item for item, _ in device.top(ITEMS)} == set(items) - set(own)
    assert str(users[3]) in model.certificate_of(users[3]).holder.replace("T", " ")
    with pytest.raises(ParameterError, match="unknown"):
        device.predict([-5])
    with pytest.raises(ParameterError, match="unknown"):
        model.recommend("nobody")


@pytest.mark.parametrize("kind", KINDS)
def test_factors_tops_and_new_members_have_their_names(kind: str, tmp_path: Any) -> None:
    users, items = KINDS[kind]
    model = Alone().fit(long(users, items, SHUFFLED))
    assert list(model.factors("item")) == items and list(model.factors("user")) == users
    np.testing.assert_array_equal(model.factors("item")[items[2]], model.factors_["item"][2])
    top = model.top("data", "item", {"user": users[1]}, n=3, skip=[items[0]])
    numbers = model.top("data", "item", {"user": 1}, n=3, skip=[0], positions=True)
    assert top == [(items[k], score) for k, score in numbers]
    news = {"user": ["new", "new", "newer"], "item": [items[4], items[1], items[4]],
            "rating": [5, 1, 3]}  # fmt: skip
    names, rows = model.fold_in("user", news, return_names=True)
    assert names == ("new", "newer")
    dense = np.full((2, ITEMS), np.nan)
    dense[0, 4], dense[0, 1], dense[1, 4] = 5, 1, 3
    np.testing.assert_array_equal(rows, model.fold_in("user", dense))
    with pytest.raises(ParameterError, match="unknown"):
        model.fold_in("user", {**news, "item": [items[4], items[1], "strange"]})
    model.save(tmp_path / "model")
    again = tc.CoupledFactorization.load(tmp_path / "model")
    assert again.labels_ == model.labels_
    assert again.top("data", "item", {"user": users[1]}, n=3, skip=[items[0]]) == top
    part = long(users, items, slice(5))
    assert again.score(part) == model.score(pandas.DataFrame(part)[["rating", "item", "user"]])


@pytest.mark.parametrize("kind", KINDS)
def test_shared_factors_and_releases_have_the_names_of_items(kind: str, tmp_path: Any) -> None:
    users, items = KINDS[kind]
    model = Together(method="sgld").fit(long(users, items), items, random_state=None)
    assert list(model.factors("item")) == items
    again = tc.PrivateFactorization.from_release(model.release(tmp_path / "release"))
    assert again.labels_ == {"item": tuple(items)}
    np.testing.assert_array_equal(again.factors("item")[items[3]], model.factors("item")[items[3]])
    again.adopt(tc.Site("here", long(users, items, SHUFFLED)))
    table = pandas.DataFrame(asked(users, items))
    np.testing.assert_allclose(
        again.predict("here", table[["item", "user"]]), model.predict("the data", table)
    )


WORDS = {
    "text": ["cat", "ant", "bee", "0012"],
    "numbers": [3, 1, 2, 0],
    "days": [dt.date(2026, 1, k) for k in (9, 1, 5, 2)],
}


@pytest.mark.parametrize("kind", WORDS)
def test_words_are_those_of_the_vocabulary(kind: str, tmp_path: Any) -> None:
    rng = np.random.default_rng(0)
    words = WORDS[kind]
    topics = np.array([[0.7, 0.3, 0, 0], [0, 0.1, 0.3, 0.6]])
    numbers = [rng.choice(4, 6, p=topics[k]) for k in rng.integers(0, 2, 3000)]
    counts = np.array([np.bincount(document, minlength=4) for document in numbers])
    request = tc.Privacy(8.0, 1e-5, unit="document")
    plain = tc.SingleTopicModel(2, vocabulary=4, privacy=request, random_state=0).fit(numbers)
    frame = pandas.DataFrame(counts, columns=words)
    for data in (
        [[words[k] for k in document] for document in numbers],
        frame,
        frame[words[::-1]],
        polars.DataFrame({str(w): counts[:, k] for k, w in enumerate(words)}).select(
            [str(w) for w in words[::-1]]
        ),
    ):
        model = tc.SingleTopicModel(2, vocabulary=words, privacy=request, random_state=0).fit(data)
        np.testing.assert_array_equal(model.topics_, plain.topics_)
    assert model.vocabulary_ == tuple(words)
    by_number = plain.top_words(2)
    assert model.top_words(2) == [[words[k] for k in topic] for topic in by_number]
    assert model.top_words(2, positions=True) == by_number
    np.testing.assert_array_equal(
        model.predict_proba(frame[words[::-1]]), plain.predict_proba(numbers)
    )
    with pytest.raises(ParameterError, match="vocabulary"):
        model.predict([[words[0], "strange", words[1]]])
    with pytest.raises(ParameterError, match="no column for"):
        model.predict(frame[words[1:]])
    dropping = tc.SingleTopicModel(
        2, vocabulary=words[:3], unknown="drop", privacy=request, random_state=0
    ).fit([[words[k] for k in document] for document in numbers])
    assert "words outside the vocabulary are left out" in dropping.certificate_.assumptions
    free = tc.SingleTopicModel(2, vocabulary=words, privacy=request).fit(frame)
    again = tc.SingleTopicModel.from_release(free.release(tmp_path / "topics"))
    assert again.vocabulary_ == tuple(words) and again.top_words(2) == free.top_words(2)


# --- what may not leave ------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRIVATE)
def test_a_fitted_model_that_holds_raw_data_is_not_pickled(name: str, tmp_path: Any) -> None:
    users, items = KINDS["text"]
    model = _fitted(name, users, items)
    for leave in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(HoldsData, match=r"model\.release\(folder\)"):
            leave(model)
    if hasattr(model, "device"):
        with pytest.raises(HoldsData, match="from_release"):
            pickle.dumps(model.device(users[0]))
    unfitted = type(model)(**model.get_params(deep=False))
    assert type(pickle.loads(pickle.dumps(unfitted))) is type(model)


def test_two_users_of_one_name_at_two_sites_are_two_users() -> None:
    users, items = KINDS["text"]
    asked_for = tc.Privacy(2.0, 1e-5, unit="entry", trust="site")
    sites = [tc.Site(name, long(users, items)) for name in ("North", "South")]
    model = tc.PrivateRecommender(
        (1, 5), items=items, rank=2, privacy=asked_for, random_state=0
    ).fit(sites)
    with pytest.raises(ParameterError, match="one of North and one of South"):
        model.predict([("u01", "a")])
    assert model.predict([(1, 0), (USERS + 1, 0)], positions=True).shape == (2,)


def test_weights_go_by_name() -> None:
    users, items = KINDS["text"]
    given = {user: 0.1 + 0.05 * k for k, user in enumerate(users)}
    table, shuffled = long(users, items), dict(sorted(given.items(), reverse=True))
    asked_for = tc.Privacy(2.0, 1e-5, unit="entry", trust="aggregator")
    model = tc.PrivateRecommender((1, 5), items=items, rank=2, privacy=asked_for, random_state=0)
    model.fit(table, weights=tc.PrivacyWeights(shuffled, dict.fromkeys(items[::-1], 1.0)))
    assert model.certificate_of("u00").epsilon < model.certificate_of("u13").epsilon
    with pytest.raises(ParameterError, match="must have their names"):
        model.fit(table, weights=tc.PrivacyWeights(list(given.values()), [1.0] * ITEMS))
    with pytest.raises(ParameterError, match="lack 'u13'"):
        model.fit(
            table, weights=tc.PrivacyWeights({u: given[u] for u in users[:-1]}, [1.0] * ITEMS)
        )


@pytest.mark.parametrize("name", FAMILIES)
def test_a_list_without_an_order_and_a_misspelt_entity_are_refused(name: str) -> None:
    family, (users, items) = FAMILIES[name], KINDS["text"]
    if family.private:
        with pytest.raises(ParameterError, match="must be a list of names"):
            family.fit(long(users, items), set(items))
    with pytest.raises(ParameterError, match="cells must"):
        family.predict(_fitted(name, users, items), None)
    if isinstance(family, Together):
        model = tc.PrivateFactorization("user:k item:k", entities={"itm": items}, bounds=(1, 5))
        with pytest.raises(ParameterError, match="no entity 'itm'"):
            model.fit(long(users, items))


def test_ids_that_can_no_longer_be_told_apart_are_refused() -> None:
    table = {"user": np.array([2.0**53, 2.0**53 + 2]), "item": ["a", "b"], "n": [1, 2]}
    with pytest.raises(ParameterError, match=r"above 2\^53 as decimals"):
        tc.Relation.from_frame(table, ("user", "item"), "n")


def test_everything_wrong_with_a_table_of_cells_is_one_list() -> None:
    table = {"user": ["a", None, "b"], "item": ["x", "zz", "x"], "n": [1, "many", np.nan]}
    with pytest.raises(BadTable) as found:
        tc.Relation.from_frame(table, ("user", "item"), "n", labels={"item": ["x"]})
    assert [(p.what, p.column, p.count) for p in found.value.problems] == [
        ("missing", "user", 1),
        ("unknown", "item", 1),
        ("no number", "n", 2),
    ]
