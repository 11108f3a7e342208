"""AGN, AVN and DP-TPM as published: what is released of second and third moments, and how noisy.

Imtiaz & Sarwate (2017), algorithm 1, on moments that are symmetrised first (PRIVACY B3) and with
the sensitivity of the stated relation instead of √2/N. Half of ε, and half of δ, goes to the
second moment.

``"agn"``
    Gaussian noise of the classical calibration, Δ·√(2 ln(1.25/δ'))/ε', on every unique entry.
``"avn"``
    The same on the second moment, with all of δ (K-norm noise as well for δ = 0: the paper says
    that this makes AVN purely private, and it is refused where noise is longer than any moment of
    as many units); K-norm noise, density ∝ exp(−ε'‖b‖/Δ), on the D(D + 1)(D + 2)/6 unique
    entries of the third.
``"dp-tpm"``
    The noisy power method of Wang & Anandkumar (2016), algorithm 3, after the same noise on the
    second moment. K components with L starts of R steps each are n = K·L·(R + 1) releases of
    (ε' = ε/√(n(4 + ln(2/δ))), δ' = δ/2n), each with noise of ν = √(2 ln(1.25/δ'))/ε' times its
    sensitivity, which the paper changes only (`NoisyMomentsAgreement.reaches`). Neither L nor R is
    printed: 10 and 10 here. W and u are the coordinator's. Whatever they are, a value is divided
    by what one unit can move it, computed from them, so every step has sensitivity one.

    ν is the one that the source prints. ε' and δ' are not printed there: they are quoted as Wang &
    Anandkumar's, unchecked against their text. Advanced composition, √(2n ln(2/δ))·ε' +
    n·ε'·(e^ε' − 1), does not confirm them: for δ = 1e-6 it gives 1.3·ε. The noise does
    keep the claim, by the accountant, because Gaussians compose better than that.

The eigenvalues of the noisy second moment enter by their size, as in a singular value
decomposition, as published. The number of units, public in the paper, is read off the noisy second
moment: under add-remove-one an exact number would be a leak.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.rng import generator
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement, Ask, Asked, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.knorm import KNorm
from tacit.moments.agreement import MomentAgreement
from tacit.moments.numerics.power import power_method
from tacit.moments.numerics.whitening import Whitening, spread
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec

__all__ = [
    "METHODS",
    "STARTS",
    "STEPS",
    "Decomposed",
    "NoisyMomentsAgreement",
    "NoisyMomentsHolder",
    "Second",
]

METHODS = ("agn", "avn", "dp-tpm")
STARTS, STEPS = 10, 10  # of DP-TPM
LARGEST = 128  # words or features: the third moment is stored
_CLASSICAL = (
    "the classical Gaussian calibration holds for ε below one only and adds more noise than "
    "needed, and ε and δ are split between the two moments where one joint release would do"
)
CLAIMS = {
    "agn": _CLASSICAL,
    "avn": _CLASSICAL,
    "dp-tpm": _CLASSICAL + "; every step of the power method is paid for by advanced composition, "
    "which does not confirm the ε of a step",
}
_LEAST = 1e-200  # a reach below is zero: nothing is left of a value
_NOT_REACHED = "the unit that W and u are worst for would have to be the canary"


class Sums(NamedTuple):
    """Unique entries of a shard's moments, in whole numbers of a power of two."""

    entries: Any
    exponent: int


@dataclass(frozen=True)
class Second:
    """What the noisy second moment says.

    Attributes
    ----------
    moment
        M₂ times the number of units.
    count
        That number.
    mean, variance
        The sum of samples, and the variance of a coordinate that M₂ is without; of words nothing.
    """

    moment: Array
    count: float
    mean: Array
    variance: float = 0.0

    def placed(self, w: Array) -> Array:
        """Return what M₃(W, W, W) has too much: the variance times three placements of mean⊗I."""
        inside, mean = w.T @ w, w.T @ self.mean
        one = mean[:, None, None] * inside
        return np.asarray(self.variance * (one + one.transpose(1, 0, 2) + one.transpose(1, 2, 0)))


