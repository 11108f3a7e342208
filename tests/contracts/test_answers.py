"""Whatever was learned is told the same way: result, promise, details; released numbers only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tacit._core.answers import Answer, Answering
from tacit._core.plotting import figure_of
from tacit.errors import ParameterError
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.families import estimator_names, estimator_of
from tests.contracts.answering import ESTIMATORS, HOSTILE, fitted, objects

NAMES = sorted(ESTIMATORS)
OBJECTS = (
    "a factorization of one holder", "a posterior", "a noisy statistic", "a ranking",
    "a certificate", "a ledger", "a price", "a price of choosing", "a plan", "settings",
    "an audit", "an audit by canaries", "findings",
)  # fmt: skip
# draws are not part of a release: what is read back has means and standard deviations
REDRAWN = {"posterior", "selector"}

pytestmark = pytest.mark.filterwarnings("ignore:.*eigenvalues of the noisy second moment")


def answers_by_name() -> list[str]:
    return [*NAMES, *OBJECTS]


@pytest.fixture(params=answers_by_name())
def subject(request: pytest.FixtureRequest) -> Any:
    name = request.param
    return fitted(name) if name in ESTIMATORS else objects()[name]


def test_every_estimator_of_the_registry_has_an_example() -> None:
    kinds = {type(make()[0]) for make in ESTIMATORS.values()}
    assert {estimator_of(name) for name in estimator_names()} <= kinds
    assert set(objects()) == set(OBJECTS)


@pytest.mark.parametrize("name", sorted(estimator_names()))
def test_every_estimator_says_what_it_found(name: str) -> None:
    assert estimator_of(name)._found is not PrivateEstimator._found


def test_it_has_a_headline_a_table_and_a_picture(subject: Any) -> None:
    assert isinstance(subject, Answering)
    answer = subject.summary()
    assert answer.title and answer.headline and answer.tables and len(answer.pictures)
    assert len(str(answer).splitlines()) < 200
    assert repr(subject).count("\n") < 60  # an answer is asked for


def test_every_table_is_a_frame_of_either_library(subject: Any) -> None:
    for table in subject.summary().tables:
        for backend in ("polars", "pandas"):
            frame = subject.to_frame(table.name, backend=backend)
            assert list(frame.columns) == list(table.columns) and len(frame) == len(table)


def test_every_picture_is_drawn(subject: Any) -> None:
    pictures = subject.summary().pictures
    assert subject.plot().axes
    for name in list(pictures)[:6]:
        assert figure_of(pictures[name])._repr_png_().startswith(b"\x89PNG")


def test_intervals_are_as_wide_as_they_are_asked_for(subject: Any) -> None:
    wide, narrow = (subject.summary(level).tables for level in (0.99, 0.5))
    for one, other in zip(wide, narrow, strict=True):
        if "low" in one.columns:
            ends = [(a, b) for a, b in zip(one.columns["low"], other.columns["low"], strict=True)]
            assert all(a <= b for a, b in ends if a is not None)


def test_a_page_shows_the_result_first_and_no_name_is_markup(subject: Any) -> None:
    page, answer = subject._repr_html_(), subject.summary()
    assert "<script" not in page
    tables = " ".join(str(dict(table.columns)) for table in answer.tables)
    assert HOSTILE not in tables or "&lt;script&gt;" in page
    promise = answer.promise.split(".")[0].replace("'", "&#x27;")
    if answer.promise:
        assert page.index("<table>") < page.index("Promise") == page.index(promise)


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_shows_names_of_the_caller_and_its_certificate_once_and_folded(name: str) -> None:
    model, expected = fitted(name), ESTIMATORS[name]()[2]
    text, page = str(model.summary()), model._repr_html_()
    assert not expected or any(word in text for word in expected)
    assert page.count("What was released") - page.count("What was released</caption>") >= 1
    assert page.count("The certificate of") == len(model.certificates_)
    assert page.index("<table>") < page.index("<details>") < page.index("The certificate of")
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == text


@pytest.mark.parametrize("name", NAMES)
def test_before_a_fit_a_notebook_shows_the_parameters(name: str) -> None:
    model = ESTIMATORS[name]()[0]
    assert "sk-" in model._repr_html_()
    with pytest.raises(ParameterError, match="fit"):
        model.summary()


def told(answer: Answer, but: tuple[str, ...] = ()) -> list[Any]:
    """Return all that an answer says, but for some columns."""
    tables = [
        {n: list(v) for n, v in table.columns.items() if n not in but} for table in answer.tables
    ]
    return [answer.title, answer.warnings, answer.promise, *tables]


@pytest.mark.parametrize("name", NAMES)
def test_an_answer_follows_from_the_release_alone(name: str, tmp_path: Path) -> None:
    """So neighbouring data with the same release have the same answer: there is nothing else."""
    model = fitted(name)
    again = type(model).from_release(model.release(tmp_path / "release"))
    ours, theirs = model.summary(), again.summary()
    if name not in REDRAWN:
        assert told(ours) == told(theirs) and ours.headline == theirs.headline
        assert list(ours.pictures) == list(theirs.pictures)
        return
    drawn = ("low", "high", "R-hat", "effective draws")
    said = told(ours, drawn)[2 : 3 + len(theirs.tables)]  # but for warnings about draws
    assert said == told(theirs, drawn)[2:]
    assert again.infer().summary().table("parameters").columns.keys() == (
        ours.table("parameters").columns.keys()
    )


@pytest.mark.parametrize("name", ["posterior", "selector", "factorization by local", "classifier"])
def test_draws_go_to_arviz_and_where_there_are_none_it_is_said(name: str) -> None:
    assert fitted(name).to_arviz().posterior.sizes["draw"] > 1
    assert objects()["a factorization of one holder"].to_arviz().posterior.sizes["draw"] == 5
    with pytest.raises(ParameterError, match="no draws"):
        fitted("factorization").to_arviz()
