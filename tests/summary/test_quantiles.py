"""Quantiles, alone and beside other statistics: by splits, from cells, over sites."""

import math

import numpy as np
import pytest

from tacit.data.dictionary import field_kind
from tacit.data.schema import Columns
from tacit.data.stating import date, number
from tacit.errors import ParameterError
from tacit.estimators.site import Site
from tacit.mechanisms.quantiles import Quantiles
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.summary.agreement import SummaryAgreement
from tacit.summary.cells import cell_quantiles, cell_widths, finer_edges
from tacit.summary.estimator import PrivateSummary
from tacit.summary.layout import STATISTICS

DECILES = tuple(k / 10 for k in range(1, 10))
RANGE = {"x": (0.0, 1000.0)}


def summary(levels=DECILES, *, neighbours="add-remove-one", epsilon=1.0, delta=0.0, **more):
    privacy = Privacy(epsilon, delta, neighbours=neighbours)
    return PrivateSummary(
        RANGE, statistics=("quantiles",), quantiles=levels, privacy=privacy, noise="grid",
        random_state=3, **more,
    )  # fmt: skip


def lognormal(rows, seed=0):
    return np.random.default_rng(seed).lognormal(3, 1, rows).clip(0, 1000)


def ranks(x, levels, found):
    return np.abs(np.searchsorted(np.sort(x), found) - np.array(levels) * len(x))


def agreement(levels, neighbours="add-remove-one", sites=1, columns=1):
    privacy = Privacy(1.0, 1e-6, unit="row", neighbours=neighbours)
    bounds = tuple((f"x{k}", 0.0, 1.0) for k in range(columns))
    return SummaryAgreement(bounds, ("quantiles",), 32, privacy, sites, levels=levels)


def test_many_rows_are_split_to_within_a_few_ranks():
    x = lognormal(50_000)
    fitted = summary().fit({"x": x})
    assert ranks(x, DECILES, fitted.quantiles_["x"]).max() < 60
    assert np.all(fitted.resolution_["x"] < 1e-5)


def test_few_rows_are_read_from_cells_and_the_resolution_says_so():
    fitted = summary(epsilon=0.5).fit({"x": lognormal(100)})
    np.testing.assert_allclose(fitted.resolution_["x"], 1000 / 32)


def test_one_quantile_of_very_few_rows_is_read_from_cells_where_their_number_is_public():
    few = summary((0.5,), neighbours="replace-one", epsilon=0.1).fit({"x": lognormal(100)})
    many = summary((0.5,), neighbours="replace-one", epsilon=0.1).fit({"x": lognormal(1000)})
    assert few.resolution_["x"][0] > 1.0 > many.resolution_["x"][0]


def test_levels_come_back_in_the_order_that_was_asked_for():
    x = lognormal(20_000)
    fitted = summary((0.9, 0.1, 0.5, 0.9)).fit({"x": x})
    high, low, middle, again = fitted.quantiles_["x"]
    assert low < middle < high == again


def test_no_count_is_paid_for_that_nobody_asked_for():
    (step,) = agreement((0.5,)).steps
    assert isinstance(step.mechanism, Quantiles)
    assert step.mechanism.epsilon == 1.0
    histogram = SummaryAgreement((("x", 0.0, 1.0),), ("histogram",), 8, Privacy(1.0, unit="row"))
    assert (histogram.sensitivity(1), histogram.sensitivity(2)) == (1.0, 1.0)
    fitted = PrivateSummary(RANGE, statistics=("histogram",), privacy=Privacy(1.0)).fit(
        {"x": [1.0]}
    )
    assert "count" not in fitted.noise_sd_


def test_under_replacement_the_number_of_rows_is_open_and_only_quantiles_are_paid():
    first, second = agreement((0.5,), "replace-one").steps
    assert first.open == "the number of rows"
    assert isinstance(second.mechanism, Quantiles)


