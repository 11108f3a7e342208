"""How well chains mixed: R-hat, effective sample size and autocorrelation.

Sources: Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021) for rank-normalised split R-hat;
Geyer (1992) for the initial monotone sequence that cuts off the sum of autocorrelations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import MissingExtra, ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "autocorrelation",
    "autocorrelation_time",
    "effective_samples",
    "inference_data",
    "r_hat",
    "thinned",
]


def _split(chains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return each chain cut into two halves, (2·chains, draws/2)."""
    chains = np.asarray(chains, float)
    if chains.ndim != 2 or chains.shape[1] < 4:
        raise ParameterError(
            f"chains must be (chains, draws) with at least four draws, got {chains.shape}"
        )
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def _ranks_as_normals(chains: NDArray[np.float64]) -> NDArray[np.float64]:
    from scipy.special import ndtri
    from scipy.stats import rankdata

    ranks = rankdata(chains).reshape(chains.shape)
    return np.asarray(ndtri((ranks - 0.375) / (chains.size + 0.25)))


def _basic_r_hat(halves: NDArray[np.float64]) -> float:
    draws = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean()
    if within == 0.0:
        return 1.0 if np.ptp(halves.mean(axis=1)) == 0.0 else float("inf")
    between = halves.mean(axis=1).var(ddof=1)
    return float(np.sqrt((draws - 1) / draws + between / within))


def r_hat(chains: NDArray[np.float64]) -> float:
    """Return the rank-normalised split R-hat of one quantity, (chains, draws).

    The larger of the one for location and the one for spread; near 1 when chains agree.

    >>> from tacit._core.rng import generator
    >>> r_hat(generator(1).standard_normal((4, 500))) < 1.02
    True
    """
    halves = _split(chains)
    folded = np.abs(halves - np.median(halves))
    return max(_basic_r_hat(_ranks_as_normals(x)) for x in (halves, folded))


def _in_unit(chains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return draws in units of the largest: correlations do not depend on the unit."""
    largest = float(np.abs(chains).max(initial=0.0))
    return chains / largest if largest > 0.0 else chains


def _autocovariance(chains: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the autocovariances of every chain, by the fast Fourier transform.

    The scale of draws is the caller's: squares of very large ones overflow (`_in_unit`).
    """
    draws = chains.shape[1]
    size = 1 << (2 * draws - 1).bit_length()
    spectrum = np.fft.rfft(chains - chains.mean(axis=1, keepdims=True), size)
    return np.asarray(np.fft.irfft(spectrum * spectrum.conj(), size)[:, :draws] / draws)


def effective_samples(chains: NDArray[np.float64]) -> float:
    """Return the effective number of independent draws for the mean, (chains, draws).

    >>> from tacit._core.rng import generator
    >>> 1500 < effective_samples(generator(1).standard_normal((4, 500))) < 2600
    True
    """
    halves = _split(_in_unit(chains))
    draws = halves.shape[1]
    covariance = _autocovariance(halves)
    within = covariance[:, 0].mean() * draws / (draws - 1.0)
    if within == 0.0:
        return float(halves.size)
    total = within * (draws - 1.0) / draws + halves.mean(axis=1).var(ddof=1)
    rho = 1.0 - (within - covariance.mean(axis=0) * draws / (draws - 1.0)) / total
    rho[0] = 1.0
    pairs = rho[: draws - draws % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0.0)
    pairs = pairs[: negative[0]] if len(negative) else pairs
    time = -1.0 + 2.0 * np.minimum.accumulate(pairs).sum()
    return float(halves.size / max(time, 1.0 / np.log10(halves.size)))


def autocorrelation_time(chains: NDArray[np.float64]) -> float:
    """Return the integrated autocorrelation time: how many draws count as one independent one.

    >>> from tacit._core.rng import generator
    >>> 0.7 < autocorrelation_time(generator(1).standard_normal((4, 500))) < 1.4
    True
    """
    return float(np.size(chains) / effective_samples(chains))


def autocorrelation(chains: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """Return the autocorrelation at lags 0, …, ``lags``, averaged over chains."""
    covariance = _autocovariance(_in_unit(np.atleast_2d(chains))).mean(axis=0)
    return np.asarray(covariance[: lags + 1] / covariance[0])


def inference_data(posterior: dict[str, Any], **more: Any) -> Any:
    """Return draws by name, (chains, draws, …), as an ArviZ InferenceData."""
    try:
        import arviz  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        raise MissingExtra("to_arviz", "diagnostics") from None
    return arviz.from_dict(posterior=posterior, **more)


def thinned(
    draws: NDArray[np.float64], *more: NDArray[np.float64], most: int = 2_000_000
) -> tuple[NDArray[np.float64], ...]:
    """Return draws (chains, draws, …) to be kept: all, or every k-th where they are too many.

    Parameters
    ----------
    draws
        What was drawn.
    *more
        What was drawn with them, thinned alike.
    most
        How many numbers are kept of the first.

    Examples
    --------
    >>> [found.shape for found in thinned(np.zeros((2, 100, 3)), np.zeros((2, 100)), most=300)]
    [(2, 50, 3), (2, 50)]
    """
    step = max(1, -(-draws.size // most))
    return tuple(np.asarray(part)[:, ::step] for part in (draws, *more))
