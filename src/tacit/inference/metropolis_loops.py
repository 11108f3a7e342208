"""The loops of Metropolis–Hastings samplers, compiled for built-in models.

Every loop walks on η (see `tacit.inference.tables`): η' = η + step·L·ξ, so the target on η is
p(θ | y)·|dθ/dη|. Each takes ``draws`` rows of ``thin`` iterations and, while it adapts, moves
log step towards its target acceptance by Robbins–Monro steps.

Source: Alparslan (2023), with the corrections of PRIVACY B4: acceptance uses Σw′ over Σw,
Ẑ′ uses θ′ throughout, a walk on log θ has its Jacobian.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.linear import inlined
from tacit.inference.particles import (
    draw_statistic,
    log_release,
    log_statistic,
    log_target,
    log_weights,
)
from tacit.inference.tables import from_line, log_slope, to_line
from tacit.models.priors import log_prior

__all__ = ["averaged", "gibbs", "marginal", "pseudo_marginal", "rao_blackwell"]


@inlined
def _start(rng: Any, scales: Any, theta: Any, eta: Any) -> None:
    for k in range(len(theta)):
        eta[k] = to_line(scales[k], theta[k])


@inlined
def _propose(
    rng: Any, scales: Any, walk: Any, step: float, eta: Any, new_eta: Any, new: Any
) -> None:
    """Walk on η."""
    p = len(eta)
    for k in range(p):
        new_eta[k] = eta[k]
    for k in range(p):
        jump = step * rng.standard_normal()
        for i in range(k, p):
            new_eta[i] += walk[i, k] * jump
    for k in range(p):
        new[k] = from_line(scales[k], new_eta[k])


@inlined
def _log_prior(priors: Any, scales: Any, theta: Any) -> Any:
    """Return the prior's log density on η, Jacobian included."""
    total = 0.0
    for k in range(len(theta)):
        total += log_slope(scales[k], theta[k])
        if total == -math.inf:
            return total
        total += log_prior(priors[k, 0], priors[k, 1], priors[k, 2], theta[k])
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
    left = rng.random() * math.exp(_log_sum(values) - np.max(values))
    top = np.max(values)
    for j in range(len(values) - 1):
        left -= math.exp(values[j] - top)
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
def _adapt(step: float, chance: float, goal: float, i: int) -> Any:
    return step * math.exp((chance - goal) / (1.0 + i) ** 0.6)


