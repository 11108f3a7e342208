"""Link prediction on UCLAF with coupled factorization: Tables 6.1, 6.2 and 6.5.

Source: Ermiş (2020), chapter 6. X₁ = [UserLocAct > 0] (user × place × activity), coupled to
UserLoc (user × place, as an entity of its own, as in the thesis's Θ₄) and LocFea (place ×
feature). Rank 2 unless said otherwise.

**Which cells are scored.** A share of *all* cells of X₁ is held out at random, ones and zeros;
AUC is that of the expected values at the held-out cells against their 0/1 truth, averaged over
runs with other cells and other starts. The scale of scores is the model's own.

**Preprocessing**, fixed before anything was scored: UserLoc as 0/1, LocFea with columns that sum
to one; zeros are observed everywhere.

**Settings see training cells only.** The prior of factors is the default of ``"map"`` (the
thesis's ML-MAP). The weight of UserLoc and LocFea is that of ``dispersion="choose"``, which holds
out training cells of its own and has "no coupling" among its candidates; so single and coupled
models differ in what is coupled alone. (Maximum likelihood puts whole rows at zero, and which of
two zeros is larger is then decided by what a coupled relation says there: that is how coupling
used to hurt.)

**What was seen.** That maximum likelihood was given up for a prior followed a trial in which a few
held-out cells were looked at too (three runs); the prior itself is the library's. Variational
Bayes adapts its hyper-parameters. The thesis calls that crucial, but it was also compared with
fixed ones at held-out cells (4 runs) before it became the setting here, and so was the number of
its restarts (3 runs). That a Tucker model starts five times followed a fifth of the *training*
cells (4 runs at 40 %): every other start ends in an optimum that predicts them clearly worse.

Bars: the AUC printed in the thesis (coupled CP-KL, coupled Tucker-KL, single CP-KL of Table 6.2;
variational Bayes of Table 6.5), and what chapter 6 says in words: its sentences are checks, also
where they do not hold here. The thesis contradicts itself at 80 % (0.937 and 0.892 for the same
model). Nothing is private; what needs no model at all stands beside the models: how many links a
user, a place and an activity have, multiplied.
"""

from __future__ import annotations

from dataclasses import replace
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
QUICK = ("coupled CP, KL", "single CP, KL")
FREE = "popularity, no model"
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
    **options: Any,
) -> CoupledFactorization:  # fmt: skip
    """Fit a model to the relations it names."""
    estimator = CoupledFactorization(
        {name: forms[name] for name in data},
        rank=options.pop("rank", 2),
        divergence=divergence,
        inference=inference,
        adapt=inference == "vb" and "prior" not in options,
        real_factors=None if inference == "map" else False,
        random_state=seed,
        **options,
    )
    return estimator.fit(data)


def settings(inference: str, divergence: Any, coupled: bool, core: bool = False) -> dict[str, Any]:
    """Return dispersions and restarts: nothing here has seen a held-out cell."""
    weigh = "choose" if coupled else "estimate" if divergence == "euclidean" else 1.0
    # the bound of variational Bayes has several maxima, and with a core so has the posterior
    restarts = 3 if inference == "vb" else 5 if core else 1
    return {"dispersion": weigh, "restarts": restarts}


def popularity(visits: Relation, cells: Any) -> Any:
    """Return how many links the user, the place and the activity of a cell have, multiplied."""
    counts = [np.bincount(visits.indices[:, m], minlength=n) for m, n in enumerate(visits.shape)]
    return np.prod([count[cells[:, m]] for m, count in enumerate(counts)], axis=0)


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    known = relations()
    runs = 1 if quick else 10
    found = _links(outcome, known, runs, quick)
    _claims(outcome, found)
    _completion(outcome, known, runs)
    _cold_start(outcome, known, runs)
    _sensitivity(outcome, known, runs)
    _costs(outcome, known, runs)
    return outcome


