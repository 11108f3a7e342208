"""scikit-learn's own checks, and what its users do: pipelines, grids, clones, workers."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import FeatureUnion
from sklearn.pipeline import Pipeline as PlainPipeline
from sklearn.preprocessing import FunctionTransformer, Normalizer, StandardScaler
from sklearn.utils import estimator_checks

import tacit as tc
from tacit.errors import LedgerError, ParameterError, TacitError
from tacit.estimators.families import estimator_names, estimator_of
from tacit.estimators.pipeline import seen_before

# check → why it cannot pass; one that passes, or that does not exist, fails the test below
UNREAD = "classes are stated, never read from y (PRIVACY A13)"
OUTSIDE = "an infinite input lies outside its public bounds, and is clipped as all such values"
WEIGHED = "noise and step size follow from the public number of rows, whatever each counts"
WEIGHTS = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHED,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHED,
}
GUESSED = "the check takes whatever has predict_proba for a classifier, and asks for its tags"
FAILING = {
    "regression": {},
    "private regression": {},
    "mixture": {
        "check_estimator_sparse_array": GUESSED,
        "check_estimator_sparse_matrix": GUESSED,
    },
    "classifier": {
        "check_classifiers_classes": UNREAD,
        "check_classifiers_train": UNREAD + ": those that y has not have probabilities too",
        "check_estimators_nan_inf": OUTSIDE,
        **WEIGHTS,
    },
    "regressor": {"check_estimators_nan_inf": OUTSIDE, **WEIGHTS},
    "scaler": {},
}
TRANSFORMERS = [
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
    "check_set_output_transform",
]


def subject(name):
    if name in ("classifier", "regressor"):
        networks = pytest.importorskip("tacit.networks")
        common = {"hidden": (), "bounds": (-5, 5), "device": "cpu", "random_state": 0}
        steps = 60 if name == "regressor" else 30  # checks ask whether something was learned
        common["training"] = networks.Training(steps=steps, method="dp-sgd", step_size=0.05)
        if name == "classifier":
            return networks.PrivateDropoutClassifier(classes=(0, 1, 2, 3), **common)
        return networks.PrivateDropoutRegressor(y_bounds=(-3, 3), **common)
    lines = {"bounds": 1000.0, "y_bounds": 300.0}
    return {
        "regression": lambda: tc.PrivateLinearRegression(method="conjugate", **lines),
        "private regression": lambda: tc.PrivateLinearRegression(
            method="adaSSP", privacy=tc.Privacy(100.0, 1e-6), random_state=0, **lines
        ),
        "mixture": lambda: tc.GaussianMixture(1, radius=1000.0),
        "scaler": lambda: tc.PublicScaler(bounds=(-5, 5)),
    }[name]()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FAILING)
def test_scikit_learns_checks_pass_but_for_those_that_are_named(name):
    found = estimator_checks.check_estimator(subject(name), on_fail=None, on_skip=None)
    failed = {one["check_name"]: one["exception"] for one in found if one["status"] == "failed"}
    assert set(failed) == set(FAILING[name]), failed
    skipped = {one["check_name"] for one in found if one["status"] == "skipped"}
    assert skipped <= {"check_array_api_input"}, skipped


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("check", TRANSFORMERS)
@pytest.mark.parametrize("name", ["mixture", "scaler"])
def test_names_and_frames_come_out_of_transformers(name, check):
    pytest.importorskip("pandas")
    getattr(estimator_checks, check)(type(subject(name)).__name__, subject(name))


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("name", ["mixture", "scaler"])
def test_frames_come_out_wherever_rows_are_known_by_name(name, library):
    """scikit-learn's own check also gives a table to what was fitted on an array."""
    frames = pytest.importorskip(library)
    rows = np.random.default_rng(0).normal(size=(80, 3))
    table = frames.DataFrame({c: rows[:, k] for k, c in enumerate("abc")})
    for given, later in ((table, table), (table, rows), (rows, rows)):
        plain = subject(name).fit(given).transform(later)
        model = subject(name).set_output(transform=library).fit(given)
        found = model.transform(later)
        assert isinstance(found, frames.DataFrame)
        assert list(found.columns) == list(model.get_feature_names_out())
        assert np.array_equal(found.to_numpy(), plain)
    with pytest.raises(ParameterError, match="fitted without names"):
        model.transform(table)


