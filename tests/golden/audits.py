"""Attacks, which replay a fit's releases, and the commands that price noise."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stdout

import numpy as np

import tacit as tc
from tacit import cli
from tacit.audit import audit, audit_one_run
from tacit.factorization import Langevin
from tacit.posterior import NormalMean

from .cases import Results, case, cases, parts_of

ROW = tc.Privacy(1.0, 1e-5)
RATINGS = tc.Privacy(1.0, 1e-5, unit="entry", trust="site")


@cases(
    "audit",
    {
        "summary": {"model": lambda: tc.PrivateSummary({"age": (0, 110)}, privacy=ROW)},
        "regression": {
            "model": lambda: tc.PrivateLinearRegression(
                "Bayes-fixedS-fast", bounds=[(0, 1)], y_bounds=(0, 1), privacy=ROW
            ),
        },
        "topics": {
            "model": lambda: tc.SingleTopicModel(
                2, vocabulary=4, privacy=tc.Privacy(2.0, 1e-5, unit="document")
            ),
        },
        "mixture": {
            "model": lambda: tc.GaussianMixture(2, radius=2.0, features=3, privacy=ROW),
        },
        "posterior": {
            "model": lambda: tc.PrivatePosterior(
                NormalMean(), "mean", bounds=(0, 10), size=20, chains=1, draws=4, warmup=4,
                privacy=tc.Privacy(1.0, 1e-5, neighbours="replace-one"),
            ),
        },
        "factorization": {
            "model": lambda: tc.PrivateFactorization(
                "user:k item:k", rank=2, bounds=(1, 5), privacy=RATINGS
            ),
        },
        "langevin": {
            "model": lambda: tc.PrivateFactorization(
                "user:k item:k", rank=2, bounds=(1, 5), method=Langevin(rounds=2),
                privacy=RATINGS,
            ),
        },
        "recommender": {
            "model": lambda: tc.PrivateRecommender((1, 5), rank=2, privacy=RATINGS),
        },
    },
)  # fmt: skip
def attacked(model) -> Results:
    found = audit(model(), runs=200, seed=3)
    names = ("subject", "claimed", "certified", "attacked", "delta", "unit", "neighbours", "trust")
    return {"text": str(found), **parts_of(found, names)}


@case("audit/one run")
def one_run() -> Results:
    model = tc.PrivateSummary({"x": (0, 32)}, bins=32, statistics=("histogram",), privacy=ROW)
    found = audit_one_run(model, lambda k: {"x": np.array([*k, 0.0]) + 0.5}, 32)
    return {"text": repr(found)}


SAMPLED = ("--rate", "0.01", "--steps", "200", "--delta", "1e-4")


@cases(
    "command",
    {
        " ".join(words): {"words": words}
        for words in (
            ("certify", "gaussian", "--sigma", "3.23", *SAMPLED, "--json"),
            ("certify", "gaussian", "--sigma", "2", "--delta", "1e-5", "--neighbours",
             "replace-one"),
            *(("certify", "gaussian", "--sigma", "3.23", *SAMPLED, "--accountant", accountant)
              for accountant in ("pld", "rdp", "zcdp")),
            *(("certify", mechanism, f"--{name}", value, "--steps", "3", "--json")
              for mechanism, name, value in (
                  ("laplace", "scale", "2"), ("geometric", "scale", "2"), ("k-norm", "scale", "4"),
                  ("randomized-response", "lie", "0.5"), ("exponential", "scale", "4"),
                  ("one-bit", "magnitude", "2.1639534"), ("piecewise", "reach", "4.0829882"))),
            ("calibrate", "gaussian", "--epsilon", "0.5", *SAMPLED, "--json"),
            ("calibrate", "laplace", "--epsilon", "0.5", "--steps", "4"),
        )
    },
)  # fmt: skip
def command(words) -> Results:
    out, before = io.StringIO(), sys.argv
    sys.argv = ["tacit", *words]
    status = 0
    try:
        with redirect_stdout(out):
            cli.main()
    except SystemExit as ended:
        status = ended.code or 0
    finally:
        sys.argv = before
    return {"status": int(status), "out": out.getvalue()}
