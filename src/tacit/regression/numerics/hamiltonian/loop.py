"""The compiled iterations behind `tacit.regression.numerics.hamiltonian.kernel`.

Trajectories in two sets of coordinates take turns
(`tacit.regression.numerics.hamiltonian.density`), as each is stiff where the other is not: *own*
ones are good where summaries say more about S_j than the other sites do, *common* ones where noise
hides what is each site's own. For common ones Σ is drawn from IW(A, F) first. The spread h moves
in two ways for the same reason: with the S_j held, and with what makes them differ held in units
of their spread.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.linear import (
    cholesky,
    copy,
    fill,
    from_precision,
    inlined,
    log_diagonal,
    solve_lower_matrix,
    to_white,
)
from tacit.regression.numerics.hamiltonian.density import (
    Law,
    Scratch,
    Target,
    from_factor,
    log_density,
    to_factor,
)
from tacit.regression.numerics.laws import (
    SIZE_CENTER,
    SIZE_SD,
    accepted,
    describe,
    draw_frame,
    freedom_of,
    half_log_pooled,
    log_spread,
    log_spread_prior,
    tune,
)

__all__ = ["trajectories"]

LENGTH, MOST_STEPS = 1.6, 20  # time of a trajectory in units of the tuned scales; leapfrog steps
TARGET, WALK_TARGET = 0.75, 0.44  # acceptance of trajectories, and of walks on log h and log ℓ
FIRST_WINDOW = 50  # iterations of warm-up before scales are first set


@inlined
def stretch(square: float, old: float, new: float) -> tuple[bool, float, float]:
    """Map χ² of ``old`` degrees of freedom to about ``new`` ones (Wilson and Hilferty).

    Returns whether it can be mapped, the image, and log of (density · derivative) new over old.
    """
    a, b = 2.0 / (9.0 * old), 2.0 / (9.0 * new)
    score = ((square / old) ** (1.0 / 3.0) - 1.0 + a) / math.sqrt(a)
    root = 1.0 - b + score * math.sqrt(b)
    if not root > 0.0:
        return False, 0.0, 0.0
    image = new * root**3
    before = (square / old) ** (1.0 / 3.0)
    value = 0.5 * (new - 2.0) * math.log(image) - 0.5 * image - math.lgamma(0.5 * new)
    value -= 0.5 * (old - 2.0) * math.log(square) - 0.5 * square - math.lgamma(0.5 * old)
    value -= 0.5 * math.log(2.0) * (new - old)
    # derivatives of image and square in the score: 3·ν·root²·√(2/(9ν))
    value += math.log(new * root**2 * math.sqrt(b)) - math.log(old * before**2 * math.sqrt(a))
    return True, image, value


@inlined
def _travel(rng: Any, target: Any, path: Any, widths: Any, step: float, size: int) -> float:
    """Follow a trajectory from ``path[0]``; return the chance that its end is accepted.

    path: position, momentum (in units of the widths) and slope.
    """
    position, momentum, slope = path[0], path[1], path[2]
    energy = 0.0
    for i in range(size):
        momentum[i] = rng.standard_normal()
        energy += 0.5 * momentum[i] * momentum[i]
    most = int(min(max(LENGTH / step, 1.0), MOST_STEPS))
    leaps = 1 + int(rng.random() * (2 * most - 1))
    for leap in range(leaps + 1):
        value = log_density(target, position, slope)
        if not math.isfinite(value):
            return 0.0
        if leap == 0:
            energy -= value
        kick = 0.5 * step if leap == 0 or leap == leaps else step
        for i in range(size):
            momentum[i] += kick * widths[i] * slope[i]
        if leap < leaps:
            for i in range(size):
                position[i] += step * widths[i] * momentum[i]
    energy += value
    for i in range(size):
        energy -= 0.5 * momentum[i] * momentum[i]
    return 0.0 if math.isnan(energy) else math.exp(min(energy, 0.0))


@inlined
def _enter_common(
    rng: Any, data: Any, law: Any, grams: Any, factors: Any, room: Any, bases: Any
) -> tuple[bool, float]:
    """Draw Σ = CCᵀ given the S_j, and take the T_j; return whether that can be, and κ.

    Exact sites join the prior: κ, and ℓΛ in the first matrix of the room. C is the last.
    """
    whole, work, triangle, frame = room[0], room[1], room[2], room[3]
    d, kappa = frame.shape[0], law.kappa
    copy(law.sized, whole)
    copy(law.sized, work)
    for j in range(grams.shape[0]):
        exact = data.noise[j, 0] == 0.0
        kappa += law.freedom[j] if exact else 0.0
        for a in range(d):
            for b in range(d):
                part = law.shares[j] * grams[j, a, b]
                work[a, b] += part
                whole[a, b] += part if exact else 0.0
    if not cholesky(work, triangle):
        return False, kappa
    draw_frame(rng, triangle, law.total_freedom, work, frame)
    for j in range(grams.shape[0]):
        solve_lower_matrix(frame, factors[j], bases[j])
    return True, kappa


@inlined
def _propose_coefficients(
    rng: Any, data: Any, law: Any, grams: Any, variance: float, beta: Any, scratch: Any, out: Any
) -> float:
    """Draw β given the S_j and σ² but for û (Proposition 3); return log q(β) − log q(β')."""
    d, vectors = len(beta), scratch.vectors
    matrices = scratch.matrices
    work, factor, each, precision = matrices[0], matrices[1], matrices[2], matrices[3]
    linear, part, white = vectors[4], vectors[5], vectors[6]
    fill(precision, 0.0)
    along = 0.0
    for i in range(d):
        along += data.axis[i] * data.center[i]
    for i in range(d):
        for k in range(d):
            precision[i, k] = law.extra * data.axis[i] * data.axis[k]
        precision[i, i] += law.precision
        linear[i] = law.precision * data.center[i] + law.extra * along * data.axis[i]
    for j in range(grams.shape[0]):
        describe(
            grams[j], data.cross[j], variance, data.noise[j, 1], work, vectors, factor, each, part
        )
        for a in range(d):
            linear[a] += part[a]
            for b in range(d):
                precision[a, b] += each[a, b]
    if not cholesky(precision, factor):
        return -math.inf
    to_white(factor, linear, beta, white)
    ratio = 0.0
    for i in range(d):
        ratio -= 0.5 * white[i] * white[i]
        white[i] = rng.standard_normal()
        ratio += 0.5 * white[i] * white[i]
    from_precision(factor, linear, white, vectors[0], out)
    return ratio


@inlined
def _respread(
    data: Any, law: Any, freedom_new: Any, bases: Any, bases_new: Any
) -> tuple[bool, float]:
    """Write T_j as it would be under other ν_j; return whether it can be, and the log ratio."""
    ratio, possible = 0.0, True
    d = bases.shape[1]
    for j in range(bases.shape[0]):
        out_of = math.sqrt(law.shares[j])
        into = math.sqrt(data.rows[j] / freedom_new[j])
        for a in range(d):
            for b in range(a):
                bases_new[j, a, b] = bases[j, a, b] * out_of * into
            fits, image, term = stretch(
                (bases[j, a, a] * out_of) ** 2, law.freedom[j] - a, freedom_new[j] - a
            )
            possible = possible and fits
            ratio += term
            bases_new[j, a, a] = math.sqrt(image) * into
    return possible, ratio


@inlined
def _set_widths(running: Any, widths: Any, count: float) -> None:
    """Set the scales of the coordinates to what a window of warm-up shows, and start afresh."""
    for kind in range(2):
        for i in range(widths.shape[1]):
            mean = running[kind, 0, i] / count
            square = max(running[kind, 1, i] / count - mean * mean, 0.0)
            if square > 0.0:
                old = widths[kind, i] * widths[kind, i]
                widths[kind, i] = math.sqrt((count * square + 5.0 * old) / (count + 5.0))
    fill(running, 0.0)


def trajectories(rng: Any, data: Any, state: Any, adapt: bool, thin: int, out: Any) -> None:
    """Run ``thin`` iterations per draw, from and into the state's arrays.

    data: see `Data`; its prior: κ, a, b, the intercept's precision, and whether h, the
    coefficients' variance and ℓ are learned. state: see `TiedState`. tuning: log steps of own and
    common trajectories, of the walks on log h (twice) and log ℓ; when the widths were last set.
    widths: the scale of every coordinate, own and common. running: sums and squares of the
    coordinates since then. out: draws of β and of the scales, and how often each kind of move
    was accepted.
    """
    grams, beta, scales = state.grams, state.coefficients, state.scales
    tuning, widths, running, started = state.tuning, state.widths, state.running, state.steps
    out_beta, out_scales, accepts = out
    count, d = grams.shape[0], grams.shape[1]
    packed = d * (d + 1) // 2
    kappa, learned = data.prior[0], data.prior[4:]
    apart = 0.0
    for i in range(d):
        apart += data.axis[i] * data.axis[i]
    slopes = d - (1 if apart > 0.0 else 0)  # coefficients whose variance is learned
    learn_spread, learn_variance, learn_size = learned[0] > 0.0, learned[1] > 0.0, learned[2] > 0.0
    triples = np.zeros((5, count, d, d))
    factors, bases, bases_new = triples[0], triples[1], triples[2]
    scratch = Scratch(grams.copy(), triples[3], triples[4], np.zeros((6, d, d)), np.zeros((8, d)))
    room, sized = np.zeros((4, d, d)), np.zeros((d, d))
    whole, work, triangle, frame = room[0], room[1], room[2], room[3]
    per_site = np.zeros((4, count))
    freedom, shares, log_dets, freedom_new = per_site[0], per_site[1], per_site[2], per_site[3]
    path = np.zeros((4, count * packed + d + 1))
    position, origin, beta_new = path[0], path[3], np.zeros(d)
    moved = 0
    for j in range(count):
        cholesky(grams[j], factors[j])
        copy(factors[j], scratch.factors[j])  # those of exact sites stay
        if data.noise[j, 0] > 0.0:
            moved += 1

    for step in range(out_beta.shape[0] * thin):
        time = started + step
        gain = 1.0 / (1.0 + time - tuning[5]) ** 0.6 if adapt else 0.0
        precision = math.exp(-scales[2])
        extra = data.prior[3] - precision if apart > 0.0 else 0.0
        spread = math.exp(scales[1]) if learn_spread else -1.0
        total_freedom = kappa
        for a in range(d):
            for b in range(d):
                sized[a, b] = math.exp(scales[3]) * data.scale[a, b]
        for j in range(count):
            freedom[j] = freedom_of(data.freedoms[j], spread, d)
            shares[j] = freedom[j] / data.rows[j]
            total_freedom += freedom[j]
        law = Law(freedom, shares, total_freedom, kappa, sized, precision, extra)

        possible = True
        for kind in range(2 if moved > 0 else 1):
            common = kind == 1
            now = law
            if common:
                possible, kappa_whole = _enter_common(rng, data, law, grams, factors, room, bases)
                if not possible:
                    break
                now = Law(freedom, shares, total_freedom, kappa_whole, whole, precision, extra)
                from_factor(frame, position, 0)
            else:
                for j in range(count):
                    if data.noise[j, 0] > 0.0:
                        from_factor(factors[j], position, j * packed)
            edge = packed * (1 if common else count)
            for i in range(d):
                position[edge + i] = beta[i]
            position[edge + d] = scales[0]
            copy(position, origin)
            target = Target(common, data, now, bases, scratch)
            step_size, size = math.exp(tuning[kind]), edge + d + 1
            chance = _travel(rng, target, path, widths[kind], step_size, size)
            if rng.random() < chance:
                copy(scratch.grams, grams)
                copy(scratch.factors, factors)
                for i in range(d):
                    beta[i] = position[edge + i]
                scales[0] = position[edge + d]
                if common:
                    to_factor(position, 0, frame)
                accepts[kind] += 1.0
            else:
                copy(origin, position)
            tuning[kind] += gain * (chance - TARGET)
            if adapt:
                # common: given T_j, which change from step to step; displacements do not see that
                for i in range(edge + d + 1):
                    start = origin[i] if common else 0.0
                    running[kind, 0, i] += 0.0 if common else position[i]
                    running[kind, 1, i] += (position[i] - start) ** 2

        # --- β given the S_j: trajectories alone are slow where its scale depends on S
        ratio = _propose_coefficients(
            rng, data, law, grams, math.exp(scales[0]), beta, scratch, beta_new
        )
        if possible and math.isfinite(ratio):
            for sign, value in ((-1.0, beta), (1.0, beta_new)):
                for i in range(d):
                    position[edge + i] = value[i]
                ratio += sign * log_density(target, position, path[2])
            took = accepted(rng, ratio)
            copy(beta_new if took else beta, beta)
            for i in range(d):
                position[edge + i] = beta[i]
            accepts[5] += 1.0 if took else 0.0

        # --- log h with what is each site's own held in units of its spread: T_j keeps its place
        if learn_spread and moved == count and possible:
            candidate = scales[1] + math.exp(tuning[2]) * rng.standard_normal()
            for j in range(count):
                freedom_new[j] = freedom_of(data.freedoms[j], math.exp(candidate), d)
            fits, ratio = _respread(data, law, freedom_new, bases, bases_new)
            ratio += log_spread_prior(math.exp(candidate)) - log_spread_prior(spread)
            took = False
            if fits:  # the position is that of the common trajectory
                for sign, held in ((-1.0, bases), (1.0, bases_new)):
                    target = Target(moved > 0, data, law, held, scratch)
                    ratio += sign * log_density(target, position, path[2])
                took = accepted(rng, ratio)
            if took:
                scales[1] = candidate
                spread = math.exp(candidate)
                copy(scratch.grams, grams)
                copy(scratch.factors, factors)
                copy(freedom_new, freedom)
                total_freedom = kappa
                for j in range(count):
                    total_freedom += freedom[j]
            accepts[2] += 1.0 if took else 0.0
            tune(tuning, 2, took, WALK_TARGET, gain)

        # --- log ℓ, the size of Λ: how small the smallest directions of the features may be
        if learn_size:
            candidate = scales[3] + math.exp(tuning[4]) * rng.standard_normal()
            ratio = 0.5 * d * kappa * (candidate - scales[3])
            for sign, size in ((-1.0, candidate), (1.0, scales[3])):
                half = half_log_pooled(
                    grams, data.rows, freedom, data.scale, math.exp(size), work, triangle
                )
                ratio += sign * total_freedom * half
            new, old = candidate - SIZE_CENTER, scales[3] - SIZE_CENTER
            ratio -= 0.5 * (new * new - old * old) / SIZE_SD**2
            took = accepted(rng, ratio)
            if took:
                scales[3] = candidate
                for a in range(d):
                    for b in range(d):
                        sized[a, b] = math.exp(candidate) * data.scale[a, b]
            accepts[4] += 1.0 if took else 0.0
            tune(tuning, 4, took, WALK_TARGET, gain)

        # --- log h with the S_j held
        if learn_spread:
            for j in range(count):
                log_dets[j] = 2.0 * log_diagonal(factors[j])
            candidate = scales[1] + math.exp(tuning[3]) * rng.standard_normal()
            ratio = 0.0
            for sign, value in ((1.0, math.exp(candidate)), (-1.0, spread)):
                ratio += sign * log_spread(
                    grams, log_dets, data.rows, data.freedoms, sized, kappa, value, work, triangle
                )
            took = accepted(rng, ratio)
            if took:
                scales[1] = candidate
            accepts[3] += 1.0 if took else 0.0
            tune(tuning, 3, took, WALK_TARGET, gain)

        # --- the coefficients' prior variance: IG(2, 0.2), so that β is Student's t with four
        if learn_variance:
            norm, along = 0.0, 0.0
            for i in range(d):
                norm += (beta[i] - data.center[i]) ** 2
                along += data.axis[i] * (beta[i] - data.center[i])
            norm = max(norm - along * along, 0.0)
            half = 0.5 * slopes
            scales[2] = math.log(0.2 + 0.5 * norm) - math.log(rng.standard_gamma(2.0 + half))

        # --- windows of warm-up, each as long as all before it
        since = time + 1 - tuning[5]
        if adapt and since >= max(FIRST_WINDOW, tuning[5]):
            _set_widths(running, widths, since)
            tuning[5] = time + 1

        if (step + 1) % thin == 0:
            row = (step + 1) // thin - 1
            copy(beta, out_beta[row])
            copy(scales, out_scales[row])
