"""What a summary shows: tables, frames, warnings, pictures."""

import numpy as np
import pytest

import tacit as tc
from tacit._core.pictures import Bars, Histogram, Intervals
from tacit.privacy.guarantee import Privacy

ROWS = 800
RNG = np.random.default_rng(0)
TABLE = {
    "age": RNG.normal(50, 10, ROWS).clip(0, 100),
    "sex": RNG.choice(["f", "m"], ROWS),
    "ward": RNG.choice(["a", "b", "c"], ROWS),
}
COLUMNS = tc.Columns(
    age=tc.number(0, 100), sex=tc.category("f", "m"), ward=tc.category("a", "b", "c")
)


@pytest.fixture(scope="module")
def plain():
    return tc.PrivateSummary(COLUMNS, privacy=Privacy(1, 1e-6)).fit(TABLE)


@pytest.fixture(scope="module")
def grouped():
    options = {"by": "sex", "privacy": Privacy(1, 1e-6)}
    return tc.PrivateSummary(COLUMNS, **options).fit(TABLE)


def test_the_first_table_has_every_number_with_its_error(plain):
    frame = plain.to_frame()
    assert frame.columns == [
        "column", "statistic", "estimate", "standard error", "low", "high", "share of noise",
    ]  # fmt: skip
    mean = frame.filter((frame["column"] == "age") & (frame["statistic"] == "mean"))
    assert mean["estimate"][0] == plain.mean_["age"]
    assert mean["standard error"][0] == plain.errors_["mean"]["age"]
    assert frame["statistic"].to_list()[0] == "count"


def test_with_groups_every_row_names_its_group(grouped):
    frame = grouped.to_frame()
    assert set(frame["sex"]) == {"f", "m"}
    means = frame.filter(frame["statistic"] == "mean")
    assert dict(zip(means["sex"], means["estimate"], strict=True)) == grouped.mean_["age"]


def test_categories_have_counts_and_shares(plain):
    counts, shares = plain.to_frame("categories"), plain.to_frame("shares")
    assert counts["count"].to_list()[:2] == list(plain.counts_["sex"].values())
    assert shares.filter(shares["column"] == "ward")["share"].sum() == pytest.approx(1.0)


def test_histograms_are_in_a_frame_and_not_in_a_terminal(plain):
    assert len(plain.to_frame("histograms")) == plain.bins
    assert plain.to_frame("histograms")["count"].sum() == pytest.approx(plain.count_)
    text = str(plain.summary())
    assert "to_frame('histograms')" in text and text.count("\n") < 45


def test_the_result_comes_before_the_promise(plain):
    text = str(plain.summary())
    assert text.index("the mean of age") < text.index("standard error") < text.index("Promise")


def test_pictures_are_histograms_with_quantiles_and_bars_and_means(plain, grouped):
    pictures = plain.summary().pictures
    drawn = pictures["histogram of age"]
    assert isinstance(drawn, Histogram) and set(drawn.marks) == {"0.25", "0.5", "0.75"}
    assert isinstance(pictures["ward"], Bars)
    by_group = grouped.summary().picture()
    assert isinstance(by_group, Intervals) and list(by_group.labels) == ["f", "m"]
    for name in pictures:
        assert plain.plot(name).axes


def test_numbers_that_are_mostly_noise_are_named():
    model = tc.PrivateSummary(COLUMNS, by="sex", privacy=Privacy(0.02), random_state=2).fit(TABLE)
    warnings = " ".join(model.summary().warnings)
    assert "mostly noise" in warnings and "age of f" in warnings


def test_many_rows_and_little_noise_need_no_warning(plain):
    assert plain.summary().warnings == ()


def test_the_level_makes_intervals_wider(plain):
    narrow, wide = plain.to_frame(level=0.5), plain.to_frame(level=0.99)
    assert (wide["high"] - wide["low"] >= narrow["high"] - narrow["low"]).all()
    assert narrow["standard error"].to_list() == wide["standard error"].to_list()
