"""What is released of few words, or of many in few public groups: all pairs and all triples.

**The release** has two parts, for documents d with contributions as in
`tacit.moments.numerics.multisets`:

1. ``first``: Σ of words, and three numbers about the corpus: how many documents, how long, how
   many different words. They say how much a document may weigh in
2. ``joint``: Σ of weighted pairs and triples, all of them. Nothing is projected: of few words no
   triple need be lost.

**Sensitivity.** A document contributes to each part numbers that are not negative, of L2 norm at
most one (L1 for pure ε), whatever weights are asked for: they are bounded by 1/norm of the
document itself, and rounded down. One document more or less moves either part by at most
**Δ = 1**, and one of one word repeated does so in the second; another instead by **√2**, since
‖a − b‖² ≤ ‖a‖² + ‖b‖² where no number is negative (L1: by 2). A person with at most k
documents moves either k times as far. Which group a word is in is public, or asked for after
the first part; whatever is asked, a document is bounded after its words were grouped.

**One Gaussian.** Both parts have noise of one multiple of their sensitivity each, σ/√ρ and
σ/√(1 − ρ), with σ the analytic multiplier of (ε, δ): the second is asked after seeing the first,
and the composition of the two is one Gaussian of σ. With **δ = 0** the noise is Laplace's,
which is purely ε-private for L1: ρ·ε and (1 − ρ)·ε.

**The share rule.** ρ of the first part is `FIRST`, a tenth, where pairs and triples are about the
words themselves and hold them too; `GROUPED`, three tenths, where words are grouped, since then
the first moment alone says which words of a group are common.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.lazy import late
from tacit._core.rng import generator
from tacit.data.documents import Documents
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.executors import shards_of
from tacit.estimators.gate import Gate
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.laplace import Laplace
from tacit.moments.agreement import EXACT, LONG, MOST_COMPONENTS
from tacit.moments.numerics.joint import JointNoise
from tacit.moments.numerics.multisets import Facts, joint_size, read_first
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Collected, Participant

__all__ = [
    "FEW",
    "FIRST",
    "GROUPED",
    "JointAgreement",
    "Seen",
    "commonest",
    "summed",
    "weights_for",
]

FEW = 64  # words, or groups of words: 45,760 triples
FIRST, GROUPED = 0.1, 0.3
_HEAVIEST = 2.0**40


@dataclass(frozen=True)
class Seen:
    """What was released of a corpus.

    Attributes
    ----------
    first, joint
        Sums as they came, over the same sites.
    sites
        How many.
    most
        The largest weights of pairs and triples that were asked for.
    places
        Word → the group whose pairs and triples were counted, or −1.
    rng
        For whoever goes on.
    """

    first: Any
    joint: Any
    sites: int
    most: tuple[float, float]
    places: NDArray[np.int64]
    rng: np.random.Generator


@dataclass(frozen=True)
class JointAgreement(Agreement):
    """Words, then pairs and triples of few words or groups of words.

    Parameters
    ----------
    size
        D: how many words there are.
    rank
        K: how many topics.
    privacy, sites
        As in `Agreement`.
    share
        The pairs' share of the second part.
    shares
        Into how many shares noise is split under a secure sum; 1 otherwise.
    rules
        What is done about words, cells and rows, for certificates.
    per_unit
        How many documents one person has at most.
    groups
        Word → its public group, −1 for none; every word is its own where there are none.
    common
        How many words pairs and triples are counted of where that is asked for after the words:
        those that are then known to be the most common ones. 0 where it is public before.

    Examples
    --------
    >>> agreement = JointAgreement(10, 5, Privacy(1.0, 1e-6, unit="document"))
    >>> [step.name for step in agreement.steps], agreement.sensitivity
    (['first', 'joint'], 1.0)
    """

    family = "moments"
    trusts = ("central", "site", "aggregator")
    cites = ("anandkumar2014", "imtiaz2017")

    size: int
    rank: int
    privacy: Privacy | None
    sites: int = 1
    share: float = 0.5
    shares: int = 1
    rules: tuple[str, ...] = ()
    per_unit: int = 1
    groups: tuple[int, ...] | None = None
    common: int = 0

    def __post_init__(self) -> None:
        if self.groups is not None and len(self.groups) != self.size:
            raise ParameterError(
                f"there are {len(self.groups)} groups of words for {self.size} words"
            )
        if self.groups is not None and min(self.groups) < -1:
            raise ParameterError("groups are numbers from 0 on, -1 for a word that has none")
        if self.kinds > FEW:
            raise ParameterError(f"at most {FEW} words or groups of words are taken at once")
        if self.rank > min(self.kinds, MOST_COMPONENTS):
            raise ParameterError(
                f"{self.rank} components cannot be found in {self.kinds} dimensions: pass at most "
                f"{self.kinds}"
            )
        if self.pure and self.shares > 1:
            raise ParameterError(
                "privacy.delta must be positive with trust='aggregator': shares of Laplace noise "
                "do not add up to it"
            )

    # -- which numbers ---------------------------------------------------------------------

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Word → its group."""
        found = range(self.size) if self.groups is None else self.groups
        return np.array(found, np.int64)

    @cached_property
    def kinds(self) -> int:
        """How many words or groups pairs and triples are counted of."""
        if self.common:
            return self.common
        return self.size if self.groups is None else max(self.groups, default=-1) + 1

    @property
    def pure(self) -> bool:
        """Whether ε is asked for without a δ."""
        privacy = self.privacy
        return privacy is not None and math.isfinite(privacy.epsilon) and privacy.delta == 0.0

    @property
    def norm(self) -> int:
        """In which norm contributions are bounded."""
        return 1 if self.pure else 2

    @property
    def neighbours(self) -> str:
        """The neighbour relation."""
        return ADD_REMOVE if self.privacy is None else str(self.privacy.neighbours)

    @property
    def sensitivity(self) -> float:
        """Δ of either part for the stated relation."""
        instead = 2.0 if self.pure else math.sqrt(2.0)
        return self.per_unit * (1.0 if self.neighbours == ADD_REMOVE else instead)

    @property
    def _outweighing(self) -> int:
        """How many documents stand ten times out of the noise of the words."""
        return math.ceil(10.0 * self.noise_sd(0, self.shares))

    @property
    def early(self) -> float:
        """ρ: the first part's share."""
        return FIRST if self.groups is None and not self.common else GROUPED

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def mechanisms(self) -> tuple[Any, Any]:
        """The noise of both parts; none at all without a request."""
        privacy, shapes = self.privacy, ((self.size + 3,), (joint_size(self.kinds),))
        more: dict[str, Any] = {"neighbours": self.neighbours}
        parts = self.early, 1.0 - self.early
        if privacy is None or math.isinf(privacy.epsilon):
            none = tuple(GaussianShare(0.0, EXACT, shape, **more) for shape in shapes)
            return none[0], none[1]
        made: list[Any] = []
        for part, shape in zip(parts, shapes, strict=True):
            if self.pure:
                epsilon = part * privacy.epsilon * (1.0 - 2.0**-40)
                made.append(Laplace.for_privacy(epsilon, self.sensitivity, shape, **more))
            else:
                sigma = gaussian_sigma(privacy.epsilon, privacy.delta) / math.sqrt(part)
                more["shares"] = self.shares
                made.append(GaussianShare.calibrated(sigma, self.sensitivity, shape, **more))
        return made[0], made[1]

    def noise_sd(self, part: int, sites: int) -> float:
        """Return the standard deviation of the noise in a sum over sites."""
        mechanism = self.mechanisms[part]
        each = mechanism.scale * (math.sqrt(2.0) if self.pure else 1.0)
        return float(each * math.sqrt(sites / self.shares))

    def noise(self, seen: Seen) -> JointNoise:
        """Return the law of the noise in what was released."""
        first, joint = (self.noise_sd(part, seen.sites) for part in (0, 1))
        return JointNoise(first, joint, self.share, self.norm, *seen.most)

    def _steps(self) -> tuple[Step, ...]:
        first, joint = self.mechanisms
        asks: dict[str, ArraySpec] = {}
        if not self.pure:
            asks["most"] = ArraySpec((2,), low=1.0, high=_HEAVIEST)
        if self.common:
            asks["groups"] = ArraySpec((self.size,), "int64", -1, self.common - 1)
        return (
            Step("first", first, replies={"words": ArraySpec(first.shape, "int64")}, reach=LONG),
            Step("joint", joint, asks, {"counts": ArraySpec(joint.shape, "int64")}),
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every public input."""
        said = [
            f"the {self.size} words of the vocabulary are public",
            "the pairs and triples of a document together count as one part of bounded length, "
            "however long it is",
        ]
        if self.common:
            said.append(
                f"pairs and triples are of the {self.common} words that are the most common ones "
                "by the words released first"
            )
        if self.groups is not None:
            digest = hashlib.sha256(self.places.tobytes()).hexdigest()[:16]
            said.append(
                f"which of {self.kinds} groups a word is in is public and holds nobody's "
                f"documents (sha256 {digest})"
            )
        if self.sites > 1:
            unit = "document" if self.privacy is None else self.privacy.unit
            said.append(f"the sites hold different {unit}s")
        mechanism = self.mechanisms[0].assumptions
        return (*said, *self.rules, *mechanism)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Documents, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its documents."""
        made: Participant = late(f"{__package__}.sides").JointHolder(
            self, name, shards_of(data), gate
        )
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Ask for words, and with what they say about lengths for pairs and triples."""
        first = yield Ask("first")
        total = self.values(first.total["words"], 0)
        sums, _, facts = read_first(total, self.norm)
        asks: dict[str, Any] = {}
        most, places = (1.0, 1.0), self.places
        if self.common:
            places = commonest(sums, self.common)
            asks["groups"] = places
        if not self.pure:
            most = weights_for(facts)
            asks["most"] = np.array(most)
        found = yield Ask("joint", **asks)
        words = self.values(summed(first, "words", found), 0)
        counts = self.values(found.total["counts"], 1)
        rng = generator(start.seed, "topics")
        return Seen(words, counts, len(found.sites), most, places, rng)

    def values(self, total: Any, part: int) -> Array:
        """Return a sum of grid steps as it was meant."""
        exponent = self.mechanisms[part].grid.exponent
        return np.asarray(np.ldexp(np.asarray(total, np.float64), exponent))

    def worst_case(self) -> Neighbours:
        """A document that repeats one word; instead of it, one that repeats another."""
        places = self.places
        # where groups are asked for, the most common words are those that repeat most
        one = int(np.flatnonzero(places >= 0)[0])
        apart = np.flatnonzero((places >= 0) & (places != places[one]))
        other = int(apart[-1]) if len(apart) else one
        base = [[k] * 4 for k in range(self.size)]
        if self.common:
            base += [[one] * 4] * self._outweighing + [[other] * 4] * self._outweighing
        own, instead = [[one] * 4] * self.per_unit, [[other] * 4] * self.per_unit
        more = instead if self.neighbours == REPLACE else []
        return Neighbours(
            Documents.from_words([*base, *own], self.size),
            Documents.from_words([*base, *more], self.size),
        )

    @classmethod
    def examples(cls) -> Iterator[JointAgreement]:
        """Both relations, every trust, people, groups, no δ."""
        for neighbours in (ADD_REMOVE, REPLACE):
            for trust, shares in (("central", 1), ("site", 1), ("aggregator", 3)):
                privacy = Privacy(2.0, 1e-5, "document", neighbours, trust)
                yield cls(3, 2, privacy, shares, 0.3, shares)
            people = Privacy(2.0, 1e-5, "user", neighbours)
            yield cls(5, 2, people, per_unit=3, groups=(0, 1, 1, 0, -1))
            yield cls(5, 2, Privacy(2.0, 1e-5, "document", neighbours), common=3)
            pure = Privacy(2.0, 0.0, "document", neighbours)
            yield cls(3, 2, pure, share=0.3)


def weights_for(facts: Facts) -> tuple[float, float]:
    """Return how heavy pairs and triples of documents are taken that are as long as is typical.

    A document of L words of which n differ has about min(L(L − 1)/2, n²/2) kinds of pairs and
    min(L(L − 1)(L − 2)/6, n³/6) of triples, and its shares are as long as one over the root of
    that. Half of them are counted (a third of the pairs, which `PAIR` makes longer), so that most
    documents, those that are somewhat shorter too, weigh the same; to quarters of an octave, so
    that it does not depend on the last bits of a sum. Those of three words weigh one.

    >>> weights_for(Facts(100.0, 3.0, 2.5))
    (1.0, 1.0)
    >>> [round(weight) for weight in weights_for(Facts(100.0, 100.0, 50.0))]
    [19, 108]
    """
    length, words = facts.length, facts.words
    pairs = min(length * (length - 1.0), words**2) / 6.0
    triples = min(length * (length - 1.0) * (length - 2.0), words**3) / 12.0
    second, third = (
        min(2.0 ** (round(2.0 * math.log2(max(kinds, 1.0))) / 4.0), _HEAVIEST)
        for kinds in (pairs, triples)
    )
    return second, third


def commonest(sums: Array, many: int) -> NDArray[np.int64]:
    """Return word → its place among the most common ones, −1 for the others.

    >>> commonest(np.array([3.0, 1.0, 5.0]), 2).tolist()
    [1, -1, 0]
    """
    places = np.full(len(sums), -1, np.int64)
    places[np.argsort(-sums, kind="stable")[:many]] = np.arange(min(many, len(sums)))
    return places


def summed(earlier: Collected, name: str, later: Collected) -> Any:
    """Return an earlier sum without the sites that were lost since."""
    if tuple(earlier.sites) == tuple(later.sites):
        return earlier.total[name]
    if not earlier.by_site:
        raise SiteFailure(
            "a site was lost after the first moments were summed, and its part cannot be taken "
            "out of a secure sum: begin a new run without it"
        )
    return sum(np.asarray(earlier.by_site[site][name]) for site in later.sites)
