"""PrivateSummary: right numbers without noise, right noise, right charges."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from sklearn.base import clone

from tacit._core.check import Bounds
from tacit.data.problems import BadTable
from tacit.data.schema import Columns
from tacit.data.stating import date
from tacit.errors import (
    BudgetExceeded,
    NotCertified,
    ParameterError,
    SiteFailure,
    UnboundedData,
)
from tacit.estimators import gate as gate_module
from tacit.estimators.site import Site
from tacit.privacy.events import GaussianDpEvent, LaplaceDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.summary import sides
from tacit.summary.estimator import STATISTICS, PrivateSummary

BOUNDS = {"age": (0.0, 110.0), "stay": (-5.0, 60.0), "dose": (1e-3, 2e-3)}
PRIVACY = Privacy(epsilon=1.0, delta=1e-6)
REPLACE = Privacy(epsilon=1.0, delta=1e-6, neighbours="replace-one")
AT_SITES = Privacy(epsilon=1.0, delta=1e-6, trust="site")


def make_table(rows=500, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "age": rng.normal(58.0, 17.0, rows).clip(0, 105),
        "stay": rng.gamma(1.6, 4.0, rows).clip(0, 59),
        "dose": rng.uniform(0.001, 0.002, rows),
    }


TABLE = make_table()


def released(summary):
    """Return everything a fitted summary released, as one flat dictionary of arrays."""
    found = {}
    for statistic in summary.statistics:
        value = getattr(summary, f"{statistic}_")
        for name, part in value.items() if isinstance(value, dict) else [("", value)]:
            for k, array in enumerate(part if isinstance(part, tuple) else (part,)):
                found[f"{statistic}/{name}/{k}"] = np.asarray(array, float)
    return found


def same(first, second, **tolerance):
    a, b = released(first), released(second)
    assert a.keys() == b.keys()
    for key in a:
        if tolerance:
            np.testing.assert_allclose(a[key], b[key], err_msg=key, **tolerance)
        else:
            np.testing.assert_array_equal(a[key], b[key], err_msg=key)


# -- the numbers ------------------------------------------------------------------------------


def test_without_noise_every_statistic_is_numpys():
    levels = (0.1, 0.5, 0.9)
    summary = PrivateSummary(BOUNDS, bins=64, quantiles=levels).fit(TABLE)
    assert summary.count_ == pytest.approx(500, abs=1e-9)
    for name, values in TABLE.items():
        low, high = BOUNDS[name]
        assert summary.sum_[name] == pytest.approx(values.sum(), rel=1e-9)
        assert summary.mean_[name] == pytest.approx(values.mean(), rel=1e-9)
        assert summary.variance_[name] == pytest.approx(values.var(), rel=1e-8)
        counts, edges = summary.histogram_[name]
        expected, expected_edges = np.histogram(values, bins=64, range=(low, high))
        np.testing.assert_allclose(counts, expected, atol=1e-9)
        np.testing.assert_allclose(edges, expected_edges, rtol=1e-12, atol=1e-12)
        cell = (high - low) / 64
        np.testing.assert_allclose(
            summary.quantiles_[name], np.quantile(values, levels), atol=1.01 * cell
        )


any_values = st.one_of(st.floats(-10.0, 10.0), st.sampled_from([math.nan, math.inf, -math.inf]))


@given(arrays.arrays(float, st.tuples(st.integers(1, 30), st.just(2)), elements=any_values))
def test_values_outside_are_clipped_and_missing_ones_are_the_middle_where_so_stated(values):
    bounds = {"x": (-3.0, 4.0), "y": (2.0, 2.5)}
    stated = Columns(bounds, missing="impute", outside="clip")
    summary = PrivateSummary(stated, bins=8).fit(values)
    for k, (name, (low, high)) in enumerate(bounds.items()):
        column = np.where(np.isnan(values[:, k]), (low + high) / 2, values[:, k]).clip(low, high)
        assert summary.mean_[name] == pytest.approx(column.mean(), abs=1e-9)
        assert summary.variance_[name] == pytest.approx(column.var(), abs=1e-9)
        assert summary.histogram_[name][0].sum() == pytest.approx(len(values), abs=1e-9)


@pytest.mark.parametrize(
    "privacy",
    [Privacy(epsilon=math.inf), Privacy(epsilon=math.inf, delta=1e-6)],
    ids=["delta 0", "delta 1e-6"],
)
@pytest.mark.parametrize("noise", ["exact", "grid"])
def test_infinite_epsilon_gives_the_same_numbers_as_no_privacy(privacy, noise):
    open_one = PrivateSummary(BOUNDS).fit(TABLE)
    infinite = PrivateSummary(BOUNDS, privacy=privacy, noise=noise).fit(TABLE)
    same(open_one, infinite, rtol=1e-9, atol=1e-9)
    assert not infinite.certificate_.is_private
    assert not open_one.certificate_.is_private


def test_infinite_epsilon_under_replacement_gives_the_same_numbers():
    privacy = Privacy(epsilon=math.inf, neighbours="replace-one")
    infinite = PrivateSummary(BOUNDS, privacy=privacy).fit(TABLE)
    same(PrivateSummary(BOUNDS).fit(TABLE), infinite, rtol=1e-9, atol=1e-9)


SUBSETS = [s for k in range(1, 7) for s in itertools.combinations(STATISTICS, k)]


@pytest.mark.parametrize("wanted", SUBSETS, ids="+".join)
def test_any_choice_of_statistics_gives_those_and_no_others(wanted):
    whole = PrivateSummary(BOUNDS).fit(TABLE)
    part = PrivateSummary(BOUNDS, statistics=wanted).fit(TABLE)
    for statistic in STATISTICS:
        assert hasattr(part, f"{statistic}_") is (statistic in wanted)
    a, b = released(part), released(whole)
    if wanted == ("quantiles",):  # not read from cells
        b = {f"quantiles/{name}/0": np.quantile(TABLE[name], part.quantiles) for name in BOUNDS}
    for key in a:
        np.testing.assert_allclose(a[key], b[key], rtol=1e-9, atol=1e-9, err_msg=key)


def test_fewer_statistics_cost_less_noise():
    some = PrivateSummary(BOUNDS, statistics=("mean",), privacy=PRIVACY).fit(TABLE)
    every = PrivateSummary(BOUNDS, privacy=PRIVACY).fit(TABLE)
    assert some.noise_sd_["age"]["sum"] < every.noise_sd_["age"]["sum"]


def test_an_empty_table_has_count_zero_and_the_middle_as_mean():
    summary = PrivateSummary({"x": (0, 10)}).fit({"x": []})
    assert summary.count_ == 0.0
    assert summary.mean_["x"] == 5.0


# -- tables -----------------------------------------------------------------------------------

CONTAINERS = {
    "dict of lists": lambda t: {name: list(values) for name, values in t.items()},
    "array": lambda t: np.column_stack(list(t.values())),
    "fortran array": lambda t: np.asfortranarray(np.column_stack(list(t.values()))),
    "pandas": pd.DataFrame,
    "pandas, other order": lambda t: pd.DataFrame(t)[["dose", "age", "stay"]],
    "polars": pl.DataFrame,
    "arrow": pa.table,
    "arrow, chunked": lambda t: pa.concat_tables(
        [
            pa.table({n: v[:123] for n, v in t.items()}),
            pa.table({n: v[123:] for n, v in t.items()}),
        ]
    ),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("privacy", [None, PRIVACY, REPLACE], ids=["open", "add", "replace"])
def test_every_kind_of_table_gives_identical_results(container, privacy):
    expected = PrivateSummary(BOUNDS, privacy=privacy, random_state=1).fit(TABLE)
    table = CONTAINERS[container](TABLE)
    found = PrivateSummary(BOUNDS, privacy=privacy, random_state=1).fit(table)
    same(expected, found)


MISSING = {
    "list": [1.0, None, 3.0],
    "array": np.array([1.0, np.nan, 3.0]),
    "pandas": pd.DataFrame({"x": [1.0, None, 3.0]}),
    "pandas Int64": pd.DataFrame({"x": pd.array([1, None, 3], dtype="Int64")}),
    "pandas arrow": pd.DataFrame({"x": pd.array([1, None, 3], dtype="int64[pyarrow]")}),
    "polars": pl.DataFrame({"x": [1, None, 3]}),
    "arrow": pa.table({"x": [1, None, 3]}),
}


@pytest.mark.parametrize("kind", MISSING)
def test_missing_values_are_an_error_unless_it_is_stated_what_they_are(kind):
    table = MISSING[kind] if hasattr(MISSING[kind], "columns") else {"x": MISSING[kind]}
    with pytest.raises(BadTable, match="column 'x', missing: the table, row 2"):
        PrivateSummary({"x": (0, 100)}).fit(table)
    for missing, total in (("impute", 54.0), ("drop", 4.0)):
        stated = Columns({"x": (0, 100)}, missing=missing)
        assert PrivateSummary(stated).fit(table).sum_["x"] == pytest.approx(total, abs=1e-9)


@pytest.mark.parametrize("privacy", [None, PRIVACY, REPLACE], ids=["open", "add", "replace"])
def test_permuted_rows_give_identical_results(privacy):
    order = np.random.default_rng(3).permutation(500)
    shuffled = {name: values[order] for name, values in TABLE.items()}
    first = PrivateSummary(BOUNDS, privacy=privacy, random_state=7).fit(TABLE)
    second = PrivateSummary(BOUNDS, privacy=privacy, random_state=7).fit(shuffled)
    same(first, second)


def test_a_long_table_is_read_in_pieces():
    table = make_table(40_000)
    summary = PrivateSummary(BOUNDS).fit(table)
    assert summary.count_ == pytest.approx(40_000, abs=1e-6)
    for name, values in table.items():
        assert summary.mean_[name] == pytest.approx(values.mean(), rel=1e-9)
        expected = np.histogram(values, bins=32, range=BOUNDS[name])[0]
        np.testing.assert_allclose(summary.histogram_[name][0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ({"age": [1.0]}, "column 'stay', no such column"),
        ({**TABLE, "age": TABLE["age"][:-1]}, "one length"),
        ({**TABLE, "age": ["x"] * 500}, "column 'age', unreadable: the table, row 1: 'x'"),
        ({**TABLE, "age": [1j] * 500}, "column 'age', unreadable"),
        ({**TABLE, "age": np.ones((500, 2))}, "column 'age' must have one axis"),
        ({**TABLE, "age": [[1.0], [1.0, 2.0]]}, "column 'age'"),
        (np.ones((5, 2)), "one column for each of"),
        (np.ones(5), "data must be a table"),
        (None, "data must be a table"),
        (3.0, "data must be a table"),
        ([], "data must be a table"),
    ],
    ids=["column", "length", "text", "complex", "axes", "ragged", "shape", "flat", "None",
         "number", "no sites"],
)  # fmt: skip
def test_data_that_cannot_be_read_is_refused_to_its_holder_and_costs_nothing(table, match):
    ledger = Ledger.memory(epsilon=5.0, delta=1e-5)
    summary = PrivateSummary(BOUNDS, privacy=PRIVACY, ledger=ledger)
    with pytest.raises(ParameterError, match=match):
        summary.fit(table)
    assert ledger.counter == 0


# -- noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["exact", "grid"])
@pytest.mark.parametrize(
    "privacy", [PRIVACY, REPLACE, Privacy(epsilon=2.0)], ids=["gauss", "replace", "laplace"]
)
def test_released_numbers_are_within_a_few_deviations(privacy, noise):
    summary = PrivateSummary(BOUNDS, privacy=privacy, noise=noise, bins=8).fit(TABLE)
    sd = summary.noise_sd_
    # Laplace noise passes 15 of its deviations once in 10⁹
    assert abs(summary.count_ - 500) <= 15 * sd["count"]
    for name, values in TABLE.items():
        assert abs(summary.sum_[name] - values.sum()) <= 15 * (
            sd[name]["sum"] + abs(np.mean(BOUNDS[name])) * sd["count"]
        )
        counts = np.histogram(values, bins=8, range=BOUNDS[name])[0]
        assert np.abs(summary.histogram_[name][0] - counts).max() <= 15 * sd[name]["cell"]


@pytest.mark.parametrize(
    ("privacy", "sites"),
    [(PRIVACY, 1), (PRIVACY, 3), (REPLACE, 2), (Privacy(epsilon=2.0), 2)],
    ids=["gauss 1", "gauss 3", "replace 2", "laplace 2"],
)
def test_the_stated_deviation_is_the_real_one(privacy, sites):
    wide = {"x": (-1.0, 1.0)}  # middle 0: the sum carries its own noise only
    values = np.linspace(-0.9, 0.9, 2000)
    privacy = Privacy(privacy.epsilon, privacy.delta, neighbours=privacy.neighbours, trust="site")
    errors = {"count": [], "sum": [], "cell": []}
    for seed in range(80):
        summary = PrivateSummary(wide, privacy=privacy, random_state=seed, noise="grid", bins=2)
        summary.fit([Site(f"{k}", {"x": values}) for k in range(sites)])
        errors["count"].append(summary.count_ - 2000 * sites)
        errors["sum"].append(summary.sum_["x"] - sites * values.sum())
        errors["cell"].extend(summary.histogram_["x"][0] - 1000 * sites)
    stated = {"count": summary.noise_sd_["count"], **summary.noise_sd_["x"]}
    for name, found in errors.items():
        assert np.std(found) == pytest.approx(stated[name], rel=0.35), name
        assert abs(np.mean(found)) <= 5 * stated[name] / math.sqrt(len(found)), name


def test_without_a_delta_the_noise_is_laplace_and_with_one_it_is_what_is_smaller():
    def event(bounds, privacy, **more):
        agreement = PrivateSummary(bounds, privacy=privacy, **more)._agree([None])
        return agreement.step("rows").price

    assert isinstance(event(BOUNDS, Privacy(2.0)), LaplaceDpEvent)
    assert isinstance(event(BOUNDS, PRIVACY), GaussianDpEvent)
    one = event({"x": (0, 1)}, Privacy(1.0, 1e-9), statistics=("count",))
    assert isinstance(one, LaplaceDpEvent)


def test_a_seed_repeats_the_noise_and_its_absence_does_not():
    def fit(seed):
        return PrivateSummary(BOUNDS, privacy=PRIVACY, random_state=seed).fit(TABLE)

    same(fit(1), fit(1))
    assert fit(1).count_ != fit(2).count_
    assert fit(None).count_ != fit(None).count_


def test_sites_with_one_seed_do_not_share_their_noise():
    privacy = Privacy(epsilon=1.0, delta=1e-6, trust="site")
    fits = [
        PrivateSummary(BOUNDS, privacy=privacy, random_state=1).fit([Site(name, TABLE)])
        for name in ("North", "South")
    ]
    assert fits[0].count_ != fits[1].count_


# -- every array that leaves a holder ---------------------------------------------------------


@pytest.mark.parametrize("privacy", [AT_SITES, Privacy(1.0, 1e-6, "row", "replace-one", "site")])
def test_everything_that_leaves_a_holder_went_through_the_gate(monkeypatch, privacy):
    gate, left = [], []
    privatize, respond = gate_module.privatize, sides.Rows.respond

    def recording_gate(*args, **how):
        gate.append(privatize(*args, **how))
        return gate[-1]

    def recording_respond(self, request):
        left.append(respond(self, request))
        return left[-1]

    monkeypatch.setattr(gate_module, "privatize", recording_gate)
    monkeypatch.setattr(sides.Rows, "respond", recording_respond)
    sites = [Site("a", TABLE), Site("b", make_table(300, 1))]
    PrivateSummary(BOUNDS, privacy=privacy).fit(sites)
    assert len(left) == len(gate) == 6  # the sums, and two rounds of cells for quantiles
    for message, noisy in zip(left[2:], gate[2:], strict=True):
        assert set(message.arrays) == {"counts"}
        np.testing.assert_array_equal(message["counts"], noisy)
    for message, noisy, rows in zip(left[:2], gate[:2], (500, 300), strict=True):
        public = {} if privacy.neighbours == "add-remove-one" else {"rows": [rows]}
        assert set(message.arrays) == {"sum", *public}
        np.testing.assert_array_equal(message["sum"], noisy)
        for name, value in public.items():
            assert message[name].tolist() == value


def test_a_released_sum_is_never_the_true_one():
    """The recorder above would not see a gate that adds nothing."""
    open_one = PrivateSummary(BOUNDS).fit(TABLE)
    private = PrivateSummary(BOUNDS, privacy=PRIVACY).fit(TABLE)
    a, b = released(open_one), released(private)
    assert all((a[key] != b[key]).any() for key in a if not key.startswith("histogram"))


# -- sites ------------------------------------------------------------------------------------


def split_sites(ceilings=(4.0, 4.0, 4.0), folder=None):
    parts = np.split(np.arange(500), [120, 300])
    sites = []
    for k, (rows, ceiling) in enumerate(zip(parts, ceilings, strict=True)):
        table = {name: values[rows] for name, values in TABLE.items()}
        ledger = (
            Ledger.memory(epsilon=ceiling, delta=1e-5)
            if folder is None
            else Ledger.open(folder / f"{k}.db", epsilon=ceiling, delta=1e-5)
        )
        sites.append(Site(f"site {k}", table, ledger))
    return sites


@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
def test_without_noise_several_sites_equal_one_pooled_table(neighbours):
    privacy = Privacy(epsilon=math.inf, neighbours=neighbours, trust="site")
    pooled = PrivateSummary(BOUNDS).fit(TABLE)
    together = PrivateSummary(BOUNDS, privacy=privacy).fit(split_sites())
    for name, resolution in together.resolution_.items():  # over sites: from cells
        off = np.abs(together.quantiles_[name] - pooled.quantiles_[name])
        assert np.all(off <= resolution), name
    a, b = (
        {key: value for key, value in released(one).items() if not key.startswith("quantiles")}
        for one in (pooled, together)
    )
    assert a.keys() == b.keys()
    for key, value in a.items():
        np.testing.assert_allclose(value, b[key], rtol=1e-9, atol=1e-9, err_msg=key)


def test_the_order_of_the_sites_does_not_matter():
    def fit(sites):
        return PrivateSummary(BOUNDS, privacy=AT_SITES, random_state=4).fit(sites)

    same(fit(split_sites()), fit(split_sites()[::-1]))


def test_every_ledger_is_charged_once_and_confirms_its_certificate(tmp_path):
    sites = split_sites(folder=tmp_path)
    summary = PrivateSummary(BOUNDS, privacy=AT_SITES).fit(sites)
    assert set(summary.certificates_) == {site.name for site in sites}
    for site in sites:
        certificate = summary.certificates_[site.name]
        # the sums, and two rounds of cells for quantiles
        assert [row.kind for row in site.ledger.rows()] == ["charge", *["claim"] * 3]
        assert site.ledger.remaining.epsilon == 3.0
        assert site.ledger.verify() == 4
        certificate.verify(site.ledger)
        assert certificate.holder == site.name
        assert certificate.epsilon <= 1.0
        assert certificate.epsilon == pytest.approx(1.0, rel=1e-3)
        assert certificate.trust == "site"
    others = summary.certificates_["site 0"], sites[1].ledger
    with pytest.raises(Exception, match="does not hold the charge"):
        others[0].verify(others[1])


def test_a_certificate_lists_what_it_assumes():
    summary = PrivateSummary(BOUNDS, privacy=AT_SITES).fit(split_sites())
    assumptions = summary.certificate_.assumptions
    assert "age lies in [0, 110]" in assumptions
    assert "stay lies in [-5, 60]" in assumptions
    assert any("the sites hold different rows" in note for note in assumptions)
    assert any("memory" in note for note in assumptions)
    assert not any("seeded" in note for note in assumptions)
    replaced = PrivateSummary(BOUNDS, privacy=REPLACE).fit(TABLE).certificate_
    assert "the number of rows is public" in replaced.assumptions


def test_nobody_is_charged_if_one_site_cannot_pay():
    sites = split_sites(ceilings=(4.0, 4.0, 0.5))
    summary = PrivateSummary(BOUNDS, privacy=AT_SITES)
    with pytest.raises(BudgetExceeded, match=r"site 2 refuse.*No site was charged"):
        summary.fit(sites)
    assert [site.ledger.counter for site in sites] == [0, 0, 0]
    assert not hasattr(summary, "count_")


def test_nobody_is_charged_if_one_site_cannot_read_its_data():
    sites = split_sites()
    sites[2] = Site("site 2", {"age": [1.0]}, sites[2].ledger)
    with pytest.raises(ParameterError, match="no such column"):
        PrivateSummary(BOUNDS, privacy=AT_SITES).fit(sites)
    assert [site.ledger.counter for site in sites] == [0, 0, 0]


def test_several_sites_do_not_share_a_curator():
    curated = replace(PRIVACY.fixed(), trust="central")
    with pytest.raises(ParameterError, match="trust='site'"):
        PrivateSummary(BOUNDS, privacy=curated).fit(split_sites())


def test_fitting_twice_is_charged_twice_and_a_third_time_refused():
    ledger = Ledger.memory(epsilon=2.0, delta=1e-5)
    summary = PrivateSummary(BOUNDS, privacy=PRIVACY, ledger=ledger)
    first = summary.fit(TABLE).count_
    second = summary.fit(TABLE).count_
    assert first != second
    with pytest.raises(BudgetExceeded):
        summary.fit(TABLE)
    assert ledger.remaining.epsilon == 0.0
    assert summary.count_ == second


def test_without_noise_no_ledger_is_charged():
    ledger = Ledger.memory(epsilon=2.0, delta=1e-5)
    PrivateSummary(BOUNDS, ledger=ledger).fit(TABLE)
    PrivateSummary(BOUNDS, ledger=ledger, privacy=Privacy(epsilon=math.inf)).fit(TABLE)
    assert ledger.counter == 0


def test_a_holder_that_fails_releases_nothing_and_tells_the_reason_to_itself_alone(monkeypatch):
    def broken(public, table, grid):
        raise ValueError(f"patient aged {table['age'][0]}")

    monkeypatch.setattr(sides, "row_sums", broken)
    with pytest.raises(SiteFailure, match="ValueError: patient aged"):
        PrivateSummary(BOUNDS, privacy=PRIVACY).fit(TABLE)
    with pytest.raises(SiteFailure, match="ValueError") as caught:
        PrivateSummary(BOUNDS, privacy=AT_SITES).fit(split_sites((4.0, 4.0, 4.0)))
    assert "patient" not in str(caught.value)


# -- price ------------------------------------------------------------------------------------


class Untouchable:
    """Data that fails the test when anybody as much as looks at it."""

    def __getattribute__(self, name):
        raise AssertionError(f"the data was touched: {name}")


def test_the_price_is_known_before_any_data_is_read():
    sites = [Site(site.name, Untouchable(), site.ledger) for site in split_sites((4.0, 0.5, 4.0))]
    price = PrivateSummary(BOUNDS, privacy=AT_SITES).price(sites)
    assert [row.affordable for row in price.sites] == [True, False, True]
    assert not price.affordable
    assert [row.remaining_epsilon for row in price.sites] == [4.0, 0.5, 4.0]
    assert all(0.999 < row.epsilon <= 1.0 and row.delta == 1e-6 for row in price.sites)
    assert [site.ledger.counter for site in sites] == [0, 0, 0]
    assert "site 1: ε = 1, δ = 1e-06 (ε = 0.5 left: refused by its ledger)" in str(price)


def test_the_price_is_what_fit_costs():
    ledger = Ledger.memory(epsilon=3.0, delta=1e-5)
    summary = PrivateSummary(BOUNDS, privacy=PRIVACY, ledger=ledger)
    (row,) = summary.price().sites
    summary.fit(TABLE)
    assert row.epsilon == pytest.approx(summary.certificate_.epsilon, rel=1e-8)
    assert "affordable" in str(summary.price())


@settings(max_examples=12)
@given(
    st.floats(1e-3, 50.0),
    st.one_of(st.just(0.0), st.floats(1e-12, 1e-2)),
    st.integers(1, 4),
    st.sampled_from(["add-remove-one", "replace-one"]),
    st.sampled_from(["exact", "grid"]),
)
def test_a_fit_never_costs_more_than_was_asked(epsilon, delta, columns, neighbours, noise):
    privacy = Privacy(epsilon, delta, neighbours=neighbours)
    bounds = {f"x{k}": (0.0, 1.0) for k in range(columns)}
    ledger = Ledger.memory(neighbours=neighbours, epsilon=epsilon, delta=delta)
    summary = PrivateSummary(bounds, privacy=privacy, ledger=ledger, noise=noise)
    summary.fit(np.full((3, columns), 0.5))
    assert summary.certificate_.verify(ledger).epsilon <= epsilon * (1 + 1e-8)
    assert ledger.remaining.epsilon == 0.0


# -- parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [None, {}])
def test_missing_bounds_say_what_to_pass(bounds):
    with pytest.raises(UnboundedData, match=r"pass \{column: \(low, high\)\}"):
        PrivateSummary(bounds, privacy=PRIVACY).fit(TABLE)


def test_a_missing_bound_of_one_column_names_it():
    with pytest.raises(UnboundedData, match=r"columns\['stay'\] must be given"):
        PrivateSummary({"age": (0, 1), "stay": None}, privacy=PRIVACY).fit(TABLE)


BAD = {
    **{
        (name, k): (name, bad)
        for name, constraint in PrivateSummary._constraints.items()
        for k, bad in enumerate(constraint.bad_values())
    },
    **{
        ("columns", k): ("columns", {"age": bad})
        for k, bad in enumerate(Bounds().bad_values())
    },
    "unknown statistic": ("statistics", ("mean", "mode")),
    "statistics as text": ("statistics", "mean"),
    "level 0": ("quantiles", (0.0,)),
    "level 1": ("quantiles", (0.5, 1.0)),
    "level NaN": ("quantiles", (math.nan,)),
    "unit": ("privacy", Privacy(1.0, unit="user")),
    "local": ("privacy", Privacy(1.0, trust="local")),
    "aggregator": ("privacy", Privacy(1.0, trust="aggregator")),
    "bounds as a pair": ("columns", (0.0, 1.0)),
    "bounds as a number": ("columns", 3.0),
    "bounds too close": ("columns", {"age": (0.0, 5e-324)}),
    "bounds too wide": ("columns", {"age": (-1.7e308, 1.7e308)}),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD, ids=lambda case: str(case))
def test_bad_values_are_stored_silently_and_refused_at_fit(case):
    name, value = BAD[case]
    ledger = Ledger.memory(epsilon=5.0, delta=1e-5)
    parameters = {"columns": BOUNDS, "privacy": PRIVACY, "ledger": ledger, name: value}
    summary = PrivateSummary(**parameters)
    assert getattr(summary, name) is value
    with pytest.raises(ParameterError, match=f"{name}.* must "):
        summary.fit(TABLE)
    with pytest.raises(ParameterError):
        summary.price()
    assert ledger.counter == 0


def test_parameters_are_stored_untouched_and_cloned():
    ledger = Ledger.memory(epsilon=1.0)
    parameters = {
        "columns": BOUNDS, "by": None, "statistics": ["mean"], "bins": 7, "quantiles": [0.5],
        "privacy": PRIVACY, "ledger": ledger, "noise": "grid", "random_state": 3,
    }  # fmt: skip
    summary = PrivateSummary(**parameters)
    parts = {
        f"privacy__{name}": getattr(PRIVACY, name)
        for name in ("epsilon", "delta", "unit", "neighbours", "trust", "against", "by_site")
    }
    assert summary.get_params(deep=False) == parameters
    assert summary.get_params() == parameters | parts
    for name, value in parameters.items():
        assert getattr(summary, name) is value
    twin = clone(summary)
    assert twin.get_params() == parameters | parts
    assert twin.ledger is ledger
    summary.fit(TABLE)
    assert summary.get_params() == parameters | parts
    assert not hasattr(clone(summary), "mean_")


def test_a_count_alone_under_replacement_is_public():
    summary = PrivateSummary({"age": (0, 110)}, statistics=("count",), privacy=REPLACE)
    assert summary.fit({"age": TABLE["age"]}).count_ == 500


def test_a_column_may_be_called_count():
    summary = PrivateSummary({"count": (0, 110)}, privacy=PRIVACY).fit({"count": TABLE["age"]})
    assert summary.noise_sd_["count"] > 0
    assert summary.mean_["count"] == pytest.approx(TABLE["age"].mean(), abs=20)


# -- release ----------------------------------------------------------------------------------


def test_seeded_noise_is_marked_and_not_released(tmp_path):
    summary = PrivateSummary(BOUNDS, privacy=PRIVACY, random_state=1).fit(TABLE)
    assert "seeded noise: not for release" in summary.certificate_.assumptions
    with pytest.raises(NotCertified, match="seeded"):
        summary.release(tmp_path / "release")
    assert not (tmp_path / "release" / "manifest.json").exists()


def test_an_open_summary_is_not_released(tmp_path):
    for privacy in (None, Privacy(epsilon=math.inf)):
        summary = PrivateSummary(BOUNDS, privacy=privacy).fit(TABLE)
        with pytest.raises(NotCertified, match="no finite guarantee"):
            summary.release(tmp_path / "release")


def test_a_score_prefers_the_better_mean():
    summary = PrivateSummary(BOUNDS).fit(TABLE)
    shifted = {name: values + 0.3 * (BOUNDS[name][1] - BOUNDS[name][0])
               for name, values in TABLE.items()}  # fmt: skip
    assert 0 > summary.score(TABLE) > summary.score(shifted)


# -- later rows -------------------------------------------------------------------------------


def test_later_rows_add_up_and_only_they_are_paid_for():
    rng = np.random.default_rng(0)
    tables = {"2026": rng.uniform(0, 1, 3000), "2027": rng.uniform(0, 1, 2000)}
    purse = Ledger.memory(epsilon=2.0, delta=1e-5)
    privacy = Privacy(epsilon=1.0, trust="site")
    model = PrivateSummary({"x": (0, 1)}, statistics=("count", "mean"), privacy=privacy)
    model.fit([Site("2026", {"x": tables["2026"]}, purse)])
    before = model.noise_sd_["count"]
    model.add_sites(Site("2027", {"x": tables["2027"]}, purse))
    assert purse.remaining.epsilon == 0.0
    assert abs(model.count_ - 5000) < 10 * model.noise_sd_["count"]
    assert model.noise_sd_["count"] == pytest.approx(before * 2**0.5)
    assert sorted(model.certificates_) == ["2026", "2027"]
    with pytest.raises(BudgetExceeded):
        model.add_sites(Site("2028", {"x": tables["2027"]}, purse))
    assert abs(model.count_ - 5000) < 10 * model.noise_sd_["count"]


def test_later_rows_without_noise_are_exact_and_do_not_count_twice():
    model = PrivateSummary({"x": (0, 1)}, statistics=("count", "mean"))
    with pytest.raises(ParameterError, match="call fit first"):
        model.add_sites({"x": [0.5]})
    model.fit([Site("a", {"x": np.array([0.0, 1.0])})])
    model.add_sites([Site("b", {"x": np.array([1.0, 1.0])})])
    assert (model.count_, model.mean_["x"]) == (4.0, 0.75)
    with pytest.raises(ParameterError, match="count twice"):
        model.add_sites([Site("a", {"x": np.array([0.0])})])
    model.fit([Site("b", {"x": np.array([1.0])})])
    assert model.count_ == 1.0


def test_dates_are_shown_as_dates():
    columns = Columns(admitted=date("2020-01-01", "2026-12-31"))
    days = np.datetime64("2023-05-01") + np.arange(21)
    model = PrivateSummary(columns, statistics=("count", "mean", "variance")).fit(
        {"admitted": days}
    )
    frame = model.to_frame("dates")
    assert frame["statistic"].to_list() == ["mean", "standard deviation"]
    assert frame["estimate"].to_list() == ["2023-05-11", "6.1 days"]
    assert "19488" not in str(model.summary())
