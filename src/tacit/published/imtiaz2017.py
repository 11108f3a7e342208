"""AGN, AVN and DP-TPM as published, to reproduce tables; the certificate says what they give.

Imtiaz & Sarwate (2017), algorithm 1, on moments that are symmetrised first (PRIVACY B3) and with
the sensitivity of the stated relation instead of √2/N. Half of ε, and half of δ, goes to the
second moment.

``"agn"``
    Gaussian noise of the classical calibration, Δ·√(2 ln(1.25/δ'))/ε', on every unique entry.
``"avn"``
    The same on the second moment, with all of δ (K-norm noise as well for δ = 0: the paper says
    that this makes AVN purely private, and it is refused where noise is longer than any moment of
    as many documents); K-norm noise, density ∝ exp(−ε'‖b‖/Δ), on the
    D(D + 1)(D + 2)/6 unique entries of the third.
``"dp-tpm"``
    The noisy power method of Wang & Anandkumar (2016), algorithm 3, after the same noise on the
    second moment. K components with L starts of R steps each are n = K·L·(R + 1) releases of
    (ε' = ε/√(n(4 + ln(2/δ))), δ' = δ/2n), each with noise of ν = √(2 ln(1.25/δ'))/ε' times its
    sensitivity. The paper changes only the latter, for an average over documents: 2‖u‖∞² for
    T(I, u, u) and 2‖u‖∞³ for T(u, u, u) under replace-one, where whitening is not needed. With
    a whitening W, a document moves WᵀM₃(I, Wu, Wu) by at most the longest row of W times
    ‖Wu‖∞², which is that for W = I; one more or less moves it by half. Neither L nor R is
    printed: 10 and 10 here.
    W and u are the coordinator's. Whatever they are, a value is divided by what one document can
    move it, computed from them, so every step has sensitivity one.

    ν is the one that the source prints. ε' and δ' are not printed there: they are quoted as Wang &
    Anandkumar's, unchecked against their text. Advanced composition, √(2n ln(2/δ))·ε' +
    n·ε'·(e^ε' − 1), does not confirm them: for δ = 1e-6 it gives 1.3·ε. The noise does
    keep the claim, by the accountant, because Gaussians compose better than that.

The eigenvalues of the noisy second moment enter by their size, as in a singular value
decomposition, and negative word probabilities are set to zero, both as published. The number of
documents, public in the paper, is read off the noisy second moment: under add-remove-one an exact
number would be a leak.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, Integer, OneOf
from tacit._core.rng import generator
from tacit.data.documents import Documents
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement, Ask, Asked, Coordinating, Neighbours, Start, Step
from tacit.estimators.base import PAID
from tacit.estimators.fit import Outcome
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.knorm import KNorm
from tacit.moments.agreement import TopicAgreement
from tacit.moments.numerics.power import power_method
from tacit.moments.numerics.sums import DocumentMoments
from tacit.moments.numerics.whitening import Whitening, as_weights, spread
from tacit.moments.signal import check_delta
from tacit.moments.topics import SingleTopicModel
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.published.constructor import constructor
from tacit.rounds.messages import ArraySpec

__all__ = ["METHODS", "NoisyTopics", "NoisyTopicsAgreement", "NoisyTopicsHolder", "reaches"]

METHODS = ("agn", "avn", "dp-tpm")
STARTS, STEPS = 10, 10  # of DP-TPM
LARGEST = 128  # words: the third moment is stored
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
_NOT_REACHED = "the longest row of W and the largest entry of Wu would have to be the canary's"


@dataclass(frozen=True)
class Decomposed:
    """What a method learned."""

    white: Whitening
    values: Array  # eigenvalues of the whitened tensor
    vectors: Array  # its eigenvectors, as rows
    count: float  # the noisy number of documents


def _classical(epsilon: float, delta: float) -> float:
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def reaches(w: Array, u: Array) -> tuple[float, float]:
    """Return how far one document more or less moves M₃(W, Wu, Wu) and M₃(Wu, Wu, Wu).

    M₃(d) has no negative entry and adds up to one: the first is an average of rows of W times two
    entries of Wu, the second one of products of three entries of Wu.
    """
    largest = float(np.abs(w @ u).max())
    return float(np.linalg.norm(w, axis=1).max()) * largest**2, largest**3


@dataclass(frozen=True)
class NoisyTopicsAgreement(Agreement):
    """The steps and the noise of a method as published.

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
    documents
        N, where it is public: needed by AVN with δ = 0.

    Examples
    --------
    >>> agreement = NoisyTopicsAgreement(4, 2, Privacy(0.5, 1e-5, unit="document"))
    >>> [step.name for step in agreement.steps]
    ['second', 'third']
    """

    family = "moments"
    cites = ("imtiaz2017", "anandkumar2014")

    size: int
    rank: int
    privacy: Privacy
    method: str = "agn"
    sites: int = 1
    starts: int | None = None
    iterations: int | None = None
    documents: int | None = None

    def __post_init__(self) -> None:
        if self.size > LARGEST:
            raise ParameterError(
                f"published strategies store a third moment of {self.size}³ numbers: pass at most "
                f"{LARGEST} words, or use SingleTopicModel"
            )
        if self.pure:
            self._check_room()

    @property
    def pure(self) -> bool:
        """Whether AVN is asked for without a δ: both moments have K-norm noise then."""
        return self.method == "avn" and self.privacy.delta == 0.0

    def _check_room(self) -> None:
        """Raise where pure noise would be longer than the second moment can be."""
        if self.documents is None:
            raise UnboundedData(
                "documents must be given for AVN with δ = 0: pass documents=…, how many there "
                "are; it is public in the paper, and the noise must be shorter than the moments"
            )
        one = 2.0 * self.certified.second_sensitivity / self.privacy.epsilon
        numbers = math.comb(self.size + 1, 2)
        if numbers * one > self.documents:
            most = int((math.sqrt(1.0 + 8.0 * self.documents / one) - 1.0) / 2.0)
            raise ParameterError(
                f"purely private noise on the second moment of {self.size} words is about "
                f"{numbers * one:.3g} long, and the moments of {self.documents} documents at most "
                f"as long as there are documents: at most {most} words would do, or "
                f"{math.ceil(numbers * one)} documents"
            )

    @cached_property
    def certified(self) -> TopicAgreement:
        """What is certified of the same moments: their sensitivities."""
        privacy = replace(self.privacy, delta=1e-9) if self.pure else self.privacy
        return TopicAgreement(self.size, self.rank, privacy, self.sites)

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
            size = (math.comb(self.size + 1, 2),)
            return {
                "second": KNorm.for_privacy(half, certified.second_sensitivity, size, **more),
                "third": KNorm.for_privacy(half, bound, shape, **more),
            }
        delta = self.privacy.delta / (1.0 if self.method == "avn" else 2.0)
        noise = _classical(half, delta)
        second = Gaussian.calibrated(
            noise, certified.second_sensitivity, (math.comb(self.size + 1, 2),), **more
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

        second = Step("second", noise["second"], replies=replies("second"))
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

    def holder(self, name: str, data: Documents, gate: Gate, seed: int | None) -> Holder:
        """Return the holder of the documents."""
        return NoisyTopicsHolder(self, name, [DocumentMoments(data)], gate)

    def coordinate(self, start: Start) -> Coordinating:
        """Whiten by the noisy second moment, and decompose the third."""
        size, rng = self.size, generator(start.seed, "spectral")
        found = yield Ask("second")
        matrix = np.zeros((size, size))
        matrix[np.triu_indices(size)] = found.total["second"]
        matrix = matrix + np.triu(matrix, 1).T
        count = max(float(matrix.sum()), 0.0)
        eigenvalues, basis = np.linalg.eigh(matrix)
        order = np.argsort(-np.abs(eigenvalues))[: self.rank]  # the singular values
        levels = np.abs(eigenvalues[order])
        white = Whitening(basis[:, order], levels, levels, 0.0)
        if self.method == "dp-tpm":
            values, vectors = yield from self._noisy_power(white, rng)
            return Decomposed(white, values, vectors, count)
        found = yield Ask("third")
        u, whole = white.basis, spread(found.total["third"], size)
        third = np.einsum("abc,ai,bj,ck->ijk", whole, u, u, u, optimize=True)
        result = power_method(
            white.tensor(third),
            self.rank,
            rng,
            restarts=self.starts,
            iterations=self.iterations or 100,
        )
        return Decomposed(white, result.values, result.vectors, count)

    def _noisy_power(self, white: Whitening, rng: np.random.Generator) -> Coordinating:
        """Run the power method with noise on every step."""
        w = white.basis * white.levels**-0.5
        values, vectors = np.zeros(self.rank), np.zeros((self.rank, self.rank))
        best = np.full(self.rank, -math.inf)
        for run in self._runs():
            k = int(run.partition(".")[0])
            u = rng.standard_normal(self.rank)
            u /= np.linalg.norm(u)
            for _ in range(self.runs[1]):
                found = yield Ask(f"image {run}", whitening=w, direction=u)
                noisy = self.change * reaches(w, u)[0] * found.total["image"]
                noisy -= (np.square(vectors[:k] @ u) * values[:k]) @ vectors[:k]  # released
                u = noisy / max(float(np.linalg.norm(noisy)), 1e-300)
            found = yield Ask(f"value {run}", whitening=w, direction=u)
            score = self.change * reaches(w, u)[1] * float(found.total["value"])
            score -= float(np.sum((vectors[:k] @ u) ** 3 * values[:k]))
            if score > best[k]:
                best[k], values[k], vectors[k] = score, score, u
        return values, vectors

    def worst_case(self) -> Neighbours:
        """As of the certified moments: one document that repeats one word."""
        return self.certified.worst_case()

    @classmethod
    def examples(cls) -> Iterator[NoisyTopicsAgreement]:
        """Every method, both relations."""
        for neighbours in (ADD_REMOVE, REPLACE):
            privacy = Privacy(0.8, 1e-3, "document", neighbours)
            for method in METHODS:
                yield cls(3, 2, privacy, method, starts=2, iterations=2)
            pure = Privacy(40.0, 0.0, "document", neighbours)
            yield cls(3, 2, pure, "avn", documents=20)
            sites = Privacy(0.8, 1e-3, "document", neighbours, "site")
            yield cls(3, 2, sites, "agn", 3)


class NoisyTopicsHolder(Holder):
    """The one holder of the documents."""

    agreement: NoisyTopicsAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: DocumentMoments, picks: Picks
    ) -> Any:
        """Return unique entries of a moment, or one step of the power method on the third.

        The latter is Wᵀ·M₃(I, y, y)/reach or M₃(y, y, y)/reach with y = Wu. M₃ has no negative
        entry and adds up to N, so floating point is wrong by some D²·N·2⁻⁵³ at most, whatever W
        and u are: far less than the half of a grid step that rounding is counted for.
        """
        public, size = self.agreement, self.agreement.size
        if step.name == "second":
            entries = shard.rows(0, size)[np.triu_indices(size)]
            return _on_grid(entries, shard.exponent, step.mechanism)
        if step.name == "third":
            return _on_grid(shard.whole_third(), shard.exponent, step.mechanism)
        w, u = asked.arrays["whitening"], asked.arrays["direction"]
        tensor, y = self._tensor, w @ u
        one, three = (public.change * reach for reach in reaches(w, u))
        if step.name.startswith("image"):
            image = w.T @ np.einsum("abc,b,c->a", tensor, y, y)
            return image / one if one > _LEAST else np.zeros_like(image)
        value = float(np.einsum("abc,a,b,c->", tensor, y, y, y))
        return value / three if three > _LEAST else 0.0

    def contributions(self, shard: DocumentMoments) -> int:
        """Return the number of documents."""
        return shard.units

    @cached_property
    def _tensor(self) -> Array:
        (shard,) = self.shards
        return np.asarray(np.ldexp(spread(shard.whole_third(), shard.size), shard.exponent))


def _on_grid(integers: Any, exponent: int, mechanism: Any) -> GridSum:
    """Round a lattice sum to a mechanism's grid, which counts it."""
    shift = exponent - mechanism.grid.exponent
    if shift >= 0:
        return GridSum(integers << shift, mechanism.grid)
    return GridSum((integers + (1 << (-shift - 1))) >> -shift, mechanism.grid)


