"""`PrivateLinearRegression`: scales, sites, files, bad input."""

import numpy as np
import pytest
from sklearn.base import clone

from tacit import Ledger, Privacy, PrivateLinearRegression, Site, SiteSummary, read_release
from tacit.errors import (
    BudgetExceeded,
    NotCertified,
    ParameterError,
    SiteFailure,
    UnboundedData,
)
from tacit.privacy.events import REPLACE
from tacit.published.alparslan2023_averaged import AveragedRegression
from tacit.regression.design import Design
from tacit.regression.methods import UNREAD
from tacit.regression.numerics.moments import Prior
from tacit.regression.scale import mean_weight

RNG = np.random.default_rng(11)
N = 4000
X = np.column_stack([RNG.uniform(-10, 30, N), RNG.uniform(980, 1040, N), RNG.uniform(0, 1, N)])
Y = 450 + X @ [-1.5, 0.2, 8.0] + RNG.normal(0, 3.0, N)
NAMES = ("AT", "AP", "share")
BOUNDS = {"AT": (-10, 30), "AP": (980, 1040), "share": (0, 1)}
Y_BOUNDS = (580.0, 700.0)
PRIVACY = Privacy(1.0, 1e-6, trust="site")
SMALL = {"chains": 2, "draws": 50, "warmup": 50}


def small(method):
    """As little sampling as can be, of methods that sample."""
    return {name: value for name, value in SMALL.items() if name not in UNREAD.get(method, ())}


def model(method="auto", kind=PrivateLinearRegression, **more):
    settings = {"bounds": list(BOUNDS.values()), "y_bounds": Y_BOUNDS, **small(method), **more}
    return kind(method=method, **settings)


def sites(parts=3, ledgers=False):
    return [
        Site(f"S{k}", (x, y), Ledger.memory(epsilon=1.0, delta=1e-5) if ledgers else None)
        for k, (x, y) in enumerate(zip(np.array_split(X, parts), np.array_split(Y, parts),
                                       strict=True))
    ]  # fmt: skip


def least_squares():
    whole = np.column_stack([np.ones(N), X])
    return np.linalg.lstsq(whole, Y, rcond=None)[0]


@pytest.mark.parametrize("neighbours", [None, REPLACE])
def test_ols_is_least_squares_on_the_callers_scale(neighbours):
    privacy = None if neighbours is None else Privacy(np.inf, neighbours=neighbours)
    fitted = model("OLS", privacy=privacy).fit(X, Y)
    truth = least_squares()
    assert fitted.intercept_ == pytest.approx(truth[0], abs=0.5)
    assert np.allclose(fitted.coef_, truth[1:], rtol=5e-3)
    assert fitted.noise_sd_ == pytest.approx(3.0, rel=0.05)
    assert fitted.score(X, Y) > 0.9
    assert np.allclose(fitted.predict(X), X @ fitted.coef_ + fitted.intercept_)
    assert not fitted.certificate_.is_private


def test_without_an_intercept_the_line_goes_through_zero():
    y = X @ [0.5, 0.01, 1.0]
    fitted = model("OLS", intercept=False, y_bounds=30.0).fit(X, y)
    assert np.allclose(fitted.coef_, [0.5, 0.01, 1.0], rtol=2e-3)
    assert fitted.intercept_ == 0.0


def test_a_private_fit_is_close_and_certified():
    fitted = model(privacy=PRIVACY).fit(sites())
    assert set(fitted.certificates_) == {"S0", "S1", "S2"}
    certificate = fitted.certificate_.verify()
    assert certificate.epsilon == pytest.approx(1.0, abs=1e-4)
    text = " ".join(certificate.assumptions)
    assert "x0 lies in [-10, 30]" in text and "different rows" in text
    assert np.std(Y - fitted.predict(X)) < np.std(Y)  # better than knowing nothing
    assert fitted.price(sites()).affordable


def test_infinite_epsilon_equals_no_privacy_with_the_same_clip():
    first = model("conjugate", privacy=None, clip=1.2, random_state=1).fit(X, Y)
    second = model("conjugate", privacy=Privacy(np.inf), clip=1.2, random_state=1).fit(X, Y)
    assert np.array_equal(first.coef_, second.coef_)


def test_replacement_states_that_the_number_of_rows_is_public():
    privacy = Privacy(1.0, 1e-6, neighbours=REPLACE)
    fitted = model(privacy=privacy).fit(X, Y)
    assert "the number of rows is public" in fitted.certificate_.assumptions
    assert fitted.summaries_["the data"].moments.rows == N
    averaged = model(kind=AveragedRegression, privacy=privacy, rows_per_group=4).fit(X, Y)
    assert averaged.summaries_["the data"].moments.rows == N // 4


