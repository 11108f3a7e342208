"""What the two experiments on private dropout share: methods, seeds, uncertainty, tables."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.runner import Outcome
from tacit.nn import PrivateDropoutClassifier
from tacit.nn.rules import default_training
from tacit.nn.training import Training
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.guarantee import Privacy
from tacit.report.metrics import auc

CLASSES = tuple(range(10))
EPSILONS = (0.5, 1.0, 10.0)
# name → (strategy, accountant, calibration)
METHODS = {
    "DPD, pld": ("dpd", "pld", "certified"),
    "DPD, zCDP": ("dpd", "zcdp", "certified"),
    "DPD, advanced": ("dpd", "advanced", "certified"),
    "SGLD": ("sgld", "pld", "certified"),
    "DP-SGD": ("dp-sgd", "pld", "certified"),
}


def mnist(split: str) -> tuple[Any, Any]:
    """Return images (rows, 1, 28, 28) and labels of ``"train"`` or ``"t10k"``."""

    def read(kind: str, axes: int) -> Any:
        name = f"{split}-{kind}-idx{axes}-ubyte.gz"
        with gzip.open(data_folder("mnist") / name) as file:
            content = file.read()
        sizes = [int.from_bytes(content[4 + 4 * k : 8 + 4 * k]) for k in range(axes)]
        return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(sizes)

    return read("images", 3)[:, None], read("labels", 1)


def fitted(
    train: tuple[Any, Any], seed: int, privacy: Privacy | None, method: str, **settings: Any
) -> PrivateDropoutClassifier:
    """Return a classifier fitted by a method of `METHODS`, seeded."""
    strategy, accountant, calibration = METHODS.get(method, ("dpd", "pld", "certified"))
    model = PrivateDropoutClassifier(
        classes=CLASSES, rows=len(train[0]), privacy=privacy, strategy=strategy,
        accountant=accountant, calibration=calibration, random_state=seed, **settings,
    )  # fmt: skip
    return model.fit(*train)


def judged(model: PrivateDropoutClassifier, test: tuple[Any, Any]) -> dict[str, float]:
    """Return accuracy, calibration error, and how well entropy tells wrong from right."""
    found = model.predict_proba(test[0])
    wrong = found.argmax(axis=1) != test[1]
    from tacit.nn import calibration_error, entropy

    return {
        "accuracy": float(1.0 - wrong.mean()),
        "ECE": calibration_error(~wrong, found.max(axis=1)),
        "AUC of entropy": auc(wrong.astype(int), entropy(found)) if wrong.any() else 1.0,
    }


def averaged(parts: list[dict[str, float]]) -> dict[str, float]:
    """Return means over seeds, and the spread of the accuracy."""
    row = {name: float(np.mean([part[name] for part in parts])) for name in parts[0]}
    row["sd"] = float(np.std([part["accuracy"] for part in parts]))
    return row


def compare(
    outcome: Outcome,
    label: Mapping[str, Any],
    data: Any,
    seeds: int,
    privacy: Privacy | None,
    method: str,
    **settings: Any,
) -> dict[str, Any]:
    """Fit with several seeds and add one row; ``data`` maps a seed to (train, test)."""
    parts, model = [], None
    for seed in range(seeds):
        train, test = data(seed)
        model = fitted(train, seed, privacy, method, **settings)
        parts.append(judged(model, test))
    assert model is not None
    certificate, training = model.certificate_, model.training_
    layers = model.layer_dropout()
    return outcome.add({
        **label, "method": method, "ε": privacy.epsilon if privacy else "∞",
        "δ": privacy.delta if privacy else 0.0, "certified ε": certificate.epsilon,
        **averaged(parts), "seeds": seeds, "steps": training.steps, "rate": training.rate,
        "σ": training.multiplier(privacy), "α first layer": layers[0].alpha,
        "α last layer": layers[-2].alpha,
    })  # fmt: skip


def noise_against_epsilon(outcome: Outcome, name: str, training: Training, delta: float) -> None:
    """Add the thesis's σ against ε for both recipes, with what each really gives (Figure 8.2)."""
    from dataclasses import replace

    for recipe in ("zcdp", "advanced"):
        published = replace(training, accountant=recipe, calibration="published")
        certified = replace(training, accountant=recipe)
        for epsilon in EPSILONS:
            privacy = Privacy(epsilon, delta)
            noise = published.published(privacy)
            outcome.add({
                "figure": "8.2", "data": name, "method": f"published {recipe}", "ε": epsilon,
                "δ": delta, "σ": noise.noise_multiplier, "certified ε": noise.epsilon(),
                "σ certified by pld": replace(training).multiplier(privacy),
                f"σ certified by {recipe}": certified.multiplier(privacy),
                "ε of the latter": epsilon_of(certified.schedule_of(privacy), delta),
            })  # fmt: skip


def bars(
    outcome: Outcome, what: str, rows: list[dict[str, Any]], targets: Mapping[float, float]
) -> None:
    """Check the best certified accuracy at every ε against the thesis's Table 8.1."""
    for epsilon, target in targets.items():
        found = [row for row in rows if row.get("ε") == epsilon and row["certified ε"] <= epsilon]
        if found:
            best = max(found, key=lambda row: row["accuracy"])
            outcome.check(
                f"{what} at a certified ε = {epsilon:g} ({best['method']})",
                best["accuracy"], f"at least {target}", best["accuracy"] >= target,
            )  # fmt: skip


def uncertainty_bars(outcome: Outcome, rows: list[dict[str, Any]]) -> None:
    """Check that private dropout is calibrated better than DP-SGD, and that entropy tells."""
    by = {(row["method"], row["ε"]): row for row in rows}
    for epsilon in EPSILONS:
        ours, theirs = by.get(("DPD, pld", epsilon)), by.get(("DP-SGD", epsilon))
        if ours and theirs:
            outcome.check(
                f"calibration error at ε = {epsilon:g}, DPD against DP-SGD", ours["ECE"],
                f"at most {theirs['ECE']:.4f}", ours["ECE"] <= theirs["ECE"],
            )  # fmt: skip
            outcome.check(
                f"AUC of entropy for wrong predictions at ε = {epsilon:g}",
                ours["AUC of entropy"],
                "at least 0.8",
                ours["AUC of entropy"] >= 0.8,
            )


def quarter(rows: int, privacy: Privacy | None) -> int:
    """Return a quarter of the steps that the rules give."""
    return max(5, default_training(rows, privacy).steps // 4)