class NoisyTopics(SingleTopicModel):
    """Topics by AGN, AVN or DP-TPM as published, of few words; for tables only.

    Over several sites each adds the published noise to its own moments, and sums are decomposed.

    Parameters
    ----------
    topics, vocabulary, smoothing, ledger, random_state
        As in `SingleTopicModel`.
    method
        ``"agn"``, ``"avn"`` or ``"dp-tpm"``.
    restarts, iterations
        L and R of DP-TPM (10 and 10 unless given: neither is printed), each of which costs noise;
        of the power method in the other two.
    documents
        How many there are, where that is public; AVN with δ = 0 needs it.
    privacy
        What the paper claims; the certificate says what the noise really gives.

    Examples
    --------
    >>> documents = np.repeat([[4, 0, 0], [0, 2, 2]], 500, axis=0)
    >>> privacy = Privacy(0.9, 1e-4, unit="document")
    >>> model = NoisyTopics(2, privacy=privacy, random_state=0).fit(documents)
    >>> model.certificate_.claimed_epsilon, model.certificate_.epsilon < 0.9
    (0.9, True)
    """

    _purpose = "topics as published"
    _takes_shards = False  # reproduced for tables
    _inference_only = ("smoothing",)
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **{
            name: SingleTopicModel._constraints[name]
            for name in ("topics", "vocabulary", "smoothing")
        },
        "method": OneOf(*METHODS),
        "restarts": AnyOf(Integer(1), None),
        "iterations": AnyOf(Integer(1), None),
        "documents": AnyOf(Integer(1), None),
        **PAID,
    }

    __init__ = constructor(
        SingleTopicModel,
        "share",
        "on_failure",
        "unknown",
        "duplicates",
        "mixing",
        "common",
        "embeddings",
        "public",
        "groups",
        method="agn",
        restarts=None,
        iterations=None,
        documents=None,
    )

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.privacy is None or math.isinf(self.privacy.epsilon):
            raise ParameterError("a published calibration needs privacy=Privacy(…)")

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        assert self.privacy is not None
        return NoisyTopicsAgreement(
            self._size(facts),
            self.topics,
            self._request(len(facts)) or self.privacy,
            self.method,
            len(facts),
            self.restarts,
            self.iterations,
            self.documents,
        )

    def _conclude(self, outcome: Outcome) -> None:
        found: Decomposed = outcome.result
        check_delta(self.privacy, found.count, self._unit)
        self.eigenvalues_ = found.white.values
        topics, mass = found.white.heaviest_first(found.values, found.vectors)
        topics = np.maximum(topics, 0.0)
        sums = topics.sum(axis=1, keepdims=True)
        topics = np.where(sums > 0.0, topics / np.maximum(sums, 1e-300), 1.0 / topics.shape[1])
        words = as_weights(mass, np.inf) @ topics
        self._publish(topics, mass, found.count, words, True)

    _told = (*SingleTopicModel._told, "method")

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "method": self.method}