def _links(
    outcome: Outcome, known: dict[str, Relation], runs: int, quick: bool
) -> dict[tuple[str, float], float]:
    """Tables 6.2 and 6.5: AUC by model and share of missing cells."""
    scores: dict[tuple[str, float], list[float]] = {}
    for name, (forms, coupled, inference, divergence, thesis) in MODELS.items():
        names = [n for n in ("visits", "gps", "poi") if coupled or n == "visits"]
        for share in thesis:
            if quick and (share != 0.8 or name not in QUICK):
                continue
            for seed in range(runs if name in BARS else min(runs, 5)):
                split = hold_out_cells(known["visits"], share, generator(seed, f"holdout {share}"))
                data = {n: known[n] for n in names} | {"visits": split.train}
                given = settings(inference, divergence, coupled, core=forms is TUCKER)
                fitted = fit(forms, data, inference, divergence, seed, **given)
                area = auc(split.values, fitted.predict("visits", split.cells))
                scores.setdefault((name, share), []).append(area)
                if name == QUICK[0]:
                    area = auc(split.values, popularity(split.train, split.cells))
                    scores.setdefault((FREE, share), []).append(area)
            _shown(outcome, scores, name, share, thesis[share])
            if name == QUICK[0]:
                _shown(outcome, scores, FREE, share, "–")
            if name in BARS:
                area = float(np.mean(scores[name, share]))
                outcome.check(
                    f"AUC of {name} at {share:.0%} missing", area,
                    f"≥ {thesis[share]:.3f} (thesis)", round(area, 3) >= thesis[share],
                )  # fmt: skip
    return {key: float(np.mean(values)) for key, values in scores.items()}


def _shown(outcome: Outcome, scores: Any, name: str, share: float, thesis: Any) -> None:
    values = scores[name, share]
    outcome.add({"table": "6.2 / 6.5", "model": name, "missing": share,
                 "AUC": float(np.mean(values)), "sd": float(np.std(values)),
                 "thesis": thesis})  # fmt: skip


def _claims(outcome: Outcome, found: dict[tuple[str, float], float]) -> None:
    """What the thesis says of these tables in words, and that coupling does not hurt."""

    def compare(better: str, worse: str, words: str, least: float = 0.0) -> None:
        for share in sorted({s for name, s in found if name == better}):
            if (worse, share) in found:
                gain = found[better, share] - found[worse, share]
                outcome.check(f"{words} at {share:.0%} missing", gain, f"> {least:g}",
                              gain > least)  # fmt: skip

    for form in ("CP, KL", "CP, Euclidean", "Tucker, KL", "Tucker, Euclidean", "CP, variational"):
        compare(f"coupled {form}", f"single {form}", f"{form}: coupled minus single")
    for form in ("single CP", "single Tucker", "coupled CP", "coupled Tucker"):
        compare(f"{form}, KL", f"{form}, Euclidean", f"{form}: KL minus Euclidean")
    for divergence in ("KL", "Euclidean"):
        compare(f"coupled Tucker, {divergence}", f"coupled CP, {divergence}",
                f"coupled, {divergence}: Tucker minus CP")  # fmt: skip
    for form in ("single CP", "coupled CP"):
        compare(f"{form}, variational", f"{form}, KL", f"{form}: variational minus ML-MAP")
    compare(QUICK[0], FREE, "coupled CP, KL: minus popularity")


