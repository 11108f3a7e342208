"""ε and δ against oracles: never below the truth, hardly above it, monotone, quick and small.

Oracles share no code with the accountants: the closed form of Gaussians and the binomial law of
pure events in 40 digits, the hockey stick of one sampled step by its closed form, and for
compositions of sampled steps the inversion of moments along a line through the saddle point;
rarely sampled steps, whose losses have a heavy tail, are bounded from below by bins of outputs. A
row is right if the oracle's δ at its ε is no more than δ, and exceeds δ at an ε that is 1 % (or
1e-6) less. Printed numbers are those of ``tacit certify`` and ``tacit calibrate``, typed in again.
Each row is computed without caches; memory is the peak of the whole process so far.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import math
import re
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np

from experiments._core_merging import merged_delta
from experiments.runner import Outcome
from tacit.privacy.accounting.accountants import accountant, epsilon_of
from tacit.privacy.accounting.composition import convolved
from tacit.privacy.accounting.pld import clear_caches
from tacit.privacy.calibration import gaussian_event
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    compose,
    repeat,
)

DELTAS = (1e-15, 1e-12, 1e-9, 1e-6, 1e-3, 0.1)
_DIGITS = 40
_SECONDS, _MEGABYTES = 5.0, 1024.0

Oracle = Callable[[Any], Any]  # ε → δ, in many digits
_Case = tuple[str, DpEvent | Any, Oracle, float, float]


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    _truth(outcome, quick)
    _monotone(outcome, quick)
    _printed(outcome, quick)
    _forgeries(outcome, quick)
    return outcome


def gaussian_delta(mu: Any) -> Oracle:
    """Return Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."""

    def delta(epsilon: Any) -> Any:
        shift = epsilon / mu
        return mpmath.ncdf(mu / 2 - shift) - mpmath.e**epsilon * mpmath.ncdf(-mu / 2 - shift)

    return delta


def pure_delta(size: float, count: int) -> Oracle:
    """Return the δ of the worst pure events: losses ±ε, binomially often."""

    def delta(epsilon: Any) -> Any:
        loss, odds = mpmath.mpf(size), mpmath.e ** mpmath.mpf(size)
        first = max(0, int(mpmath.floor((epsilon / loss + count) / 2)))
        log_term = mpmath.loggamma(count + 1) - mpmath.loggamma(first + 1)
        log_term -= mpmath.loggamma(count - first + 1) + count * mpmath.log1p(odds)
        term, total = mpmath.e ** (log_term + first * loss), mpmath.mpf(0)
        for j in range(first, count + 1):
            total += term * max(mpmath.mpf(0), -mpmath.expm1(epsilon - (2 * j - count) * loss))
            term *= odds * (count - j) / (j + 1)
            if term * 1e12 < total * 1e-12 and j > first + 3:
                break
        return total

    return delta


def sampled_delta(rate: float, sigma: float) -> Oracle:
    """Return the δ of one Poisson-sampled Gaussian, the larger of both directions.

    With e^y = 1 + (e^ε − 1)/q, δ = q·δ_Gauss(y) for removal; for addition, with c = q − (1 − q)·(e^ε − 1),
    it is c·δ_Gauss(ln(q·e^ε/c)).
    """  # noqa: E501
    q, plain = mpmath.mpf(rate), gaussian_delta(1 / mpmath.mpf(sigma))

    def delta(epsilon: Any) -> Any:
        grown = mpmath.expm1(epsilon)
        removed = q * plain(mpmath.log1p(grown / q))
        rest = q - (1 - q) * grown
        added = rest * plain(epsilon + mpmath.log(q / rest)) if rest > 0 else mpmath.mpf(0)
        return max(removed, added)

    return delta


def sampled_composition(rate: float, sigma: float, steps: int, how: str) -> Oracle:
    """Return δ of sampled Gaussian steps by inverting the moments of the loss.

    δ(ε) = (1/2πi) ∫ e^(k·K(s) − s·ε)/(s(s + 1)) ds over the line Re s = t for every t > 0, where
    K(s) = ln E e^(sL). The line through the saddle point t has a Gaussian-like integrand without
    cancellation. K is integrated by Gauss and Legendre over z; double precision leaves some 1e-6
    of δ while k·|K| stays below 10⁸.
    """
    mu = 1.0 / sigma
    nodes, weights = np.polynomial.legendre.leggauss(1500)
    z = (mu / 2.0) + (mu / 2.0 + 14.0) * nodes
    width = (mu / 2.0 + 14.0) * weights / math.sqrt(2.0 * math.pi)

    def law(centre: float) -> tuple[Any, Any]:  # density with N(centre), and its log-ratio to N(0)
        ratio = np.logaddexp(
            math.log1p(-rate), math.log(rate) + centre * z - centre * centre / 2.0
        )
        return np.exp(ratio - z * z / 2.0), ratio

    first, log_first = law(mu)
    if how == REPLACE:
        directions = [(first, log_first - law(-mu)[1])]
    else:
        directions = [(first, log_first), (np.exp(-z * z / 2.0), -log_first)]

    def one(density: Any, loss: Any, epsilon: float) -> float:
        mass = density * width

        def log_moment(s: Any) -> Any:
            return np.log1p(np.expm1(np.multiply.outer(np.atleast_1d(s), loss)) @ mass)

        def slope(log_t: float) -> float:
            t = math.exp(log_t)
            grown = np.exp(t * loss) * mass
            return steps * float(grown @ loss / grown.sum()) - epsilon - 1.0 / t - 1.0 / (1.0 + t)

        low, high = math.log(1e-3), math.log(600.0 / max(float(np.max(np.abs(loss))), 1e-12))
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (low, middle) if slope(middle) > 0.0 else (middle, high)
        t = math.exp(low)
        grown = np.exp(t * loss) * mass
        mean = float(grown @ loss / grown.sum())
        spread = steps * float(grown @ np.square(loss - mean) / grown.sum()) + t**-2
        line = np.linspace(0.0, 100.0 / math.sqrt(spread), 6001)
        s = t + 1j * line
        centre = steps * float(log_moment(t)[0].real) - t * epsilon
        values = np.concatenate([steps * log_moment(part) for part in np.array_split(s, 60)])
        values = np.exp(values - s * epsilon - centre) / (s * (s + 1.0))
        return float(np.trapezoid(values.real, line)) / math.pi * math.exp(centre)

    def delta(epsilon: Any) -> Any:
        return mpmath.mpf(max(one(*pair, float(epsilon)) for pair in directions))

    return delta


def _cases(quick: bool) -> Iterator[_Case]:
    """Yield a name, an event or a bag to be convolved, its oracle, δ, and the oracle's error."""
    rates = (1e-6, 1e-3, 0.1, 0.5) if not quick else (1e-3,)
    sigmas = (0.3, 1.0, 10.0, 1000.0) if not quick else (1.0,)
    deltas = DELTAS if not quick else (1e-12, 1e-3)
    for sigma, steps, delta in itertools.product(
        sigmas, (1, 10**3, 10**7) if not quick else (10**3,), deltas
    ):
        mu = mpmath.sqrt(steps) / mpmath.mpf(sigma)
        if mu < 1000:
            event = repeat(GaussianDpEvent(sigma), steps)
            yield f"{steps:,} Gaussians, σ = {sigma:g}", event, gaussian_delta(mu), delta, 0.0
    for steps, delta in itertools.product((10, 10**4, 10**6, 10**7)[: 2 if quick else 4], deltas):
        bag = ((GaussianDpEvent(math.sqrt(steps)), steps),)
        oracle = gaussian_delta(mpmath.sqrt(steps) / mpmath.mpf(math.sqrt(steps)))
        yield f"{steps:,} Gaussians of √k, convolved", bag, oracle, delta, 0.0
    pure = ((0.001, 10**5), (0.5, 30), (0.1, 10**4), (2.0, 4), (1e-4, 10**7))
    for (size, count), delta in itertools.product(pure[: 2 if quick else 5], deltas):
        event = repeat(ApproximateDpEvent(size), count)
        yield f"{count:,} pure, ε = {size:g}", event, pure_delta(size, count), delta, 0.0
    for rate, sigma, delta in itertools.product(rates, sigmas, deltas):
        event = PoissonSampledDpEvent(rate, GaussianDpEvent(sigma))
        yield (
            f"1 sampled, q = {rate:g}, σ = {sigma:g}",
            event,
            sampled_delta(rate, sigma),
            delta,
            0.0,
        )
    schedules = [
        (1e-3, 1.0, 10**5), (0.01, 3.23, 20_000), (0.1, 2.0, 100), (0.01, 0.7, 1000),
        (1e-4, 1.0, 10**6), (1e-3, 10.0, 10**7), (0.5, 30.0, 1000),
    ]  # fmt: skip
    for (rate, sigma, steps), how, delta in itertools.product(
        schedules[: 2 if quick else 7], ("add-remove-one", REPLACE), deltas
    ):
        event = gaussian_event(sigma, rate=rate, steps=steps, neighbours=how)
        name = f"{steps:,} sampled, q = {rate:g}, σ = {sigma:g}, {how}"
        yield name, event, sampled_composition(rate, sigma, steps, how), delta, 1e-4
    yield from _rare_cases(quick, deltas)
    # a mixture whose truth is known: √(Σ 1/σ²), with one Gaussian split unevenly
    for delta in deltas:
        event = compose([repeat(GaussianDpEvent(2.0), 3), repeat(GaussianDpEvent(7.0), 11)])
        mu = mpmath.sqrt(mpmath.mpf(3) / 4 + mpmath.mpf(11) / 49)
        yield "3 Gaussians of 2 and 11 of 7", event, gaussian_delta(mu), delta, 0.0


