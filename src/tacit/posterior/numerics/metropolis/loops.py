"""The loops of Metropolis–Hastings samplers, compiled for built-in models.

Every loop walks on η (see `tacit.posterior.numerics.splines`): η' = η + step·L·ξ, so the target on
η is p(θ | y)·|dθ/dη|, and 0 where θ has left its range. Each takes ``draws`` rows of ``thin``
iterations and, while it adapts, moves log step towards its target acceptance by Robbins–Monro
steps.

Source: Alparslan (2023), with the corrections of PRIVACY B4: acceptance uses Σw′ over Σw,
Ẑ′ uses θ′ throughout, a walk on log θ has its Jacobian.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tacit._core.linear import copy, inlined
from tacit.posterior.numerics.particles import (
    draw_statistic,
    log_normal_weights,
    log_release,
    log_statistic,
    log_target,
    log_weights,
)
from tacit.posterior.numerics.priors import log_prior
from tacit.posterior.numerics.splines import from_line, log_slope, to_line

__all__ = ["Walk", "averaged", "gibbs", "marginal", "pseudo_marginal", "rao_blackwell"]


class Walk(NamedTuple):
    """A random walk on η: its law, where it is and would go, and the rows that it fills.

    priors, scales: code and numbers of each parameter's prior, and the code of its scale.
    shape: L. goal: the acceptance towards which the step adapts. thin: iterations of each row.
    """

    priors: Any
    scales: Any
    shape: Any
    goal: float
    adapt: bool
    thin: int
    theta: Any
    eta: Any
    new: Any
    new_eta: Any
    out: Any


@inlined
def _start(model: Any, walk: Any) -> Any:
    """Set η of θ; return the log density there of what needs no particles."""
    for k in range(len(walk.theta)):
        walk.eta[k] = to_line(walk.scales[k], walk.theta[k])
    return _log_known(model, walk, walk.theta)


@inlined
def _propose(rng: Any, model: Any, walk: Any, step: float) -> Any:
    """Walk on η; return the log density there of what needs no particles."""
    p = len(walk.eta)
    for k in range(p):
        walk.new_eta[k] = walk.eta[k]
    for k in range(p):
        jump = step * rng.standard_normal()
        for i in range(k, p):
            walk.new_eta[i] += walk.shape[i, k] * jump
    for k in range(p):
        walk.new[k] = from_line(walk.scales[k], walk.new_eta[k])
    return _log_known(model, walk, walk.new)


@inlined
def _log_prior(walk: Any, theta: Any) -> Any:
    """Return the prior's log density on η, Jacobian included."""
    total, priors = 0.0, walk.priors
    for k in range(len(theta)):
        total += log_slope(walk.scales[k], theta[k])
        if total == -math.inf:
            return total
        total += log_prior(priors[k, 0], priors[k, 1], priors[k, 2], theta[k])
    return total


@inlined
def _log_known(model: Any, walk: Any, theta: Any) -> Any:
    """Return the prior on η and log p(y | θ) of what needs no particles."""
    total = _log_prior(walk, theta)
    if total > -math.inf:
        total += log_target(model, theta)
    return total


@inlined
def _log_sum(values: Any) -> Any:
    """Return log Σ exp."""
    top = -math.inf
    for j in range(len(values)):
        top = max(top, values[j])
    if top == -math.inf:
        return top
    total = 0.0
    for j in range(len(values)):
        total += math.exp(values[j] - top)
    return top + math.log(total)


@inlined
def _log_sums(values: Any) -> Any:
    """Return Σ_t log Σ_j exp."""
    total = 0.0
    for t in range(values.shape[0]):
        total += _log_sum(values[t])
    return total


@inlined
def _pick(rng: Any, values: Any) -> Any:
    """Return an index with probability proportional to exp(values)."""
    left = rng.random()
    whole = _log_sum(values)
    for j in range(len(values) - 1):
        left -= math.exp(values[j] - whole)
        if left < 0.0:
            return j
    return len(values) - 1


@inlined
def _accept(rng: Any, ratio: float) -> Any:
    """Return whether to accept, and the probability of it; never on NaN."""
    if not ratio > -700.0:
        return False, 0.0
    chance = math.exp(min(ratio, 0.0))
    return rng.random() < chance, chance


@inlined
def _fill_normal(rng: Any, out: Any) -> None:
    """Draw standard normal numbers, one by one: whole arrays take much longer to compile."""
    flat = out.ravel()
    for i in range(flat.size):
        flat[i] = rng.standard_normal()


@inlined
def _mix(a: float, x: Any, b: float, out: Any) -> None:
    """Replace out by a·x + b·out."""
    flat, into = x.ravel(), out.ravel()
    for i in range(flat.size):
        into[i] = a * flat[i] + b * into[i]