def test_tables_files_and_arrays_give_the_same_sums(tmp_path):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table = {**dict(zip(NAMES, X.T, strict=True)), "PE": Y}
    pq.write_table(pa.table(table), tmp_path / "rows.parquet", row_group_size=700)
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    pieces = ((X[k : k + 900], Y[k : k + 900]) for k in range(0, N, 900))
    named = {"bounds": BOUNDS, "target": "PE"}
    frame = pd.DataFrame(table)
    found = [
        model(**kwargs).fit(data).summaries_["the data"].moments.gram
        for kwargs, data in [
            ({}, (X, Y)), ({}, (mapped, Y)), ({}, pieces), (named, table), (named, frame),
            (named, pl.DataFrame(table)), (named, pa.table(table)),
            (named, tmp_path / "rows.parquet"), (named, (frame[list(NAMES)], frame["PE"])),
        ]
    ]  # fmt: skip
    for gram in found[1:]:
        assert np.array_equal(gram, found[0])
    fitted = model(**named).fit(table)
    assert np.array_equal(fitted.predict(frame), fitted.predict(X))


def test_sites_join_later_and_nobody_pays_twice(tmp_path):
    first, second, third = sites(ledgers=True)
    fitted = model(privacy=PRIVACY).fit([first, second])
    before = fitted.summaries_["S0"]
    left = first.ledger.remaining.epsilon
    fitted.add_sites([third])
    assert first.ledger.remaining.epsilon == left
    assert fitted.summaries_["S0"] is before and set(fitted.summaries_) == {"S0", "S1", "S2"}
    # the same by mail
    mailed = [SiteSummary.load(s.save(tmp_path / f"{s.site}.json"))
              for s in fitted.summaries_.values()]  # fmt: skip
    again = model(privacy=PRIVACY, random_state=3).fit(mailed)
    whole = model(privacy=PRIVACY, random_state=3).fit(list(fitted.summaries_.values()))
    assert np.array_equal(again.coef_, whole.coef_)
    with pytest.raises(ParameterError, match="twice"):
        fitted.add_sites([mailed[0]])
    with pytest.raises(BudgetExceeded):
        model(privacy=PRIVACY).fit([first])


def test_a_summary_of_another_model_cannot_join():
    one = model(privacy=PRIVACY).fit([sites()[0]])
    other = model(privacy=PRIVACY, y_bounds=(0, 1000)).fit([sites()[1]])
    with pytest.raises(ParameterError, match="cannot be joined"):
        one.add_sites(list(other.summaries_.values()))


def test_one_ledger_that_refuses_stops_all():
    many = sites(ledgers=True)
    model(privacy=PRIVACY).fit([many[1]])
    with pytest.raises(BudgetExceeded, match="S1"):
        model(privacy=PRIVACY).fit(many)
    assert many[0].ledger.remaining.epsilon == pytest.approx(1.0)


def test_intervals_hold_new_responses():
    fitted = model("conjugate").fit(X, Y)
    mean, sd, (low, high) = fitted.predict(X[:500], return_sd=True, interval=0.9)
    assert (low < mean).all() and (mean < high).all() and (sd > 2.5).all()
    inside = np.mean((low < Y[:500]) & (Y[:500] < high))
    assert 0.84 < inside < 0.96
    assert len(fitted.predict(X[:5], return_sd=True)) == 2


@pytest.mark.parametrize(("neighbours", "average", "epsilon"), [
    (None, 1, 1.0), (REPLACE, 1, 1.0), (REPLACE, 4, 10.0),
])  # fmt: skip
def test_intervals_hold_where_rows_are_scaled_down(neighbours, average, epsilon):
    """Binary features lie in the corners: all rows count with a smaller weight."""
    rng = np.random.default_rng(4)
    x = rng.choice([0.0, 1.0], (40_000, 5))
    y = x @ np.full(5, 0.1) + rng.normal(0, 0.1, len(x))
    kind, more = PrivateLinearRegression, {}
    if average > 1:
        kind, more = AveragedRegression, {"rows_per_group": average}
    private = model(kind=kind, bounds=[(0, 1)] * 5, y_bounds=(-1, 1), privacy=Privacy(
        epsilon, 1e-6, neighbours=neighbours), random_state=2, **more)  # fmt: skip
    fitted = private.fit(x, y)
    assert fitted.noise_sd_ == pytest.approx(0.1, rel=0.1)
    low, high = fitted.predict(x, interval=0.9)[1]
    assert 0.87 < np.mean((low < y) & (y < high)) < 0.93


def test_the_weight_of_rows_is_sane_where_noise_hides_it():
    few = model(privacy=Privacy(0.1, 1e-6, neighbours=REPLACE), random_state=2).fit(X[:30], Y[:30])
    least = few.design_.rows.least_weight
    assert 0.2 < least < mean_weight(list(few.summaries_.values())) < 1.0


