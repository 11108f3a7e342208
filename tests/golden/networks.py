"""`tacit.nn`: classifiers and regressors by every strategy, on tiny tables and images."""

from __future__ import annotations

import tempfile

import numpy as np

import tacit as tc
from tacit.networks import (
    PrivateDropoutClassifier,
    PrivateDropoutRegressor,
    Scattering,
    Training,
    convolutional,
)
from tacit.published.ermis2020_dropout import ThesisTraining

from .cases import Results, case, cases, fitted

PRIVACY = tc.Privacy(2.0, 1e-5)
NAMES = {"steps": "steps", "rate": "sampling_rate", "clip": "clip", "learning_rate": "step_size",
         "learning_rate_schedule": "schedule", "momentum": "momentum", "strategy": "method",
         "precision": "precision", "temperature": "temperature", "burn_in": "burn_in",
         "samples": "samples", "noise_multiplier": "noise_multiplier", "accountant": "accountant",
         "physical": "examples_in_memory"}  # fmt: skip


def settings(options):
    """Constructor lines of the new spelling from those of the old one."""
    options = dict(options)
    given = {new: options.pop(old) for old, new in NAMES.items() if old in options}
    if options.pop("calibration", None) == "published":
        return options | {"training": ThesisTraining(recipe=given.pop("accountant"), **given)}
    return options | {"training": Training(**given)}


def table(rows: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no")


def images(size: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    found, labels = rng.uniform(0, 1, (60, 1, size, size)), rng.integers(0, 3, 60)
    found[np.arange(60), 0, labels] += 1.0
    return found, labels


def weights(model) -> Results:
    return {n: p.detach().numpy() for n, p in model.module_.named_parameters()}


VARIANTS = {
    "dpd": {},
    "sgld": {"strategy": "sgld"},
    "dp-sgd": {"strategy": "dp-sgd"},
    "dropout": {"dropout": True},
    "deep": {"hidden": (6, 4)},
    "relu": {"hidden": (6,), "activation": "relu"},
    "settings": {
        "hidden": (5,), "rate": 0.3, "clip": (0.5, 0.7), "learning_rate": 0.5, "momentum": 0.5,
        "precision": 1.0, "temperature": 1.0, "burn_in": 0.3, "samples": 3,
        "learning_rate_schedule": "cosine", "physical": 20,
    },
    "constant": {"learning_rate_schedule": "constant", "normalize": "row"},
    "by the rules": {"steps": None, "noise_multiplier": 8.0, "rate": 0.2},
    "rdp": {"accountant": "rdp", "rate": 0.2},
    "published zcdp": {
        "accountant": "zcdp", "calibration": "published", "rate": 0.2, "steps": 15,
        "privacy": tc.Privacy(1.0, 1e-4),
    },
    "published advanced": {
        "accountant": "advanced", "calibration": "published", "rate": 0.2, "steps": 15,
        "privacy": tc.Privacy(1.0, 1e-4),
    },
    "no privacy": {"privacy": None},
}  # fmt: skip


@cases("classifier", VARIANTS)
def classifier(privacy=PRIVACY, **options) -> Results:
    options = {"hidden": (), "steps": 8, "samples": 4, **options}
    model = PrivateDropoutClassifier(
        **settings(options), bounds=(-1, 1), classes=("no", "yes"), rows=200, privacy=privacy,
        random_state=5,
    )  # fmt: skip
    price = str(model.price())
    model.fit(*table())
    new = table(10, 9)[0]
    return fitted(
        model, price=price, weights=weights(model), probability=model.predict_proba(new),
        dropout=[layer.alpha for layer in model.layer_dropout()], predicted=model.predict(new),
    )  # fmt: skip


@cases("regressor", VARIANTS | {"noise": {"noise_sd": 0.5}})
def regressor(privacy=PRIVACY, **options) -> Results:
    options = {"hidden": (), "steps": 8, "samples": 4, **options}
    model = PrivateDropoutRegressor(
        **settings(options), bounds=[(-1, 1)] * 3, y_bounds=(0, 10), rows=200, privacy=privacy,
        random_state=5,
    )  # fmt: skip
    X = table()[0]
    model.fit(X, 5.0 + 2.0 * X[:, 0])
    new = table(10, 9)[0]
    return fitted(
        model, weights=weights(model), predicted=model.predict(new, return_sd=True),
        dropout=[layer.alpha for layer in model.layer_dropout()],
    )  # fmt: skip


@cases("classifier", {"convolutional": {}, "convolutional physical": {"physical": 7}})
def module(**options) -> Results:
    model = PrivateDropoutClassifier(
        module=convolutional(1, 8, 3, filters=(2,), rng=np.random.default_rng(0)), bounds=(0, 2),
        classes=(0, 1, 2), rows=60, privacy=PRIVACY, random_state=5,
        **settings({"steps": 3, "clip": (0.5, 0.5), "learning_rate": 0.5, **options}),
    )  # fmt: skip
    pictures, labels = images()
    model.fit(pictures, labels)
    return fitted(model, weights=weights(model), probability=model.predict_proba(pictures[:5]))


@case("classifier/scattering")
def scattering() -> Results:
    model = PrivateDropoutClassifier(
        hidden=(), features=Scattering(4), bounds=(0, 2), classes=(0, 1, 2), rows=60,
        training=Training(steps=3), privacy=PRIVACY, random_state=5,
    )  # fmt: skip
    pictures, labels = images(16)
    model.fit(pictures, labels)
    return fitted(model, weights=weights(model), probability=model.predict_proba(pictures[:5]))


@case("classifier/checkpoint")
def checkpoint() -> Results:
    with tempfile.TemporaryDirectory() as folder:
        model = PrivateDropoutClassifier(
            hidden=(), bounds=(-1, 1), classes=("no", "yes"), rows=200,
            training=Training(steps=6), privacy=PRIVACY, checkpoint=folder, random_state=5,
            ledger=tc.Ledger.memory(epsilon=2.0, delta=1e-4),
        )  # fmt: skip
        first = fitted(model.fit(*table()))
        return {"first": first, "again": model.fit(*table()).result_.final}
