"""Standard errors and intervals of summaries: what they count, and where they are cut."""

import math

import numpy as np
import pytest

import tacit as tc
from tacit.estimators.site import Site
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.quantiles import Quantiles
from tacit.privacy.guarantee import Privacy
from tacit.summary.agreement import SummaryAgreement
from tacit.summary.block import Block, Law, consistent
from tacit.summary.estimator import PrivateSummary
from tacit.summary.ranks import Ranks
from tacit.summary.uncertainty import cell_estimates, estimates, share_estimates

RANGE = {"x": (0.0, 100.0)}


def values(rows, seed=0):
    return np.random.default_rng(seed).normal(50, 10, rows).clip(0, 100)


def fitted(rows=2000, *, columns=RANGE, data=None, **options):
    options = {"noise": "grid", "random_state": 1, **options}
    return PrivateSummary(columns, **options).fit({"x": values(rows)} if data is None else data)


def told(model, statistic, level=0.9):
    table = model.summary(level).table("statistics").columns
    k = list(table["statistic"]).index(statistic)
    names = ("estimate", "standard error", "low", "high", "share of noise")
    return {name: table[name][k] for name in names}


def test_without_noise_a_mean_has_the_textbooks_error():
    x = values(500)
    found = told(fitted(data={"x": x}), "mean")
    assert found["standard error"] == pytest.approx(x.std() / math.sqrt(500), rel=1e-6)
    assert found["high"] - found["estimate"] == pytest.approx(
        1.648 * found["standard error"], rel=5e-3
    )
    assert found["share of noise"] == 0.0


def test_without_noise_counts_and_sums_are_exact_and_quantiles_are_not():
    model = fitted(500)
    assert model.errors_["count"] == model.errors_["sum"]["x"] == 0.0
    assert model.errors_["quantiles"]["x"][1] == pytest.approx(1.2533 * 10 / 500**0.5, rel=0.2)


def test_noise_adds_to_the_error_of_a_mean_what_its_law_says():
    model = fitted(2000, statistics=("count", "mean"), privacy=Privacy(0.1))
    sd = model.noise_sd_["x"]["sum"] / 2000
    found = told(model, "mean")
    sampling = 10 / math.sqrt(2000)
    assert found["standard error"] == pytest.approx(math.hypot(sd, sampling), rel=0.05)
    assert found["share of noise"] == pytest.approx(sd**2 / (sd**2 + sampling**2), abs=0.05)


def test_squares_that_nobody_asked_for_cost_nothing():
    for neighbours, plain in (("add-remove-one", 2.0), ("replace-one", 4.0)):
        privacy = Privacy(1.0, unit="row", neighbours=neighbours)
        layout = SummaryAgreement((("x", 0.0, 1.0),), ("mean",), 4, privacy)
        assert layout.sensitivity(2) == pytest.approx(math.sqrt(plain))
        assert layout.sensitivity(1) == 2.0


def test_where_the_count_may_be_nothing_a_mean_may_be_anything():
    model = fitted(20, privacy=Privacy(0.01))
    found = told(model, "mean")
    assert (found["low"], found["high"]) == (0.0, 100.0)
    assert any("mostly noise" in warning for warning in model.summary().warnings)


@pytest.mark.parametrize("seed", range(20))
def test_an_interval_holds_its_estimate_and_stays_within_the_bounds(seed):
    model = fitted(50, privacy=Privacy(0.3), random_state=seed)
    table = model.summary().table("statistics").columns
    for name, value, low, high in zip(
        *(table[key] for key in ("statistic", "estimate", "low", "high")), strict=True
    ):
        assert low <= value <= high, name
        if name == "mean" or name.startswith("quantile"):
            assert low >= 0.0 and high <= 100.0


def test_rows_of_one_person_count_as_dependent_as_they_can_be():
    x = values(1000)
    data = {"x": x, "who": np.repeat(np.arange(250), 4)}
    columns = tc.Columns(x=tc.number(0, 100), person="who", rows_per_person=4)
    alone, together = fitted(data={"x": x}), fitted(columns=columns, data=data)
    for statistic in ("mean", "variance"):
        ratio = together.errors_[statistic]["x"] / alone.errors_[statistic]["x"]
        assert ratio == pytest.approx(2.0, rel=1e-6)


def test_the_noise_of_every_site_counts():
    parts = [Site(f"s{k}", {"x": values(500, k)}) for k in range(4)]
    options = {"statistics": ("count", "mean"), "noise": "grid", "random_state": 1}
    privacy = Privacy(1.0, 1e-6, trust="site")
    one = PrivateSummary(RANGE, privacy=privacy, **options).fit(parts[:1])
    four = PrivateSummary(RANGE, privacy=privacy, **options).fit(parts)
    assert four.errors_["count"] == pytest.approx(2.0 * one.errors_["count"])


def test_a_public_number_of_rows_has_no_error():
    model = fitted(privacy=Privacy(1.0, neighbours="replace-one"))
    assert model.errors_["count"] == 0.0
    assert told(model, "count")["low"] == 2000.0