def test_clones_and_releases(tmp_path):
    fitted = clone(model(privacy=PRIVACY)).fit(sites())
    fitted.release(tmp_path / "bundle")
    found = read_release(tmp_path / "bundle")
    assert np.array_equal(found.arrays["coef"], fitted.coef_)
    assert "summary/S0/gram" in found.arrays
    with pytest.raises(NotCertified):
        model("OLS").fit(X, Y).release(tmp_path / "open")


@pytest.mark.parametrize(("settings", "data"), [
    ({}, sites()),
    ({"bounds": BOUNDS, "target": "PE"}, {**dict(zip(NAMES, X.T, strict=True)), "PE": Y}),
    ({"method": "adaSSP", "statistics": "Sz", "y_bounds": 800.0}, sites(2)),
], ids=["sites", "table", "point"])  # fmt: skip
def test_a_release_predicts_and_takes_in_more_sites(tmp_path, settings, data):
    fitted = model(privacy=PRIVACY, **settings).fit(data)
    found = PrivateLinearRegression.from_release(fitted.release(tmp_path / "bundle"))
    assert np.array_equal(found.predict(X), fitted.predict(X))
    if settings.get("method") != "adaSSP":
        ours, theirs = (m.predict(X, return_sd=True, interval=0.8) for m in (fitted, found))
        assert np.array_equal(ours[1], theirs[1]) and np.array_equal(ours[2], theirs[2])
    assert found.intercept_sd_ == fitted.intercept_sd_ or np.isnan(fitted.intercept_sd_)
    assert found.columns_ == fitted.columns_ and found.design_ == fitted.design_
    assert found.certificates_ == fitted.certificates_
    for name, summary in fitted.summaries_.items():
        assert np.array_equal(found.summaries_[name].moments.gram, summary.moments.gram)
        assert found.summaries_[name].design == summary.design
    if settings.get("method") != "adaSSP":  # a point estimate has no draws
        np.testing.assert_array_equal(found.posterior_.draws, fitted.posterior_.draws)
        assert found.posterior_.method == fitted.posterior_.method
    grown = found.set_params(privacy=PRIVACY, **small(fitted.method))
    grown.add_sites([Site("later", (X[:500], Y[:500]))])
    assert set(grown.certificates_) == {*fitted.certificates_, "later"}


def test_nothing_of_an_earlier_fit_is_left_by_one_that_fails():
    fitted = model("OLS").fit(X, Y)
    with pytest.raises(ParameterError, match=r"finite|missing"):
        fitted.set_params(method="auto", privacy=PRIVACY).fit(X * np.nan, Y)
    assert not hasattr(fitted, "coef_") and not hasattr(fitted, "posterior_")
    with pytest.raises(ParameterError, match="fit first"):
        fitted.predict(X)


def test_a_price_changes_nothing():
    asked = model(privacy=PRIVACY)
    before = dict(vars(asked))
    asked.price(sites())
    assert vars(asked) == before
    with pytest.raises(NotCertified, match="price"):
        model(bounds=2.0, privacy=PRIVACY).price()
    assert model(bounds=2.0, privacy=PRIVACY).price(sites()).affordable


def test_a_public_norm_instead_of_bounds():
    x = RNG.normal(size=(500, 2))
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = x @ [1.0, -1.0]
    fitted = model("OLS", bounds=2.0, y_bounds=2.0).fit(x, y)
    assert np.allclose(fitted.coef_, [1.0, -1.0], atol=1e-2)
    private = model(bounds=2.0, y_bounds=2.0, privacy=PRIVACY).fit(x, y)
    assert private.certificate_.epsilon == pytest.approx(1.0, abs=1e-4)


def test_the_progress_bar_changes_nothing(capsys):
    settings = {"privacy": PRIVACY, "random_state": 3}
    quiet, shown = (model(progress=on, **settings).fit(X, Y) for on in (False, True))
    assert np.array_equal(quiet.coef_, shown.coef_)
    assert "sampling" in capsys.readouterr().out


# -- bad input --------------------------------------------------------------------------------


