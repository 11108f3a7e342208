"""Attacks on recommenders: ratings from messages, and who was there from released factors.

**Messages of DPMF, PDPMF and HDPMF** (Hua 2015; Zhang 2019; Hu & Fang 2023). In every epoch a
rater sends 2(u·v − W·r)·u plus a share of the noise. The attacker knows u and v, as the papers'
proofs do, so a message is linear in the rating r, with slope −2W·u, and the rest is weighted least
squares (`read_ratings`). The recommender draws h_j, so the noise's spread 2Δ/ε·√(2K·h/raters) is
known to it, and a single message has only 1/raters of the variance. Of sums alone, for somebody
who does not know h_j, the noise is Laplace; `audit_sums` compares what that leaves of the claim
with the ε that the certificate recomputes.

**Membership.** Released factors fit the people they were learned from better than others. The
attacker folds a person's ratings into the factors and says "was there" where they fit well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.audit.attack import Audit, transcript_scores
from tacit.audit.bounds import ErrorRates, epsilon_at_least
from tacit.audit.transcript import Step
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats, Integers
from tacit.published.hua2015_hu2023 import GradientAgreement
from tacit.recommender.estimator import PrivateRecommender

__all__ = ["Membership", "Messages", "audit_sums", "membership", "read_ratings"]


@dataclass(frozen=True)
class Messages:
    """What the attacker knows about single messages of a published method."""

    u: Floats  # the vectors of users, a row for each rating that is attacked
    v: Floats  # likewise of items
    weights: Floats  # the privacy weight of each
    raters: Integers  # how many share the noise of each item; 1 for sums
    reach: float  # 2Δ/ε, of the noise
    epochs: int  # how often each sends

    def __len__(self) -> int:
        return len(self.u)


def read_ratings(known: Messages, values: Any, rng: np.random.Generator) -> Floats:
    """Return the likeliest ratings, given messages about the true ones over all epochs.

    Parameters
    ----------
    known
        What the attacker knows.
    values
        The true ratings, which the messages are made from.
    rng
        Draws the messages' noise: a simulation of the protocol, nothing is released.

    Examples
    --------
    >>> u = np.full((500, 4), 0.5)
    >>> known = Messages(u, u, np.ones(500), np.full(500, 100), 8.0, 100)
    >>> guess = read_ratings(known, np.full(500, 3.0), np.random.default_rng(0))
    >>> bool(abs(np.median(guess) - 3.0) < 0.1)
    True
    """
    rank = known.u.shape[1]
    slope = -2.0 * known.weights[:, None] * known.u
    known_part = 2.0 * (known.u * known.v).sum(axis=1)[:, None] * known.u
    numerator, denominator = np.zeros(len(known)), np.zeros(len(known))
    for _ in range(known.epochs):
        h = rng.exponential(size=(len(known), rank))
        spread = known.reach * np.sqrt(2.0 * rank * h / known.raters[:, None])
        noise = spread * rng.standard_normal((len(known), rank))
        message = known_part + slope * np.asarray(values)[:, None] + noise
        rest = message - known_part
        numerator += (slope * rest / spread**2).sum(axis=1)
        denominator += (slope**2 / spread**2).sum(axis=1)
    return np.asarray(numerator / denominator)


def audit_sums(
    model: PrivateRecommender, *, runs: int = 4000, confidence: float = 0.999, seed: int = 0
) -> Audit:
    """Attack the sums of a fitted published method: Laplace noise in every epoch.

    A rating of weight 1 goes from one end of its range to the other; its user's vector has norm
    one, spread evenly, which is what the L1 bound 2Δ√K allows.

    Parameters
    ----------
    model
        A fitted `tacit.published.hua2015_hu2023.GradientRecommender`, with noise.
    runs, confidence, seed
        As in `tacit.audit.audit`.
    """
    check("runs", runs, Integer(8))
    public = getattr(model, "_agreement", None)
    if not isinstance(public, GradientAgreement) or not public.task.noisy:
        raise ParameterError("pass a fitted GradientRecommender: 'dpmf', 'pdpmf' or 'hdpmf'")
    certificate, mechanism = model.certificate_, public.mechanism
    quiet = np.zeros(mechanism.shape)
    moved = quiet.copy()
    moved[0] = 2.0 * public.task.range / np.sqrt(public.task.rank)  # one item's entry of the sum
    pair = (Step(mechanism, moved, None), Step(mechanism, quiet, None))
    ours, theirs = transcript_scores([pair] * public.settings.epochs, runs, seed)
    bound = epsilon_at_least(ours, theirs, delta=certificate.delta, confidence=confidence)
    assert certificate.claimed_epsilon is not None
    return Audit(
        subject=f"{type(model).__name__} ({public.settings.kind})",
        claimed=certificate.claimed_epsilon,
        certified=certificate.epsilon,
        attacked=bound.epsilon,
        delta=certificate.delta,
        unit=certificate.unit,
        neighbours=certificate.neighbours,
        trust=certificate.trust,
        bound=bound,
    )


@dataclass(frozen=True)
class Membership:
    """How well an attacker tells who was in the data.

    The advantage is P(right about a member) + P(right about an outsider) − 1, on the people that
    did not choose the threshold; the area is that under the receiver operating characteristic: ½
    is no better than a coin.
    """

    advantage: float
    area: float
    rates: ErrorRates  # the errors


def membership(model: PrivateRecommender, members: Any, outsiders: Any) -> Membership:
    """Tell members from outsiders by how well released factors fit their ratings.

    Parameters
    ----------
    model
        A fitted recommender.
    members, outsiders
        Tables of ratings, NaN where there is none: people whom the fit saw, and others.
    """
    scores = [-_misfit(model, np.asarray(table, np.float64)) for table in (members, outsiders)]
    above = (scores[0][:, None] > scores[1][None, :]).mean()
    equal = (scores[0][:, None] == scores[1][None, :]).mean()
    rates = epsilon_at_least(scores[0], scores[1], delta=0.0, confidence=0.5).rates
    right = 2.0 - rates.misses / rates.miss_runs - rates.alarms / rates.alarm_runs
    return Membership(float(right - 1.0), float(above + equal / 2.0), rates)


def _misfit(model: PrivateRecommender, table: Floats) -> Floats:
    """Return every person's mean squared residual after folding in."""
    found = np.empty(len(table))
    for k, row in enumerate(table):
        items = np.flatnonzero(~np.isnan(row))
        device = model.device(dict(zip(items.tolist(), row[items].tolist(), strict=True)))
        found[k] = float(np.mean((device.predict(items) - row[items]) ** 2))
    return found