def _rare_cases(quick: bool, deltas: tuple[float, ...]) -> Iterator[_Case]:
    """Yield steps that few units are ever part of, and mixtures with them."""
    schedules: list[list[tuple[float, float, int]]] = [
        [(1e-6, 1.0, 10)], [(1e-3, 0.5, 3)], [(1e-6, 0.3, 2)], [(1e-6, 0.5, 1000)],
        [(1e-6, 1.0, 10**5)], [(1e-6, 0.3, 10**6)], [(1e-5, 2.0, 10**6)], [(1e-5, 0.7, 10**4)],
        [(1e-4, 0.5, 3)], [(1e-4, 1.0, 10**4)], [(1e-3, 2.0, 100)], [(1e-2, 1.5, 5)],
        [(1e-2, 0.3, 2)], [(1e-5, 0.5, 100), (1e-3, 2.0, 30)], [(1e-6, 0.4, 1000), (1.0, 40.0, 4)],
    ]  # fmt: skip
    for parts, how in itertools.product(
        schedules[: 2 if quick else 15], ("add-remove-one", REPLACE)
    ):
        truth = merged_delta(parts, how == REPLACE)
        event = compose(
            [
                gaussian_event(sigma, rate=rate, steps=steps, neighbours=how)
                if rate < 1.0
                else repeat(GaussianDpEvent(sigma), steps)
                for rate, sigma, steps in parts
            ]
        )
        name = " and ".join(
            f"{steps:,} q = {rate:g}, σ = {sigma:g}" for rate, sigma, steps in parts
        )
        for delta in deltas:
            yield f"rare: {name}, {how}", event, lambda e, f=truth: f(float(e)), delta, 1e-9