def _completion(outcome: Outcome, known: dict[str, Relation], runs: int) -> None:
    """Table 6.1: RMSE at held-out *existing* entries, 30 and 50 % of them for training."""
    thesis = {
        "single CP": {"euclidean": (0.27, 0.28), "kl": (0.24, 0.23)},
        "single Tucker": {"euclidean": (0.26, 0.26), "kl": (0.22, 0.22)},
        "coupled CP": {"euclidean": (0.24, 0.23), "kl": (0.19, 0.18)},
        "coupled Tucker": {"euclidean": (0.22, 0.22), "kl": (0.18, 0.18)},
        "PCLAF-like": {"euclidean": (0.30, 0.29)},
    }
    layouts = {
        "single CP": (CP, ["visits"]),
        "single Tucker": (TUCKER, ["visits"]),
        "coupled CP": (CP, ["visits", "gps", "poi"]),
        "coupled Tucker": (TUCKER, ["visits", "gps", "poi"]),
        "PCLAF-like": (PCLAF, ["visits", "gps", "poi", "friends", "activities"]),
    }
    shares = (0.3, 0.5) if runs > 1 else (0.5,)
    # a share of all cells is kept for training, as in the link prediction
    splits = {
        training: [
            hold_out_cells(known["visits"], 1 - training, generator(s, f"completion {training}"))
            for s in range(min(runs, 3))
        ]
        for training in shares
    }
    found: dict[tuple[str, str, float], float] = {}

    def show(
        name: str, divergence: str, training: float, errors: list[float], thesis: Any
    ) -> None:
        found[name, divergence, training] = float(np.mean(errors))
        outcome.add({"table": "6.1 (RMSE, all held-out cells)", "model": f"{name}, {divergence}",
                     "missing": 1 - training, "RMSE": float(np.mean(errors)),
                     "thesis": thesis})  # fmt: skip

    for training in shares:
        errors = [
            rmse(
                part.values,
                np.full(len(part.values), part.train.values.sum() / part.train.observed),
            )
            for part in splits[training]
        ]
        show("the mean, no model", "–", training, errors, "–")
    for name, by_cost in thesis.items():
        if runs == 1 and name not in ("single CP", "coupled CP"):
            continue  # the quick form
        forms, names = layouts[name]
        for divergence, values in by_cost.items():
            for training, expected in zip((0.3, 0.5), values, strict=True):
                if training not in shares:
                    continue
                errors = []
                for seed, split in enumerate(splits[training]):
                    data = {n: known[n] for n in names} | {"visits": split.train}
                    given = settings("map", divergence, len(names) > 1)
                    fitted = fit(forms, data, "map", divergence, seed, **given)
                    predicted = np.clip(fitted.predict("visits", split.cells), 0.0, 1.0)
                    errors.append(rmse(split.values, predicted))
                show(name, divergence, training, errors, expected)
    for training in shares:
        for form in ("CP", "Tucker"):
            for divergence in ("euclidean", "kl"):
                if (f"coupled {form}", divergence, training) not in found:
                    continue
                ours = found[f"coupled {form}", divergence, training]
                single = found[f"single {form}", divergence, training]
                what = f"RMSE, {form}, {divergence}, {training:.0%} for training"
                outcome.check(f"{what}: single minus coupled", single - ours, "> 0 (thesis)",
                              single > ours)  # fmt: skip


def _cold_start(outcome: Outcome, known: dict[str, Relation], runs: int) -> None:
    """Figure 6.3: AUC on users without any entry in X₁.

    What is known of them is how popular places and activities are, which needs no model.
    """
    names = {"coupled CP, KL": CP, "coupled Tucker, KL": TUCKER}
    for count in (10, 50):
        areas: dict[str, list[float]] = {name: [] for name in (*names, FREE)}
        for seed in range(runs):
            rng = generator(seed, f"cold start {count}")
            members = rng.permutation(known["visits"].shape[0])[:count]
            split = hold_out_slices(known["visits"], "user", members)
            data = {n: known[n] for n in ("gps", "poi")} | {"visits": split.train}
            for name, forms in names.items():
                fitted = fit(forms, data, "map", "kl", seed, dispersion=1.0)
                area = auc(split.values, fitted.predict("visits", split.cells))
                areas[name].append(area)
            counts = np.zeros(known["visits"].shape[1:])
            np.add.at(counts, tuple(split.train.indices[:, 1:].T), 1.0)
            areas[FREE].append(auc(split.values, counts[tuple(split.cells[:, 1:].T)]))
        for name, values in areas.items():
            outcome.add({"table": "Figure 6.3 (cold start)", "model": name,
                         "missing": f"{count} users", "AUC": float(np.mean(values)),
                         "sd": float(np.std(values))})  # fmt: skip
        mean = {name: float(np.mean(values)) for name, values in areas.items()}
        for name in names:
            gain = mean[name] - mean[FREE]
            outcome.check(f"cold start of {count} users: {name} minus popularity", gain, "> 0",
                          gain > 0)  # fmt: skip
        gain = mean["coupled Tucker, KL"] - mean["coupled CP, KL"]
        outcome.check(f"cold start of {count} users: Tucker minus CP", gain, "> 0 (thesis)",
                      gain > 0)  # fmt: skip


