"""One or more examples of every mechanism: values, neighbours and the exact law.

A law is written from its definition in the literature and uses nothing of the mechanism but
its public parameters, which are repeated here as plain numbers. A new mechanism joins the
contract tests with one `Example` in `EXAMPLES`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from tacit.mechanisms.above_threshold import AboveThreshold
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.discrete_gaussian import DiscreteGaussian
from tacit.mechanisms.exponential import Exponential
from tacit.mechanisms.gaussian import Gaussian, SymmetricGaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.geometric import TwoSidedGeometric
from tacit.mechanisms.hybrid import Hybrid
from tacit.mechanisms.item_responses import ItemResponses
from tacit.mechanisms.knorm import KNorm
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.one_bit import OneBitMean
from tacit.mechanisms.piecewise import Piecewise
from tacit.mechanisms.quantiles import Quantiles
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.running_sums import RunningSums
from tacit.mechanisms.sampled import PoissonSampled
from tacit.mechanisms.sampled_fixed import SampledWithoutReplacement
from tacit.mechanisms.shuffled import Shuffled
from tacit.mechanisms.smooth_quantile import SmoothQuantile
from tacit.mechanisms.stable_histogram import StableHistogram
from tacit.mechanisms.symmetric_operator import OperatorGaussian
from tacit.mechanisms.top import NoisyTop
from tacit.privacy.events import REPLACE

Array = np.ndarray


# --- drawing many releases ------------------------------------------------------------------


def one_by_one(mechanism: Mechanism, value: Any, count: int, noise: Noise) -> Array:
    """Return ``count`` releases, drawn one after the other, as (count, numbers)."""
    drawn = [mechanism.draw(value, noise) for _ in range(count)]
    return np.array(drawn).reshape(count, -1)


def in_one_shape(mechanism: Mechanism, value: Any, count: int, noise: Noise) -> Array:
    """Draw all releases as one of a larger shape: the noise is the same for every number."""
    value = np.asarray(value)
    wide = dataclasses.replace(mechanism, shape=(count, *value.shape))
    tiled = np.broadcast_to(value, (count, *value.shape))
    return np.asarray(wide.draw(tiled, noise)).reshape(count, -1)


def in_one_crowd(mechanism: Mechanism, value: Any, count: int, noise: Noise) -> Array:
    """Draw all releases as one of more persons."""
    value = np.asarray(value)
    return np.asarray(mechanism.draw(np.tile(value, count), noise)).reshape(count, value.size)


def of_many_persons(mechanism: Mechanism, value: Any, count: int, noise: Noise) -> Array:
    """Draw all releases as the rows of more persons."""
    value = np.asarray(value)
    return np.asarray(mechanism.draw(np.tile(value, (count, 1)), noise)).reshape(count, -1)


def in_one_symmetric_array(mechanism: Any, value: Any, count: int, noise: Noise) -> Array:
    """Draw all releases as the coordinates of one larger symmetric array."""
    value = np.asarray(value)
    numbers = count * value.size
    dimension = mechanism.dimension
    while math.comb(dimension + mechanism.order - 1, mechanism.order) < numbers:
        dimension += 1
    wide = dataclasses.replace(mechanism, dimension=dimension)
    drawn = wide.draw(np.resize(value, wide.shape), noise)
    return np.asarray(drawn[:numbers].reshape(count, value.size))


def of_the_inner(mechanism: Any, value: Any, count: int, noise: Noise) -> Array:
    """Draw many releases of a sampled mechanism, given the sample."""
    wide = dataclasses.replace(
        mechanism, mechanism=dataclasses.replace(mechanism.mechanism, shape=(count,))
    )
    return np.asarray(wide.draw(np.full(count, value), noise)).reshape(count, 1)


class BlockNoise(Noise):
    """The grid source, with Laplace numbers that are drawn in blocks and handed out singly.

    For mechanisms that ask for one number per release: the same noise, a tenth of the time.
    """

    def laplace(self, count: int, scale: float) -> Array:
        """Return the next numbers of a block drawn at this scale."""
        blocks = self.__dict__.setdefault("_blocks", {})
        position, block = blocks.get(scale, (0, np.empty(0, np.int64)))
        if position + count > block.size:
            position, block = 0, super().laplace(1 << 15, scale)
        blocks[scale] = position + count, block
        return block[position : position + count]


# --- the example ----------------------------------------------------------------------------


def first_error(outputs: Array, value: Any) -> Array:
    """The error of the first number of each release."""
    return outputs[:, 0] - np.ravel(value)[0]


def first_number(outputs: Array, value: Any) -> Array:
    """The first number of each release."""
    return outputs[:, 0]


@dataclass(frozen=True)
class Example:
    """What the contract tests need to know about one mechanism.

    Parameters
    ----------
    name
        For the test's name.
    mechanism
        The mechanism; its source is ``"grid"``.
    value, neighbour
        Two inputs at the full sensitivity.
    misfits
        Inputs of a wrong public shape or type.
    nasty
        Inputs with private content that must make no visible difference.
    sample
        ``sample(mechanism, value, count, noise)`` draws many releases as (count, numbers).
    cdf, pmf
        The exact law of the first number: ``cdf(value, x)``, or ``pmf(value)`` as a mapping
        from outcomes to probabilities.
    log_density
        ``log_density(value, outputs)`` of whole releases, up to a constant that does not
        depend on the value.
    shape, kind
        Shape and dtype kind of one release.
    delta
        The δ at which the privacy is tested.
    error, estimate
        One number per release whose mean is the mechanism's ``bias``, and one whose variance
        is its ``variance``.
    draws, privacy_draws, control_draws
        How many releases the quick tests draw: for the law, for the privacy, and for catching
        a broken twin.
    sampling_rate
        Of Poisson sampling: the privacy test draws the sample, too.
    has_exact_source
        Whether the mechanism can also draw from OpenDP.
    numbers
        Turns a release that is no array into numbers.
    """

    name: str
    mechanism: Any
    value: Any
    neighbour: Any
    misfits: tuple[Any, ...]
    nasty: tuple[Any, ...]
    sample: Callable[[Any, Any, int, Noise], Array]
    log_density: Callable[[Any, Array], Array]
    cdf: Callable[[Any, Array], Array] | None = None
    pmf: Callable[[Any], Mapping[float, float]] | None = None
    shape: tuple[int, ...] = ()
    kind: str = "f"
    delta: float = 0.0
    error: Callable[[Array, Any], Array] = lambda outputs, value: (
        outputs[:, 0] - np.ravel(value)[0]
    )
    estimate: Callable[[Array, Any], Array] = lambda outputs, value: outputs[:, 0]
    draws: int = 1_000_000
    privacy_draws: int = 400_000
    control_draws: int = 200_000
    sampling_rate: float = 1.0
    has_exact_source: bool = False
    numbers: Callable[[Any], Any] = lambda released: released

    def noise(self, seed: int | None) -> Noise:
        """Return a seeded source of noise; in blocks where releases are single numbers."""
        return Noise("grid", seed=seed)


_WRONG_VECTORS = (1.0, [1.0, 2.0], [[1.0, 2.0, 3.0]], np.zeros((3, 1)), [])
_WRONG_SCALARS = ([1.0], [[1.0]], np.zeros(0), np.zeros((2, 3)))
_NASTY_NUMBERS = (math.nan, math.inf, -math.inf, 1e300, -1e308, 1.7e308, 5e-324)


# --- additive noise ---------------------------------------------------------------------------

SIGMA, LAPLACE_SCALE = 1.3, 0.7


def normal_cdf(value: Any, x: Array) -> Array:
    return stats.norm.cdf(x, np.ravel(value)[0], SIGMA)


def normal_log_density(value: Any, outputs: Array) -> Array:
    return -np.square(outputs - np.ravel(value)).sum(axis=1) / (2 * SIGMA**2)


def laplace_cdf(value: Any, x: Array) -> Array:
    return stats.laplace.cdf(x, np.ravel(value)[0], LAPLACE_SCALE)


def laplace_log_density(value: Any, outputs: Array) -> Array:
    return -np.abs(outputs - np.ravel(value)).sum(axis=1) / LAPLACE_SCALE


def geometric_pmf(epsilon: float) -> Callable[[Any], Mapping[float, float]]:
    """P(k) = (1 − α)/(1 + α)·α^|k − value|, α = exp(−ε/Δ) (PRIVACY B1)."""
    alpha = math.exp(-epsilon)

    def pmf(value: Any) -> Mapping[float, float]:
        centre = int(np.ravel(value)[0])
        reach = range(centre - 200, centre + 201)
        return {k: (1 - alpha) / (1 + alpha) * alpha ** abs(k - centre) for k in reach}

    return pmf


def geometric_log_density(epsilon: float) -> Callable[[Any, Array], Array]:
    """log α^|k − value|."""
    return lambda value, outputs: -epsilon * np.abs(outputs - np.ravel(value)).sum(axis=1)


DISCRETE_SIGMA = 1.1


def discrete_gaussian_pmf(value: Any) -> Mapping[float, float]:
    """P(k) ∝ exp(−(k − value)²/(2σ²)) (Canonne, Kamath & Steinke 2020)."""
    centre = int(np.ravel(value)[0])
    weights = {
        k: math.exp(-((k - centre) ** 2) / (2 * DISCRETE_SIGMA**2))
        for k in range(centre - 40, centre + 41)
    }
    return {k: weight / sum(weights.values()) for k, weight in weights.items()}


def discrete_gaussian_log_density(value: Any, outputs: Array) -> Array:
    return -np.square(outputs - np.ravel(value)).sum(axis=1) / (2 * DISCRETE_SIGMA**2)


def mixture_log_density(value: Any, outputs: Array) -> Array:
    """Density of a sum that holds the unit's contribution with probability ½."""
    there = stats.norm.pdf(outputs[:, 0], value, SIGMA)
    return np.log(0.5 * there + 0.5 * stats.norm.pdf(outputs[:, 0], 0.0, SIGMA))


