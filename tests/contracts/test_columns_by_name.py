"""Every estimator over tables: columns are found by name, or refused; never read by position."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest

import tacit as tc
from tacit.errors import ParameterError, TacitError
from tacit.estimators.families import estimator_names, estimator_of
from tacit.posterior.numerics.populations.laws import Exponential

nn = pytest.importorskip("tacit.networks")

# over entities, whose members go by name: tests/factorization and tests/recommender
OVER_ENTITIES = {"factorization", "recommender"}
LEDGER = {"epsilon": 50.0, "delta": 1e-2}


def frame(rows: int = 300, seed: int = 0) -> pd.DataFrame:
    """Return people of two kinds, whose columns have very different ranges."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, rows)
    age = np.clip(np.where(kind, 35.0, 70.0) + rng.normal(0, 4, rows), 20, 90)
    dose = np.clip(np.where(kind, 1.0, 3.5) + rng.normal(0, 0.3, rows), 0, 5)
    return pd.DataFrame({
        "age": age, "dose": dose, "pressure": 100 + 0.5 * age - 6 * dose,
        "ill": np.where(age - 8 * dose > 40, "yes", "no"),
    })  # fmt: skip


NUMBERS = {"age": tc.number(20, 90), "dose": tc.number(0, 5)}
WITH = {"pressure": tc.number(60, 220)}
ILL = {"ill": tc.category("no", "yes")}
SHORT = {"training": nn.Training(steps=3)}
RANGES = [(20, 90), (0, 5)]


@dataclass(frozen=True)
class Subject:
    """An estimator, what it is fitted on, and what it makes of rows."""

    name: str
    make: Callable[..., Any]
    used: tuple[str, ...]  # the columns that `look` needs
    look: Callable[[Any, Any], Any] = lambda model, rows: model.predict(rows)
    target: str | None = None
    by_columns: bool = True  # Columns are stated: a table holds the target too

    def fit(self, data: Any, **more: Any) -> Any:
        """Fit on a table, or on features and their responses."""
        model = self.make(**more)
        if self.by_columns or self.target is None:
            return model.fit(data)
        return model.fit(data.drop(columns=self.target), data[self.target])

    @property
    def columns(self) -> list[str]:
        """All columns that a fit needs."""
        return [*self.used, *([self.target] if self.target else [])]


def classifier(**more: Any) -> Any:
    return nn.PrivateDropoutClassifier((), rows=300, random_state=0, **SHORT, **more)


def regressor(**more: Any) -> Any:
    return nn.PrivateDropoutRegressor((), rows=300, random_state=0, **SHORT, **more)


def regression(**more: Any) -> Any:
    return tc.PrivateLinearRegression(**{"method": "OLS", "random_state": 0, **more})


def logistic(**more: Any) -> Any:
    return tc.PrivateLogisticRegression(**{"draws": 100, "random_state": 0, **more})


def poisson(**more: Any) -> Any:
    return tc.PrivatePoissonRegression(**{"draws": 100, "random_state": 0, **more})


def people(kind: Any, *given: Any, **more: Any) -> Any:
    small = {"chains": 1, "draws": 80, "warmup": 20, "random_state": 0}
    return kind(Exponential(), *given, **small, **more)


