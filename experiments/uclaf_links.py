"""Link prediction on UCLAF with coupled factorization: Tables 6.1, 6.2 and 6.5.

Source: Ermiş (2020), chapter 6. X₁ = [UserLocAct > 0] (user × place × activity), coupled to
UserLoc (user × place, as an entity of its own, as in the thesis's Θ₄) and LocFea (place ×
feature). Rank 2 unless said otherwise.

**Which cells are scored.** A share of *all* cells of X₁ is held out at random, ones and zeros;
AUC is that of the expected values at the held-out cells against their 0/1 truth, averaged over
runs with other cells and other starts. The scale of scores is the model's own.

**Preprocessing**, fixed before anything was scored: UserLoc as 0/1, LocFea with columns that sum
to one; zeros are observed everywhere. **Dispersions** of UserLoc and LocFea decide what coupling
adds: every run of a coupled model chooses them for itself from `CHOICES`, by the AUC at a fifth of
its own training cells, held out a second time; the held-out cells take no part. In the same way it
chooses between maximum likelihood and an exponential prior on the factors (the thesis's ML-MAP).

**What was seen.** Variational Bayes adapts its hyper-parameters. The thesis calls that crucial,
but it was also compared with fixed ones at held-out cells (4 runs) before it became the setting
here, so the variational rows are not free of selection. What there is to choose from was drawn up
after a trial on training cells alone (three runs, inner splits). Estimated dispersions did worse
there: half of what they describe is the many zeros.

Bars: the AUC printed in the thesis (coupled CP-KL, coupled Tucker-KL, single CP-KL of Table 6.2;
variational Bayes of Table 6.5). The thesis contradicts itself at 80 % (0.937 and 0.892 for the
same model).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.datasets import uclaf
from experiments.metrics import auc, rmse
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.data.split import hold_out_cells, hold_out_slices
from tacit.factorization.alone.estimator import CoupledFactorization

CP = {
    "visits": "user:k place:k activity:k",
    "gps": "user:k place2:k",
    "poi": "place:k feature:k",
}
TUCKER = {
    "visits": "user:k place:l activity:m core:klm",
    "gps": "user:k place2:k",
    "poi": "place:l feature:l",
}
PCLAF = {**CP, "friends": "user:k user2:k", "activities": "activity:k activity2:k"}
CHOICES = ({"gps": 0.1, "poi": 1.0}, {"gps": 1.0, "poi": 1.0}, {"gps": 10.0, "poi": 1.0},
           {"gps": 1.0, "poi": 10.0})  # fmt: skip
PRIOR_MEAN = 0.03  # of the exponential prior that "map" may choose instead of none

# (name, forms, inference, divergence) → AUC of the thesis by share of missing cells
MODELS = {
    "single CP, KL": (CP, False, "map", "kl", {0.4: 0.946, 0.8: 0.867}),
    "single CP, Euclidean": (CP, False, "map", "euclidean", {0.4: 0.920, 0.8: 0.808}),
    "single Tucker, KL": (TUCKER, False, "map", "kl", {0.4: 0.960, 0.8: 0.917}),
    "single Tucker, Euclidean": (TUCKER, False, "map", "euclidean", {0.4: 0.943, 0.8: 0.896}),
    "coupled CP, KL": (CP, True, "map", "kl", {0.4: 0.968, 0.8: 0.937, 0.9: 0.869}),
    "coupled CP, Euclidean": (CP, True, "map", "euclidean", {0.4: 0.951, 0.8: 0.915, 0.9: 0.813}),
    "coupled Tucker, KL": (TUCKER, True, "map", "kl", {0.4: 0.983, 0.8: 0.948, 0.9: 0.908}),
    "coupled Tucker, Euclidean": (
        TUCKER, True, "map", "euclidean", {0.4: 0.965, 0.8: 0.934, 0.9: 0.871},
    ),
    "single CP, variational": (CP, False, "vb", "kl", {0.6: 0.973, 0.8: 0.959, 0.9: 0.917}),
    "coupled CP, variational": (CP, True, "vb", "kl", {0.6: 0.981, 0.8: 0.962, 0.9: 0.939}),
}  # fmt: skip
BARS = ("coupled CP, KL", "coupled Tucker, KL", "single CP, KL", "coupled CP, variational")


def relations() -> dict[str, Relation]:
    """Return the preprocessed relations; nothing is held out yet."""
    arrays = uclaf(data_folder("uclaf"))
    features = arrays["poi"] / np.maximum(arrays["poi"].sum(axis=0), 1e-12)
    return {
        "visits": Relation.from_dense(
            ("user", "place", "activity"), arrays["visits"] > 0, zeros="observed"
        ),
        "gps": Relation.from_dense(("user", "place2"), arrays["gps"] > 0, zeros="observed"),
        "poi": Relation.from_dense(("place", "feature"), features, zeros="observed"),
        "friends": Relation.from_dense(("user", "user2"), arrays["friends"], zeros="observed"),
        "activities": Relation.from_dense(
            ("activity", "activity2"), np.abs(arrays["activities"]), zeros="observed"
        ),
    }


def fit(
    forms: dict[str, str], data: dict[str, Relation], inference: str, divergence: Any, seed: int,
    dispersion: Any = 1.0, **options: Any,
) -> CoupledFactorization:  # fmt: skip
    """Fit a model to the relations it names."""
    if inference == "map":  # the thesis has maximum likelihood, but where a prior is chosen
        options.setdefault("prior", "flat")
    if isinstance(dispersion, dict):
        dispersion = {name: phi for name, phi in dispersion.items() if name in data}
    estimator = CoupledFactorization(
        {name: forms[name] for name in data},
        rank=options.pop("rank", 2),
        divergence=divergence,
        dispersion=dispersion,
        inference=inference,
        adapt=inference == "vb" and "prior" not in options,
        random_state=seed,
        **options,
    )
    return estimator.fit(data)


def fit_chosen(
    forms: dict[str, str], data: dict[str, Relation], inference: str, divergence: str, seed: int,
) -> CoupledFactorization:  # fmt: skip
    """Fit a coupled model with the dispersions that predict a part of its training cells best."""
    if len(data) == 1:
        return fit(forms, data, inference, divergence, seed)
    inner = hold_out_cells(data["visits"], 0.2, generator(seed, "inner"))

    def score(options: dict[str, Any]) -> float:
        part = {**data, "visits": inner.train}
        fitted = fit(forms, part, inference, divergence, seed, **options)
        return auc(inner.values, fitted.predict("visits", inner.cells))

    best = max(({"dispersion": choice} for choice in CHOICES), key=score)
    if inference == "map":
        best = max((best, {**best, "prior": (1.0, PRIOR_MEAN)}), key=score)
    return fit(forms, data, inference, divergence, seed, **best)


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    known = relations()
    runs = 1 if quick else 10
    scores: dict[tuple[str, float], list[float]] = {}
    for name, (forms, coupled, inference, divergence, thesis) in MODELS.items():
        names = [n for n in ("visits", "gps", "poi") if coupled or n == "visits"]
        for share in thesis:
            if quick and (share != 0.8 or name not in BARS[:2]):
                continue
            for seed in range(runs):
                split = hold_out_cells(known["visits"], share, generator(seed, f"holdout {share}"))
                data = {n: known[n] for n in names} | {"visits": split.train}
                fitted = fit_chosen(forms, data, inference, divergence, seed)
                scores.setdefault((name, share), []).append(
                    auc(split.values, fitted.predict("visits", split.cells))
                )
            values = scores[name, share]
            row = {"table": "6.2 / 6.5", "model": name, "missing": share,
                   "AUC": float(np.mean(values)), "sd": float(np.std(values)),
                   "thesis": thesis.get(share, "–")}  # fmt: skip
            outcome.rows.append(row)
            if name in BARS and share in thesis:
                outcome.check(
                    f"AUC of {name} at {share:.0%} missing", row["AUC"],
                    f"≥ {thesis[share]:.3f} (thesis)", round(row["AUC"], 3) >= thesis[share],
                )  # fmt: skip
    _completion(outcome, known, runs)
    _cold_start(outcome, known, runs)
    _sensitivity(outcome, known, runs)
    _costs(outcome, known, runs)
    return outcome


def _completion(outcome: Outcome, known: dict[str, Relation], runs: int) -> None:
    """Table 6.1: RMSE at held-out *existing* entries, 30 and 50 % of them for training."""
    thesis = {
        "single CP": {"euclidean": (0.27, 0.28), "kl": (0.24, 0.23)},
        "coupled CP": {"euclidean": (0.24, 0.23), "kl": (0.19, 0.18)},
        "coupled Tucker": {"euclidean": (0.22, 0.22), "kl": (0.18, 0.18)},
        "PCLAF-like": {"euclidean": (0.30, 0.29)},
    }
    layouts = {
        "single CP": (CP, ["visits"]),
        "coupled CP": (CP, ["visits", "gps", "poi"]),
        "coupled Tucker": (TUCKER, ["visits", "gps", "poi"]),
        "PCLAF-like": (PCLAF, ["visits", "gps", "poi", "friends", "activities"]),
    }
    for name, by_cost in thesis.items():
        forms, names = layouts[name]
        for divergence, values in by_cost.items():
            for training, expected in zip((0.3, 0.5), values, strict=True):
                if runs == 1 and training != 0.5:  # the quick form
                    continue
                errors = []
                for seed in range(runs):
                    # a share of all cells is kept for training, as in the link prediction
                    rng = generator(seed, f"completion {training}")
                    split = hold_out_cells(known["visits"], 1.0 - training, rng)
                    data = {n: known[n] for n in names} | {"visits": split.train}
                    fitted = fit(forms, data, "map", divergence, seed)
                    predicted = np.clip(fitted.predict("visits", split.cells), 0.0, 1.0)
                    errors.append(rmse(split.values, predicted))
                outcome.rows.append(
                    {"table": "6.1 (RMSE, all held-out cells)", "model": f"{name}, {divergence}",
                     "missing": 1 - training, "RMSE": float(np.mean(errors)), "thesis": expected}
                )  # fmt: skip


def _cold_start(outcome: Outcome, known: dict[str, Relation], runs: int) -> None:
    """Figure 6.3: AUC on users without any entry in X₁."""
    for count in (10, 50):
        for name, forms in (("coupled CP, KL", CP), ("coupled Tucker, KL", TUCKER)):
            values = []
            for seed in range(runs):
                rng = generator(seed, f"cold start {count}")
                members = rng.permutation(known["visits"].shape[0])[:count]
                split = hold_out_slices(known["visits"], "user", members)
                data = {n: known[n] for n in ("gps", "poi")} | {"visits": split.train}
                fitted = fit(forms, data, "map", "kl", seed, dispersion=CHOICES[1])
                values.append(auc(split.values, fitted.predict("visits", split.cells)))
            outcome.rows.append(
                {"table": "Figure 6.3 (cold start)", "model": name, "missing": f"{count} users",
                 "AUC": float(np.mean(values)), "sd": float(np.std(values))}
            )  # fmt: skip


def _sensitivity(outcome: Outcome, known: dict[str, Relation], runs: int) -> None:
    """Figures 6.6 and 6.7: hyper-parameters and rank (few runs each)."""
    few = min(runs, 3)

    def score(share: float, inference: str, **options: Any) -> float:
        values = []
        for seed in range(few):
            rng = generator(seed, f"holdout {share}")
            split = hold_out_cells(known["visits"], share, rng)
            data = {n: known[n] for n in ("gps", "poi")} | {"visits": split.train}
            fitted = fit(CP, data, inference, "kl", seed, **options)
            values.append(auc(split.values, fitted.predict("visits", split.cells)))
        return float(np.mean(values))

    for shape, mean in ((0.5, 10.0), (10.0, 10.0), (100.0, 1.0)):
        value = score(0.8, "vb", prior=(shape, mean))
        outcome.rows.append(
            {"table": "Figure 6.6 (hyper-parameters)", "model": f"A = {shape:g}, B = {mean:g}",
             "missing": 0.8, "AUC": value}
        )  # fmt: skip
    for rank in (2, 20):
        for inference in ("map", "vb"):
            value = score(0.8, inference, rank=rank)
            outcome.rows.append(
                {"table": "Figure 6.7 (rank)", "model": f"coupled CP, {inference}, rank {rank}",
                 "missing": 0.8, "AUC": value}
            )  # fmt: skip


def _costs(outcome: Outcome, known: dict[str, Relation], runs: int) -> None:
    """Figure 6.5: AUC against the power p of the cost, 90 % missing.

    The thesis draws it for Digg, which is not to be had. Zeros are listed here, so that any
    p < 2 has a likelihood; at p = 2 a zero has none.
    """
    for power in (0.0, 0.5, 1.0, 1.5, 1.9):
        values = []
        for seed in range(min(runs, 3)):
            split = hold_out_cells(known["visits"], 0.9, generator(seed, "holdout 0.9"))
            data = {"visits": split.train} | {n: known[n] for n in ("gps", "poi")}
            data = {name: found.listed() for name, found in data.items()}
            fitted = fit(CP, data, "map", power, seed)
            values.append(auc(split.values, fitted.predict("visits", split.cells)))
        outcome.rows.append(
            {"table": "Figure 6.5 (costs)", "model": f"coupled CP, p = {power:g}",
             "missing": 0.9, "AUC": float(np.mean(values))}
        )  # fmt: skip