def running_log_density(value: Any, outputs: Array) -> Array:
    """Three sums s₁, s₂, s₃ of nodes x₁, x₁ + x₂ and x₃ with a noise of their own each."""
    steps = np.asarray(value)[:, 0]
    nodes = np.column_stack([outputs[:, 0], outputs[:, 1], outputs[:, 2] - outputs[:, 1]])
    centres = np.array([steps[0], steps[0] + steps[1], steps[2]])
    return -np.square(nodes - centres).sum(axis=1) / (2 * SIGMA**2)


def in_many_columns(mechanism: Any, value: Any, count: int, noise: Noise) -> Array:
    """Draw all releases as the columns of one sequence of steps."""
    wide = dataclasses.replace(mechanism, shape=(len(value), count))
    return np.asarray(wide.draw(np.tile(value, (1, count)), noise)).T


def knorm_cdf(value: Any, x: Array) -> Array:
    """First of three numbers with density ∝ exp(−‖b‖/s).

    The length is Gamma(3, s) and the first coordinate of a uniform direction in space is uniform
    on [−1, 1] (Archimedes), so P(b₁ > t) = ¼(2 + t/s)·exp(−t/s) for t ≥ 0.
    """
    t = np.abs(x - np.ravel(value)[0]) / LAPLACE_SCALE
    tail = 0.25 * (2.0 + t) * np.exp(-t)
    return np.where(x >= np.ravel(value)[0], 1.0 - tail, tail)


