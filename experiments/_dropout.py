"""What the two experiments on private dropout share: methods, seeds, uncertainty, tables."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.metrics import auc
from experiments.runner import Outcome
from tacit.networks import PrivateDropoutClassifier, Training, calibration_error, entropy
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.guarantee import Privacy
from tacit.published.ermis2020_dropout import ThesisTraining, thesis_noise

CLASSES = tuple(range(10))
EPSILONS = (0.5, 1.0, 10.0)
METHODS = {
    "DPD, pld": Training(),
    "DPD, zCDP": Training(accountant="zcdp"),
    "DPD, advanced": Training(accountant="advanced"),
    "SGLD": Training(method="sgld"),
    "DP-SGD": Training(method="dp-sgd"),
    "DPD, published zCDP": ThesisTraining(recipe="zcdp"),
    "DPD, published zCDP, 2Gσ": ThesisTraining(recipe="zcdp", reading="2G"),
    "DPD, published advanced": ThesisTraining(recipe="advanced"),
    "SGLD, published zCDP": ThesisTraining(recipe="zcdp", method="sgld"),
    "DP-SGD, published zCDP": ThesisTraining(recipe="zcdp", method="dp-sgd"),
}
PUBLISHED = tuple(name for name in METHODS if "published" in name)
SETTINGS = {field.name for field in fields(Training)}


@dataclass(frozen=True)
class Network:
    """A network to train: its name, what it sees, and the settings of the classifier.

    Attributes
    ----------
    name
        In the tables.
    data
        Seed → (train, test), each (images, labels).
    settings
        Of `PrivateDropoutClassifier`; functions are called with the seed.
    """

    name: str
    data: Callable[[int], tuple[tuple[Any, Any], tuple[Any, Any]]]
    settings: Mapping[str, Any] = field(default_factory=dict)


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
    network: Network, seed: int, privacy: Privacy | None, method: str, **more: Any
) -> tuple[PrivateDropoutClassifier, tuple[Any, Any]]:
    """Return a classifier fitted by a method of `METHODS`, seeded, and the images to test it.

    ``more`` are settings of the training and of the classifier.
    """
    train, test = network.data(seed)
    settings = {
        key: value(seed) if callable(value) else value for key, value in network.settings.items()
    }
    given = {name: value for name, value in more.items() if name in SETTINGS}
    own = {name: value for name, value in more.items() if name not in SETTINGS}
    model = PrivateDropoutClassifier(
        classes=CLASSES, rows=len(train[0]), privacy=privacy, random_state=seed,
        training=replace(METHODS[method], **given), **{**settings, **own},
    )  # fmt: skip
    return model.fit(*train), test


def judged(model: PrivateDropoutClassifier, test: tuple[Any, Any]) -> dict[str, float]:
    """Return accuracy, calibration error, and how well entropy tells wrong from right."""
    found = model.predict_proba(test[0])
    wrong = found.argmax(axis=1) != test[1]
    return {
        "accuracy": float(1.0 - wrong.mean()),
        "ECE": calibration_error(~wrong, found.max(axis=1)),
        "AUC of entropy": auc(wrong.astype(int), entropy(found)) if wrong.any() else 1.0,
    }


def compare(
    outcome: Outcome,
    network: Network,
    seeds: int,
    privacy: Privacy | None,
    method: str,
    label: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Fit with several seeds and add one row of means over them."""
    parts, model = [], None
    for seed in range(seeds):
        model, test = fitted(network, seed, privacy, method, **more)
        parts.append(judged(model, test))
    assert model is not None
    certificate, training = model.certificate_, model.training_
    return outcome.add({
        "network": network.name, **(label or {}), "method": method if privacy else "not private",
        "ε": privacy.epsilon if privacy else "∞", "δ": privacy.delta if privacy else 0.0,
        "certified ε": certificate.epsilon,
        **{name: float(np.mean([part[name] for part in parts])) for name in parts[0]},
        "sd": float(np.std([part["accuracy"] for part in parts])), "seeds": seeds,
        "steps": training.steps, "rate": training.sampling_rate, "σ": training.noise_multiplier,
    })  # fmt: skip


