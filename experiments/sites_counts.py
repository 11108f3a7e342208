"""Counts over sites: what a coordinator learns under noise, beside counts perturbed locally.

Source: Ermiş (2020), section 7.1.1: Figures 7.1–7.4 and Table 7.1, on data drawn from the
Poisson–gamma model of rank 5 (`experiments._sites_local` says how). A score is the mean log
likelihood of an unobserved cell of site 1. The thesis sums over cells that it does not name, on a
scale that it does not state; its sentences are checks here, also where they do not hold.

**What is compared.** CDP is DP-SGLD at trust ``site``: certified (``unit="user"``: everything
about one person; ``unit="entry"``: one count, whatever it was) with the library's defaults, and
with the thesis's noise (`tacit.published`: Theorem 4.1's falling steps and Theorem 4.2's fixed
ones), whose real ε stands beside the claim. LDP1 and LDP2 perturb every count once. Their ε is the
thesis's, for a change of one count *by one*: what replaces a whole count within the public bounds
(0, 60) is 60 times that, so that at equal printed ε LDP promises far less. Rows "at the same
guarantee" have the certified ε of a whole count for both.

**What is free.** A site's own cells: its mean, and a product of shrunken effects of its users and
of its items, written out here and as the library has it (`OwnRatesModel` with nothing released).
Predictions at a site rest on the latter, of CDP and of "LDP1, at a site" and "LDP2, at a site";
LDP1 and LDP2 as such, naive or exact, are means over draws, as in the thesis. Expected counts of
predictions and of the free predictors are mixed with 2 % of the site's own mean: an expected count
of zero would decide a likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import special

from experiments._sites_local import (
    EPSILONS,
    HIGH,
    RANK,
    TABLE_71,
    WAYS,
    log_likelihood,
    synthetic,
    way_of,
)
from experiments.runner import Outcome
from tacit.data.relations import Relation
from tacit.estimators.site import Site
from tacit.factorization import Langevin, PrivateFactorization
from tacit.factorization.offsets.numerics.own_model import OwnRatesModel, Seen
from tacit.factorization.together.shape import FactorizationMethod
from tacit.privacy.guarantee import Privacy
from tacit.published.ermis2020 import PublishedLangevin

DELTA, MIXED = 1e-3, 0.02
TWO = (150, 100)  # users of the two sites
PASSES = 150  # of the thesis's CDP, with samples of a fiftieth
CERTIFIED = {"CDP, unit=user": "user", "CDP, unit=entry": "entry"}
PUBLISHED = {
    "CDP (site), Theorem 4.1": ("li2019", "site"), "CDP (user), Theorem 4.1": ("li2019", "entry"),
    "CDP (site), Theorem 4.2": ("li2019-fixed", "site"),
    "CDP (user), Theorem 4.2": ("li2019-fixed", "entry"),
}  # fmt: skip
FREE = ("the site's mean, free", "own cells alone, free", "own cells by the library, free")
AT_SITE = ("LDP1, at a site", "LDP2, at a site")
# Table 7.1, CDP (site): (α, β) → ε = 0.05, 0.1, non-private; mantissas as printed
TABLE_71_CDP = {
    (0.1, 0.01): ("-5.12", "-3.21", "-5.40"), (10.0, 0.01): ("-5.18", "-3.25", "-5.45"),
    (0.1, 10.0): ("-5.23", "-3.29", "-5.48"), (10.0, 10.0): ("-5.15", "-3.24", "-5.41"),
}  # fmt: skip
Data = tuple[Sequence[Any], Sequence[Any]]


def run(quick: bool) -> Outcome:
    """Run all tables."""
    outcome = Outcome()
    seeds = range(5 if quick else 10)
    _against_epsilon(outcome, quick, seeds)
    _passes(outcome, quick, seeds[:1] if quick else seeds[:3])
    _against_sites(outcome, quick, seeds[:2] if quick else seeds[:4])
    _against_prior(outcome, quick)
    return outcome


# -- scores -----------------------------------------------------------------------------------


def _likelihood(data: Data, expected: Any) -> float:
    """Return the mean log likelihood of the unobserved cells of site 1."""
    (counts, *_), (observed, *_) = data
    rate = (1.0 - MIXED) * expected + MIXED * counts[observed].mean()
    x = counts[~observed]
    return float((x * np.log(rate) - rate - special.gammaln(x + 1.0)).mean())


def central(
    data: Data, method: FactorizationMethod, privacy: Privacy | None, seed: int
) -> tuple[float, float]:
    """Return the score of a factorization over sites, and its certified ε."""
    sites = [
        Site(f"site {k:02d}", Relation.from_dense(("user", "item"), np.where(seen, x, np.nan)))
        for k, (x, seen) in enumerate(zip(*data, strict=True))
    ]
    fitted = PrivateFactorization(
        "user:k item:k", rank=RANK, divergence="kl", bounds=(0, HIGH), privacy=privacy,
        method=method, random_state=seed,
    ).fit(sites)  # fmt: skip
    spent = fitted.certificate_.epsilon if privacy is not None else math.inf
    return _likelihood(data, fitted.predict("site 00", np.argwhere(~data[1][0]))), spent


def free(data: Data, name: str) -> float:
    """Return the score of what site 1 knows by itself."""
    counts, observed = data[0][0], data[1][0]
    mean = counts[observed].mean()
    if name == FREE[0]:
        return _likelihood(data, np.full((~observed).sum(), mean))
    if name == FREE[2]:
        listed, hidden = (np.argwhere(m).astype(np.int32) for m in (observed, ~observed))
        none = np.zeros((max(len(listed), len(hidden)), 0))
        seen = Seen(listed, counts.shape, 0, counts[observed].astype(float),
                    np.zeros(len(listed)), none[: len(listed)])  # fmt: skip
        rates = OwnRatesModel({"data": seen}).predict("data", hidden, none[: len(hidden)])
        return _likelihood(data, np.minimum(rates, HIGH))
    effects = [np.ones(n) for n in counts.shape]
    seen = np.where(observed, counts, 0.0)
    for _ in range(20):  # a gamma effect of mean one and shape one each, given the others
        effects[0] = (1.0 + seen.sum(axis=1)) / (1.0 + mean * (observed @ effects[1]))
        effects[1] = (1.0 + seen.sum(axis=0)) / (1.0 + mean * (observed.T @ effects[0]))
    return _likelihood(data, (mean * np.outer(*effects))[~observed])


def _request(epsilon: float, unit: str) -> Privacy | None:
    return None if math.isinf(epsilon) else Privacy(epsilon, DELTA, unit=unit, trust="site")


def _score(name: str, data: Data, epsilon: float, seed: int, quick: bool) -> tuple[float, float]:
    """Return the score of any way to learn, and the ε that is certified for a whole count."""
    if name in FREE:
        return free(data, name), 0.0
    if name in AT_SITE:
        asked = Privacy(epsilon * HIGH, unit="entry", trust="site", neighbours="replace-one")
        found, spent = central(data, way_of(name[:4], quick), asked, seed)
        return found, min(spent, epsilon * HIGH)
    if name in CERTIFIED:
        return central(data, Langevin(), _request(epsilon, CERTIFIED[name]), seed)
    if name in PUBLISHED:
        rule, level = PUBLISHED[name]
        method = PublishedLangevin(PASSES, 0.02, rule=rule, level=level, clip=2.0)
        return central(data, method, _request(epsilon, "entry"), seed)
    share = 1.0
    if name.endswith(SAME):
        name, share = name.removesuffix(SAME), 1.0 / HIGH
    found = log_likelihood(way_of(name, quick), *data, epsilon * share, seed)
    return found, epsilon * share * HIGH


SAME = " at the same guarantee"


# -- tables -----------------------------------------------------------------------------------


def _against_epsilon(outcome: Outcome, quick: bool, seeds: Sequence[int]) -> None:
    """Figures 7.1 and 7.3: two sites, ε and the way to learn."""
    levels = (*EPSILONS, math.inf)
    same = (f"{way}{SAME}" for way in ("LDP1", "LDP2"))
    names = (*CERTIFIED, *PUBLISHED, *WAYS, *AT_SITE, *same, *FREE)
    found: dict[tuple[str, float], Any] = {}
    for name in names:
        row: dict[str, Any] = {"what": "two sites (Figures 7.1, 7.3)", "way": name}
        for epsilon in levels:
            if math.isinf(epsilon) and name in PUBLISHED:
                continue
            few = seeds if name not in CERTIFIED | PUBLISHED else seeds[: 2 if quick else 5]
            both = [_score(name, synthetic(s, TWO), epsilon, s, quick) for s in few]
            found[name, epsilon] = np.array([score for score, _ in both])
            label = "NP" if math.isinf(epsilon) else f"ε={epsilon:g}"
            row[label] = float(found[name, epsilon].mean())
            if not math.isinf(epsilon) and name not in FREE:
                row[f"certified, {label}"] = both[0][1]
        outcome.add(row)

    def gain(better: tuple[str, float], worse: tuple[str, float]) -> tuple[float, float]:
        """Return a paired mean difference and its standard error."""
        count = min(len(found[better]), len(found[worse]))
        apart = found[better][:count] - found[worse][:count]
        return float(apart.mean()), float(apart.std(ddof=1) / math.sqrt(count))

    for name in (*CERTIFIED, "LDP1", "LDP2"):
        steps = [gain((name, b), (name, a)) for a, b in pairwise(levels)]
        outcome.check(f"{name}: better with every ε", " / ".join(f"{g:.3f}" for g, _ in steps),
                      "all ≥ −2 s.e., together > 0 (thesis)",
                      all(g >= -2.0 * e for g, e in steps) and sum(g for g, _ in steps) > 0,
                      )  # fmt: skip
    for theorem in ("4.1", "4.2"):
        for epsilon in EPSILONS:
            value, _ = gain((f"CDP (site), Theorem {theorem}", epsilon),
                            (f"CDP (user), Theorem {theorem}", epsilon))  # fmt: skip
            outcome.check(f"published, Theorem {theorem}, ε = {epsilon:g}: site minus user", value,
                          "> 0 (thesis)", value > 0)  # fmt: skip
    for epsilon in EPSILONS:
        value, _ = gain(("LDP2", epsilon), ("LDP1", epsilon))
        outcome.check(f"LDP2 minus LDP1 at ε = {epsilon:g}", value, "> 0", value > 0)
        for way in ("LDP1", "LDP2"):
            value, error = gain((way, epsilon), (f"{way} naive", epsilon))
            outcome.check(f"{way}: exact minus naive at ε = {epsilon:g}", value,
                          f"≥ −0.01 (± {error:.3f})", value >= -0.01)  # fmt: skip
        value, _ = gain(("CDP, unit=entry", epsilon), (f"LDP1{SAME}", epsilon))
        outcome.check(f"one count, certified ε = {epsilon:g}: CDP minus LDP1", value,
                      "> 0 (thesis)", value > 0)  # fmt: skip
    for epsilon in levels:
        label = "without noise" if math.isinf(epsilon) else f"ε = {epsilon:g}"
        for name in (*CERTIFIED, *AT_SITE):
            for known in FREE:
                value, error = gain((name, epsilon), (known, epsilon))
                outcome.check(f"{name}, {label}: minus {known}", value, f"≥ −2 · {error:.4f}",
                              value >= -2.0 * error)  # fmt: skip


def _passes(outcome: Outcome, quick: bool, seeds: Sequence[int]) -> None:
    """Figure 7.2: the number of data passes at ε = 0.1."""
    for passes in (50, 150) if quick else (50, 100, 150, 300, 1000):
        row: dict[str, Any] = {"what": "passes at ε = 0.1 (Figure 7.2)", "way": f"T = {passes}"}
        for rule, name in (("li2019", "CDP (site)"), ("li2019-fixed", "CDP (site), fixed step")):
            method = PublishedLangevin(passes, 0.02, rule=rule, level="site", clip=2.0)
            row[name] = float(np.mean([
                central(synthetic(s, TWO), method, _request(0.1, "entry"), s)[0] for s in seeds
            ]))  # fmt: skip
        for way in ("LDP1", "LDP2"):
            chain = way_of(way, False, burn_in=passes // 2, draws=max(1, passes // 2), thin=1)
            row[way] = float(np.mean([
                log_likelihood(chain, *synthetic(s, TWO), 0.1, s) for s in seeds
            ]))  # fmt: skip
        outcome.add(row)


def _against_sites(outcome: Outcome, quick: bool, seeds: Sequence[int]) -> None:
    """Figure 7.4: up to ten sites of 100 × 50 at ε = 0.1, and at ε = 1."""
    numbers = (2, 10) if quick else (2, 3, 4, 6, 8, 10)
    for epsilon in (0.1,) if quick else (0.1, 1.0):
        for name in ("CDP, unit=user", "LDP1", "LDP2", *AT_SITE):
            scores = np.zeros((len(seeds), len(numbers)))
            for i, seed in enumerate(seeds):
                counts, observed = synthetic(seed, (100,) * 10)
                for j, n in enumerate(numbers):
                    part = counts[:n], observed[:n]
                    scores[i, j] = _score(name, part, epsilon, seed, quick)[0]
            row: dict[str, Any] = {"what": f"N sites at ε = {epsilon:g} (Figure 7.4)", "way": name}
            row |= {f"N={n}": float(s) for n, s in zip(numbers, scores.mean(axis=0), strict=True)}
            outcome.add(row)
            gain = float(scores[:, -1].mean() - scores[:, 0].mean())
            outcome.check(f"{name}: N = 10 minus N = 2 at ε = {epsilon:g}", gain, "> −0.005",
                          gain > -0.005)  # fmt: skip


def _against_prior(outcome: Outcome, quick: bool) -> None:
    """Table 7.1: hyper-parameters α (shape) and β (scale), two sites.

    The gamma prior of CDP has a shape of at least one here.
    """
    data = synthetic(0, TWO)
    for (shape, scale), printed in TABLE_71.items():
        chain = way_of("LDP1", quick, shape=shape, mean=shape * scale)
        method = Langevin(shape=max(1.0, shape), mean=max(1.0, shape) * scale)
        rows = (("LDP1", printed), ("CDP, unit=user", TABLE_71_CDP[shape, scale]))
        for name, thesis in rows:
            row: dict[str, Any] = {"what": f"Table 7.1, α={shape:g}, β={scale:g}", "way": name}
            for epsilon, theirs in zip((0.05, 0.1, math.inf), thesis, strict=True):
                label = "NP" if math.isinf(epsilon) else f"ε={epsilon:g}"
                row[label] = (
                    log_likelihood(chain, *data, epsilon, 0)
                    if name == "LDP1"
                    else central(data, method, _request(epsilon, "user"), 0)[0]
                )
                row[f"thesis {label}"] = f"{theirs} × 10^?"
            outcome.add(row)
