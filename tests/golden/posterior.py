"""`PrivatePosterior` and `StatisticSelector`: mechanisms, samplers, rankings."""

from __future__ import annotations

import numpy as np

import tacit as tc
from tacit.posterior import (
    Bernoulli,
    Custom,
    CustomPopulation,
    Exponential,
    Gamma,
    Normal,
    NormalMean,
    NormalVariance,
    Poisson,
    Uniform,
    UniformWidth,
)

from .cases import Results, case, cases, fitted, parts_of

SHORT = {"chains": 2, "draws": 60, "warmup": 60}
PAIR = Custom(lambda x: np.stack([x, x**2], axis=-1), [(-10.0, 10.0), (0.0, 100.0)], "pair")


def numbers(kind: str, count: int = 200) -> np.ndarray:
    rng = np.random.default_rng(3)
    return {
        "normal": lambda: rng.normal(4.0, 1.0, count),
        "variance": lambda: rng.normal(0.0, 1.5, count),
        "uniform": lambda: rng.uniform(-6.0, 6.0, count),
        "waits": lambda: rng.exponential(3.0, count),
        "bits": lambda: (rng.random(count) < 0.4) * 1.0,
        "counts": lambda: rng.poisson(3.0, count).astype(float),
    }[kind]()


def case_of(population, statistic, bounds, data, **more):
    return {"population": population, "statistic": statistic, "bounds": bounds,
            "data": numbers(data), **more}  # fmt: skip


@cases(
    "posterior",
    {
        "mean laplace": case_of(NormalMean(), "mean", (0, 10), "normal", mechanism="laplace"),
        "mean gaussian": case_of(NormalMean(), "mean", (0, 10), "normal", mechanism="gaussian"),
        "grid": case_of(NormalMean(), "mean", (0, 10), "normal", noise="grid"),
        "user": case_of(NormalMean(), "mean", (0, 10), "normal", unit="user"),
        "root": case_of(NormalVariance(), "|x|^0.5", (-10, 10), "variance"),
        "cube": case_of(NormalMean(), "x^3", (0, 10), "normal"),
        "median": case_of(NormalVariance(), "median |x|", (-10, 10), "variance", particles=10),
        "maximum": case_of(UniformWidth(), "maximum", (-10, 10), "uniform", particles=10,
                           mechanism="smooth"),
        "pair gaussian": case_of(NormalMean(), PAIR, (-10, 10), "normal", mechanism="gaussian"),
        "pair laplace": case_of(NormalMean(), PAIR, (-10, 10), "normal", mechanism="laplace"),
        "counts": case_of(Poisson(), "mean", (0, 20), "counts"),
        "waits prior": case_of(Exponential(), "mean", (0, 30), "waits", prior=Gamma(2.0, 2.0)),
        "normal prior": case_of(NormalMean(), "mean", (0, 10), "normal", prior=Normal(4.0, 1.0)),
        "pure": case_of(Bernoulli(), "mean", (0, 1), "bits", delta=0.0),
        "local response": case_of(Bernoulli(), "mean", (0, 1), "bits", trust="local",
                                  mechanism="randomized-response"),
        "local gaussian": case_of(Exponential(), "mean", (0, 30), "waits", trust="local",
                                  mechanism="gaussian"),
        "local laplace": case_of(NormalMean(), "mean", (0, 10), "normal", trust="local",
                                 mechanism="laplace"),
        "local sequential": case_of(NormalMean(), "mean", (0, 10), "normal", trust="local",
                                    sampler="mhaar-sequential", particles=5),
    }
    | {
        f"sampler {sampler}": case_of(NormalVariance(), "|x|", (-10, 10), "variance",
                                      sampler=sampler, particles=particles)
        for sampler, particles in (("mh", None), ("pseudo-marginal", 5), ("correlated", 5),
                                   ("mhaar-rb", 5), ("gibbs", 2), ("mhaar", 5))
    },
)  # fmt: skip
def posterior(
    population, statistic, data, delta=1e-5, unit="row", trust="central", **options
) -> Results:
    privacy = tc.Privacy(1.0, delta, unit=unit, neighbours="replace-one", trust=trust)
    model = tc.PrivatePosterior(
        population, statistic, **options, **SHORT, privacy=privacy, random_state=5
    )
    model.fit(data)
    return fitted(model, interval=model.interval(0.9), score=model.score(data[:20]))


