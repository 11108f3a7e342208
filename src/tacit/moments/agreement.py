"""What topics and mixtures release, why it is private, and how much noise that takes.

**The release** has two parts, for documents d (or samples) with contributions as in
`tacit.moments.numerics.sums`:

1. Σ M₂(d) + τ₂·Sym(G), D × D. It is never stored (`mechanisms.symmetric_operator`); products with
   it give the basis U of its K leading eigenvectors. Every product, with whatever vectors, is
   post-processing of the one release: the step ``second`` draws, ``look`` looks at it again.
2. Σ M₃(d)(U, U, U) + τ₃·Sym(G'), K × K × K, for that U, drawn after it: the step ``third``.

**Sensitivity.** M₂(d) and M₃(d) of a document have no negative entry and add up to one, so their
Frobenius norms are at most one: one document more or less moves either by at most **Δ = 1** (a
document of one word repeated reaches it). Where no entry is negative, ‖A − B‖² ≤ ‖A‖² + ‖B‖², so
another document instead moves either by at most **Δ = √2**. They are symmetric as they stand, so
nothing is left outside of the subspace that the noise covers. A sample has ‖(½, z)‖² ≤ 5/4 and
‖z‖ ≤ 1: **Δ₂ = 5/4, Δ₃ = 1** for one more or less. Another instead: ‖aaᵀ − bbᵀ‖² = ‖a‖⁴ + ‖b‖⁴ −
2(aᵀb)², **Δ₂ = √2·5/4**, and ‖z⊗³ − z'⊗³‖² = ‖z‖⁶ + ‖z'‖⁶ − 2(zᵀz')³ ≤ 4 (opposite samples reach
it, and then ‖aaᵀ − bbᵀ‖ = √2, 0.8 of its bound), **Δ₃ = 2**. What rounding adds is counted where
it is made. A person with at most k documents moves either k times as far, and k documents of one
word do; where no entry is negative, √2·k where another person comes instead.

**Whatever is asked.** U is the coordinator's, who may be hostile. It is refused unless
‖UᵀU − I‖ ≤ η = 2⁻³⁰ in Frobenius norm. Then ‖U‖² ≤ 1 + η, and ‖(A − B)(U, U, U)‖ ≤
(1 + η)^(3/2)·‖A − B‖: part 2 has the sensitivity of M₃ itself, up to 2⁻²⁹, which the factor
`SHRINK` = 1 − 2⁻¹⁵ on every contribution leaves room for many times over. Vectors decide nothing
about privacy where a site draws all its noise. They are bounded, so that products in whole numbers
keep their room (`check_room`).

**In shares.** Under a secure sum the noise of (ΣA + ΣE)·V is that of one curator if all sites
multiply the same V and if what is seen are sums over the same sites: (A₁ + E₁)·V₁ + (A₂ + E₂)·V₂
with V₂ = 0 would show one site's matrix under its own share alone, and so would the difference of
two looks of which one is without a site. The masks of a secure sum are bound to the request, so
that replies to different ones do not add up to anything; and where a matrix is looked at more than
once, all sites are in every sum.

**One Gaussian.** For a U that does not depend on G', Sym(G')(U, U, U) of a D × D × D array G' has
the law of Sym of a K × K × K one, because U's columns are orthonormal. So releasing 1, choosing U
from it and then releasing 2 has the law of a function of the pair (M₂ + τ₂·Sym(G),
M₃ + τ₃·Sym(G')), one Gaussian release with sensitivity √(Δ₂²/τ₂² + Δ₃²/τ₃²) = 1/σ, where σ is the
analytic noise multiplier of (ε, δ). (The composition of two Gaussians, the second chosen after
seeing the first, gives the same.) The order matters: U is fixed before G' is drawn, and part 2 is
drawn once.

**Words first.** Topics of many words have a step before these, ``first``: Σ of the words of every
document, p = c/‖c‖ and three numbers beside it (`tacit.moments.numerics.multisets`), of length one
at most and without a negative entry: Δ = 1 for one document more or less, √2 for another instead.
It has `EARLY` of 1/σ², and the two parts above share the rest: the composition of all three is one
Gaussian again. It is asked for nothing, and says what is known where noise hides all topics.

**The share rule.** A share ρ of 1/σ² goes to part 1: τ₂ = σ·Δ₂/√ρ, τ₃ = σ·Δ₃/√(1 − ρ). With κ the
K-th eigenvalue of M₂ per document, the relative errors they cause are about τ₂·√D/(N·κ) and
τ₃/(N·κ^(3/2)) (the whitened noise over the whitened signal). They balance for κ ≈ 1/D, topics that
are spread over the vocabulary, part 1 matters more for larger κ. κ is private. With errors a²/ρ +
b²/(1 − ρ) the choice **ρ = ½** has at most twice the least variance whatever a and b are, and no
other choice has that.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from tacit._core.arrays import Array
from tacit._core.lazy import late
from tacit._core.rng import generator
from tacit.data.documents import Documents
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.executors import Loaded
from tacit.estimators.gate import Gate
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.symmetric_operator import OperatorGaussian
from tacit.moments.numerics.bases import LONGEST, UNIT, orthonormal, short, short_in_steps
from tacit.moments.numerics.sums import DocumentMoments
from tacit.moments.numerics.whitening import noise_edge
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec, Size
from tacit.rounds.sides import Participant

__all__ = ["MomentAgreement", "TopicAgreement"]

EXACT = 16.0  # the grid of this "sensitivity" without noise is that of exact sums, 2^-36
EARLY = 0.2  # of the budget for words, where there are many: words take far less than pairs
DENSE = 512  # up to this size one round with the identity gives the whole matrix
MOST_COMPONENTS = 200  # `tacit.moments.numerics.sums.SHRINK` covers rounding up to here
MOST_ROUNDS = 10  # of products
LONG = "the numbers beside the words would take a document of 2^20 words, all of them different"
_ONE_DIRECTION = "the basis that is asked for has one direction, and both documents need one"


@dataclass(frozen=True)
class MomentAgreement(Agreement):
    """What second and third moments release, their sensitivity and their noise.

    Parameters
    ----------
    size
        D: how many words or features there are.
    rank
        K: how many components.
    privacy, sites
        As in `Agreement`.
    share
        ρ, the second moment's share.
    shares
        Into how many shares noise is split under a secure sum; 1 otherwise.
    """

    family = "moments"
    trusts = ("central", "site", "aggregator")
    cites = ("anandkumar2014", "imtiaz2017")
    unit: ClassVar[str]

    size: int
    rank: int
    privacy: Privacy | None
    sites: int = 1
    share: float = 0.5
    shares: int = 1

    def __post_init__(self) -> None:
        if self.rank > self.size:
            raise ParameterError(
                f"{self.rank} components cannot be found in {self.size} dimensions: pass at most "
                f"{self.size}"
            )
        if self.rank > MOST_COMPONENTS:
            raise ParameterError(f"at most {MOST_COMPONENTS} components are supported")
        privacy = self.privacy
        if privacy is not None and math.isfinite(privacy.epsilon) and privacy.delta <= 0.0:
            raise ParameterError(
                "privacy.delta must be positive, because this method adds Gaussian noise: pass "
                "Privacy(…, delta=1e-6); OrthogonalDecomposition is purely ε-private with δ = 0, "
                "for tensors that need no whitening"
            )

    # -- which numbers ---------------------------------------------------------------------

    @property
    def matrix_size(self) -> int:
        """The side of the second moment."""
        return self.size

    @property
    def coordinates(self) -> int:
        """How many numbers the projected third moment has."""
        return math.comb(self.rank + 2, 3)

    @property
    def neighbours(self) -> str:
        """The neighbour relation."""
        return ADD_REMOVE if self.privacy is None else str(self.privacy.neighbours)

    @property
    @abstractmethod
    def second_sensitivity(self) -> float:
        """Δ₂ for the stated relation."""

    @property
    @abstractmethod
    def third_sensitivity(self) -> float:
        """Δ₃ for the stated relation."""

    @property
    def dense(self) -> bool:
        """Whether the whole second moment is seen at once."""
        return self.matrix_size <= DENSE

    @property
    def whole(self) -> bool:
        """Whether vectors and products are whole numbers, for a secure sum."""
        return self.privacy is not None and self.privacy.trust == "aggregator"

    @property
    def unit_bits(self) -> int:
        """Vectors of whole numbers are in steps of 2 to minus this."""
        return 0 if self.dense else UNIT

    @property
    def width(self) -> int:
        """How many vectors are sent at once: a product with 100 costs little more than with 20."""
        return self.matrix_size if self.dense else min(self.size, max(4 * self.rank, 64))

    @property
    def early(self) -> float:
        """The share of what comes before pairs and triples."""
        return 0.0

    @property
    def by_feature(self) -> bool:
        """Whether variances differ by feature; of samples."""
        return False

    def beside(self, numbers: Array) -> Array:
        """Return what numbers beside the third moment say; there are none."""
        return numbers

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def mechanisms(self) -> tuple[OperatorGaussian, GaussianShare]:
        """The noise of both parts; none at all without a request."""
        privacy, shapes = self.privacy, ((self.matrix_size,) * 2, (self.coordinates,))
        more: dict[str, Any] = {"neighbours": self.neighbours}
        if privacy is None or math.isinf(privacy.epsilon):
            return (
                OperatorGaussian(0.0, self.second_sensitivity, shapes[0], **more),
                GaussianShare(0.0, math.ldexp(self.third_sensitivity, 8), shapes[1], **more),
            )
        sigma = gaussian_sigma(privacy.epsilon, privacy.delta) / math.sqrt(1.0 - self.early)
        more["shares"] = self.shares
        return (
            OperatorGaussian.calibrated(
                sigma / math.sqrt(self.share), self.second_sensitivity, shapes[0], **more
            ),
            GaussianShare.calibrated(
                sigma / math.sqrt(1.0 - self.share), self.third_sensitivity, shapes[1], **more
            ),
        )

    def _steps(self) -> tuple[Step, ...]:
        second, third = self.mechanisms
        shape = self.matrix_size, Size("width", self.width)
        if self.whole:
            end = math.floor(math.ldexp(LONGEST, self.unit_bits))
            rule = short if self.dense else short_in_steps
            vectors = ArraySpec(shape, "int64", -end, end, rule=rule)
        else:
            vectors = ArraySpec(shape, "float64", -LONGEST, LONGEST, rule=short)
        basis = ArraySpec((self.size, self.rank), low=-LONGEST, high=LONGEST, rule=orthonormal)
        products: dict[str, Any] = {
            "asks": {"vectors": vectors},
            "replies": {"product": ArraySpec(shape, vectors.dtype)},
        }
        reply = {"third": ArraySpec((self.coordinates,), "int64")}
        look = Step("look", view_of="second", times=MOST_ROUNDS - 1, optional=True, **products)
        return (
            *self._before,
            Step("second", second, reach=self._reach[0], **products),
            *(() if self.dense else (look,)),
            Step("third", third, {"basis": basis}, reply, reach=self._reach[1]),
        )

    @property
    @abstractmethod
    def _reach(self) -> tuple[float | str, float | str]:
        """The shares of both bounds that `worst_case` reaches."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every public input."""
        notes = self._public
        if self.sites > 1:
            unit = self.unit if self.privacy is None else self.privacy.unit
            notes += (f"the sites hold different {unit}s",)
        return notes + self.mechanisms[0].assumptions

    @property
    def _before(self) -> tuple[Step, ...]:
        """The steps before the second moment."""
        return ()

    @property
    @abstractmethod
    def _public(self) -> tuple[str, ...]:
        """What is public about the data."""

    def noise_sd(self, sites: int) -> float:
        """Return the standard deviation on the diagonal of a sum of second moments."""
        return self.mechanisms[0].scale * math.sqrt(sites / self.shares)

    def third_sd(self, sites: int) -> float:
        """Return the standard deviation along every direction of a sum of third moments."""
        return self.mechanisms[1].scale * math.sqrt(sites / self.shares)

    def edge(self, sites: int) -> float:
        """Return where the spectrum of the noise ends in a sum over sites."""
        return noise_edge(self.noise_sd(sites), self.matrix_size)

    @property
    def _outweighing(self) -> int:
        """How many units stand a hundred times out of the noise, where a basis is chosen."""
        return math.ceil(100.0 * self.edge(self.shares)) if self.rank < self.size else 0

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its documents or samples."""
        shards = data if isinstance(data, Loaded) else [self.moments(data)]
        made: Participant = late(f"{__package__}.sides").Holding(self, name, shards, gate)
        return made

    @abstractmethod
    def moments(self, data: Any) -> Any:
        """Return a holder's data as exact sums."""

    def coordinate(self, start: Start) -> Coordinating:
        """Ask for products until the eigenvectors have settled, then for the third moment."""
        spectrum = late(f"{__package__}.sides").Spectrum(self, generator(start.seed, "spectral"))
        for earlier in self._before:
            spectrum.take_first((yield Ask(earlier.name)))
        step = "second"
        while spectrum.basis is None:
            found = yield Ask(step, vectors=spectrum.sent)
            spectrum.take_products(found)
            step = "look"
        found = yield Ask("third", basis=spectrum.basis)
        spectrum.take_third(found)
        return spectrum