def noise_against_epsilon(outcome: Outcome, name: str, training: Training, delta: float) -> None:
    """Add the thesis's σ against ε for both recipes, with what each really gives (Figure 8.2)."""
    for recipe in ("zcdp", "advanced"):
        for epsilon in EPSILONS:
            privacy = Privacy(epsilon, delta)
            numbers = training.decided(1.0, privacy)
            noise = thesis_noise(recipe, privacy, numbers.sampling_rate, numbers.steps)
            certified = replace(training, accountant=recipe).agree(None, None, 1.0, privacy)
            outcome.add({
                "figure": "8.2", "data": name, "method": f"published {recipe}", "ε": epsilon,
                "δ": delta, "σ": noise.noise_multiplier, "certified ε": noise.epsilon(),
                "σ certified by pld": numbers.noise_multiplier,
                f"σ certified by {recipe}": certified.dynamics.noise_multiplier,
                "ε of the latter": epsilon_of(certified.event, delta),
            })  # fmt: skip


def dropout_against_epsilon(outcome: Outcome, network: Network, **more: Any) -> None:
    """Add the equivalent dropout α of every layer along runs at three ε (Figure 8.6).

    Checks what the thesis saw: the larger ε, the smaller α. As there, all have one step size,
    that of the rules at ε = 1 (the rules themselves take larger steps where there is less noise),
    and no Langevin noise fills up that of privacy.
    """
    last: dict[str, list[float]] = {}
    rows = len(network.data(0)[0][0])
    size = Training(steps=more.get("steps")).decided(rows, Privacy(1.0, 1e-5)).step_size
    for epsilon in EPSILONS:
        model, _ = fitted(
            network,
            0,
            Privacy(epsilon, 1e-5),
            "DPD, pld",
            step_size=size,
            temperature=0.0,
            **more,
        )
        for progress in model.history_[1::4]:
            for layer in progress.dropout:
                if layer.name.endswith("weight"):
                    outcome.add({
                        "figure": "8.6", "network": network.name, "ε": epsilon,
                        "step": progress.step, "ε so far": progress.epsilon, "layer": layer.name,
                        "α": layer.alpha, "median α": layer.median_alpha,
                        "dropout rate": layer.rate,
                    })  # fmt: skip
        for layer in model.layer_dropout():
            if layer.name.endswith("weight"):
                last.setdefault(layer.name, []).append(layer.alpha)
    for name, alphas in last.items():
        falling = " > ".join(f"{alpha:.2g}" for alpha in alphas)
        outcome.check(f"α of {name} at ε = 0.5, 1, 10 (Figure 8.6)", falling, "falls with ε",
                      alphas == sorted(alphas, reverse=True))  # fmt: skip


def bars(
    outcome: Outcome, what: str, rows: list[dict[str, Any]], targets: Mapping[float, float]
) -> None:
    """Check private dropout with the best network at every ε: Table 8.1, or what is asked here."""
    ours = [row for row in rows if row["method"] == "DPD, pld"]
    for epsilon, target in targets.items():
        found = [row for row in ours if row["ε"] == epsilon and row["certified ε"] <= epsilon]
        if found:
            best = max(found, key=lambda row: row["accuracy"])
            name = f"{best['network']}, {best['method']}"
            outcome.check(f"{what} at a certified ε = {epsilon:g} ({name})", best["accuracy"],
                          f"at least {target}", best["accuracy"] >= target)  # fmt: skip


def uncertainty_bars(outcome: Outcome, rows: list[dict[str, Any]], most: float) -> None:
    """Check calibration, also beside DP-SGD's, and that entropy tells wrong from right."""
    for row in rows:
        if row["method"] == "DPD, pld":
            name = f"{row['network']}, ε = {row['ε']:g}"
            outcome.check(f"calibration error, {name}", row["ECE"], f"at most {most:g}",
                          row["ECE"] <= most)  # fmt: skip
    by = {(row["network"], row["method"], row["ε"]): row for row in rows}
    for (network, method, epsilon), ours in by.items():
        theirs = by.get((network, "DP-SGD", epsilon))
        if method != "DPD, pld" or theirs is None:
            continue
        where = f"{network}, ε = {epsilon:g}"
        outcome.check(f"calibration error of DPD, {where}", ours["ECE"],
                      f"at most 0.005 above that of DP-SGD, {theirs['ECE']:.4f}",
                      ours["ECE"] <= theirs["ECE"] + 0.005)  # fmt: skip
        outcome.check(f"AUC of entropy for wrong predictions, {where}", ours["AUC of entropy"],
                      "at least 0.8", ours["AUC of entropy"] >= 0.8)  # fmt: skip


def quarter(rows: int, privacy: Privacy | None) -> int:
    """Return a quarter of the steps that the rules give."""
    return max(5, Training().decided(rows, privacy).steps // 4)