def marginal(
    rng: Any, model: Any, priors: Any, scales: Any, walk: Any, theta: Any, latent: Any,
    step: float, goal: float, adapt: bool, thin: int, options: Any, out: Any,
) -> Any:  # fmt: skip
    """Algorithm 9: p(y | θ) is known. Return acceptance and step."""
    p = len(theta)
    eta, new_eta, new = np.empty(p), np.empty(p), np.empty(p)
    _start(rng, scales, theta, eta)
    value = log_target(model, theta) + _log_prior(priors, scales, theta)
    accepted = 0.0
    for i in range(out.shape[0] * thin):
        _propose(rng, scales, walk, step, eta, new_eta, new)
        fresh = _log_prior(priors, scales, new)
        if fresh > -math.inf:
            fresh += log_target(model, new)
        yes, chance = _accept(rng, fresh - value)
        if yes:
            value = fresh
            eta[:] = new_eta
            theta[:] = new
        accepted += chance
        if adapt:
            step = _adapt(step, chance, goal, i)
        if (i + 1) % thin == 0:
            out[i // thin] = theta
    return accepted / (out.shape[0] * thin), step


def pseudo_marginal(
    rng: Any, model: Any, priors: Any, scales: Any, walk: Any, theta: Any, latent: Any,
    step: float, goal: float, adapt: bool, thin: int, options: Any, out: Any,
) -> Any:  # fmt: skip
    """Algorithms 10 and 3: particles estimate p(y | θ); options[0] is their correlation ρ."""
    p = len(theta)
    rho = options[0]
    rest = math.sqrt(1.0 - rho * rho)
    eta, new_eta, new = np.empty(p), np.empty(p), np.empty(p)
    weights = np.empty(latent.shape[:2])
    _start(rng, scales, theta, eta)
    log_weights(model, latent, theta, weights)
    value = _log_sums(weights) + _log_prior(priors, scales, theta)
    accepted = 0.0
    for i in range(out.shape[0] * thin):
        _propose(rng, scales, walk, step, eta, new_eta, new)
        fresh = _log_prior(priors, scales, new)
        moved = latent
        if fresh > -math.inf:
            moved = rho * latent + rest * rng.standard_normal(latent.shape)
            log_weights(model, moved, new, weights)
            fresh += _log_sums(weights)
        yes, chance = _accept(rng, fresh - value)
        if yes:
            value = fresh
            latent[:] = moved
            eta[:] = new_eta
            theta[:] = new
        accepted += chance
        if adapt:
            step = _adapt(step, chance, goal, i)
        if (i + 1) % thin == 0:
            out[i // thin] = theta
    return accepted / (out.shape[0] * thin), step


def averaged(
    rng: Any, model: Any, priors: Any, scales: Any, walk: Any, theta: Any, latent: Any,
    step: float, goal: float, adapt: bool, thin: int, options: Any, out: Any,
) -> Any:  # fmt: skip
    """Algorithms 12 and 13: averaged acceptance ratios over particles of the base law.

    options: the number of particles N, and whether a rejection refreshes the latent draw.
    """
    p = len(theta)
    count, refresh = int(options[0]), options[1] > 0.0
    groups, _, size = latent.shape
    eta, new_eta, new = np.empty(p), np.empty(p), np.empty(p)
    here, there = np.empty((groups, count)), np.empty((groups, count))
    _start(rng, scales, theta, eta)
    value = _log_prior(priors, scales, theta)
    accepted = 0.0
    for i in range(out.shape[0] * thin):
        _propose(rng, scales, walk, step, eta, new_eta, new)
        fresh = _log_prior(priors, scales, new)
        yes, chance = False, 0.0
        if fresh > -math.inf:
            particles = rng.standard_normal((groups, count, size))
            particles[:, 0, :] = latent[:, 0, :]
            log_weights(model, particles, theta, here)
            log_weights(model, particles, new, there)
            yes, chance = _accept(rng, fresh + _log_sums(there) - value - _log_sums(here))
            if yes or refresh:
                for t in range(groups):
                    k = _pick(rng, there[t] if yes else here[t])
                    latent[t, 0] = particles[t, k]
        if yes:
            value = fresh
            eta[:] = new_eta
            theta[:] = new
        accepted += chance
        if adapt:
            step = _adapt(step, chance, goal, i)
        if (i + 1) % thin == 0:
            out[i // thin] = theta
    return accepted / (out.shape[0] * thin), step


def rao_blackwell(
    rng: Any, model: Any, priors: Any, scales: Any, walk: Any, theta: Any, latent: Any,
    step: float, goal: float, adapt: bool, thin: int, options: Any, out: Any,
) -> Any:  # fmt: skip
    """Algorithm 11: averaged acceptance ratios over u, with q(u) = f(u | (θ + θ')/2).

    options: the number of particles N, and whether a rejection refreshes u.
    """
    p = len(theta)
    count, refresh = int(options[0]), options[1] > 0.0
    eta, new_eta, new, middle = np.empty(p), np.empty(p), np.empty(p), np.empty(p)
    u = np.empty((count, latent.shape[2]))
    here, there, both = np.empty(count), np.empty(count), np.empty(count)
    _start(rng, scales, theta, eta)
    value = _log_prior(priors, scales, theta)
    accepted = 0.0
    for i in range(out.shape[0] * thin):
        _propose(rng, scales, walk, step, eta, new_eta, new)
        fresh = _log_prior(priors, scales, new)
        yes, chance = False, 0.0
        if fresh > -math.inf:
            for k in range(p):
                middle[k] = 0.5 * (theta[k] + new[k])
            draw_statistic(model, rng, middle, u)
            u[0] = latent[0, 0]
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
                latent[0, 0] = u[_pick(rng, there if yes else here)]
        if yes:
            value = fresh
            eta[:] = new_eta
            theta[:] = new
        accepted += chance
        if adapt:
            step = _adapt(step, chance, goal, i)
        if (i + 1) % thin == 0:
            out[i // thin] = theta
    return accepted / (out.shape[0] * thin), step


def gibbs(
    rng: Any, model: Any, priors: Any, scales: Any, walk: Any, theta: Any, latent: Any,
    step: float, goal: float, adapt: bool, thin: int, options: Any, out: Any,
) -> Any:  # fmt: skip
    """MH within Gibbs: u | θ, y from f(u | θ) with acceptance g(y | u')/g(y | u); then θ | u."""
    p = len(theta)
    eta, new_eta, new = np.empty(p), np.empty(p), np.empty(p)
    u, two = np.empty((1, latent.shape[2])), np.empty((2, latent.shape[2]))
    noise, law, new_law = np.empty(2), np.empty(1), np.empty(1)
    _start(rng, scales, theta, eta)
    value = _log_prior(priors, scales, theta)
    accepted = 0.0
    for i in range(out.shape[0] * thin):
        for _ in range(int(options[0])):
            draw_statistic(model, rng, theta, two)
            two[0] = latent[0, 0]
            log_release(model, two, noise)
            move, _ = _accept(rng, noise[1] - noise[0])
            if move:
                latent[0, 0] = two[1]
        u[0] = latent[0, 0]
        _propose(rng, scales, walk, step, eta, new_eta, new)
        fresh = _log_prior(priors, scales, new)
        yes, chance = False, 0.0
        if fresh > -math.inf:
            log_statistic(model, u, theta, law)
            log_statistic(model, u, new, new_law)
            yes, chance = _accept(rng, fresh + new_law[0] - value - law[0])
        if yes:
            value = fresh
            eta[:] = new_eta
            theta[:] = new
        accepted += chance
        if adapt:
            step = _adapt(step, chance, goal, i)
        if (i + 1) % thin == 0:
            out[i // thin] = theta
    return accepted / (out.shape[0] * thin), step
