"""`CoupledFactorization` alone: every inference, several forms and divergences."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import tacit as tc

from .cases import Results, case, cases, fitted

FORMS = {"ratings": "user:k item:k", "profile": "user:k feature:k"}
PRIOR = {"prior": (3.0, 1.5)}
SAMPLING = {"burn_in": 6, "thin": 2, "iterations": 16}
CELLS = [[0, 1], [3, 2], [7, 7]]


def tables(seed: int = 0, real: bool = False) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    user, item, feature = (rng.gamma(2.0, 1.0, (n, 2)) for n in (12, 10, 6))
    truths = user @ item.T, user @ feature.T
    if real:
        drawn = [truth + 0.5 * rng.normal(size=truth.shape) for truth in truths]
    else:
        drawn = [rng.poisson(truth).astype(float) for truth in truths]
    drawn[0][rng.random(drawn[0].shape) < 0.2] = np.nan
    return dict(zip(FORMS, drawn, strict=True))


@cases(
    "factorization",
    {
        "map": {"inference": "map"},
        "map plain": {"inference": "map", "accelerate": False},
        "map prior": {"inference": "map", **PRIOR},
        "map restarts": {"inference": "map", "restarts": 3},
        "map euclidean": {"inference": "map", "divergence": "euclidean"},
        "map mixed": {"inference": "map", "divergence": {"profile": "euclidean"}},
        "map itakura-saito": {"inference": "map", "divergence": 2.0, "shifted": True},
        "map dispersion": {
            "inference": "map", "divergence": "euclidean", "dispersion": "estimate",
        },
        "map dispersions": {"inference": "map", "dispersion": {"ratings": 1.0, "profile": 2.0}},
        "vb": {"inference": "vb", **PRIOR},
        "vb default prior": {"inference": "vb"},
        "vb adapt": {"inference": "vb", **PRIOR, "adapt": True, "restarts": 2},
        "gibbs": {"inference": "gibbs", **PRIOR, **SAMPLING},
        "gibbs default prior": {"inference": "gibbs", **SAMPLING},
        "sgld": {"inference": "sgld", **PRIOR, **SAMPLING, "step_size": 2e-3, "decay": 0.2},
        "sgld batches": {"inference": "sgld", **PRIOR, **SAMPLING, "batch": 50},
        "sgld real": {
            "inference": "sgld", **SAMPLING, "step_size": 1e-3, "decay": 0.0, "real_factors": True,
            "divergence": "euclidean", "dispersion": 0.25, "prior": (1.0, 1.0),
        },
    },
)  # fmt: skip
def alone(inference, iterations=40, shifted=False, **options) -> Results:
    model = tc.CoupledFactorization(
        FORMS, rank=2, inference=inference, iterations=iterations, **options, random_state=5
    )
    data = tables(real=options.get("real_factors", False))
    if shifted:  # this divergence is for positive numbers
        data = {name: table + 0.5 for name, table in data.items()}
    model.fit(data)
    new = {"ratings": tc.Relation.from_dense(("user", "item"), tables(9)["ratings"][:2] + 0.5)}
    return fitted(
        model, predicted=model.predict("ratings", CELLS, return_variance=inference != "map"),
        top=model.top("ratings", "item", {"user": 1}, n=3), folded=model.fold_in("user", new),
        score=model.score(data),
    )  # fmt: skip


@cases(
    "factorization",
    {
        f"{form} {inference}": {"model": text, "inference": inference}
        for form, text in (
            ("tensor", "a:k b:k c:k"), ("tucker", "a:k b:l c:m core:klm"),
        )
        for inference in ("map", "vb", "gibbs", "sgld")
    },
)  # fmt: skip
def tensors(model, inference) -> Results:
    model = tc.CoupledFactorization(
        model, rank=2, inference=inference, iterations=15, random_state=5,
        **({} if inference in ("map", "vb") else {"burn_in": 3, "thin": 2}),
    )  # fmt: skip
    rng = np.random.default_rng(2)
    data = rng.poisson(2.0, (5, 4, 3)).astype(float)
    data[0, 0, 0] = np.nan
    return fitted(model.fit(data), predicted=model.predict("data", [[0, 0, 0], [4, 3, 2]]))


@cases("factorization", {"going on map": {}, "going on gibbs": {"inference": "gibbs"}})
def going_on(inference="map") -> Results:
    model = tc.CoupledFactorization(
        FORMS, rank=2, inference=inference, iterations=12, warm_start=True,
        random_state=5, **({} if inference in ("map", "vb") else {"burn_in": 3, "thin": 2}),
    )  # fmt: skip
    return fitted(model.fit(tables()).fit(tables()))


@case("factorization/sparse")
def sparse() -> Results:
    from scipy.sparse import random_array

    model = tc.CoupledFactorization("row:k column:k", rank=3, iterations=30, random_state=5)
    data = random_array((40, 30), density=0.1, rng=np.random.default_rng(4))
    cells = np.column_stack(data.coords)
    relation = tc.Relation.from_cells(("row", "column"), cells, data.data, shape=(40, 30))
    return fitted(model.fit(relation))


@case("factorization/saved")
def saved() -> Results:
    model = tc.CoupledFactorization(FORMS, rank=2, inference="vb", iterations=10, random_state=5)
    model.fit(tables())
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.npz")
        again = tc.CoupledFactorization.load(Path(folder) / "model.npz")
    return {"factors": again.factors_, "predicted": again.predict("ratings", CELLS)}