def knorm_log_density(value: Any, outputs: Array) -> Array:
    return -np.linalg.norm(outputs - np.ravel(value), axis=1) / LAPLACE_SCALE


# --- local mechanisms -------------------------------------------------------------------------

LOCAL_EPSILON = 1.2


def response_pmf(value: Any) -> Mapping[float, float]:
    """Three answers; the truth with odds e^ε against any other."""
    total = math.exp(LOCAL_EPSILON) + 2
    truth = np.ravel(value)[0]
    return {k: (math.exp(LOCAL_EPSILON) if k == truth else 1.0) / total for k in range(3)}


def one_bit_pmf(value: Any) -> Mapping[float, float]:
    """±B with P(+B) = ½ + x/(2B), B = (e^ε + 1)/(e^ε − 1) (Nguyên et al. 2016)."""
    magnitude = (math.exp(LOCAL_EPSILON) + 1) / (math.exp(LOCAL_EPSILON) - 1)
    up = 0.5 + np.ravel(value)[0] / (2 * magnitude)
    return {magnitude: up, -magnitude: 1 - up}


def piecewise_pieces(x: float) -> tuple[float, float, float, float]:
    """C, the window [l, r] and its density (Wang et al. 2019, Algorithm 2)."""
    half = math.exp(LOCAL_EPSILON / 2)
    bound = (half + 1) / (half - 1)
    left = (bound + 1) / 2 * x - (bound - 1) / 2
    return bound, left, left + bound - 1, (math.exp(LOCAL_EPSILON) - half) / (2 * half + 2)


def piecewise_cdf(value: Any, x: Array) -> Array:
    bound, left, right, density = piecewise_pieces(float(np.ravel(value)[0]))
    low = density / math.exp(LOCAL_EPSILON)
    x = np.clip(x, -bound, bound)
    inside = np.clip(x, left, right) - left
    return low * (x + bound - inside) + density * inside


def piecewise_log_density(value: Any, outputs: Array) -> Array:
    _, left, right, density = piecewise_pieces(float(np.ravel(value)[0]))
    x = outputs[:, 0]
    return np.log(np.where((x >= left) & (x <= right), density, density / math.exp(LOCAL_EPSILON)))


def log_of(pmf: Callable[[Any], Mapping[float, float]]) -> Callable[[Any, Array], Array]:
    """Return the log density of a law with few outcomes (the first number of a release)."""

    def log_density(value: Any, outputs: Array) -> Array:
        table = pmf(value)
        outcomes = np.array(sorted(table))
        nearest = np.abs(outputs[:, :1] - outcomes).argmin(axis=1)
        return np.log([table[outcome] for outcome in outcomes])[nearest]

    return log_density


HYBRID_SHARE = 1 - math.exp(-LOCAL_EPSILON / 2)  # Wang et al. (2019), Lemma 3
BLUR = 1e-7  # spreads point masses, for a test that wants a continuous law


def blurred_crowd(mechanism: Mechanism, value: Any, count: int, noise: Noise) -> Array:
    """Draw all releases as one of more persons, each moved by at most `BLUR`."""
    drawn = in_one_crowd(mechanism, value, count, noise)
    return drawn + np.random.default_rng(7).uniform(-BLUR, BLUR, drawn.shape)


def hybrid_cdf(value: Any, x: Array) -> Array:
    """One bit with probability e^(−ε/2), else piecewise."""
    bits = one_bit_pmf(value)
    steps = sum(
        chance * np.clip((x - place + BLUR) / (2 * BLUR), 0, 1) for place, chance in bits.items()
    )
    return HYBRID_SHARE * piecewise_cdf(value, x) + (1 - HYBRID_SHARE) * steps


def hybrid_log_density(value: Any, outputs: Array) -> Array:
    """Of a point mass at ±B, or of the density elsewhere."""
    is_bit = np.abs(np.abs(outputs[:, 0]) - max(one_bit_pmf(value))) < 2 * BLUR
    return np.where(
        is_bit, log_of(one_bit_pmf)(value, outputs), piecewise_log_density(value, outputs)
    )


def ups(value: Any) -> Array:
    """How likely each person of a shuffled crowd says +B."""
    return np.array([one_bit_pmf(x)[max(one_bit_pmf(x))] for x in np.asarray(value)[:, 0]])


def crowd_pmf(value: Any) -> Mapping[float, float]:
    """The first message is anybody's."""
    magnitude = max(one_bit_pmf(0.0))
    up = float(ups(value).mean())
    return {magnitude: up, -magnitude: 1 - up}


def crowd_log_density(value: Any, outputs: Array) -> Array:
    """How many of three say +B; their order says nothing."""
    law = np.ones(1)
    for up in ups(value):
        law = np.convolve(law, [1 - up, up])
    return np.log(law)[(outputs[:, ::2] > 0).sum(axis=1)]


