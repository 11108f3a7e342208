"""Tuning, planning and simulated data."""

from __future__ import annotations

import tacit as tc
from tacit.data.synthetic import simulated_ratings, spherical_mixture, topic_documents
from tacit.factorization import AlternatingLeastSquares
from tacit.planning import Facts, choose_rank, error_of, plan, price_of_choosing
from tacit.planning.tuning import tune

from .cases import Results, case, cases, parts_of


@cases("tuning", {"one site": {"sites": 1}, "two sites": {"sites": 2}})
def tuned(sites) -> Results:
    privacy = tc.Privacy(2.0, 1e-6, unit="user", trust="site")
    model = tc.PrivateFactorization("user:k item:k", bounds=(1, 5), privacy=privacy)
    choices = [AlternatingLeastSquares(clip=0.02), AlternatingLeastSquares(factors=False)]
    found = tune(
        model, simulated_ratings(100, 15, per_user=6), {"method": choices, "rank": [1, 2]},
        sites=sites, repeats=2,
    )  # fmt: skip
    return {
        "errors": [error for _, error in found.table],
        "ranks": [choice["rank"] for choice, _ in found.table],
        "methods": [choices.index(choice["method"]) for choice, _ in found.table],
    }


@cases(
    "planning",
    {
        f"error {kind}": {"kind": kind, "facts": facts}
        for kind, facts in (
            ("mean", Facts(rows=300, sites=2)),
            ("regression", Facts(rows=300)),
            ("factorization", Facts(rows=100, features=15)),
            ("recommender", Facts(rows=100, features=15)),
            ("topics", Facts(rows=1000, features=4, rank=2, epsilon=10.0)),
        )
    },
)
def error(kind, facts) -> Results:
    return {"error": error_of("summary" if kind == "mean" else kind, facts, 2, 0)}


@case("planning/search")
def search() -> Results:
    found = plan("summary", "epsilon", 0.01, Facts(rows=500), repeats=3)
    return {"text": str(found), **parts_of(found, ("value", "table"))}


@case("planning/rank")
def rank() -> Results:
    best, table = choose_rank("factorization", (1, 2), Facts(rows=80, features=12), repeats=1)
    return {"best": best, "table": table}


@case("planning/choosing")
def choosing() -> Results:
    found = price_of_choosing(tc.Privacy(1.0, 1e-6), 5)
    return {"text": str(found)}


@case("synthetic/data")
def synthetic() -> Results:
    ratings = simulated_ratings(30, 10, per_user=5, seed=3)
    documents, topics, shares = topic_documents(50, 8, 2, words=5, seed=2)
    samples = spherical_mixture(50, 3, 2, seed=2)
    return {
        "ratings": {"indices": ratings.indices, "values": ratings.values},
        "documents": parts_of(documents, ("words", "counts", "starts")),
        "topics": topics, "shares": shares, "samples": list(samples),
    }  # fmt: skip