@pytest.mark.parametrize("name", [n for n in FAILING if n != "private regression"])
def test_columns_go_by_name(name):
    """scikit-learn refuses another order; here it is put right, and what is missing refused."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(80, 3)), columns=["a", "b", "c"])
    y = rng.integers(0, 2, 80)
    model = subject(name).fit(frame, y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert model.feature_names_in_.dtype == object and model.n_features_in_ == 3
    verb = model.predict if hasattr(model, "predict") else model.transform
    mixed = frame.assign(more=1.0)[["c", "more", "a", "b"]]
    assert np.array_equal(verb(mixed), verb(frame))
    for wrong in (frame[["b", "c"]], frame.rename(columns={"a": "z"})):
        with pytest.raises(ParameterError, match=r"column 'a', no such column"):
            verb(wrong)
    again = model.fit(frame.to_numpy(), y)
    assert not hasattr(again, "feature_names_in_")


def test_frames_of_sites_are_put_in_one_order_or_refused():
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal((3, 0, -3), size=(400, 3)), columns=["a", "b", "c"])

    def fitted(second):
        sites = [tc.Site("North", frame[:200]), tc.Site("South", second)]
        return tc.GaussianMixture(1, radius=9.0, random_state=0).fit(sites)

    straight, turned = fitted(frame[200:]), fitted(frame[200:][["c", "b", "a"]])
    assert np.array_equal(straight.means_, turned.means_)
    with pytest.raises(ParameterError, match=r"site 'South': column 'a', no such column"):
        fitted(frame[200:].rename(columns={"a": "z"}))


@pytest.mark.parametrize("name", sorted(estimator_names()))
def test_what_is_not_fitted_says_so_as_scikit_learn_does(name):
    kind = estimator_of(name)
    model = kind.__new__(kind)
    for parameter in kind._get_param_names():
        setattr(model, parameter, None)
    rows = np.zeros((2, 2))
    asked = {
        "predict": (rows,), "predict_proba": (rows,), "transform": (rows,), "add_sites": (rows,),
        "factors": ("user",), "top_words": (), "to_arviz": (), "infer": (), "recommend": (0,),
        "device": (0,), "layer_dropout": (), "get_feature_names_out": (), "release": ("nowhere",),
    }  # fmt: skip
    if name == "factorization":
        asked["predict"] = ("North", rows)
    for verb, given in asked.items():
        if hasattr(kind, verb):
            with pytest.raises(NotFittedError) as caught:
                getattr(model, verb)(*given)
            assert isinstance(caught.value, TacitError) or verb == "get_feature_names_out", verb


@pytest.mark.parametrize("name", ["private regression", "mixture", "classifier", "regressor"])
@pytest.mark.parametrize(
    "names", [["a", "b", "c"], range(3), None], ids=["named", "by number", "array"]
)
def test_a_release_knows_the_width_and_the_names_of_the_fit(tmp_path, name, names):
    """The names of columns are public: what a release is asked for goes by them, too."""
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    rows = rng.normal((3, 0, -3), 0.5, size=(500, 3))
    rows = rows if names is None else pd.DataFrame(rows, columns=names)
    model = subject(name).set_params(privacy=tc.Privacy(500.0, 1e-6), random_state=None)
    if name == "mixture":
        model.set_params(radius=9.0)
    elif "rows" in model.get_params():
        model.set_params(rows=500)
    model.fit(rows, rng.integers(0, 2, 500))
    back = type(model).from_release(model.release(tmp_path / "release"))
    for one in (model, back):
        assert one.n_features_in_ == 3
        assert list(getattr(one, "feature_names_in_", ())) == (
            list("abc") if names == list("abc") else []
        )
    np.testing.assert_allclose(back.predict(rows), model.predict(rows))


# -- grids, workers ----------------------------------------------------------------------------

X = np.random.default_rng(1).uniform(0, 10, (400, 2))
Y = X @ [1.0, -0.5] + 3.0


def line(**given):
    asked = {"bounds": [(0, 10)] * 2, "y_bounds": (-5, 15), "method": "adaSSP", **given}
    return tc.PrivateLinearRegression(**{"privacy": tc.Privacy(1.0, 1e-6), **asked})


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_fit_of_a_grid_is_charged_to_one_ledger(tmp_path, jobs):
    ledger = tc.Ledger.open(tmp_path / "a.db", epsilon=20.0, delta=1e-3)
    grid = {"privacy__epsilon": [0.5, 1.5]}
    search = GridSearchCV(line(ledger=ledger), grid, cv=3, n_jobs=jobs, error_score="raise")
    search.fit(X, Y)
    charges = [row for row in ledger.rows() if row.kind == "charge"]
    assert len(charges) == 2 * 3 + 1
    best = search.best_params_["privacy__epsilon"]
    assert ledger.spent.epsilon == pytest.approx(3 * (0.5 + 1.5) + best)
    assert search.best_estimator_.certificate_.epsilon <= best
    ledger.verify()


def test_a_grid_in_workers_stops_at_the_ceiling(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "a.db", epsilon=2.0, delta=1e-3)
    with pytest.warns(FitFailedWarning, match="2 fits failed"):
        found = cross_validate(line(ledger=ledger), X, Y, cv=4, n_jobs=2)
    assert np.isnan(found["test_score"]).sum() == 2
    assert ledger.remaining.epsilon == 0.0


def test_workers_send_fitted_models_home(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "a.db", epsilon=4.0, delta=1e-3)
    found = cross_validate(line(ledger=ledger), X, Y, cv=2, n_jobs=2, return_estimator=True)
    for model in found["estimator"]:
        assert model.ledger.id == ledger.id
        model.certificate_.verify(ledger)


def test_a_ledger_in_memory_is_not_sent_to_workers():
    ledger = tc.Ledger.memory(epsilon=20.0, delta=1e-3)
    with pytest.raises(pickle.PicklingError) as caught:
        cross_validate(line(ledger=ledger), X, Y, cv=2, n_jobs=2, error_score="raise")
    assert "a ledger in memory cannot be pickled" in str(caught.value.__cause__)
    assert ledger.counter == 0


def test_a_ledger_that_was_sent_is_never_made_anew(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "a.db", epsilon=20.0, delta=1e-3)
    sent = pickle.dumps(line(ledger=ledger))
    (tmp_path / "a.db").unlink()
    with pytest.raises(LedgerError):
        pickle.loads(sent)
    assert not (tmp_path / "a.db").exists()


# -- pipelines ---------------------------------------------------------------------------------


def assumed(first, **given):
    pipe = tc.Pipeline([("first", first), ("line", line(bounds=[(-50, 50)] * 2, random_state=0))],
                       **given)  # fmt: skip
    return pipe.fit(X, Y)[-1].certificate_.assumptions


@pytest.mark.parametrize(
    "first",
    [
        StandardScaler(),
        PCA(2),
        FunctionTransformer(lambda rows: rows - rows.mean(axis=0)),
        FeatureUnion([("one", StandardScaler())]),
        ColumnTransformer([("one", StandardScaler(), [0, 1])]),
        PlainPipeline([("n", Normalizer()), ("one", StandardScaler())]),
        GridSearchCV(PCA(2), {"whiten": [True]}, cv=2, scoring=lambda m, x, y=None: 0.0),
    ],
    ids=lambda step: type(step).__name__,
)
def test_what_was_fitted_on_raw_rows_is_on_the_certificate(first):
    with pytest.warns(UserWarning, match="NOT COVERED"):
        found = assumed(first)
    assert sum(note.startswith("NOT COVERED: 'first") for note in found) == 1


@pytest.mark.parametrize(
    "first",
    [
        tc.PublicScaler(bounds=(0, 10)),
        Normalizer(),
        "passthrough",
        PlainPipeline([("n", Normalizer()), ("s", tc.PublicScaler(bounds=(0, 1)))]),
    ],
    ids=["scaler", "normalizer", "passthrough", "both"],
)
def test_steps_that_learn_nothing_are_no_caveat(first):
    assert not [note for note in assumed(first) if "first" in note]


def test_what_the_caller_states_is_listed_as_stated():
    halved = FunctionTransformer(lambda rows: rows / 2.0)
    assert "'first' (FunctionTransformer) is public, as the caller states" in assumed(
        halved, public=("first",)
    )
    frozen = FrozenEstimator(StandardScaler().fit([[0.0, 0.0], [9.0, 9.0]]))
    assert any("what it was fitted on is taken to be public" in note for note in assumed(frozen))
    with pytest.raises(ParameterError, match="public names 'second'"):
        assumed(halved, public=("second",))


@pytest.mark.parametrize(
    "first", [StandardScaler(), FeatureUnion([("one", StandardScaler())]), PCA(2)]
)
def test_the_callers_word_does_not_make_public_what_is_about_to_see_raw_rows(first):
    with pytest.raises(ParameterError, match="that this pipeline fits on the raw rows"):
        assumed(first, public=("first",))


@pytest.mark.parametrize("kind", [tc.PublicScaler, PlainPipeline, ColumnTransformer])
def test_children_of_what_is_known_are_not_known(kind):
    class Child(kind):
        """May do anything."""

    child = Child.__new__(Child)
    child.steps = child.transformers = []
    assert seen_before("first", child)[0].startswith("NOT COVERED")


def test_the_rest_of_a_column_transformer_counts():
    split = ColumnTransformer([("a", Normalizer(), [0])], remainder=StandardScaler())
    assert len(seen_before("first", split)) == 1
    assert not seen_before("first", ColumnTransformer([("a", "drop", [0])], remainder="drop"))


def test_a_model_at_infinite_epsilon_is_raw():
    free = tc.GaussianMixture(1, radius=1.0, privacy=tc.Privacy(float("inf")))
    assert seen_before("first", free)[0].startswith("NOT COVERED")


def test_steps_that_are_kept_in_memory_are_told_too(tmp_path):
    mixture = tc.GaussianMixture(1, radius=3.0, privacy=tc.Privacy(5000.0, 1e-6))
    last = line(bounds=[(0, 2)], intercept=False)
    pipe = tc.make_pipeline(StandardScaler(), mixture, last, memory=str(tmp_path / "cache"))
    for _ in range(2):
        with pytest.warns(UserWarning, match="NOT COVERED"):
            pipe.fit(X, Y)
        for _, step in pipe.steps[1:]:
            notes = step.certificate_.assumptions
            assert sum("NOT COVERED" in note for note in notes) == 1


def test_a_class_that_only_calls_itself_normalizer_is_not_believed():
    class Normalizer(StandardScaler):
        """Another one."""

    with pytest.warns(UserWarning, match="NOT COVERED"):
        assumed(Normalizer())


def test_a_raw_model_before_a_private_one_is_a_caveat_and_a_paid_one_is_not():
    def pipe(**given):
        mixture = tc.GaussianMixture(1, radius=20.0, random_state=0, **given)
        return tc.Pipeline([("first", mixture), ("line", line(bounds=[(0, 2)], intercept=False))])

    with pytest.warns(UserWarning, match="NOT COVERED"):
        pipe().fit(X, Y)
    paid = pipe(privacy=tc.Privacy(100.0, 1e-6)).fit(X, Y)
    assert not any("first" in note for note in paid[-1].certificate_.assumptions)


def test_a_certificate_with_a_caveat_verifies_against_its_ledger(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "a.db", epsilon=2.0, delta=1e-3)
    model = line(bounds=[(-9, 9)] * 2, ledger=ledger)
    with pytest.warns(UserWarning, match="NOT COVERED"):
        pipe = tc.make_pipeline(StandardScaler(), model).fit(X, Y)
    pipe[-1].certificate_.verify(ledger)
    assert any("NOT COVERED" in note for note in pipe[-1].certificate_.assumptions)


def test_copies_within_a_fit_are_told_too_and_nothing_stays_behind():
    search = GridSearchCV(line(bounds=[(-9, 9)] * 2), {"privacy__epsilon": [1.0]}, cv=2)
    pipe = tc.make_pipeline(StandardScaler(), search)
    with pytest.warns(UserWarning, match="NOT COVERED"):
        pipe.fit(X, Y)
    found = pipe[-1].best_estimator_.certificate_.assumptions
    assert any("NOT COVERED" in note for note in found)
    assert search.estimator._before == ()
    bad = tc.make_pipeline(StandardScaler(), line())
    with pytest.warns(UserWarning, match="NOT COVERED"), pytest.raises(ParameterError):
        bad.fit(X, Y[:-1])
    assert bad[-1]._before == ()


def test_a_pipeline_is_searched_and_cloned_with_its_own_settings(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "a.db", epsilon=20.0, delta=1e-3)
    scaler = tc.PublicScaler(bounds=(0, 10), feature_range=(-1, 1))
    pipe = tc.make_pipeline(scaler, line(bounds=[(-1, 1)] * 2, ledger=ledger), public=())
    assert clone(pipe).get_params()["privatelinearregression__privacy__epsilon"] == 1.0
    grid = {"privatelinearregression__privacy__epsilon": [1.0, 2.0]}
    GridSearchCV(pipe, grid, cv=2, error_score="raise").fit(X, Y)
    assert [row.kind for row in ledger.rows()].count("charge") == 5
