"""What saw raw data reaches no private fit, and no file that is passed on."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tacit as tc
from experiments._audit_subjects import SUBJECTS
from tacit import networks as nn
from tacit.errors import ParameterError, TacitError
from tacit.estimators.shards import Holder
from tacit.factorization import Langevin
from tacit.networks.backend import torch
from tacit.posterior.numerics.populations.laws import Exponential
from tacit.posterior.numerics.statistics import Custom
from tests.contracts.held import everything, raw_values

PRIVACY = tc.Privacy(4.0, 1e-5)
RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (300, 2)).astype(np.float32).astype(float)
Y = X @ [0.5, 0.3]
WAITS = RNG.exponential(3.0, 400)
RATINGS = np.where(RNG.random((30, 8)) < 0.6, RNG.uniform(1, 5, (30, 8)), np.nan)
SECRETS = {float(x) for part in (X, Y, WAITS, RATINGS) for x in np.ravel(part) if x == x}
TRAINING = nn.Training(steps=3)


def fits(privacy: tc.Privacy | None) -> dict[str, Any]:
    """Return every kind of estimator with its data."""
    sampling: dict[str, Any] = {"chains": 1, "draws": 40, "warmup": 4}
    return {
        "summary": (tc.PrivateSummary({"x": (-1, 1)}, privacy=privacy), ({"x": X[:, 0]},)),
        "regression": (
            tc.PrivateLinearRegression(
                bounds=[(-1, 1)] * 2, y_bounds=(-1, 1), privacy=privacy,
                method="adaSSP" if privacy else "OLS",
            ), (X, Y)),
        "logistic": (
            tc.PrivateLogisticRegression(
                bounds=[(-1, 1)] * 2, classes=(0, 1), privacy=privacy), (X, (Y > 0).astype(int))),
        "poisson": (
            tc.PrivatePoissonRegression(
                bounds=[(-1, 1)] * 2, y_bounds=(0, 9), privacy=privacy), (X, np.round(4 + 4 * Y))),
        "mixture": (tc.GaussianMixture(1, radius=0.1, features=2, privacy=privacy), (X,)),
        "posterior": (
            tc.PrivatePosterior(Exponential(), bounds=(0, 30), privacy=privacy, **sampling),
            (WAITS,)),
        "selector": (
            tc.StatisticSelector(
                Exponential(), ["mean", "|x|^2"], bounds=(0, 30), first_share=0.5,
                parameters=[2.0], privacy=privacy or PRIVACY, **sampling),
            (WAITS,)),
        "classifier": (
            nn.PrivateDropoutClassifier(
                hidden=(), classes=(0, 1), bounds=(-1, 1), rows=300, training=TRAINING,
                privacy=privacy),
            (X, (Y > 0).astype(int))),
        "regressor": (
            nn.PrivateDropoutRegressor(
                hidden=(), y_bounds=(-1, 1), bounds=(-1, 1), rows=300, training=TRAINING,
                privacy=privacy),
            (X, Y)),
        "recommender": (tc.PrivateRecommender((1, 5), rank=2, privacy=privacy), (RATINGS,)),
        "factorization": (
            tc.PrivateFactorization(
                "user:k item:k", rank=2, bounds=(1, 5), divergence="euclidean", privacy=privacy),
            (RATINGS,)),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*eigenvalues of the noisy second moment")
@pytest.mark.parametrize("privacy", [None, PRIVACY], ids=["raw", "private"])
@pytest.mark.parametrize("name", fits(None))
def test_a_fitted_object_holds_no_raw_data_or_is_not_pickled(
    name: str, privacy: tc.Privacy | None
) -> None:
    model, data = fits(privacy)[name]
    pickle.loads(pickle.dumps(model))  # before it has seen anything
    model.fit(*data)
    sides = [part for part in everything(model) if isinstance(part, Holder)]
    if sides or raw_values(model, SECRETS):
        with pytest.raises(TypeError, match=r"keep model.release\(folder\)"):
            pickle.dumps(model)
    else:
        again = pickle.loads(pickle.dumps(model))
        assert not raw_values(again, SECRETS)


def test_the_search_finds_raw_data_wherever_they_are() -> None:
    class Slots:
        __slots__ = ("kept",)

    hidden = Slots()
    hidden.kept = {"a": (X[3],)}
    assert raw_values([hidden], SECRETS) == set(X[3])
    assert hidden in list(everything({"b": hidden}))


# -- fitted models as parameters ----------------------------------------------------------------


def test_a_dispersion_that_was_estimated_from_raw_data_sets_no_clip() -> None:
    raw = tc.CoupledFactorization(
        "user:k item:k", rank=2, divergence="euclidean", dispersion="estimate", random_state=0,
        iterations=5,
    ).fit(RATINGS)  # fmt: skip
    private = tc.PrivateFactorization(
        raw.coupled_model(), bounds=(1, 5), method=Langevin(rounds=2), privacy=PRIVACY
    )
    stated = replace_parameters(
        private, model="user:k item:k", rank=2, divergence="euclidean", dispersion=raw.dispersion_
    )
    for model in (private, stated):
        with pytest.raises(ParameterError, match="was estimated from raw data"):
            model.fit(RATINGS)
        with pytest.raises(ParameterError, match="was estimated from raw data"):
            model.price(RATINGS)
    open_model = replace_parameters(stated, dispersion="estimate")
    with pytest.raises(ParameterError, match="must be stated"):
        open_model.fit(RATINGS)
    replace_parameters(stated, dispersion=float(next(iter(raw.dispersion_.values())))).price(
        RATINGS
    )


def replace_parameters(model: Any, /, **changes: Any) -> Any:
    return type(model)(**{**model.get_params(deep=False), **changes})


def test_a_start_is_listed_as_chosen_without_the_data() -> None:
    plain = tc.PrivateFactorization(
        "user:k item:k", rank=3, bounds=(1, 5), divergence="euclidean",
        method=Langevin(rounds=2), privacy=PRIVACY, random_state=0,
    ).fit(RATINGS)  # fmt: skip
    said = "the factors that it starts from were chosen without looking at the data"
    assert said not in plain.certificate_.assumptions
    name, factor = next((n, f) for n, f in plain.shared_.items() if n == "item")
    started = replace_parameters(plain, method=Langevin(rounds=2, start={name: factor}))
    assert said in started.fit(RATINGS).certificate_.assumptions


def test_a_module_that_was_trained_on_raw_rows_is_refused() -> None:
    raw, data = fits(None)["classifier"]
    raw.fit(*data)
    private = nn.PrivateDropoutClassifier(
        module=raw.module_, classes=(0, 1), bounds=(-1, 1), rows=300, training=TRAINING,
        privacy=PRIVACY,
    )  # fmt: skip
    inside = torch.nn.Sequential(torch.nn.Identity(), raw.module_)
    for module in (raw.module_, copy.deepcopy(raw.module_), inside):
        with pytest.raises(ParameterError, match="was trained on raw data"):
            replace_parameters(private, module=module).fit(*data)
    released, data = fits(PRIVACY)["classifier"]
    released.fit(*data)
    replace_parameters(private, module=released.module_).fit(*data)


# -- functions of the caller's ------------------------------------------------------------------

SEEN: list[float] = []


def remembering(x: Any) -> Any:
    SEEN.extend(np.ravel(x).tolist())
    return x


def running_mean() -> Any:
    total = [0.0, 0]

    def mean(x: Any) -> Any:
        total[0] += float(np.sum(x))
        total[1] += np.size(x)
        return np.clip(x, 0, total[0] / total[1])

    return mean


class Counting:
    calls = 0

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return x

    def method(self, x: Any) -> Any:
        self.calls += 1
        return x


def drawing() -> Any:
    rng = np.random.default_rng(0)
    return lambda x: np.clip(x + 0 * rng.normal(size=np.shape(x)), 0, 30)


@pytest.mark.parametrize(
    "function",
    [remembering, running_mean(), Counting().method, Counting(), drawing(), np.sort, np.cumsum],
    ids=["a list", "a closure", "a method", "an object", "a generator", "sorts", "adds up"],
)
def test_a_function_that_remembers_or_looks_at_others_is_refused(function: Any) -> None:
    ledger = tc.Ledger.memory(epsilon=9.0, delta=1e-3, neighbours="replace-one")
    model = tc.PrivatePosterior(
        Exponential(), Custom(function, (0, 30)), bounds=(0, 30), chains=1, draws=8, warmup=4,
        privacy=PRIVACY, ledger=ledger,
    )  # fmt: skip
    with pytest.raises(TacitError):
        model.fit(WAITS)
    assert ledger.counter == 0


def test_a_function_sees_one_person_at_a_time_and_its_failures_count_as_low() -> None:
    sizes = []

    def odd(x: Any) -> Any:
        sizes.append(np.size(x))
        return x

    statistic = Custom(odd, (0.0, 30.0))
    statistic.of_each(WAITS[:5], (0.0, 30.0))
    assert sizes == [1] * 5

    def ends(x: Any) -> Any:
        raise SystemExit

    found = Custom(ends, (2.0, 30.0)).of_each(WAITS[:3], (0.0, 30.0))
    np.testing.assert_array_equal(found, 2.0)


def test_every_estimator_of_the_audit_can_be_pickled_before_it_is_fitted() -> None:
    for subject in SUBJECTS:
        pickle.loads(pickle.dumps(replace(subject, build=None).settings))
        pickle.loads(pickle.dumps(subject.build(**subject.settings[0])))