def _sensitivity(outcome: Outcome, known: dict[str, Relation], runs: int) -> None:
    """Figures 6.6 and 6.7: hyper-parameters and rank (few runs each)."""
    splits = [
        hold_out_cells(known["visits"], 0.8, generator(seed, "holdout 0.8"))
        for seed in range(min(runs, 3))
    ]

    def score(table: str, model: str, inference: str, **options: Any) -> float:
        values = []
        for seed, split in enumerate(splits):
            data = {n: known[n] for n in ("gps", "poi")} | {"visits": split.train}
            fitted = fit(CP, data, inference, "kl", seed, dispersion=1.0, **options)
            values.append(auc(split.values, fitted.predict("visits", split.cells)))
        row = {"table": table, "model": model, "missing": 0.8, "AUC": float(np.mean(values))}
        return float(outcome.add(row)["AUC"])

    priors = ((0.5, 10.0), (10.0, 10.0), (100.0, 1.0))
    best, *others = (
        score("Figure 6.6 (hyper-parameters)", f"A = {a:g}, B = {b:g}", "vb", prior=(a, b))
        for a, b in priors
    )
    outcome.check("A = 0.5, B = 10 minus the best other one", best - max(others), "> 0 (thesis)",
                  best > max(others))  # fmt: skip
    lost = {}
    for name, inference in (("maximum likelihood", "map"), ("variational", "vb")):
        flat = {"prior": "flat"} if inference == "map" else {"restarts": 3}
        two, twenty = (
            score("Figure 6.7 (rank)", f"coupled CP, {name}, rank {r}", inference, rank=r, **flat)
            for r in (2, 20)
        )
        lost[name] = two - twenty
    gap = lost["variational"]
    outcome.check("variational: rank 2 minus rank 20", gap, "≤ 0.02 (thesis: hardly any)",
                  gap <= 0.02)  # fmt: skip
    gap = lost["maximum likelihood"]
    outcome.check("maximum likelihood: rank 2 minus rank 20", gap, "> 0 (thesis)", gap > 0)


def _costs(outcome: Outcome, known: dict[str, Relation], runs: int) -> None:
    """Figure 6.5: AUC against the power p of the cost, up to Itakura–Saito, 90 % missing.

    The thesis draws it for Digg, which is not to be had. At p = 2 a zero has no likelihood, so
    that links and their absence are raised by the mean of the training cells, for every p alike.
    """
    areas = {}
    for power in (0.0, 0.5, 1.0, 1.5, 2.0):
        values = []
        for seed in range(min(runs, 3)):
            split = hold_out_cells(known["visits"], 0.9, generator(seed, "holdout 0.9"))
            data = {"visits": split.train} | {n: known[n] for n in ("gps", "poi")}
            raised = {name: _raised(found.listed()) for name, found in data.items()}
            fitted = fit(CP, raised, "map", power, seed, dispersion=1.0)
            values.append(auc(split.values, fitted.predict("visits", split.cells)))
        areas[power] = float(np.mean(values))
        outcome.add({"table": "Figure 6.5 (costs)", "model": f"coupled CP, p = {power:g}",
                     "missing": 0.9, "AUC": areas[power]})  # fmt: skip
    for more, less, words in (
        (2.0, 1.0, "Itakura–Saito minus KL"),
        (1.0, 0.0, "KL minus Euclidean"),
    ):
        gain = areas[more] - areas[less]
        outcome.check(f"costs of raised links: {words}", gain, "> 0 (thesis, on Digg)", gain > 0)


def _raised(relation: Relation) -> Relation:
    """Return the relation with its mean added to all listed values."""
    return replace(relation, values=relation.values + relation.values.mean())