RESPONSES = ItemResponses(LOCAL_EPSILON, 1, 2.0, 1.0, 1, 1)


def bit_pmf(value: Any) -> Mapping[float, float]:
    """A bit and its opposite, with odds e^ε."""
    truth = float(np.ravel(value)[0])
    keep = math.exp(LOCAL_EPSILON) / (math.exp(LOCAL_EPSILON) + 1)
    return {truth: keep, 1.0 - truth: 1 - keep}


def responses_log_density(value: Any, outputs: Array) -> Array:
    far = np.abs(outputs[:, 1] - np.ravel(value)[1])
    return log_of(bit_pmf)(value, outputs) - far / RESPONSES.scale


# --- selection and smooth sensitivity -----------------------------------------------------------

CHOICE_EPSILON = 2.0


def choice_pmf(value: Any) -> Mapping[float, float]:
    """P(i) ∝ exp(ε·u_i/2), sensitivity one (McSherry & Talwar 2007)."""
    weights = np.exp(CHOICE_EPSILON * np.asarray(value) / 2)
    return dict(enumerate(weights / weights.sum()))


TOP_EPSILON = 2.0


def top_pmf(value: Any) -> Mapping[float, float]:
    """The first of two choices at ε/2 each, sensitivity one (Durfee & Rogers 2019)."""
    weights = np.exp(TOP_EPSILON * np.asarray(value, float) / 4)
    return dict(enumerate(weights / weights.sum()))


def top_log_density(value: Any, outputs: Array) -> Array:
    """Two choices at ε/2 each, the second among those that are left."""
    weights = np.exp(TOP_EPSILON * np.asarray(value, float) / 4)
    first, second = weights[outputs[:, 0]], weights[outputs[:, 1]]
    return np.log(first / weights.sum()) + np.log(second / (weights.sum() - first))


SEARCH_EPSILON, SEARCH_THRESHOLD = 3.0, 1


def search_pmf(value: Any) -> Mapping[float, float]:
    """Dwork & Roth (2014), Algorithm 1, by summing over the noise of the threshold."""
    coarse, fine = math.exp(-SEARCH_EPSILON / 2), math.exp(-SEARCH_EPSILON / 4)
    noise = np.arange(-200, 201)
    law = fine ** np.abs(noise) * (1 - fine) / (1 + fine)
    found = dict.fromkeys(range(len(value) + 1), 0.0)
    for move in range(-60, 61):
        chance = coarse ** abs(move) * (1 - coarse) / (1 + coarse)
        for k, answer in enumerate(value):
            above = law[answer + noise >= SEARCH_THRESHOLD + move].sum()
            found[k] += chance * above
            chance *= 1 - above
        found[len(value)] += chance
    return found


# ε = 2 over two keys: noise of ratio 1/e; 2·e^(1 − T)/(1 + 1/e) ≤ 0.02 from T = 6 on
KEYS = StableHistogram(2.0, 0.02, 2)
KEYS_THRESHOLD = 6


def key_law(count: int) -> Mapping[float, float]:
    """What leaves of a key that some units have: the noisy count, or 0 below the threshold."""
    ratio = math.exp(-1.0)
    law = {0.0: 0.0} | dict.fromkeys(range(KEYS_THRESHOLD, count + 60), 0.0)
    for move in range(-60 - count, 60):
        left = count + move if count + move >= KEYS_THRESHOLD else 0
        law[left] += ratio ** abs(move) * (1 - ratio) / (1 + ratio)
    return law


def units_with(value: Any, key: str) -> int:
    return sum(key in unit for unit in value)


def keys_log_density(value: Any, outputs: Array) -> Array:
    """Keys are independent given the data."""
    laws = [key_law(units_with(value, key)) for key in ("a", "b")]
    # an outcome outside of the law, which a broken twin may have, counts as 0
    chances = [[law.get(x, law[0]) for law, x in zip(laws, row, strict=True)] for row in outputs]
    return np.log(chances).sum(axis=1)


def both_keys(released: Mapping[str, int]) -> Array:
    return np.array([released.get("a", 0), released.get("b", 0)])


def key_by_key(mechanism: Any, value: Any, count: int, noise: Noise) -> Array:
    return np.array([both_keys(mechanism.draw(value, noise)) for _ in range(count)])


SMOOTH_EPSILON, SMOOTH_DELTA = 3.0, 0.01


def maximum_and_scale(value: Any) -> tuple[float, float]:
    """The maximum of data in [0, 1] and its noise scale 2·S_β/ε, by brute force (PRIVACY B4)."""
    beta = SMOOTH_EPSILON / (2 * math.log(2 / SMOOTH_DELTA))
    padded = [0.0, *sorted(value), 1.0]
    rank = len(value)
    smooth = max(
        math.exp(-beta * (j - i - 1)) * (padded[j] - padded[i])
        for i in range(rank + 1)
        for j in range(max(rank, i + 1), rank + 2)
    )
    return max(value), 2 * smooth / SMOOTH_EPSILON


def smooth_cdf(value: Any, x: Array) -> Array:
    return stats.laplace.cdf(x, *maximum_and_scale(value))


def smooth_log_density(value: Any, outputs: Array) -> Array:
    return stats.laplace.logpdf(outputs[:, 0], *maximum_and_scale(value))


class SmoothExample(Example):
    """Releases are single numbers: draw their noise in blocks."""

    def noise(self, seed: int | None) -> Noise:
        """Return a source that draws in blocks."""
        return BlockNoise("grid", seed=seed)