@pytest.mark.parametrize("statistics", [
    ("quantiles",), ("mean", "quantiles"), ("histogram", "quantiles"), STATISTICS,
], ids="+".join)  # fmt: skip
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("sites", [1, 2])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
def test_all_steps_together_cost_no_more_than_was_asked(
    statistics, columns, sites, delta, neighbours
):
    table = {f"x{k}": np.linspace(0, 1, 50) for k in range(columns)}
    names = [f"site {k}" for k in range(sites)]
    purses = {
        name: Ledger.memory(epsilon=1.0, delta=delta, neighbours=neighbours) for name in names
    }
    privacy = Privacy(1.0, delta, neighbours=neighbours, trust="site")
    model = PrivateSummary(
        dict.fromkeys(table, (0.0, 1.0)), statistics=statistics, privacy=privacy, noise="grid"
    )
    model.fit([Site(name, table, purses[name]) for name in names])
    for name in names:
        spent = model.certificates_[name].verify(purses[name]).epsilon
        assert 0.9 < spent <= 1.0 + 1e-9


def test_over_sites_cells_follow_the_data():
    parts = [lognormal(50_000, seed) for seed in (1, 2)]
    privacy = Privacy(1.0, 1e-6, trust="site")
    model = PrivateSummary(
        RANGE, statistics=("quantiles",), quantiles=DECILES, privacy=privacy, noise="grid",
        random_state=1,
    )  # fmt: skip
    model.fit([Site(f"site {k}", {"x": part}) for k, part in enumerate(parts)])
    x = np.concatenate(parts)
    assert ranks(x, DECILES, model.quantiles_["x"]).max() < 0.005 * len(x)
    # equal cells are 31 wide, and two thirds of the values lie in one of them
    assert np.all(model.resolution_["x"] < 20.0)
    assert np.median(model.resolution_["x"]) < 3.0
    edges = np.linspace(0, 1000, 33)
    rough = cell_quantiles(np.histogram(x, edges)[0], edges, DECILES, 0.0)
    assert ranks(x, DECILES, rough).max() > 10 * ranks(x, DECILES, model.quantiles_["x"]).max()


def test_without_noise_they_are_the_samples():
    x = lognormal(501)
    for privacy in (None, Privacy(math.inf), Privacy(math.inf, neighbours="replace-one")):
        fitted = PrivateSummary(RANGE, statistics=("quantiles",), privacy=privacy).fit({"x": x})
        np.testing.assert_allclose(fitted.quantiles_["x"], np.quantile(x, (0.25, 0.5, 0.75)))


def test_quantiles_do_not_add_up():
    fitted = summary().fit({"x": lognormal(100)})
    with pytest.raises(ParameterError, match="do not add up"):
        fitted.add_sites([Site("later", {"x": lognormal(10)})])


# -- beside other statistics ------------------------------------------------------------------


def beside(rows, statistics=STATISTICS, **more):
    privacy = Privacy(**{"epsilon": 1.0, "delta": 1e-6, **more})
    return PrivateSummary(
        RANGE, statistics=statistics, quantiles=DECILES, privacy=privacy, noise="grid",
        random_state=3,
    ).fit({"x": lognormal(rows)})  # fmt: skip


@pytest.mark.parametrize("statistics", [("mean", "quantiles"), STATISTICS], ids="+".join)
@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
def test_many_rows_have_no_floor_of_cells(statistics, neighbours):
    fitted = beside(50_000, statistics, neighbours=neighbours)
    assert ranks(lognormal(50_000), DECILES, fitted.quantiles_["x"]).max() < 1000
    assert np.all(fitted.resolution_["x"] < 1e-5)


@pytest.mark.parametrize("statistics", [("mean", "quantiles"), STATISTICS], ids="+".join)
def test_few_rows_are_read_from_cells(statistics):
    fitted = beside(100, statistics)
    np.testing.assert_allclose(fitted.resolution_["x"], 1000 / 32)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("sites", [1, 2])
def test_the_others_have_the_noise_of_one_histogram_more(sites, delta):
    privacy = Privacy(1.0, delta, unit="row")
    bounds = (("x", 0.0, 1.0), ("y", 0.0, 1.0))

    def deviation(statistics, **more):
        agreement = SummaryAgreement(bounds, statistics, 8, privacy, sites, **more)
        return agreement.mechanism.variance() ** 0.5

    with_them = deviation(("count", "mean", "quantiles"))
    in_cells = deviation(("count", "mean", "quantiles"), refined=False)
    assert deviation(("count", "mean")) < with_them == pytest.approx(in_cells, rel=0.1)