def _found(subject: Any, delta: float) -> tuple[float, float]:
    """Return ε and the seconds it took, without caches."""
    clear_caches()
    started = time.perf_counter()
    if isinstance(subject, DpEvent):
        found = epsilon_of(subject, delta)
    else:
        curve = convolved(subject, False, round(-math.log10(delta)))
        found = math.inf if curve is None else max(0.0, curve.epsilon(delta))
    return found, time.perf_counter() - started


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def _truth(outcome: Outcome, quick: bool) -> None:
    below = above = 0
    slowest, most = 0.0, 0.0
    with mpmath.workdps(_DIGITS):
        for name, subject, oracle, delta, error in _cases(quick):
            found, seconds = _found(subject, delta)
            peak = _peak()
            exact = oracle(mpmath.mpf(found))
            low = exact > delta * (1.0 + error) * (1.0 + 1e-13)
            less = min(found / 1.01, found - 1e-6)
            high = less > 0.0 and oracle(mpmath.mpf(less)) < delta * (1.0 - error)
            back = None
            if isinstance(subject, DpEvent) and found > 0.0:
                back = accountant().add(subject).delta(found)
                low = low or back < exact * (1.0 - error - 1e-12)
            below, above = below + low, above + high
            slowest, most = max(slowest, seconds), max(most, peak)
            outcome.add({"what": name, "δ": delta, "ε": found, "true δ / δ": float(exact / delta),
                         "δ(ε)": back, "seconds": seconds, "peak MB": peak,
                         "ok": not low and not high})  # fmt: skip
    rows = len(outcome.rows)
    outcome.check(f"rows of {rows} below the truth", below, "none", below == 0)
    outcome.check(f"rows of {rows} more than 1 % and 1e-6 above", above, "none", above == 0)
    outcome.check("slowest row [s]", slowest, f"≤ {_SECONDS:g}", slowest <= _SECONDS)
    outcome.check("peak memory [MB]", most, f"≤ {_MEGABYTES:g}", most <= _MEGABYTES)