PAIR = ("age", "dose")
EXP = tc.Columns(dose=tc.number(0, 30))
WIDE = {"privacy": tc.Privacy(40.0, 1e-5)}
SUBJECTS = [
    Subject("summary", lambda **m: tc.PrivateSummary(tc.Columns(NUMBERS), **m), PAIR,
            lambda model, rows: model.score(rows)),
    Subject("regression", lambda **m: regression(columns=tc.Columns({**NUMBERS, **WITH}),
                                                 target="pressure", **m), PAIR, target="pressure"),
    Subject("regression, ranges by name",
            lambda **m: regression(bounds=dict(zip(PAIR, RANGES, strict=True)),
                                   y_bounds=(60, 220), target="pressure", **m),
            PAIR, target="pressure", by_columns=False),
    Subject("regression, ranges in order",
            lambda **m: regression(bounds=RANGES, y_bounds=(60, 220), **m),
            PAIR, target="pressure", by_columns=False),
    Subject("logistic-regression", lambda **m: logistic(
        columns=tc.Columns({**NUMBERS, **ILL}), target="ill", **m), PAIR,
        lambda model, rows: model.predict_proba(rows), target="ill"),
    Subject("logistic-regression, ranges by name", lambda **m: logistic(
        bounds=dict(zip(PAIR, RANGES, strict=True)), classes=("no", "yes"), target="ill", **m),
        PAIR, lambda model, rows: model.predict_proba(rows), target="ill", by_columns=False),
    Subject("logistic-regression, ranges in order", lambda **m: logistic(
        bounds=RANGES, classes=("no", "yes"), **m),
        PAIR, lambda model, rows: model.predict_proba(rows), target="ill", by_columns=False),
    Subject("poisson-regression", lambda **m: poisson(
        columns=tc.Columns({**NUMBERS, "pressure": tc.number(0, 220)}), target="pressure", **m),
        PAIR, target="pressure"),
    Subject("poisson-regression, ranges by name", lambda **m: poisson(
        bounds=dict(zip(PAIR, RANGES, strict=True)), y_bounds=220, target="pressure", **m),
        PAIR, target="pressure", by_columns=False),
    Subject("poisson-regression, ranges in order", lambda **m: poisson(
        bounds=RANGES, y_bounds=220, **m), PAIR, target="pressure", by_columns=False),
    Subject("mixture", lambda **m: tc.GaussianMixture(2, columns=tc.Columns(NUMBERS),
                                                      random_state=0, **m), PAIR,
            lambda model, rows: model.predict_proba(rows)),
    Subject("mixture, a ball", lambda **m: tc.GaussianMixture(
        2, radius=100.0, centre=[50.0, 2.0], random_state=0, **m), PAIR,
        lambda model, rows: model.predict_proba(rows), by_columns=False),
    Subject("posterior", lambda **m: people(tc.PrivatePosterior, columns=EXP, **m), ("dose",),
            lambda model, rows: model.score(rows)),
    Subject("selector", lambda **m: people(
        tc.StatisticSelector, ["mean"], columns=EXP, parameters=[3.0], **{**WIDE, **m}),
        ("dose",), lambda model, rows: model.mean_),
    Subject("network-classifier", lambda **m: classifier(
        columns=tc.Columns({**NUMBERS, **ILL}), target="ill", **m), PAIR,
        lambda model, rows: model.predict_proba(rows), target="ill"),
    Subject("network-classifier, ranges", lambda **m: classifier(
        bounds=RANGES, classes=("no", "yes"), **m), PAIR,
        lambda model, rows: model.predict_proba(rows), target="ill", by_columns=False),
    Subject("network-regressor", lambda **m: regressor(
        columns=tc.Columns({**NUMBERS, **WITH}), target="pressure", **m), PAIR,
        target="pressure"),
    Subject("network-regressor, ranges", lambda **m: regressor(
        bounds=RANGES, y_bounds=(60, 220), **m), PAIR, target="pressure", by_columns=False),
    Subject("topics", lambda **m: tc.SingleTopicModel(
        1, vocabulary=["a", "b", "c"], unknown="drop", random_state=0, **m), ("a", "b", "c"),
        lambda model, rows: model.score(rows)),
]  # fmt: skip
BY_COLUMNS = [s for s in SUBJECTS if s.by_columns]


def table_of(subject: Subject) -> pd.DataFrame:
    if subject.name == "topics":
        return pd.DataFrame(np.random.default_rng(0).integers(1, 5, (60, 3)), columns=list("abc"))
    return frame()[subject.columns]


@pytest.fixture(params=SUBJECTS, ids=lambda s: s.name)
def subject(request: pytest.FixtureRequest) -> Subject:
    return request.param


@pytest.fixture(params=BY_COLUMNS, ids=lambda s: s.name)
def stated(request: pytest.FixtureRequest) -> Subject:
    return request.param


def rows_of(subject: Subject, table: pd.DataFrame) -> pd.DataFrame:
    return table[list(subject.used)]


def test_no_family_is_forgotten() -> None:
    tried = {s.name.split(",")[0] for s in SUBJECTS}
    assert tried | OVER_ENTITIES == set(estimator_names())
    assert all(callable(estimator_of(name).check) for name in estimator_names())


# -- predictions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["reordered", "other case", "extra", "all three"])
def test_rows_to_predict_for_are_found_by_name(subject: Subject, change: str) -> None:
    table = table_of(subject)
    model, rows = subject.fit(table), rows_of(subject, table)
    changed = rows.copy()
    if change in ("extra", "all three"):
        changed.insert(0, "ward", "A")
    if change in ("reordered", "all three"):
        changed = changed[changed.columns[::-1]]
    if change in ("other case", "all three"):
        changed.columns = [name.upper() for name in changed]
    np.testing.assert_array_equal(subject.look(model, changed), subject.look(model, rows))


@pytest.mark.parametrize("change", ["renamed", "missing"])
def test_rows_whose_columns_are_not_there_are_refused_by_name(
    subject: Subject, change: str
) -> None:
    table = table_of(subject)
    model, rows = subject.fit(table), rows_of(subject, table)
    if subject.name == "selector":
        return  # it judges nothing
    last = subject.used[-1]
    wrong = rows.rename(columns={last: "strange"}) if change == "renamed" else rows.drop(
        columns=last)  # fmt: skip
    if not len(wrong.columns):
        wrong = pd.DataFrame({"strange": np.ones(len(rows))})
    with pytest.raises(ParameterError, match=last):
        subject.look(model, wrong)