def test_counts_of_cells_and_of_categories_add_up_to_the_count():
    rng = np.random.default_rng(0)
    data = {"x": values(300), "ward": rng.choice(["a", "b", "c"], 300), "sex": ["f", "m"] * 150}
    columns = tc.Columns(
        x=tc.number(0, 100), ward=tc.category("a", "b", "c"), sex=tc.category("f", "m")
    )
    for by in (None, "sex"):
        model = fitted(columns=columns, data=data, privacy=Privacy(1.0, 1e-6), by=by)
        for group in model._groups or [None]:
            count = model.count_ if group is None else model.count_[group]
            cells, _ = model.histogram_["x"] if group is None else model.histogram_["x"][group]
            wards = model.counts_["ward"].values()
            wards = wards if group is None else [ward[group] for ward in wards]
            assert cells.sum() == pytest.approx(count) == pytest.approx(sum(wards))
            assert cells.min() >= 0.0


@pytest.mark.parametrize("cells", [[3.0, -1.0, 2.0], [-4.0, -9.0], [0.0], [7.0, 7.0, 7.0]])
@pytest.mark.parametrize("whole", [0.0, 3.0, 100.0])
def test_consistent_cells_are_the_nearest_ones(cells, whole):
    found = consistent(cells, whole)
    assert found.sum() == pytest.approx(whole) and found.min() >= 0.0
    rng = np.random.default_rng(0)
    others = whole * rng.dirichlet(np.ones(len(cells)), 200)
    nearest = np.square(found - cells).sum()
    assert np.all(np.square(others - cells).sum(axis=1) >= nearest - 1e-9)


def test_quantiles_alone_have_no_error_and_say_what_would_give_them_one():
    model = fitted(statistics=("quantiles",), privacy=Privacy(1.0))
    assert np.isnan(model.errors_["quantiles"]["x"]).all()
    assert "'count'" in model.summary().table().notes[0]
    with_count = fitted(statistics=("count", "quantiles"), privacy=Privacy(1.0))
    assert np.isfinite(with_count.errors_["quantiles"]["x"]).all()


def test_one_quantile_has_an_error_where_a_histogram_says_what_lies_beside_it():
    options = {"quantiles": (0.5,), "privacy": Privacy(4.0)}
    bare = fitted(statistics=("count", "quantiles"), **options)
    assert math.isnan(bare.errors_["quantiles"]["x"][0])
    model = fitted(statistics=("count", "histogram", "quantiles"), **options)
    assert model.errors_["quantiles"]["x"][0] == pytest.approx(1.2533 * 10 / 2000**0.5, rel=0.6)


def test_ranks_are_off_by_as_much_as_the_law_of_splits_says():
    levels, x = (0.1, 0.25, 0.5, 0.75, 0.9), np.linspace(0, 1, 4_001)
    mechanism = Quantiles(1.0, (0.0, 1.0), levels)
    noise = Noise("grid", seed=1)
    ranks = np.array([mechanism.draw(x, noise) for _ in range(300)]) * 4_000
    sd = np.sqrt(2.0 * np.square(mechanism.rank_scales).sum(axis=1))
    np.testing.assert_allclose(ranks.std(axis=0), sd, rtol=0.25)


def test_a_negative_count_of_a_cell_is_shown_as_none_with_room_above():
    layout = SummaryAgreement((), ("count",), 2, Privacy(1.0, unit="row"), categories=(("c", 2),))
    block = Block(layout, np.array([10.0, -3.0, 13.0]), None, Law(2.0))
    first, second = cell_estimates(block, 0.9, block.category(0))
    assert (first.value, first.low, second.value) == (0.0, 0.0, 10.0)
    assert first.high > 0.0
    shares = share_estimates(block, 0.9, block.category(0))
    assert [one.value for one in shares] == [0.0, 1.0] and shares[1].high == 1.0


def test_errors_follow_from_what_was_released_alone():
    first, second = fitted(privacy=Privacy(1.0)), fitted(2001, privacy=Privacy(1.0))
    second._totals = first._totals
    pairs = [list(estimates(m._totals.blocks(m._layout)[0], 0.9)) for m in (first, second)]
    assert pairs[0] == pairs[1]


def test_errors_of_a_release_are_those_of_the_fit(tmp_path):
    model = PrivateSummary(RANGE, privacy=Privacy(1.0, 1e-6)).fit({"x": values(1000)})
    model.release(tmp_path / "release")
    back = PrivateSummary.from_release(tmp_path / "release")
    assert str(back.summary().table()) == str(model.summary().table())
    assert back.errors_["mean"] == model.errors_["mean"]


def test_quantiles_of_noisy_cells_hold_where_noise_is_more_than_a_cells_rows():
    rng, edges, n, variance = np.random.default_rng(4), np.linspace(0.0, 1.0, 33), 300, 2500.0
    held = np.zeros(3)
    for _ in range(400):  # noise of 50 a cell; nine rows lie in each
        cells = rng.multinomial(n, np.diff(edges)) + rng.laplace(0.0, math.sqrt(variance / 2), 32)
        levels = np.array([0.25, 0.5, 0.75])
        ranks = Ranks(
            levels, levels, np.full(3, 1 / 32), counts=cells, edges=edges, variance=variance
        )
        found, _ = ranks.intervals(0.9, (n + 70.0 * rng.standard_normal(), 4900.0), 1.0, (0, 1))
        held += (found[:, 0] < levels) & (levels < found[:, 1])
    assert (held >= 0.87 * 400).all()  # 0.82 of them where an interval ended at the last crossing
