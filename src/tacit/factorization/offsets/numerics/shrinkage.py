"""What noisy sums say about items: shrinkage by the known noise and by what items have in common.

A site's messages add up to S_j = C_j·q_j + sampling error + noise for item j, with C_j the weight
of its cells. With q_j ~ N(0, τ²), a sampling variance of C_j·s and noise of a known variance,
S_j ~ N(0, C_j²τ² + C_j·s + σ²): τ² is that under which all S_j together are most likely, and q_j
is estimated by its posterior mean. Everything here works on what was released.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tacit.factorization.arrays import Floats

__all__ = [
    "Averaged",
    "denoised_counts",
    "eigen_features",
    "scaled_columns",
    "shrink",
    "shrink_towards",
    "shrunk_towards",
    "spread_of_items",
]

_LADDER = np.geomspace(1e-4, 1.0, 81)  # of τ²; values lie in [−2, 2]
_DIAGONAL = 10  # rounds in which the diagonal of a covariance is replaced
_COUNTS, _SWEEPS = 80, 100  # of the ladder of counts, and rounds in which its law is learned
_HIDDEN = 10.0  # standard deviations of noise, below which a count is uncertain
_LINEAR = (10.0, 1e2, 1e3, 1e5)  # prior precisions of what a covariate of size one says
_DOUBT = (
    6.0  # how much log evidence there must be that covariates say anything: popular items differ
)


def spread_of_items(sums: Floats, weights: Floats, noise: Floats | float, within: float) -> float:
    """Return the most likely variance τ² of items behind noisy sums S.

    S is (items,) or (items, columns), ``weights`` are C_j ≥ 0, ``noise`` is σ², of all
    items or of each, and ``within`` s, the sampling variance per unit of weight.
    """
    squares = sums**2 if sums.ndim == 2 else sums[:, None] ** 2
    columns, squares = squares.shape[1], squares.sum(axis=1)
    variance = np.outer(_LADDER, weights**2) + weights * within + np.maximum(noise, 1e-12)
    fits = -0.5 * (columns * np.log(variance) + squares / variance).sum(axis=1)
    return float(_LADDER[int(np.argmax(fits))])


class Averaged:
    """Sums that were released several times, averaged by their noise."""

    def __init__(self, size: int) -> None:
        self.sums, self._precision = np.zeros(size), 0.0

    def add(self, sums: Floats, noise: float) -> float:
        """Take in sums with noise of some variance; return the variance that is left."""
        before, own = self._precision, 1.0 / max(noise, 1e-12)
        self.sums = (before * self.sums + own * sums) / (before + own)
        self._precision = before + own
        return 1.0 / self._precision if noise else 0.0


def denoised_counts(noisy: Floats, noise: float) -> tuple[Floats, Floats]:
    """Return posterior means of counts behind noise of a known variance, and of log(1 + count).

    Counts of items follow no law that could be stated: a few are large, most are small. The law
    of those within ten standard deviations is the one under which they are most likely (Kiefer &
    Wolfowitz 1956), on a ladder, by expectation maximisation; larger ones are taken as they are.

    >>> found, _ = denoised_counts(np.array([900.0, 12.0, -8.0, 5.0, -11.0]), 100.0)
    >>> bool(found[0] == 900.0), bool((found[1:] < 6.0).all())
    (True, True)
    """
    counts = np.maximum(noisy, 0.0)
    logarithms = np.log1p(counts)
    spread = float(np.sqrt(noise))
    hidden = noisy < _HIDDEN * spread
    if not hidden.any():
        return counts, logarithms
    ladder = spread * np.append(0.0, np.geomspace(0.05, 1.2 * _HIDDEN, _COUNTS))
    distance = np.minimum(np.abs(noisy[hidden, None] - ladder) / spread, 38.0)
    likely = np.exp(-0.5 * np.square(distance))
    law = np.full(len(ladder), 1.0 / len(ladder))
    for _ in range(_SWEEPS):
        shares = likely * law
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        law = shares.mean(axis=0)
    counts[hidden], logarithms[hidden] = shares @ ladder, shares @ np.log1p(ladder)
    return counts, logarithms


def shrink(sums: Floats, weights: Floats, noise: Floats | float, within: float) -> Floats:
    """Return the posterior mean of q_j."""
    tau = spread_of_items(sums, weights, noise, within)
    total = weights**2 * tau + weights * within + noise
    gain = weights * tau / np.maximum(total, 1e-300)
    return np.asarray(sums * (gain if sums.ndim == 1 else gain[:, None]))


def shrink_towards(
    sums: Floats, weights: Floats, noise: float, within: Floats, covariates: Floats
) -> Floats:
    """Return the posterior mean of q_j under covariates; see `shrunk_towards`.

    Of several columns, (items, columns), each has its own τ², c and a.
    """
    columns = list(sums.T) if sums.ndim == 2 else [sums]
    ladder = _Ladder.of(columns, weights, noise, within, covariates)
    means = [ladder.mean(k) for k in range(len(columns))]
    return np.column_stack(means) if sums.ndim == 2 else means[0]


def shrunk_towards(
    sums: Floats, weights: Floats, noise: float, within: Floats, covariates: Floats
) -> tuple[Floats, Floats]:
    """Return the posterior mean and standard deviation of q_j, given public covariates.

    q_j ~ N(c + z_jᵀa, τ²) with covariates z_j, c ~ N(0, 1/10), a ~ N(0, 1/λ) and
    S_j ~ N(C_j·q_j, within_j + σ²). Everything is integrated out, τ² and λ over ladders, of which
    the last λ leaves covariates out and is the likeliest beforehand: where noise hides what they
    say nothing is made of them. Given τ², c and a, q_j has the
    variance τ²·(1 − C_j²τ²/v_j), v_j that of S_j; what is unknown of c and a adds to it where S_j
    says little. Covariates are standardised over cells, so that c belongs to a typical one, and
    cut at ±2: what few popular items say is not carried on to items nobody has seen.
    """
    ladder = _Ladder.of([sums], weights, noise, within, covariates)
    mean = ladder.mean(0)
    return mean, np.sqrt(np.maximum(ladder.spread(0, mean), 0.0))


class _Ladder(NamedTuple):
    """What columns of sums say about every choice of τ² and λ.

    With thousands of items few choices have any chance at all: only these are worked out.
    """

    columns: list[Floats]
    table: Floats  # (1, covariates) of every item
    weights: Floats
    known: tuple[Floats, float]  # the variance of S_j given q_j: of what is sampled, and of noise
    linear: Floats  # (columns, choices, numbers): c and a
    chances: Floats  # (columns, choices)
    grams: Floats  # (τ², numbers, numbers)

    @classmethod
    def of(
        cls, columns: list[Floats], weights: Floats, noise: float, within: Floats, given: Floats
    ) -> _Ladder:
        """Return the chances of all choices, and c and a under each."""
        table = np.column_stack([np.ones(len(weights)), _standardised(given, weights)])
        design, known = table * weights[:, None], (within, max(noise, 1e-12))
        fits = np.empty((len(columns), len(_LADDER), len(_LINEAR)))
        linear, grams = np.empty((*fits.shape, table.shape[1])), []
        for t, tau in enumerate(_LADDER):
            variance = weights**2 * tau + known[0] + known[1]
            grams.append(design.T @ (design / variance[:, None]))
            logarithms = np.log(variance)
            rights = [design.T @ (sums / variance) for sums in columns]
            plain = [-0.5 * (logarithms + sums**2 / variance).sum() for sums in columns]
            for p, precision in enumerate(_LINEAR):
                prior = _prior(precision, table.shape[1])
                matrix = grams[t] + np.diag(prior)
                size = 0.5 * np.linalg.slogdet(matrix)[1]
                for k, right in enumerate(rights):
                    linear[k, t, p] = found = np.linalg.solve(matrix, right)
                    # log marginal likelihood: the Gaussian integral over c and a
                    fit = plain[k] + 0.5 * (right @ found + np.log(prior).sum()) - size
                    fits[k, t, p] = fit - (_DOUBT if precision < _LINEAR[-1] else 0.0)
        flat = fits.reshape(len(columns), -1)
        chances = np.exp(flat - flat.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        rows = linear.reshape(*flat.shape, -1)
        return cls(columns, table, weights, known, rows, chances, np.array(grams))

    def _variance(self, choice: int) -> tuple[float, Floats]:
        """Return a choice's τ², and v_j under it."""
        tau = _LADDER[choice // len(_LINEAR)]
        return tau, self.weights**2 * tau + self.known[0] + self.known[1]

    def _means(self, column: int) -> Floats:
        """Return the posterior means of a column under every choice; zeros without a chance."""
        means, sums = np.zeros((self.chances.shape[1], len(self.weights))), self.columns[column]
        design = self.table * self.weights[:, None]
        for choice in np.flatnonzero(self.chances[column]).tolist():
            tau, variance = self._variance(choice)
            linear = self.linear[column, choice]
            rest = sums - design @ linear
            means[choice] = self.table @ linear + self.weights * tau / variance * rest
        return means

    def mean(self, column: int) -> Floats:
        """Return the posterior means of a column."""
        return np.asarray(self.chances[column] @ self._means(column))

    def spread(self, column: int, mean: Floats) -> Floats:
        """Return the posterior variances of a column, whose means are given."""
        spreads = self._means(column)
        for choice in np.flatnonzero(self.chances[column]).tolist():
            tau, variance = self._variance(choice)
            open_share = 1.0 - self.weights**2 * tau / variance  # of the prior, after S_j
            prior = _prior(_LINEAR[choice % len(_LINEAR)], self.table.shape[1])
            gram = self.grams[choice // len(_LINEAR)] + np.diag(prior)
            unknown = np.linalg.solve(gram, self.table.T).T
            inside = open_share * tau + open_share**2 * (self.table * unknown).sum(axis=1)
            spreads[choice] = inside + np.square(spreads[choice] - mean)
        return np.asarray(self.chances[column] @ spreads)


def _prior(precision: float, size: int) -> Floats:
    """Return the prior precisions of c and a."""
    prior = np.full(size, precision)
    prior[0] = _LINEAR[0]
    return prior


def _standardised(covariates: Floats, weights: Floats) -> Floats:
    """Return covariates with weighted mean 0 and variance 1, cut at ±2."""
    shares = weights / weights.sum() if weights.sum() > 0.0 else np.full(len(weights), 1.0)
    shares = shares / shares.sum()
    centred = covariates - shares @ covariates
    spread = np.sqrt(shares @ centred**2)
    return np.asarray(np.clip(centred / np.where(spread > 0.0, spread, 1.0), -2.0, 2.0))


def eigen_features(matrix: Floats, rank: int, noise: float) -> Floats:
    """Return features from a noisy covariance: its leading eigenvectors, shrunk.

    The diagonal holds every row's own noise, which differs between items: it is replaced by what
    the leading eigenvectors say, some rounds in turn (Zhang, Cai & Wu 2022). ``noise`` is its
    standard deviation on the diagonal, 1/√2 of it elsewhere; such noise alone has eigenvalues up
    to noise·√(2p).
    """
    matrix = matrix.copy()
    np.fill_diagonal(matrix, 0.0)
    for _ in range(_DIAGONAL):
        values, vectors = np.linalg.eigh(matrix)
        order = np.argsort(-values)[:rank]
        leading = vectors[:, order]
        np.fill_diagonal(matrix, (leading**2) @ np.maximum(values[order], 0.0))
    top = max(float(values[order[0]]), 1e-12)
    # what stands out from the noise, and a little of the rest for later rounds to work on
    lengths = np.sqrt(np.maximum(values[order] - noise * np.sqrt(len(matrix)), 0.05 * top) / top)
    return np.asarray(vectors[:, order] * lengths * np.sqrt(len(matrix)))


def scaled_columns(features: Floats, size: int) -> Floats:
    """Return features with orthogonal columns, the strongest first and of typical size one.

    The squares of the first column average to one over ``size`` items.
    """
    left, lengths, _ = np.linalg.svd(features, full_matrices=False)
    return np.asarray(left * (lengths / max(float(lengths[0]), 1e-300)) * np.sqrt(size))