# --- quantiles -------------------------------------------------------------------------------

QUANTILE_EPSILON = 2.0


def quantile_log_density(
    points: Any, outputs: Array, low: Any, high: Any, q: float, rate: float
) -> Array:
    """Density ∝ exp(−rate·|C(v) − q·n|) on [low, high), of the points that lie there.

    (Smith 2011.) ``outputs``, ``low`` and ``high`` hold one number per release.
    """
    points = np.sort(np.asarray(points, float))
    inside = (points >= low[:, None]) & (points < high[:, None])
    before = (points < low[:, None]).sum(axis=1)
    target = q * inside.sum(axis=1)
    edges = np.clip(points, low[:, None], high[:, None])
    widths = np.diff(np.column_stack([low, edges, high]), axis=1)
    counts = np.arange(points.size + 1) - before[:, None]
    total = (widths * np.exp(-rate * np.abs(counts - target[:, None]))).sum(axis=1)
    below = ((points < outputs[:, None]) & inside).sum(axis=1)
    return -rate * np.abs(below - target) - np.log(total)


def median_log_density(value: Any, outputs: Array) -> Array:
    """Add-remove: |C − n/2| moves by ½ up and ½ down, so the rate is ε."""
    ends = np.zeros(len(outputs)), np.ones(len(outputs))
    return quantile_log_density(value, outputs[:, 0], *ends, 0.5, QUANTILE_EPSILON)


def median_cdf(value: Any, x: Array) -> Array:
    """The integral of a density that is constant between values."""
    knots = np.unique(np.r_[0.0, value, 1.0])
    middles = (knots[1:] + knots[:-1]) / 2
    mass = np.diff(knots) * np.exp(median_log_density(value, middles[:, None]))
    return np.interp(x, knots, np.r_[0.0, np.cumsum(mass)])


def quartiles_log_density(value: Any, outputs: Array) -> Array:
    """The median, then the median of what lies below, ε/2 each (Kaplan et al. 2022)."""
    zero, one = np.zeros(len(outputs)), np.ones(len(outputs))
    rate = QUANTILE_EPSILON / 2
    first, second = outputs.T
    return quantile_log_density(value, second, zero, one, 0.5, rate) + quantile_log_density(
        value, first, zero, second, 0.5, rate
    )