def test_missing_bounds_are_named():
    with pytest.raises(UnboundedData, match="bounds must be given"):
        PrivateLinearRegression(y_bounds=(0, 1)).fit(X, Y)
    with pytest.raises(UnboundedData, match="y_bounds must be given"):
        PrivateLinearRegression(bounds=list(BOUNDS.values())).fit(X, Y)
    with pytest.raises(ParameterError, match=r"bounds\['x1'\]"):
        model(bounds=[(0, 1), (1, 1), (0, 1)]).fit(X, Y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_values_are_named_and_nobody_pays(value):
    many = sites(ledgers=True)
    broken = many[1].data[0].copy()
    broken[7, 1] = value
    many[1] = Site("S1", (broken, many[1].data[1]), many[1].ledger)
    with pytest.raises(ParameterError, match=r"site 'S1': row 7 .* column 1"):
        model(privacy=PRIVACY).fit(many)
    assert all(site.ledger.remaining.epsilon == 1.0 for site in many)
    fitted = model(privacy=PRIVACY, on_failure="exclude").fit(many)
    assert set(fitted.summaries_) == {"S0", "S2"}
    assert fitted.failures_[0].site == "S1"
    assert many[1].ledger.remaining.epsilon == 1.0


@pytest.mark.parametrize("broken", ["constant", "collinear"])
def test_features_that_say_the_same_are_fitted(broken):
    """A refusal would be a function of all rows that nobody paid for."""
    x = X.copy()
    x[:, 2] = 0.3 if broken == "constant" else (x[:, 0] + 10) / 40
    without = model(bounds=list(BOUNDS.values())[:2]).fit(X[:, :2], Y)
    exact, private = model("OLS").fit(x, Y), model(privacy=PRIVACY).fit(x, Y)
    for found, room in ((exact, 0.1), (model().fit(x, Y), 0.1), (private, 3.0)):
        assert np.abs(found.predict(x) - without.predict(x[:, :2])).max() < room


def test_a_feature_may_be_constant_at_one_site():
    x = X.copy()
    x[::2, 2] = 0.3
    fitted = model(privacy=PRIVACY).fit([Site("A", (x[::2], Y[::2])), Site("B", (x, Y))])
    assert len(fitted.summaries_) == 2


def test_few_rows_are_fitted():
    """How many there are is private too: noise says that little was learned."""
    found = model(privacy=PRIVACY).fit(X[:2], Y[:2])
    low, high = found.predict(X[:5], interval=0.9)[1]
    assert (high - low > 20.0).all()


@pytest.mark.parametrize("data", [
    (X[:, :2], Y), (X, Y[:-1]), (X, Y[:, None, None]), 3, X, {"AT": X[:, 0]},
], ids=["columns", "rows", "axes", "number", "no y", "no target"])  # fmt: skip
def test_misshapen_data_are_refused(data):
    with pytest.raises(ParameterError):
        model().fit(data)


def test_a_failing_site_does_not_cost_the_others_their_work(monkeypatch):
    original = Design.vector
    calls = []

    def breaks(*args):
        calls.append(args)
        if len(calls) == 2:
            raise SiteFailure("out of order")
        return original(*args)

    monkeypatch.setattr(Design, "vector", breaks)
    fitted = model(privacy=PRIVACY, on_failure="exclude").fit(sites())
    assert set(fitted.summaries_) == {"S0", "S2"}
    assert fitted.failures_[0].reason == "out of order"


@pytest.mark.parametrize(("settings", "words"), [
    ({"method": "OLS", "privacy": PRIVACY}, "exact"),
    ({"method": "no such"}, "method"),
    ({"privacy": Privacy(1.0, 1e-6, unit="user")}, "unit"),
    ({"privacy": Privacy(1.0, 1e-6, trust="local")}, "trust"),
    ({"privacy": Privacy(1.0)}, "delta"),
    ({"clip": -1.0}, "clip"),
    ({"kind": AveragedRegression}, "replace-one"),
    ({"method": "OLS", "draws": 20}, "does not read draws"),
    ({"method": "adaSSP", "privacy": PRIVACY, "prior": Prior()}, "does not read prior"),
    ({"method": "Bayes-fixedS-fast", "warmup": 20}, "does not read warmup"),
    ({"draws": 1}, "draws"),
])  # fmt: skip
def test_bad_parameters_are_named(settings, words):
    with pytest.raises(ParameterError, match=words):
        model(**settings).fit(X, Y)


def test_an_unfitted_model_says_so():
    with pytest.raises(ParameterError, match="fit first"):
        model().predict(X)
    with pytest.raises(ParameterError, match="fit first"):
        model().add_sites(sites())


def test_draws_go_to_arviz_on_the_callers_scale():
    pytest.importorskip("arviz")
    fitted = model(privacy=PRIVACY, random_state=0).fit(X, Y)
    draws = fitted.to_arviz().posterior
    assert draws["coef"].dims == ("chain", "draw", "feature")
    np.testing.assert_allclose(draws["coef"].mean(("chain", "draw")), fitted.coef_, rtol=1e-6)
    np.testing.assert_allclose(float(draws["intercept"].mean()), fitted.intercept_, rtol=1e-6)
    assert (draws["noise_sd"] > 0).all()