@pytest.mark.parametrize("name", [s.name for s in SUBJECTS if not s.by_columns])
def test_names_are_not_guessed_where_the_fit_had_none(name: str) -> None:
    (subject,) = (s for s in SUBJECTS if s.name == name)
    if "by name" in name:
        return
    table = table_of(subject)
    rows = rows_of(subject, table)
    model = subject.make()
    X = rows.to_numpy()
    model = model.fit(X, table[subject.target].tolist()) if subject.target else model.fit(X)
    with pytest.raises(ParameterError, match="without names"):
        subject.look(model, rows)
    unnamed = pd.DataFrame(X)  # its columns are 0, 1, …: an array in all but name
    np.testing.assert_array_equal(subject.look(model, unnamed), subject.look(model, X))


# -- fits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["reordered", "other case", "extra"])
def test_a_fit_finds_columns_by_name(stated: Subject, change: str) -> None:
    table = table_of(stated)
    changed = {
        "reordered": table[table.columns[::-1]],
        "other case": table.rename(columns=str.upper),
        "extra": table.assign(ward="A")[["ward", *table.columns]],
    }[change]
    rows = rows_of(stated, table)
    one, other = stated.fit(table), stated.fit(changed)
    np.testing.assert_array_equal(stated.look(one, rows), stated.look(other, rows))


def test_an_array_is_in_the_order_in_which_columns_were_stated(stated: Subject) -> None:
    if stated.name in ("topics", "network-classifier", "logistic-regression"):
        return  # of words, or of labels beside numbers
    table = table_of(stated)
    model = stated.make()
    low = 0 if stated.name == "poisson-regression" else -500  # counts
    columns = {name: tc.number(low, 500) for name in reversed(table.columns)}
    model.set_params(columns=tc.Columns(columns))
    if stated.name in ("posterior", "selector"):
        model.set_params(columns=EXP)
    model.fit(table[list(model.columns)].to_numpy())
    other = stated.make().set_params(columns=model.columns).fit(table)
    rows = rows_of(stated, table)
    np.testing.assert_array_equal(stated.look(model, rows), stated.look(other, rows))


@pytest.mark.parametrize("change", ["renamed", "missing"])
def test_a_fit_without_a_column_costs_nothing(stated: Subject, change: str) -> None:
    table = table_of(stated)
    last = stated.columns[-1]
    wrong = table.rename(columns={last: "strange"})
    if change == "missing":
        wrong = table.drop(columns=last).assign(strange=1.0)
    ledger = ledger_for(stated)
    with pytest.raises(ParameterError, match=last):
        stated.fit(wrong, **private(stated), ledger=ledger)
    assert ledger.spent.epsilon == 0.0


def private(subject: Subject) -> dict[str, Any]:
    method = {"method": "Bayes-fixedS-fast"} if subject.name.startswith("regression") else {}
    return {"privacy": tc.Privacy(40.0, 1e-3), **method}


def ledger_for(subject: Subject) -> tc.Ledger:
    unit = "document" if subject.name == "topics" else "row"
    replaced = subject.name in ("posterior", "selector")
    return tc.Ledger.memory(
        unit=unit, neighbours="replace-one" if replaced else "add-remove-one", **LEDGER
    )


@pytest.mark.parametrize("name", [s.name for s in SUBJECTS if len(s.used) > 1])
def test_sites_with_columns_in_another_order_are_put_in_order_or_refused(name: str) -> None:
    (subject,) = (s for s in SUBJECTS if s.name == name)
    table = table_of(subject)
    half = len(table) // 2
    first, second = table[:half], table[half:]
    rows = rows_of(subject, table)

    def sites(one: pd.DataFrame, two: pd.DataFrame) -> list[tc.Site]:
        def data(part: pd.DataFrame) -> Any:
            if subject.by_columns or subject.target is None:
                return part
            return part.drop(columns=subject.target), part[subject.target]

        return [tc.Site("North", data(one)), tc.Site("South", data(two))]

    right = subject.look(subject.make().fit(sites(first, second)), rows)
    turned = sites(first, second[second.columns[::-1]])
    if name.endswith("regression, ranges in order"):
        with pytest.raises(ParameterError, match=r"site 'South' has .* by their order"):
            subject.make().fit(turned)
    else:
        np.testing.assert_array_equal(subject.look(subject.make().fit(turned), rows), right)


# -- wherever a table is kept --------------------------------------------------------------------


