"""Answers show the same result on a terminal, in a notebook, as a frame and as a picture."""

from __future__ import annotations

import math

import pytest

from tacit._core.answers import Answer, Answering, Table, shown_number
from tacit._core.pictures import Bars, HeatMap, Histogram, Intervals, Lines
from tacit._core.plotting import figure_of
from tacit.errors import ParameterError

TABLE = Table(
    "means",
    "Means",
    {"column": ["age", "<b>dose</b>"], "mean": [49.81, None], "standard error": [0.213, None]},
    notes=("dose is mostly noise",),
)
PICTURES = {
    "means": Intervals("Means", "years", ["age $x$"], [1.0], [0.5], [2.0], reference=0.0),
    "cells": Histogram("Ages", "years", [0, 1, 2], [3, 4], [1, 1], {"median": 1.0}),
    "wards": Bars("Wards", "rows", ["a", "b"], [1, 2], [0, 1], [2, 3]),
    "curve": Lines("Curve", "ε", "error", {"ours": [(1, 2), (2, 1)]}, {"free": 1.5}, True),
    "shades": HeatMap("Topics", "share", ["word"], ["1", "2"], [[0.2, -0.8]]),
}


class Subject(Answering):
    def _answer(self, level: float) -> Answer:
        return Answer(
            "A subject", f"At {level:g}.", (TABLE,), ("take care",), "Promise: ε = 1.",
            {"How": "by hand", "More": (TABLE,)}, PICTURES,
        )  # fmt: skip


def test_the_result_stands_before_the_promise_and_the_details() -> None:
    text, page = str(Subject().summary()), Subject()._repr_html_()
    for shown in (text, page):
        places = [shown.index(part) for part in ("At 0.9", "Means", "take care", "Promise")]
        assert places == sorted(places)
    assert page.index("Promise") < page.index("by hand")


def test_text_in_a_notebook_shows_nothing_on_its_own(monkeypatch, capsys) -> None:
    """rich displays tables by itself there, before the cell shows its result."""
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *a, **k: shown.append(a))
    assert "dose" in str(Subject().summary())
    assert not shown and not capsys.readouterr().out


def test_names_are_no_markup() -> None:
    assert "<b>dose" not in Subject()._repr_html_()
    odd = Table("t", "t", {"name": ["[red]x[/red]", "$\\alpha"], "n": [1, 2]})
    assert "[red]x[/red]" in str(odd)


@pytest.mark.parametrize("backend", ["polars", "pandas"])
def test_a_frame_has_every_row_and_column(backend: str) -> None:
    frame = Subject().to_frame(backend=backend)
    assert list(frame.columns) == list(TABLE.columns) and len(frame) == 2


def test_long_tables_are_cut_where_they_are_read_and_whole_as_frames() -> None:
    table = Table("long", "Long", {"k": list(range(100))})
    assert "70 more rows" in str(table) and "70 more rows" in table.html()
    assert len(table.to_frame()) == 100


def test_what_is_not_there_is_named() -> None:
    with pytest.raises(ParameterError, match="means"):
        Subject().to_frame("medians")
    with pytest.raises(ParameterError, match="no picture"):
        Answer("nothing").picture()
    with pytest.raises(ParameterError, match="level"):
        Subject().summary(1.0)


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_drawn_and_shown_without_pyplot(name: str) -> None:
    figure = Subject().plot(name)
    assert figure.axes[0].get_title(loc="left") == PICTURES[name].title
    assert figure._repr_png_().startswith(b"\x89PNG")


def test_a_picture_is_drawn_into_given_axes() -> None:
    figure = figure_of(PICTURES["means"])
    assert figure_of(PICTURES["wards"], figure.axes[0]) is figure


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (3, None, "3"),
        (1234567, None, "1,234,567"),
        (0.123456, 0.01, "0.123"),
        (-12.0, 130.0, "-10"),
        (math.inf, None, "inf"),
        (True, None, "True"),
        (1e-9, None, "1e-09"),
        ("age", 0.1, "age"),
        (None, None, "–"),
    ],
)
def test_numbers_have_the_digits_that_mean_something(value, error, text) -> None:
    assert shown_number(value, error) == text