def lower_quartile_cdf(value: Any, x: Array) -> Array:
    """Of the first of two, over 4,000 places where the second may lie."""
    knots = np.unique(np.r_[0.0, value, 1.0])
    share = (np.arange(4_000 // (knots.size - 1)) + 0.5) / (4_000 // (knots.size - 1))
    second = (knots[:-1, None] + np.diff(knots)[:, None] * share).ravel()
    weight = np.repeat(np.diff(knots), share.size)
    zero, one, rate = np.zeros(second.size), np.ones(second.size), QUANTILE_EPSILON / 2
    weight = weight * np.exp(quantile_log_density(value, second, zero, one, 0.5, rate))
    at = np.linspace(0.0, 1.0, 801)
    density = [
        np.where(y < second, np.exp(quantile_log_density(
            value, np.full(second.size, y), zero, second, 0.5, rate)), 0.0) @ weight
        for y in (at[1:] + at[:-1]) / 2
    ]  # fmt: skip
    reached = np.r_[0.0, np.cumsum(density)]
    return np.interp(x, at, reached / reached[-1])


# --- all of them --------------------------------------------------------------------------------

_PEOPLE = np.array([0, 2, 1, 0, 2])

EXAMPLES: tuple[Example, ...] = (
    Example(
        "gaussian",
        Gaussian(SIGMA, 1.0),
        value=2.25,
        neighbour=3.25,
        misfits=_WRONG_SCALARS,
        nasty=_NASTY_NUMBERS,
        sample=in_one_shape,
        cdf=normal_cdf,
        log_density=normal_log_density,
        delta=1e-2,
        has_exact_source=True,
    ),
    Example(
        "gaussian-vector",
        Gaussian(SIGMA, 1.0, (3,), REPLACE),
        value=np.array([0.5, -1.0, 4.0]),
        neighbour=np.array([0.5 + 0.6, -1.0, 4.0 - 0.8]),
        misfits=_WRONG_VECTORS,
        nasty=tuple(np.array([1.0, bad, 2.0]) for bad in _NASTY_NUMBERS),
        sample=in_one_shape,
        cdf=normal_cdf,
        log_density=normal_log_density,
        shape=(3,),
        delta=1e-3,
        draws=400_000,
        privacy_draws=300_000,
    ),
    Example(
        "laplace",
        Laplace(LAPLACE_SCALE, 1.0),
        value=-1.5,
        neighbour=-0.5,
        misfits=_WRONG_SCALARS,
        nasty=_NASTY_NUMBERS,
        sample=in_one_shape,
        cdf=laplace_cdf,
        log_density=laplace_log_density,
        has_exact_source=True,
    ),
    Example(
        "laplace-vector",
        Laplace(LAPLACE_SCALE, 1.0, (3,)),
        value=np.array([0.25, 1.0, -2.0]),
        neighbour=np.array([0.5, 1.25, -1.5]),
        misfits=_WRONG_VECTORS,
        nasty=tuple(np.array([1.0, bad, 2.0]) for bad in _NASTY_NUMBERS),
        sample=in_one_shape,
        cdf=laplace_cdf,
        log_density=laplace_log_density,
        shape=(3,),
        draws=400_000,
        privacy_draws=300_000,
    ),
    Example(
        "running-sums",
        RunningSums(SIGMA, 1.0, (3, 1)),
        value=np.array([[2.25], [-1.0], [0.5]]),
        neighbour=np.array([[3.25], [-1.0], [0.5]]),
        misfits=(*_WRONG_SCALARS, [1.0, 2.0, 3.0], np.zeros((1, 3))),
        nasty=tuple(np.array([[1.0], [bad], [2.0]]) for bad in _NASTY_NUMBERS),
        sample=in_many_columns,
        cdf=normal_cdf,
        log_density=running_log_density,
        shape=(3, 1),
        delta=1e-2,
        draws=400_000,
        privacy_draws=300_000,
    ),
    Example(
        "two-sided-geometric",
        TwoSidedGeometric(1.5, 3),
        value=7,
        neighbour=10,
        misfits=(*_WRONG_SCALARS, 7.0, "7", [7]),
        nasty=(2**62, -(2**63), 2**63 - 1, 0),
        sample=in_one_shape,
        pmf=geometric_pmf(1.5 / 3),
        log_density=geometric_log_density(1.5 / 3),
        kind="i",
        has_exact_source=True,
    ),
    Example(
        "discrete-gaussian",
        DiscreteGaussian(DISCRETE_SIGMA, 2),
        value=7,
        neighbour=9,
        misfits=(*_WRONG_SCALARS, 7.0, "7", [7]),
        nasty=(2**62, -(2**63), 2**63 - 1, 0),
        sample=in_one_shape,
        pmf=discrete_gaussian_pmf,
        log_density=discrete_gaussian_log_density,
        kind="i",
        delta=1e-2,
        draws=400_000,
        has_exact_source=True,
    ),
    Example(
        "discrete-gaussian-histogram",
        DiscreteGaussian(DISCRETE_SIGMA, 1, 2, (3,)),
        value=np.array([4, 0, 9]),
        neighbour=np.array([3, 1, 9]),
        misfits=(*_WRONG_VECTORS, np.zeros(3)),
        nasty=(np.array([2**62, -(2**63), 2**63 - 1]),),
        sample=in_one_shape,
        pmf=discrete_gaussian_pmf,
        log_density=discrete_gaussian_log_density,
        shape=(3,),
        kind="i",
        delta=1e-2,
        draws=200_000,
        privacy_draws=200_000,
    ),
    Example(
        "symmetric-matrix",
        SymmetricGaussian(SIGMA, 1.0, order=2, dimension=2),
        value=np.array([1.0, -0.5, 2.0]),
        neighbour=np.array([1.0 + 0.6, -0.5, 2.0 - 0.8]),
        misfits=(*_WRONG_VECTORS, np.zeros((2, 2))),
        nasty=tuple(np.array([1.0, bad, 2.0]) for bad in _NASTY_NUMBERS),
        sample=in_one_symmetric_array,
        cdf=normal_cdf,
        log_density=normal_log_density,
        shape=(3,),
        delta=1e-2,
        draws=340_000,
        privacy_draws=300_000,
    ),
    Example(
        "symmetric-tensor",
        SymmetricGaussian(SIGMA, 1.0, order=3, dimension=1),
        value=np.array([1.0]),
        neighbour=np.array([0.0]),
        misfits=(1.0, [1.0, 2.0], np.zeros((1, 1, 1))),
        nasty=tuple(np.array([bad]) for bad in _NASTY_NUMBERS),
        sample=in_one_symmetric_array,
        cdf=normal_cdf,
        log_density=normal_log_density,
        shape=(1,),
        delta=1e-2,
    ),
    Example(
        "gaussian-share",
        GaussianShare(SIGMA, 1.0),
        value=1.0,
        neighbour=0.0,
        misfits=_WRONG_SCALARS,
        nasty=_NASTY_NUMBERS,
        sample=in_one_shape,
        cdf=normal_cdf,
        log_density=normal_log_density,
        delta=1e-2,
    ),
    Example(
        "symmetric-operator",
        OperatorGaussian(SIGMA, 1.0, (1, 1)),
        value=np.array([[1.0]]),
        neighbour=np.array([[0.0]]),
        misfits=(1.0, [1.0], np.zeros((2, 2)), np.zeros((1, 1, 1))),
        nasty=tuple(np.array([[bad]]) for bad in _NASTY_NUMBERS),
        sample=one_by_one,
        cdf=normal_cdf,
        log_density=normal_log_density,
        shape=(1, 1),
        delta=1e-2,
        draws=4_000,
        privacy_draws=4_000,
        control_draws=4_000,
    ),
    Example(
        "poisson-sampled",
        PoissonSampled(Gaussian(SIGMA, 1.0), 0.5),
        value=1.0,
        neighbour=0.0,
        misfits=_WRONG_SCALARS,
        nasty=_NASTY_NUMBERS,
        sample=of_the_inner,
        cdf=normal_cdf,
        log_density=mixture_log_density,
        delta=1e-2,
        sampling_rate=0.5,
    ),
    Example(
        "sampled-without-replacement",  # one of two units, which has the value or 0
        SampledWithoutReplacement(Gaussian(SIGMA, 1.0, neighbours=REPLACE), 2, 1),
        value=1.0,
        neighbour=0.0,
        misfits=_WRONG_SCALARS,
        nasty=_NASTY_NUMBERS,
        sample=of_the_inner,
        cdf=normal_cdf,
        log_density=mixture_log_density,
        delta=1e-2,
        sampling_rate=0.5,
    ),
    Example(
        "k-norm",
        KNorm(LAPLACE_SCALE, 1.0, (3,)),
        value=np.array([0.0, 1.0, -1.0]),
        neighbour=np.array([1.0, 1.0, -1.0]),
        misfits=_WRONG_VECTORS,
        nasty=tuple(np.array([1.0, bad, 2.0]) for bad in _NASTY_NUMBERS),
        sample=one_by_one,
        cdf=knorm_cdf,
        log_density=knorm_log_density,
        shape=(3,),
        draws=5_000,
        privacy_draws=5_000,
        control_draws=2_000,
    ),
    Example(
        "randomized-response",
        RandomizedResponse(LOCAL_EPSILON, 3),
        value=_PEOPLE,
        neighbour=np.array([1, 2, 1, 0, 2]),
        misfits=(0, [[0, 1]], [0.0, 1.0], ["a"]),
        nasty=(
            np.array([0, -1, 3, 2**62, -(2**63)]),
            np.array([2**64 - 1, 0, 1, 2, 1], np.uint64),
        ),
        sample=in_one_crowd,
        pmf=response_pmf,
        log_density=log_of(response_pmf),
        shape=(5,),
        kind="i",
        error=lambda outputs, value: (outputs == 0).mean(axis=1) - np.mean(np.asarray(value) == 0),
        # the raw share divided by 1 − p, which is what `frequencies` does to it
        estimate=lambda outputs, value: (
            (outputs == 0).mean(axis=1)
            * (math.exp(LOCAL_EPSILON) + 2)
            / (math.exp(LOCAL_EPSILON) - 1)
        ),
    ),
    Example(
        "one-bit-mean",
        OneBitMean(LOCAL_EPSILON),
        value=np.array([1.0, -0.25]),
        neighbour=np.array([-1.0, -0.25]),
        misfits=(1.0, [[1.0]], np.zeros((2, 1))),
        nasty=tuple(np.array([0.0, bad]) for bad in _NASTY_NUMBERS),
        sample=in_one_crowd,
        pmf=one_bit_pmf,
        log_density=log_of(one_bit_pmf),
        shape=(2,),
    ),
    Example(
        "one-bit-mean-inside",
        OneBitMean(LOCAL_EPSILON),
        value=np.array([0.3]),
        neighbour=np.array([-1.0]),
        misfits=(1.0,),
        nasty=(np.array([math.nan]),),
        sample=in_one_crowd,
        pmf=one_bit_pmf,
        log_density=log_of(one_bit_pmf),
        shape=(1,),
    ),
    Example(
        "piecewise",
        Piecewise(LOCAL_EPSILON),
        value=np.array([0.4]),
        neighbour=np.array([-1.0]),
        misfits=(1.0, [[1.0]], np.zeros((2, 1))),
        nasty=tuple(np.array([bad]) for bad in _NASTY_NUMBERS),
        sample=in_one_crowd,
        cdf=piecewise_cdf,
        log_density=piecewise_log_density,
        shape=(1,),
    ),
    Example(
        "hybrid",
        Hybrid(LOCAL_EPSILON),
        value=np.array([0.4]),
        neighbour=np.array([-1.0]),
        misfits=(1.0, [[1.0]], np.zeros((2, 1))),
        nasty=tuple(np.array([bad]) for bad in _NASTY_NUMBERS),
        sample=blurred_crowd,
        cdf=hybrid_cdf,
        log_density=hybrid_log_density,
        shape=(1,),
    ),
    Example(
        "shuffled",
        Shuffled(OneBitMean(LOCAL_EPSILON), 3),
        value=np.array([[1.0, 7.0], [-1.0, 7.0], [-1.0, 7.0]]),
        neighbour=np.array([[-1.0, 7.0]] * 3),
        misfits=(1.0, np.zeros(3), np.zeros((3, 1)), np.zeros((2, 2))),
        nasty=tuple(np.array([[bad, 7.0]] * 3) for bad in _NASTY_NUMBERS),
        sample=one_by_one,
        pmf=crowd_pmf,
        log_density=crowd_log_density,
        shape=(3, 2),
        delta=0.01,
        error=lambda outputs, value: outputs[:, ::2].mean(axis=1) - np.asarray(value)[:, 0].mean(),
        estimate=lambda outputs, value: outputs[:, ::2].mean(axis=1),
        draws=20_000,
        privacy_draws=20_000,
        control_draws=20_000,
    ),
    Example(
        "item-responses",
        RESPONSES,
        value=np.array([[1.0, 0.5]]),
        neighbour=np.array([[0.0, -0.5]]),
        misfits=(1.0, np.zeros(2), np.zeros((1, 3))),
        nasty=tuple(np.array([[bad, bad]]) for bad in _NASTY_NUMBERS),
        sample=of_many_persons,
        pmf=bit_pmf,
        log_density=responses_log_density,
        shape=(1, 2),
    ),
    Example(
        "exponential",
        Exponential(CHOICE_EPSILON, 1.0, 3),
        value=np.array([0.0, 1.0, 1.0]),
        neighbour=np.array([1.0, 0.0, 0.0]),
        misfits=(1.0, [1.0, 2.0], np.zeros(4), np.zeros((1, 3))),
        nasty=(
            *(np.array([1.0, bad, 2.0]) for bad in _NASTY_NUMBERS),
            np.full(3, math.nan),
            np.full(3, math.inf),
        ),
        sample=one_by_one,
        pmf=choice_pmf,
        log_density=log_of(choice_pmf),
        kind="i",
        error=lambda outputs, value: np.asarray(value)[outputs[:, 0]] - np.max(value),
        estimate=lambda outputs, value: np.asarray(value)[outputs[:, 0]],
        draws=5_000,
        privacy_draws=5_000,
        control_draws=4_000,
    ),
    Example(
        "top-two",
        NoisyTop(TOP_EPSILON, 1.0, 8, 2),
        value=np.array([1.0, 1.0, *[0.0] * 6]),
        neighbour=np.array([0.0, 0.0, *[1.0] * 6]),
        misfits=(1.0, [1.0, 2.0], np.zeros(9), np.zeros((1, 8))),
        nasty=(
            *(np.array([1.0, bad, *[2.0] * 6]) for bad in _NASTY_NUMBERS),
            np.full(8, math.nan),
            np.full(8, math.inf),
        ),
        sample=one_by_one,
        pmf=top_pmf,
        log_density=top_log_density,
        shape=(2,),
        kind="i",
        error=lambda outputs, value: np.asarray(value)[outputs[:, 0]] - np.max(value),
        estimate=lambda outputs, value: np.asarray(value)[outputs[:, 0]],
        draws=5_000,
        privacy_draws=5_000,
        control_draws=10_000,
    ),
    Example(
        "above-threshold",
        AboveThreshold(SEARCH_EPSILON, SEARCH_THRESHOLD, 6),
        value=np.array([0, 0, 0, 0, 0, 1]),
        neighbour=np.array([1, 1, 1, 1, 1, 0]),
        misfits=(1, np.zeros(6), np.zeros(3, int), np.zeros((1, 6), int)),
        nasty=(np.array([2**62, 0, -(2**62), 1, 0, 0]), np.zeros(6, int)),
        sample=one_by_one,
        pmf=search_pmf,
        log_density=log_of(search_pmf),
        kind="i",
        error=lambda outputs, value: outputs[:, 0] - np.argmax(np.asarray(value) >= 1),
        draws=8_000,
        privacy_draws=8_000,
        control_draws=8_000,
        has_exact_source=True,
    ),
    Example(
        "stable-histogram",
        KEYS,
        value=[("a", "b")] * 7,
        neighbour=[("a", "b")] * 6,
        misfits=(1, "ab", {"a": 3}, np.zeros(3)),
        nasty=([], [None, math.nan, ("a", "b", "c"), {"d", 3}, [[]], True], [2**70, -1, ""]),
        sample=key_by_key,
        pmf=lambda value: key_law(units_with(value, "a")),
        log_density=keys_log_density,
        shape=(2,),
        kind="i",
        delta=0.02,
        error=lambda outputs, value: outputs[:, 0] - len(value),
        draws=8_000,
        privacy_draws=8_000,
        control_draws=8_000,
        has_exact_source=True,
        numbers=both_keys,
    ),
    SmoothExample(
        "smooth-quantile",
        SmoothQuantile(SMOOTH_EPSILON, SMOOTH_DELTA, (0.0, 1.0), 5, quantile=1.0, source="grid"),
        value=np.array([0.7, 0.7, 0.3, 1.0, 0.2]),
        neighbour=np.array([0.7, 0.7, 0.3, 0.5, 0.2]),
        misfits=(1.0, [0.1] * 4, np.zeros((5, 1)), []),
        nasty=tuple(np.array([0.7, 0.7, 0.3, bad, 0.2]) for bad in _NASTY_NUMBERS),
        sample=one_by_one,
        cdf=smooth_cdf,
        log_density=smooth_log_density,
        error=lambda outputs, value: outputs[:, 0] - np.max(value),
        delta=SMOOTH_DELTA,
        draws=15_000,
        privacy_draws=20_000,
        control_draws=400_000,
        has_exact_source=True,
    ),
    Example(
        "median",
        Quantiles(QUANTILE_EPSILON, (0.0, 1.0)),
        value=np.array([0.3, 0.3]),
        neighbour=np.array([0.3, 0.9999, 0.3]),
        misfits=(1.0, np.zeros((2, 1)), np.zeros((1, 2, 1))),
        nasty=(*(np.array([0.2, bad]) for bad in _NASTY_NUMBERS), np.zeros(0)),
        sample=one_by_one,
        cdf=median_cdf,
        log_density=median_log_density,
        shape=(1,),
        error=lambda outputs, value: outputs[:, 0] - np.median(value),
        draws=8_000,
        privacy_draws=8_000,
        control_draws=10_000,
    ),
    Example(
        "quartiles",
        Quantiles(QUANTILE_EPSILON, (0.0, 1.0), (0.25, 0.5)),
        value=np.array([0.5, 0.5]),
        neighbour=np.array([0.0001, 0.5, 0.5]),
        misfits=(1.0, np.zeros((2, 1)), np.zeros((1, 2, 1))),
        nasty=(*(np.array([0.2, bad]) for bad in _NASTY_NUMBERS), np.zeros(0)),
        sample=one_by_one,
        cdf=lower_quartile_cdf,
        log_density=quartiles_log_density,
        shape=(2,),
        error=lambda outputs, value: outputs[:, 0] - np.quantile(value, 0.25),
        draws=4_000,
        privacy_draws=6_000,
        control_draws=10_000,
    ),
)