@dataclass(frozen=True)
class Decomposed:
    """What a method learned."""

    white: Whitening
    values: Array  # eigenvalues of the whitened tensor
    vectors: Array  # its eigenvectors, as rows
    second: Second


def _classical(epsilon: float, delta: float) -> float:
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


@dataclass(frozen=True)
class NoisyMomentsAgreement(Agreement):
    """The steps and the noise of a method as published; a child says of which moments.

    Parameters
    ----------
    size, rank
        D and K.
    privacy, sites
        As in `Agreement`; there is one holder.
    method
        ``"agn"``, ``"avn"`` or ``"dp-tpm"``.
    starts, iterations
        L and R of DP-TPM; of the power method, without noise, in the other two.
    units
        N, where it is public: needed by AVN with δ = 0.
    """

    family = "moments"
    cites = ("imtiaz2017", "anandkumar2014")
    what: ClassVar[str]  # the units in words
    along: ClassVar[str]  # and what moments have a row for
    shrunk: ClassVar[float] = 1.0  # what `sums` multiplies the third moment with

    size: int
    rank: int
    privacy: Privacy
    method: str = "agn"
    sites: int = 1
    starts: int | None = None
    iterations: int | None = None
    units: int | None = None

    def __post_init__(self) -> None:
        if self.size > LARGEST:
            raise ParameterError(
                f"published strategies store a third moment of {self.size}³ numbers: pass at most "
                f"{LARGEST} {self.along}, or use the certified estimator"
            )
        if self.pure:
            self._check_room()

    # -- what a child says -----------------------------------------------------------------

    @property
    @abstractmethod
    def certified(self) -> MomentAgreement:
        """What is certified of the same moments: their sensitivities; with a δ in any case."""

    @abstractmethod
    def reaches(self, w: Array, u: Array) -> tuple[float, float]:
        """Return how far one unit more or less moves M₃(W, Wu, Wu) and M₃(Wu, Wu, Wu)."""

    @abstractmethod
    def sums(self, shard: Any, name: str) -> Sums:
        """Return the ``"second"`` or the ``"third"`` moment of a shard."""

    @abstractmethod
    def read(self, matrix: Array) -> Second:
        """Return what the noisy second moment says."""

    @property
    def reach(self) -> float:
        """The share of Δ₂ that `worst_case` moves unique entries by."""
        return 1.0

    # -- what follows ----------------------------------------------------------------------

    @property
    def pure(self) -> bool:
        """Whether AVN is asked for without a δ: both moments have K-norm noise then."""
        return self.method == "avn" and self.privacy.delta == 0.0

    @property
    def with_delta(self) -> Privacy:
        """The request, with some δ: what certified moments need to be described."""
        return replace(self.privacy, delta=1e-9) if self.pure else self.privacy

    @property
    def side(self) -> int:
        """The side of the second moment."""
        return self.certified.matrix_size

    def _check_room(self) -> None:
        """Raise where pure noise would be longer than the second moment can be."""
        if self.units is None:
            raise UnboundedData(
                f"{self.what} must be given for AVN with δ = 0: pass {self.what}=…, how many "
                "there are; it is public in the paper, and the noise must be shorter than the "
                "moments"
            )
        one = 2.0 * self.certified.second_sensitivity / self.privacy.epsilon
        numbers = math.comb(self.side + 1, 2)
        if numbers * one > self.units:
            most = int((math.sqrt(1.0 + 8.0 * self.units / one) - 1.0) / 2.0)
            most -= self.side - self.size
            raise ParameterError(
                f"purely private noise on the second moment of {self.size} {self.along} is about "
                f"{numbers * one:.3g} long, and the moments of {self.units} {self.what} at most "
                f"as long as there are {self.what}: at most {max(most, 0)} {self.along} would do, "
                f"or {math.ceil(numbers * one)} {self.what}"
            )

    @property
    def runs(self) -> tuple[int, int]:
        """L and R of DP-TPM."""
        return self.starts or STARTS, self.iterations or STEPS

    @property
    def change(self) -> float:
        """How many documents' worth a neighbour moves a sum by."""
        return 2.0 if self.certified.neighbours == REPLACE else 1.0

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def mechanisms(self) -> dict[str, Gaussian | KNorm]:
        """The noise of every kind of step."""
        certified, half = self.certified, self.privacy.epsilon / 2.0
        more: dict[str, Any] = {"neighbours": certified.neighbours}
        bound, shape = certified.third_sensitivity, (math.comb(self.size + 2, 3),)
        if self.pure:
            size = (math.comb(self.side + 1, 2),)
            return {
                "second": KNorm.for_privacy(half, certified.second_sensitivity, size, **more),
                "third": KNorm.for_privacy(half, bound, shape, **more),
            }
        delta = self.privacy.delta / (1.0 if self.method == "avn" else 2.0)
        noise = _classical(half, delta)
        second = Gaussian.calibrated(
            noise, certified.second_sensitivity, (math.comb(self.side + 1, 2),), **more
        )
        if self.method == "agn":
            return {"second": second, "third": Gaussian.calibrated(noise, bound, shape, **more)}
        if self.method == "avn":
            return {"second": second, "third": KNorm.for_privacy(half, bound, shape, **more)}
        starts, iterations = self.runs
        releases = self.rank * starts * (iterations + 1)
        epsilon = half / math.sqrt(releases * (4.0 + math.log(2.0 / delta)))
        noise = _classical(epsilon, delta / (2.0 * releases))
        # values are divided by their sensitivity first, so that every step has one event
        return {
            "second": second,
            "image": Gaussian.calibrated(noise, 1.0, (self.rank,), **more),
            "value": Gaussian.calibrated(noise, 1.0, (), **more),
        }

    def _steps(self) -> tuple[Step, ...]:
        noise = self.mechanisms

        def replies(name: str) -> dict[str, ArraySpec]:
            return {name: ArraySpec(noise[name].shape, exponent=noise[name].grid.exponent)}

        second = Step("second", noise["second"], replies=replies("second"), reach=self.reach)
        if self.method != "dp-tpm":
            return second, Step("third", noise["third"], replies=replies("third"))
        asks = {
            "whitening": ArraySpec((self.size, self.rank), low=-(2.0**100), high=2.0**100),
            "direction": ArraySpec((self.rank,), low=-1.25, high=1.25),
        }
        found = [second]
        for run in self._runs():
            for name, times in (("image", self.runs[1]), ("value", 1)):
                found.append(
                    Step(
                        f"{name} {run}",
                        noise[name],
                        asks,
                        replies(name),
                        times,
                        reach=_NOT_REACHED,
                    )
                )
        return tuple(found)

    def _runs(self) -> Iterator[str]:
        """Yield the name of every start of every component."""
        for k in range(self.rank):
            yield from (f"{k}.{start}" for start in range(self.runs[0]))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of the certified release."""
        return self.certified.assumptions

    @property
    def claim(self) -> tuple[float, str]:
        """The ε that was asked for, and what the paper leaves out."""
        return self.privacy.epsilon, CLAIMS[self.method]

    @cached_property
    def charged(self) -> Privacy:
        """What the noise really gives."""
        real = epsilon_of(self.event, self.privacy.delta)
        return self.privacy.with_epsilon(max(real * 1.001, 1e-9))

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Holder:
        """Return the holder of the units."""
        return NoisyMomentsHolder(self, name, [self.certified.moments(data)], gate)

    def coordinate(self, start: Start) -> Coordinating:
        """Whiten by the noisy second moment, and decompose the third."""
        rng = generator(start.seed, "spectral")
        found = yield Ask("second")
        matrix = np.zeros((self.side, self.side))
        matrix[np.triu_indices(self.side)] = found.total["second"]
        second = self.read(matrix + np.triu(matrix, 1).T)
        eigenvalues, basis = np.linalg.eigh(second.moment)
        order = np.argsort(-np.abs(eigenvalues))[: self.rank]  # the singular values
        levels = np.abs(eigenvalues[order])
        white = Whitening(basis[:, order], levels, levels, 0.0)
        if self.method == "dp-tpm":
            values, vectors = yield from self._noisy_power(white, second, rng)
            return Decomposed(white, values, vectors, second)
        found = yield Ask("third")
        u, whole = white.basis, spread(found.total["third"], self.size) / self.shrunk
        third = np.einsum("abc,ai,bj,ck->ijk", whole, u, u, u, optimize=True) - second.placed(u)
        result = power_method(
            white.tensor(third),
            self.rank,
            rng,
            restarts=self.starts,
            iterations=self.iterations or 100,
        )
        return Decomposed(white, result.values, result.vectors, second)

    def _noisy_power(
        self, white: Whitening, second: Second, rng: np.random.Generator
    ) -> Coordinating:
        """Run the power method with noise on every step."""
        w = white.basis * white.levels**-0.5
        values, vectors = np.zeros(self.rank), np.zeros((self.rank, self.rank))
        best, known = np.full(self.rank, -math.inf), second.placed(w)
        for run in self._runs():
            k = int(run.partition(".")[0])
            u = rng.standard_normal(self.rank)
            u /= np.linalg.norm(u)
            for _ in range(self.runs[1]):
                found = yield Ask(f"image {run}", whitening=w, direction=u)
                noisy = self.change * self.reaches(w, u)[0] * found.total["image"] / self.shrunk
                noisy = noisy - known @ u @ u
                noisy -= (np.square(vectors[:k] @ u) * values[:k]) @ vectors[:k]  # released
                u = noisy / max(float(np.linalg.norm(noisy)), 1e-300)
            found = yield Ask(f"value {run}", whitening=w, direction=u)
            score = self.change * self.reaches(w, u)[1] * float(found.total["value"]) / self.shrunk
            score -= float(known @ u @ u @ u) + float(np.sum((vectors[:k] @ u) ** 3 * values[:k]))
            if score > best[k]:
                best[k], values[k], vectors[k] = score, score, u
        return values, vectors

    def worst_case(self) -> Neighbours:
        """As of the certified moments."""
        return self.certified.worst_case()


class NoisyMomentsHolder(Holder):
    """The one holder of the units."""

    agreement: NoisyMomentsAgreement

    def contribute(self, step: Step, asked: Asked, kept: Kept, shard: Any, picks: Picks) -> Any:
        """Return unique entries of a moment, or one step of the power method on the third.

        The latter is Wᵀ·M₃(I, y, y)/reach or M₃(y, y, y)/reach with y = Wu. The entries of M₃ add
        up to at most D^(3/2)·N in size, so floating point is wrong by some D^(7/2)·N·2⁻⁵³ at
        most, whatever W and u are: far less than the half of a grid step that rounding is counted
        for.
        """
        public = self.agreement
        if step.name in ("second", "third"):
            return _on_grid(public.sums(shard, step.name), step.mechanism)
        w, u = asked.arrays["whitening"], asked.arrays["direction"]
        tensor, y = self._tensor, w @ u
        one, three = (public.change * reach for reach in public.reaches(w, u))
        if step.name.startswith("image"):
            image = w.T @ np.einsum("abc,b,c->a", tensor, y, y)
            return image / one if one > _LEAST else np.zeros_like(image)
        value = float(np.einsum("abc,a,b,c->", tensor, y, y, y))
        return value / three if three > _LEAST else 0.0

    def units(self, shard: Any) -> int:
        """Return how many there are."""
        return int(shard.units)

    @cached_property
    def _tensor(self) -> Array:
        (shard,) = self.shards
        entries, exponent = self.agreement.sums(shard, "third")
        found = np.asarray(entries, np.float64)
        return np.asarray(np.ldexp(spread(found, self.agreement.size), exponent))


def _on_grid(sums: Sums, mechanism: Any) -> GridSum:
    """Round a lattice sum to a mechanism's grid, which counts it."""
    integers, shift = sums.entries, sums.exponent - mechanism.grid.exponent
    if shift >= 0:
        return GridSum(integers << shift, mechanism.grid)
    return GridSum((integers + (1 << (-shift - 1))) >> -shift, mechanism.grid)
