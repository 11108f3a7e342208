"""Topics by AGN, AVN and DP-TPM as published, for tables; the certificate says what they give.

What is released and how noisy it is stands in `tacit.published.imtiaz2017_noise`. Negative word
probabilities are set to zero, as published. `tacit.published.imtiaz2017_mixture` is the same of
mixtures of Gaussians.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, Integer, OneOf
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID
from tacit.estimators.fit import Outcome
from tacit.moments.agreement import TopicAgreement
from tacit.moments.numerics.sums import DocumentMoments
from tacit.moments.numerics.whitening import as_weights
from tacit.moments.signal import check_delta
from tacit.moments.topics import SingleTopicModel
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.published.constructor import constructor
from tacit.published.imtiaz2017_noise import (
    METHODS,
    Decomposed,
    NoisyMomentsAgreement,
    Second,
    Sums,
)

__all__ = ["NoisyTopics", "NoisyTopicsAgreement"]


@dataclass(frozen=True)
class NoisyTopicsAgreement(NoisyMomentsAgreement):
    """Pairs and triples of words with the noise of a method as published.

    Examples
    --------
    >>> agreement = NoisyTopicsAgreement(4, 2, Privacy(0.5, 1e-5, unit="document"))
    >>> [step.name for step in agreement.steps]
    ['second', 'third']
    """

    what, along = "documents", "words"

    @cached_property
    def certified(self) -> TopicAgreement:
        """What is certified of the same moments."""
        return TopicAgreement(self.size, self.rank, self.with_delta, self.sites)

    def reaches(self, w: Array, u: Array) -> tuple[float, float]:
        """Return how far one document moves M₃(W, Wu, Wu) and M₃(Wu, Wu, Wu).

        M₃(d) has no negative entry and adds up to one: the first is an average of rows of W times
        two entries of Wu, the second one of products of three entries of Wu. The paper has
        2‖u‖∞² and 2‖u‖∞³ under replace-one, where whitening is not needed: the same for W = I.
        """
        largest = float(np.abs(w @ u).max())
        return float(np.linalg.norm(w, axis=1).max()) * largest**2, largest**3

    def sums(self, shard: DocumentMoments, name: str) -> Sums:
        """Return the unique entries of a moment of documents."""
        if name == "third":
            return Sums(shard.whole_third(), shard.exponent)
        return Sums(shard.rows(0, self.size)[np.triu_indices(self.size)], shard.exponent)

    def read(self, matrix: Array) -> Second:
        """Return the second moment: it adds up to the number of documents."""
        return Second(matrix, max(float(matrix.sum()), 0.0), np.zeros(self.size))

    @classmethod
    def examples(cls) -> Iterator[NoisyTopicsAgreement]:
        """Every method, both relations."""
        for neighbours in (ADD_REMOVE, REPLACE):
            privacy = Privacy(0.8, 1e-3, "document", neighbours)
            for method in METHODS:
                yield cls(3, 2, privacy, method, starts=2, iterations=2)
            pure = Privacy(40.0, 0.0, "document", neighbours)
            yield cls(3, 2, pure, "avn", units=20)
            sites = Privacy(0.8, 1e-3, "document", neighbours, "site")
            yield cls(3, 2, sites, "agn", 3)


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
        count = found.second.count
        check_delta(self.privacy, count, self._unit)
        self.eigenvalues_ = found.white.values
        topics, mass = found.white.heaviest_first(found.values, found.vectors)
        topics = np.maximum(topics, 0.0)
        sums = topics.sum(axis=1, keepdims=True)
        topics = np.where(sums > 0.0, topics / np.maximum(sums, 1e-300), 1.0 / topics.shape[1])
        words = as_weights(mass, np.inf) @ topics
        self._publish(topics, mass, count, words, True)

    _told = (*SingleTopicModel._told, "method")

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "method": self.method}