def test_a_histogram_before_is_counted_in():
    """At δ = 0 both releases of the cells are as noisy: together they have half the variance."""
    agreement = SummaryAgreement((("x", 0.0, 1.0),), ("histogram", "quantiles"), 8, Privacy(1.0))
    second = agreement.step("quantiles 0")
    assert set(second.kinds["cells"].asks) == {"before"}
    assert second.kinds["cells"].mechanism.variance() == pytest.approx(
        agreement.mechanism.variance(), rel=1e-6
    )


def test_people_pay_for_all_their_rows():
    people = Privacy(1.0, unit="user")
    agreement = SummaryAgreement(
        (("x", 0.0, 1.0),), ("quantiles",), 8, people, rows_per_unit=4, levels=DECILES
    )
    looked, drawn = agreement.steps
    assert looked.mechanism.sensitivity == 4
    assert drawn.mechanism.values == 4
    assert drawn.kinds["cells"].mechanism.sensitivity == 4.0


def test_a_budget_too_small_for_splits_is_spent_on_cells():
    agreement = SummaryAgreement((("x", 0.0, 1.0),), ("quantiles",), 8, Privacy(1e-6))
    assert [step.name for step in agreement.steps] == ["rows"]


# -- cells ------------------------------------------------------------------------------------


def test_one_cell_that_may_be_noise_is_not_believed_alone():
    cells, edges = np.zeros(32), np.linspace(0.0, 1.0, 33)
    cells[3] = 2.5
    doubted = cell_quantiles(cells, edges, (0.1, 0.9), 1.0)
    cells[3] = 50.0
    believed = cell_quantiles(cells, edges, (0.1, 0.9), 1.0)
    assert doubted[1] - doubted[0] > 2 / 32
    assert edges[3] <= believed[0] < believed[1] <= edges[4]


def test_finer_cells_hold_alike_and_cover_the_range():
    cells, edges = np.array([900.0, 50.0, 50.0, 0.0]), np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
    finer = finer_edges(cells, edges, 1.0)
    assert (finer[0], finer[-1]) == (-1.0, 1.0)
    assert np.all(np.diff(finer) > 0)
    assert finer[3] < -0.4
    assert cell_widths(edges, np.array([-1.0, -0.3, 1.0])).tolist() == [0.5, 0.5, 0.5]


# --- whole numbers ------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])  # read from cells, split, nearly exact
def test_quantiles_of_whole_numbers_are_whole_and_their_intervals_hold(epsilon):
    missed = 0
    for seed in range(40):
        x = np.random.default_rng(seed).poisson(4.0, 2000).clip(0, 20)
        model = PrivateSummary(
            {"x": number(0, 20, step=1)}, statistics=("count", "quantiles"), noise="grid",
            quantiles=(0.25, 0.5, 0.75), privacy=Privacy(epsilon), random_state=seed,
        ).fit({"x": x})  # fmt: skip
        table = model.summary().table("statistics").columns
        for k, truth in enumerate((3.0, 4.0, 5.0), 1):
            low, value, high = (table[name][k] for name in ("low", "estimate", "high"))
            assert low <= value <= high and not {low % 1, value % 1, high % 1} - {0.0}
            missed += not low <= truth <= high
        np.testing.assert_array_equal(model.quantiles_["x"], table["estimate"][1:4])
    assert missed <= 0.13 * 120


def test_averages_of_whole_numbers_are_not_on_their_grid():
    rows = {"who": ["a", "a", "b"], "x": [1, 2, 3]}
    stated = {"x": number(0, 10, step=1), "born": date("1950-01-01", "2020-12-31")}
    assert Columns(stated).grid("x") == Columns(stated).grid("born") == 1.0
    averaged = Columns({"x": stated["x"]}, key="who", duplicates="mean")
    assert averaged.grid("x") == 0.0
    found = PrivateSummary(averaged, statistics=("quantiles",), quantiles=(0.4,)).fit(rows)
    assert found.quantiles_["x"][0] == pytest.approx(2.1)


def test_an_integer_field_of_a_dictionary_is_whole():
    field = {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 110}}
    assert field_kind(field).described()["step"] == 1.0
