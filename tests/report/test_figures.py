"""Pictures as SVG: every kind, numbers that are none, names that are too long."""

import re

import pytest

from tacit._core.pictures import Bars, HeatMap, Histogram, Intervals, Lines
from tacit.report.drawing import margined, number, ticks
from tacit.report.figures import figure
from tests.report.pages import HOSTILE, pictures

NAN, INF = float("nan"), float("inf")


def coordinates(text):
    found = re.findall(r' (?:x|y|x1|x2|y1|y2|cx|cy|width|height)="([^"]*)"', text)
    for points in re.findall(r'points="([^"]*)"', text):
        found += points.replace(",", " ").split()
    return [float(value) for value in found]


@pytest.mark.parametrize("name", list(pictures()))
def test_every_kind_is_drawn_with_its_numbers_and_words(name):
    text = figure(pictures()[name])
    assert "<svg" in text
    assert "<desc>" in text
    assert "Numbers of" in text
    assert all(-20 <= value <= 400 for value in coordinates(text))


def test_an_estimate_has_its_number_beside_it_and_further_right_is_larger():
    text = figure(Intervals("t", "", ["a", "b"], [1.0, 3.0], [0.5, 2.0], [1.5, 4.0]))
    left, right = (float(m) for m in re.findall(r'<path d="M([\d.]+) ', text))
    assert left < right
    assert re.findall(r">(1|3)</text>", text)


def test_bars_begin_at_zero_and_negative_ones_go_left():
    text = figure(Bars("t", "", ["a", "b"], [2.0, -1.0]))
    (a, wide_a), (b, wide_b) = (
        (float(x), float(w))
        for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', text)
    )
    assert a == pytest.approx(b + wide_b, abs=0.02)
    assert wide_a == pytest.approx(2 * wide_b, abs=0.05)


def test_an_open_end_becomes_an_arrow_and_no_number_is_lost():
    text = figure(Intervals("t", "", ["a", "b"], [1.0, 2.0], [-INF, NAN], [1.5, INF]))
    assert text.count('class="fill s0"') == 3
    assert "−∞" in text


@pytest.mark.parametrize(
    "picture",
    [
        Intervals("t", "", ["a"], [NAN], [NAN], [NAN]),
        Bars("t", "", [], []),
        Histogram("t", "", [0, 1], [INF]),
        Lines("t", "", "", {"a": [(0.0, 1.0)]}, logarithmic=True),
        HeatMap("t", "", ["a"], ["b"], [[NAN]]),
    ],
)
def test_what_cannot_be_drawn_says_so(picture):
    assert "nothing finite to draw" in figure(picture)


@pytest.mark.parametrize(
    "values",
    [[NAN, INF, 1.0], [1e300, -1e300, 5.0], [1e-300, 2e-300, 0.0], [7.0, 7.0, 7.0],
     [1e16, 1e16 + 2, 1e16 + 4]],
)  # fmt: skip
def test_strange_numbers_stay_within_the_picture(values):
    names = [HOSTILE, "b", "c"]
    for picture in (
        Intervals(HOSTILE, HOSTILE, names, values, values, values, reference=0.0),
        Bars("t", "", names, values, values, values),
        Histogram("t", "", [0, 1, 2, 3], values, values, {HOSTILE: 1.0, "x": INF}),
        Lines("t", "", "", {HOSTILE: list(zip(values, values, strict=True))}, {HOSTILE: INF}),
        HeatMap("t", "", names, names, [values] * 3),
    ):
        text = figure(picture)
        assert "<script" not in text
        assert len(text) < 60_000
        assert all(-20 <= value <= 600 for value in coordinates(text))


def test_five_thousand_rows_become_a_picture_that_says_how_many_there_are():
    names = [str(k) for k in range(5000)]
    values = [float(k) for k in range(5000)]
    for picture in (
        Intervals("t", "", names, values, values, values),
        HeatMap("t", "", names, ["a"], [[v] for v in values]),
        Lines("t", "", "", {"a": list(zip(values, values, strict=True))}),
    ):
        text = figure(picture)
        assert len(text) < 40_000
    assert "of 5,000" in figure(HeatMap("t", "", names, ["a"], [[v] for v in values]))
    assert ">4999</text>" in figure(HeatMap("t", "", names, ["a"], [[v] for v in values]))


def test_signs_of_a_heat_map_stand_in_its_cells_and_deeper_is_larger():
    text = figure(HeatMap("t", "", ["a"], ["1", "2"], [[2.0, -1.0]]))
    cells = re.findall(r'class="(above|below)" fill-opacity="([\d.]+)"', text)[:2]
    assert cells == [("above", "0.62"), ("below", "0.31")]
    assert "−1.00</text>" in text


def test_ticks_and_ranges_survive_extremes():
    assert ticks(1e-300, 3e-300)[0] > 0
    assert ticks(5.0, 5.0) == [5.0]
    assert margined([]) == (-0.06, 1.06)
    low, high = margined([3.0], zero=True)
    assert low == 0.0 < high
    assert number(1e300) == "1e+300"
    assert number(-0.0) == "0"