def _monotone(outcome: Outcome, quick: bool) -> None:
    """ε falls with δ and noise and grows with steps; δ falls with ε."""
    broken = tried = 0
    events = [(0.02, 1.5, 300), (1e-4, 0.8, 10_000), (0.3, 5.0, 50)][: 1 if quick else 3]
    for (rate, sigma, steps), how in itertools.product(events, ("add-remove-one", REPLACE)):

        def cost(
            noise: float = sigma, count: int = steps, delta: float = 1e-6,
            rate: float = rate, how: str = how,
        ) -> float:  # fmt: skip
            event = gaussian_event(noise, rate=rate, steps=count, neighbours=how)
            return epsilon_of(event, delta)

        curves = [
            [cost(delta=float(d)) for d in np.geomspace(1e-15, 0.1, 12 if quick else 57)],
            [cost(noise=sigma * (1.0 + 0.003 * i)) for i in range(4 if quick else 12)],
            [-cost(count=steps + i) for i in range(4 if quick else 12)],
        ]
        spent = accountant().add(gaussian_event(sigma, rate=rate, steps=steps, neighbours=how))
        top = cost(delta=1e-12)
        curves.append([spent.delta(top * i / 20.0) for i in range(21)])
        for curve in curves:
            steps_down = np.diff(curve)
            broken, tried = broken + int(np.sum(steps_down > 0.0)), tried + len(steps_down)
    mixture = [LaplaceDpEvent(5.0), GaussianDpEvent(3.0), ApproximateDpEvent(0.2, 1e-9)]
    parts = [epsilon_of(compose(mixture[:k] * 3), 1e-6) for k in (1, 2, 3)]
    broken, tried = broken + int(np.sum(np.diff(parts) < 0.0)), tried + 2
    outcome.check(f"pairs of {tried} out of order", broken, "none", broken == 0)


def _printed(outcome: Outcome, quick: bool) -> None:
    """What certify and calibrate print, against what is computed."""
    from typer.testing import CliRunner

    from tacit.cli.main import app
    from tacit.privacy.catalogue import CATALOGUE, Query

    runner, low, missed, tried = CliRunner(), 0, 0, 0

    def said(*arguments: object) -> str:
        return str(runner.invoke(app, [str(part) for part in arguments]).output)

    generator = np.random.default_rng(20)
    for _ in range(20 if quick else 200):
        sigma, delta = float(generator.uniform(0.5, 20.0)), float(10 ** -generator.uniform(1, 12))
        exact = epsilon_of(CATALOGUE["gaussian"].event(sigma, Query()), delta)
        text = said("certify", "gaussian", "--sigma", sigma, "--delta", delta)
        epsilon, printed = (float(part) for part in re.findall(r"[εδ] = (\S+)", text))
        plain = json.loads(
            said("certify", "gaussian", "--sigma", sigma, "--delta", delta, "--json")
        )
        low += epsilon < exact or printed < delta or plain["epsilon"] < exact
        tried += 1
    for mechanism, _ in itertools.product(sorted(CATALOGUE), range(1 if quick else 6)):
        epsilon, delta = float(generator.uniform(0.05, 5.0)), 1e-6
        facts = ("--delta", delta, "--steps", 3, "--neighbours", "replace-one")
        text = said("calibrate", mechanism, "--epsilon", epsilon, *facts)
        found = re.search(rf"{CATALOGUE[mechanism].parameter} = ([^ ,]+)", text)
        query = Query(neighbours="replace-one", steps=3, delta=delta)
        if found is None:
            missed += 1
        else:
            event = CATALOGUE[mechanism].event(float(found.group(1)), query)
            missed += epsilon_of(event, delta) > epsilon
        tried += 1
    outcome.add({"what": "printed numbers", "tried": tried, "below": low, "missed": missed})
    outcome.check(f"printed ε or δ of {tried} below what was computed", low, "none", low == 0)
    outcome.check("calibrated noise that misses its target when typed in again", missed, "none",
                  missed == 0)  # fmt: skip


def _forgeries(outcome: Outcome, quick: bool) -> None:
    """Forged certificates and ledgers, each of which must be named."""
    if importlib.util.find_spec("experiments._core_forgeries") is None:
        return
    rows = importlib.import_module("experiments._core_forgeries").rows(quick)
    unnamed = [row["forgery"] for row in rows if not row["named"]]
    outcome.rows.extend({"what": row["forgery"], "ok": bool(row["named"])} for row in rows)
    outcome.check(f"forgeries of {len(rows)} that pass", ", ".join(unnamed) or "none", "none",
                  not unnamed and bool(rows))  # fmt: skip