def shifted(theta, z):
    return theta[0] + theta[1] * z


@cases(
    "posterior",
    {
        "two parameters": {"count": 200},
        "two parameters few people": {"count": 8, "particles": 5},
        "two parameters local": {"count": 60, "trust": "local", "particles": 5},
        "two parameters laplace": {"count": 200, "mechanism": "laplace", "particles": 5},
    },
)
def two_parameters(count, trust="central", **options) -> Results:
    privacy = tc.Privacy(2.0, 1e-5, neighbours="replace-one", trust=trust)
    population = CustomPopulation(shifted, scales=("real", "positive"), names=("mean", "sd"))
    model = tc.PrivatePosterior(
        population, "mean" if trust == "local" else PAIR, bounds=(-10, 10),
        prior=[Normal(0.0, 5.0), Uniform(0.1, 5.0)], **options, **SHORT, privacy=privacy,
        random_state=5,
    )  # fmt: skip
    return fitted(model.fit(numbers("normal", count)))


@cases(
    "posterior",
    {
        "few people": {"mechanism": "gaussian"},
        "few people laplace": {"mechanism": "laplace"},
    },
)
def few(mechanism) -> Results:
    privacy = tc.Privacy(2.0, 1e-5, neighbours="replace-one")
    model = tc.PrivatePosterior(
        Bernoulli(), bounds=(0, 1), mechanism=mechanism, particles=5, **SHORT, privacy=privacy,
        random_state=5,
    )  # fmt: skip
    return fitted(model.fit(numbers("bits", 6)))


@case("posterior/of several releases")
def several() -> Results:
    privacy = tc.Privacy(1.0, 1e-5, neighbours="replace-one")
    options = {"bounds": (0, 10), **SHORT, "privacy": privacy}
    one = tc.PrivatePosterior(NormalMean(), "mean", **options, random_state=5)
    two = tc.PrivatePosterior(NormalMean(), "x^3", **options, random_state=6)
    both = tc.PrivatePosterior(NormalMean(), **options, random_state=7)
    one.fit(numbers("normal")[:100])
    two.fit(numbers("normal")[100:])
    return fitted(both.infer([one.released_, two.released_]))


@cases(
    "selector",
    {
        "normal variance": {
            "population": NormalVariance(), "candidates": ["|x|^2", "|x|", "median |x|"],
            "bounds": (-10, 10), "parameters": [1.0, 2.0],
        },
        "normal mean": {
            "population": NormalMean(), "candidates": ["mean", "x^3"], "bounds": (0, 10),
        },
        "laplace": {
            "population": Exponential(), "candidates": ["mean", "|x|^0.5"], "bounds": (0, 30),
            "mechanism": "laplace", "prior": Uniform(1.0, 10.0),
        },
        "user": {
            "population": NormalMean(), "candidates": ["mean"], "bounds": (0, 10),
            "unit": "user",
        },
    },
)  # fmt: skip
def ranked(population, candidates, unit="row", **options) -> Results:
    privacy = tc.Privacy(1.0, 1e-4, unit=unit, neighbours="replace-one")
    model = tc.StatisticSelector(
        population, candidates, size=100, **options, privacy=privacy, random_state=5
    )
    ranking = model.rank()
    return {"table": ranking.table(),
            **parts_of(ranking, ("parameters", "prior_variance", "advice"))}  # fmt: skip


@cases("selector", {"fit": {}, "fit grid": {"noise": "grid"}, "fit laplace": {"delta": 0.0}})
def selected(delta=1e-4, **options) -> Results:
    privacy = tc.Privacy(2.0, delta, neighbours="replace-one")
    model = tc.StatisticSelector(
        UniformWidth(), [f"|x|^{a}" for a in (0.1, 0.5, 1, 2)], bounds=(-10, 10),
        first_statistic="|x|", **options, **SHORT, privacy=privacy, random_state=5,
    )  # fmt: skip
    model.fit(numbers("uniform", 300))
    return fitted(model, selected=model.selected_.name, table=model.ranking_.table())