def sources(table: pd.DataFrame, folder: Any) -> dict[str, Any]:
    import duckdb
    import polars as pl
    import pyarrow as pa

    files = {name: folder / f"t.{name}" for name in ("csv", "tsv", "parquet", "feather")}
    turned = table[table.columns[::-1]]
    turned.to_csv(files["csv"], index=False)
    turned.to_csv(files["tsv"], index=False, sep="\t")
    turned.to_parquet(files["parquet"])
    turned.to_feather(files["feather"])
    (folder / "parts").mkdir()
    table[:40].to_csv(folder / "parts" / "a.csv", index=False)
    turned[40:].to_csv(folder / "parts" / "b.csv", index=False)
    connection = sqlite3.connect(":memory:")
    turned.to_sql("t", connection, index=False)
    arrow = pa.Table.from_pandas(turned)
    return {
        "pandas": turned, "polars": pl.from_pandas(turned), "lazy": pl.from_pandas(turned).lazy(),
        "arrow": arrow, "reader": arrow.to_reader(), "duckdb": duckdb.from_arrow(arrow),
        "mapping": {name: turned[name].tolist() for name in turned},
        "sql": tc.source(connection=connection, query="select * from t"),
        **{name: str(file) for name, file in files.items()}, "folder": folder / "parts",
        "path": files["csv"], "source": tc.source(files["csv"], separator=","),
    }  # fmt: skip


@pytest.mark.parametrize("kind", [
    "pandas", "polars", "lazy", "arrow", "reader", "duckdb", "mapping", "sql", "csv", "tsv",
    "parquet", "feather", "folder", "path", "source",
])  # fmt: skip
def test_it_does_not_matter_where_a_table_is_kept(
    stated: Subject, kind: str, tmp_path: Any
) -> None:
    table = table_of(stated).round(4)
    rows = rows_of(stated, table)
    expected = stated.look(stated.fit(table), rows)
    for place in ("fit", "predict"):
        (tmp_path / place).mkdir()
    found = stated.fit(sources(table, tmp_path / "fit")[kind])
    np.testing.assert_array_equal(stated.look(found, rows), expected)
    again = sources(table, tmp_path / "predict")[kind]
    np.testing.assert_array_equal(stated.look(found, again), expected)


# -- everything that is wrong, at once -----------------------------------------------------------


def broken(subject: Subject) -> tuple[pd.DataFrame, set[tuple[str, int]]]:
    """Return a table with one bad cell in every column, and where they are."""
    table = table_of(subject).astype(object)
    places = set()
    for k, name in enumerate(table.columns):
        table.loc[k + 3, name] = "?!" if k % 2 else None
        places.add((name, k + 4))
    return table, places


def test_a_check_lists_everything_and_charges_nothing(stated: Subject) -> None:
    table, places = broken(stated)
    ledger = ledger_for(stated)
    model = stated.make(**private(stated), ledger=ledger)
    found = model.check(table)
    told = {(p.column, p.places[0][1]) for p in found["the data"]}
    assert told == places
    assert not model.check(table_of(stated))
    assert ledger.spent.epsilon == 0.0 and not hasattr(model, "certificates_")


def test_a_check_names_the_sites(stated: Subject) -> None:
    if stated.name in ("posterior", "selector"):
        pytest.skip("one holder releases its statistic")
    table, _ = broken(stated)
    model = stated.make()
    found = model.check([tc.Site("North", table_of(stated)), tc.Site("South", table)])
    assert set(found) == {"South"} and "South: column" in str(found)


def test_a_column_of_numbers_is_not_taken_for_text_because_of_one_cell(subject: Subject) -> None:
    """Text in a cell is that cell's trouble; numbers written as text are numbers."""
    table = table_of(subject)
    rows = rows_of(subject, table)
    model = subject.fit(table)
    texts = rows.astype(str)
    np.testing.assert_allclose(subject.look(model, texts), subject.look(model, rows))


def test_why_data_cannot_be_loaded_does_not_get_into_a_record() -> None:
    class Secret(Exception):
        pass

    class Cursed(dict[str, Any]):
        def items(self) -> Any:
            raise Secret("HIV clinic")

    for bad in (broken(BY_COLUMNS[0])[0], "no such file HIV.csv", Cursed(a=[1]), object()):
        for subject in SUBJECTS:
            model = subject.make()
            if "on_failure" not in model.get_params() or not subject.by_columns:
                continue
            model.set_params(on_failure="exclude")
            model.fit([tc.Site("North", table_of(subject)), tc.Site("South", bad)])
            (failure,) = model.failures_
            assert failure.site == "South" and "HIV" not in failure.reason
            assert "cannot be used" in failure.reason


def test_our_own_errors_are_what_a_check_finds_whatever_is_raised(stated: Subject) -> None:
    for bad in (object(), 3, [], "no such file.csv", {"a": object()}, np.zeros((2, 2, 2))):
        model = stated.make()
        try:
            found = model.check(bad)
        except TacitError:
            continue
        assert found, bad
