"""Simulated documents to plan with: how far word probabilities are off."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from tacit.data.synthetic import topic_documents
from tacit.estimators.facts import Facts
from tacit.estimators.site import Site

__all__ = ["topics_error"]


def topics_error(kind: Any, facts: Facts, seed: int) -> float:
    """Return the mean total variation of word probabilities of documents of one topic each."""
    from scipy.optimize import linear_sum_assignment

    words = max(facts.features, facts.rank)
    documents, topics, _ = topic_documents(
        facts.rows, words, facts.rank, words=max(3, facts.per_row), seed=seed
    )
    ends = np.linspace(0, facts.rows, facts.sites + 1).astype(int).tolist()
    sites = [
        Site(f"site {k}", documents[start:stop])
        for k, (start, stop) in enumerate(itertools.pairwise(ends))
    ]
    model = kind(
        facts.rank, vocabulary=words, random_state=seed, privacy=facts.request("document")
    )
    found = model.fit(sites).topics_
    far = 0.5 * np.abs(found[:, None, :] - topics[None, :, :]).sum(axis=2)
    return float(far[linear_sum_assignment(far)].mean())