@dataclass(frozen=True)
class TopicAgreement(MomentAgreement):
    """Pairs and triples of words.

    Examples
    --------
    >>> agreement = TopicAgreement(10, 5, Privacy(1.0, 1e-6, unit="document"))
    >>> agreement.second_sensitivity, agreement.third_sensitivity
    (1.0, 1.0)
    >>> [step.name for step in agreement.steps]
    ['second', 'third']
    """

    unit = "document"
    rules: tuple[str, ...] = ()  # what is done about words, cells and rows, for certificates
    per_unit: int = 1  # how many documents one person has at most
    words: bool = False  # whether the words of all documents come first

    @property
    def early(self) -> float:
        """`EARLY` where words come first."""
        return EARLY if self.words else 0.0

    @cached_property
    def first(self) -> GaussianShare:
        """The noise of words."""
        privacy, shape = self.privacy, (self.size + 3,)
        more: dict[str, Any] = {"neighbours": self.neighbours}
        if privacy is None or math.isinf(privacy.epsilon):
            return GaussianShare(0.0, EXACT, shape, **more)
        sigma = gaussian_sigma(privacy.epsilon, privacy.delta) / math.sqrt(EARLY)
        more["shares"] = self.shares
        return GaussianShare.calibrated(sigma, self.second_sensitivity, shape, **more)

    @property
    def _before(self) -> tuple[Step, ...]:
        if not self.words:
            return ()
        reply = {"words": ArraySpec(self.first.shape, "int64")}
        return (Step("first", self.first, replies=reply, reach=LONG),)

    @property
    def second_sensitivity(self) -> float:
        """Δ₂ = Δ₃ = 1 for each document of a unit, √2 where one takes the place of another."""
        return self.per_unit * (1.0 if self.neighbours == ADD_REMOVE else math.sqrt(2.0))

    third_sensitivity = second_sensitivity

    @property
    def _public(self) -> tuple[str, ...]:
        return (
            f"the {self.size} words of the vocabulary are public",
            "every document has total weight one over all its pairs and triples",
            *self.rules,
        )

    @property
    def _reach(self) -> tuple[float | str, float | str]:
        return 1.0, _ONE_DIRECTION if self.rank == 1 and self.neighbours == REPLACE else 1.0

    def moments(self, data: Documents) -> Any:
        """Return the sums of documents."""
        return DocumentMoments(data)

    def worst_case(self) -> Neighbours:
        """A document that repeats one word: e⊗e and e⊗e⊗e have norm 1.

        Where the basis does not hold all words, so many others repeat that word (and the one of
        the document instead) that the leading eigenvectors do.
        """
        words, last = self.size, self.size - 1
        others = [[k] * 4 for k in range(words) for _ in range(3)]
        others += [[0] * 4] * (2 * self._outweighing)
        instead = []
        if self.neighbours == REPLACE:
            others += [[last] * 4] * self._outweighing
            instead = [[last] * 4] * self.per_unit
        return Neighbours(
            Documents.from_words([*others, *([[0] * 4] * self.per_unit)], words),
            Documents.from_words([*others, *instead], words),
        )

    @classmethod
    def examples(cls) -> Iterator[TopicAgreement]:
        """All words or some in the basis, both relations, every trust; one with further looks."""
        for neighbours in (ADD_REMOVE, REPLACE):
            for trust, shares in (("central", 1), ("site", 1), ("aggregator", 3)):
                privacy = Privacy(2.0, 1e-5, "document", neighbours, trust)
                yield cls(3, 3 if trust == "site" else 2, privacy, shares, 0.3, shares)
        for trust in ("site", "aggregator"):
            privacy = Privacy(20.0, 1e-3, unit="document", trust=trust)
            yield cls(DENSE + 1, 2, privacy)
        for neighbours in (ADD_REMOVE, REPLACE):
            people = Privacy(2.0, 1e-5, "user", neighbours)
            yield cls(3, 2, people, share=0.3, per_unit=3)
            for trust, shares in (("site", 1), ("aggregator", 3)):
                privacy = Privacy(2.0, 1e-5, "document", neighbours, trust)
                yield cls(3, 2, privacy, shares, 0.3, shares, words=True)