@inlined
def _finish(i: int, walk: Any, yes: bool, chance: float, step: float) -> Any:
    """Go where the walk was accepted, keep every ``thin``-th place, and return the next step."""
    if yes:
        copy(walk.new_eta, walk.eta)
        copy(walk.new, walk.theta)
    if (i + 1) % walk.thin == 0:
        copy(walk.theta, walk.out[i // walk.thin])
    return step * math.exp((chance - walk.goal) / (1.0 + i) ** 0.6) if walk.adapt else step


def marginal(rng: Any, model: Any, walk: Any, latent: Any, step: float, options: Any) -> Any:
    """Algorithm 9: p(y | θ) is known. Return acceptance and step."""
    value = _start(model, walk)
    accepted, iterations = 0.0, walk.out.shape[0] * walk.thin
    for i in range(iterations):
        fresh = _propose(rng, model, walk, step)
        yes, chance = _accept(rng, fresh - value)
        if yes:
            value = fresh
        accepted += chance
        step = _finish(i, walk, yes, chance, step)
    return accepted / iterations, step


def pseudo_marginal(
    rng: Any, model: Any, walk: Any, latent: Any, step: float, options: Any
) -> Any:
    """Algorithms 10 and 3: particles estimate p(y | θ); options[0] is their correlation ρ."""
    rho = options[0]
    rest = math.sqrt(1.0 - rho * rho)
    moved, weights = np.empty(latent.shape), np.empty(latent.shape[:2])
    log_normal_weights(model, latent, walk.theta, weights)
    value = _log_sums(weights) + _start(model, walk)
    accepted, iterations = 0.0, walk.out.shape[0] * walk.thin
    for i in range(iterations):
        fresh = _propose(rng, model, walk, step)
        if fresh > -math.inf:
            _fill_normal(rng, moved)
            _mix(rho, latent, rest, moved)
            log_normal_weights(model, moved, walk.new, weights)
            fresh += _log_sums(weights)
        yes, chance = _accept(rng, fresh - value)
        if yes:
            value = fresh
            copy(moved, latent)
        accepted += chance
        step = _finish(i, walk, yes, chance, step)
    return accepted / iterations, step


def averaged(rng: Any, model: Any, walk: Any, latent: Any, step: float, options: Any) -> Any:
    """Algorithms 12 and 13: averaged acceptance ratios over particles of the base law.

    options: the number of particles N, and whether a rejection refreshes the latent draw.
    """
    count, refresh = int(options[0]), options[1] > 0.0
    groups, _, size = latent.shape
    particles = np.empty((groups, count, size))
    here, there = np.empty((groups, count)), np.empty((groups, count))
    value = _start(model, walk)
    accepted, iterations = 0.0, walk.out.shape[0] * walk.thin
    for i in range(iterations):
        fresh = _propose(rng, model, walk, step)
        yes, chance = False, 0.0
        if fresh > -math.inf:
            _fill_normal(rng, particles)
            for t in range(groups):
                copy(latent[t, 0], particles[t, 0])
            log_weights(model, particles, walk.theta, here)
            log_weights(model, particles, walk.new, there)
            yes, chance = _accept(rng, fresh + _log_sums(there) - value - _log_sums(here))
            if yes or refresh:
                for t in range(groups):
                    k = _pick(rng, there[t] if yes else here[t])
                    copy(particles[t, k], latent[t, 0])
        if yes:
            value = fresh
        accepted += chance
        step = _finish(i, walk, yes, chance, step)
    return accepted / iterations, step


def rao_blackwell(rng: Any, model: Any, walk: Any, latent: Any, step: float, options: Any) -> Any:
    """Algorithm 11: averaged acceptance ratios over u, with q(u) = f(u | (θ + θ')/2).

    options: the number of particles N, and whether a rejection refreshes u.
    """
    count, refresh = int(options[0]), options[1] > 0.0
    theta, new, middle = walk.theta, walk.new, np.empty(len(walk.theta))
    u = np.empty((count, latent.shape[2]))
    here, there, both = np.empty(count), np.empty(count), np.empty(count)
    value = _start(model, walk)
    accepted, iterations = 0.0, walk.out.shape[0] * walk.thin
    for i in range(iterations):
        fresh = _propose(rng, model, walk, step)
        yes, chance = False, 0.0
        if fresh > -math.inf:
            for k in range(len(middle)):
                middle[k] = 0.5 * (theta[k] + new[k])
            draw_statistic(model, rng, middle, u)
            copy(latent[0, 0], u[0])
            log_statistic(model, u, middle, both)
            log_release(model, u, here)
            for j in range(count):
                both[j] = here[j] - both[j]
            log_statistic(model, u, theta, here)
            log_statistic(model, u, new, there)
            for j in range(count):
                here[j] += both[j]
                there[j] += both[j]
            yes, chance = _accept(rng, fresh + _log_sum(there) - value - _log_sum(here))
            if yes or refresh:
                copy(u[_pick(rng, there if yes else here)], latent[0, 0])
        if yes:
            value = fresh
        accepted += chance
        step = _finish(i, walk, yes, chance, step)
    return accepted / iterations, step


def gibbs(rng: Any, model: Any, walk: Any, latent: Any, step: float, options: Any) -> Any:
    """MH within Gibbs: u | θ, y from f(u | θ) with acceptance g(y | u')/g(y | u); then θ | u."""
    u, two = np.empty((1, latent.shape[2])), np.empty((2, latent.shape[2]))
    noise, law, new_law = np.empty(2), np.empty(1), np.empty(1)
    value = _start(model, walk)
    accepted, iterations = 0.0, walk.out.shape[0] * walk.thin
    for i in range(iterations):
        for _ in range(int(options[0])):
            draw_statistic(model, rng, walk.theta, two)
            copy(latent[0, 0], two[0])
            log_release(model, two, noise)
            move, _ = _accept(rng, noise[1] - noise[0])
            if move:
                copy(two[1], latent[0, 0])
        copy(latent[0, 0], u[0])
        fresh = _propose(rng, model, walk, step)
        yes, chance = False, 0.0
        if fresh > -math.inf:
            log_statistic(model, u, walk.theta, law)
            log_statistic(model, u, walk.new, new_law)
            yes, chance = _accept(rng, fresh + new_law[0] - value - law[0])
        if yes:
            value = fresh
        accepted += chance
        step = _finish(i, walk, yes, chance, step)
    return accepted / iterations, step
