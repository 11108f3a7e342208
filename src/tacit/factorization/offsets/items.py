"""The coordinator's side of `offsets.agreement`: what it learns of items, from released numbers.

Sites' sums come as one, or one by one where sites have an ε of their own: they are then weighted
by noise, sampling and how far sites differ (`offsets.numerics.pooling`). One sum is one site.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.rng import generator
from tacit.errors import SiteFailure
from tacit.estimators.agreement import Ask, Coordinating, Start
from tacit.factorization.arrays import Arrays, Floats, Integers
from tacit.factorization.draws import DEVIATION
from tacit.factorization.offsets.agreement import LeastSquaresAgreement
from tacit.factorization.offsets.numerics.pooling import (
    pooled,
    shares_of_sites,
    sizes_of_sites,
)
from tacit.factorization.offsets.numerics.shrinkage import (
    Averaged,
    denoised_counts,
    eigen_features,
    scaled_columns,
    shrink,
    shrunk_towards,
)
from tacit.factorization.offsets.sides import COUNT, packing
from tacit.factorization.offsets.sums import HALF, LARGEST
from tacit.factorization.together.people import PUBLIC_MEMBERS
from tacit.rounds.sides import Collected

__all__ = ["coordinate"]

_RESIDUAL = 0.8  # the variance of a value about its offsets, of a half-range of 2, as a rule
_LEAST_SPREAD = 1e-5  # of the variance of values that are mostly zero
_MEANS = 0.1  # that of a member's mean, in the half of the range that it is sent in
_LOST = (
    "a site was lost, and its part cannot be told from that of others in what was summed before: "
    "the run can be resumed when it is back"
)


def coordinate(public: LeastSquaresAgreement, start: Start) -> Coordinating:
    """Learn offsets of items, then their factors; return what every site gets."""
    known = _Items(public)
    rng = generator(start.seed, "coordinator")
    if public.unit == "entry":
        known.open(_heard(public, (yield Ask("counts"))))
    if public.products:
        known.public = (yield from public.pattern_of(known.counts, rng)).features
    for step, _ in public.plan:
        kind = known.kind(step)
        found = yield Ask(step, kind if step.startswith("later") else "", **known.asks(kind))
        sums = _heard(public, found)["sum"]
        if not np.isfinite(sums).all():
            raise SiteFailure(f"the sum of step {step!r} is not finite")
        if known.sites not in (0, len(sums)):
            raise SiteFailure(_LOST)
        getattr(known, f"take_{kind}")(sums, _noise(public, step, found))
    return known.shared()


def _heard(public: LeastSquaresAgreement, found: Collected) -> Arrays:
    """Return every array that came, (sites, …): the sum alone, unless sites are looked at."""
    if not public.apart or found.by_site is None:
        return {name: np.asarray(a, np.float64)[None] for name, a in found.total.items()}
    replies = [found.by_site[site].arrays for site in found.sites]
    return {n: np.array([reply[n] for reply in replies], np.float64) for n in replies[0]}


def _noise(public: LeastSquaresAgreement, step: str, found: Collected) -> Floats:
    """Return the variance of the noise in what `_heard` returns."""
    if not public.apart:
        return np.array([public.mechanisms[step].variance() * len(found.sites)])
    each = [
        0.0 if site == PUBLIC_MEMBERS else public.at(site).mechanisms[step].variance()
        for site in found.sites
    ]
    return np.array(each)


class _Items:
    """What the coordinator knows of items: all of it is public or was released."""

    def __init__(self, public: LeastSquaresAgreement) -> None:
        items = public.items
        self._agreed, self._user = public, public.unit == "user"
        self.counts = self.weights = np.zeros(items)
        self._squares = np.zeros(items)  # of members' weights, summed by item
        self.sites = 0  # how many are looked at, one by one; 1 where only their sum is
        self._unit = 1.0  # what sums about items are multiplied by before they are shrunk
        # what released means are measured from, and the range they are sent in
        self._origin, self._range = (public.fill, 2.0 * HALF) if public.filled else (0.0, HALF)
        self._by_site = np.zeros((1, items))  # the weight of each one's cells
        self._sizes = np.ones(1)  # how many members each one has
        self.public = self.features = np.zeros((items, 0))
        self._given = public.item_features()
        self._mean, self._offsets, self._offsets_sd = 0.0, np.zeros(items), np.zeros(items)
        self._members = float(public.problem.members or 1)
        self._averaged: list[Averaged] = []
        self._covariances: list[Averaged] = []

    def kind(self, step: str) -> str:
        """Return what a step is about; of a later one, by what was released so far."""
        name, _, later = step.partition(" ")
        if name != "later":
            return name
        if not (self._agreed.factors is True or self._agreed.visible(self._members)):
            return "offsets"
        first = later == "0" or not self._agreed.refines(self._members, self._each)
        return "covariance" if first else "factors"

    @property
    def _each(self) -> float:
        """How many items a member has, as a rule.

        Of users only weights are known: of n items those of a message of length one add up to
        n/√(n·(r² + COUNT²)), with r² the variance of a residual.
        """
        total = float(self.weights.sum()) / self._members
        return total**2 * (_RESIDUAL + COUNT**2) if self._user else total

    def asks(self, kind: str) -> dict[str, Any]:
        """Return what a request holds, within the ranges that sensitivities are stated for."""
        if kind == "mean":
            return {}
        mean = np.array([self._mean])
        if kind == "offsets":
            return {"mean": mean}
        offsets = np.clip(self._offsets, -2.0 * HALF, 2.0 * HALF)
        if kind == "covariance":
            popular = self._popular
            rates = self.weights[popular] / max(float(self.weights[popular].sum()), 1e-300)
            return {
                "mean": mean,
                "offsets": offsets,
                "rates": np.clip(rates, 0.0, 1.0),
                "popular": popular,
            }
        most = LARGEST["features"]
        return {"mean": mean, "offsets": offsets, "features": np.clip(self.features, -most, most)}

    @property
    def _popular(self) -> Integers:
        """The most popular items, by what was released (or is public) of their weights."""
        order = np.argsort(-self.weights, kind="stable")
        return order[: self._agreed.popular].astype(np.int64)

    def open(self, heard: Arrays) -> None:
        """Take in what is public about the cells of every item."""
        self._by_site = heard.get("weights", heard["sum"])
        self.sites = len(self._by_site)
        self.counts, self.weights = heard["sum"].sum(axis=0), self._by_site.sum(axis=0)
        self._squares = heard.get("squares", heard["sum"]).sum(axis=0)
        # members are not counted by site: cells stand for them
        self._sizes = np.maximum(self._by_site.sum(axis=1), 1.0)

    def take_mean(self, sums: Floats, noise: Floats) -> None:
        """Take in the mean, and for users their number."""
        if self._user:
            self.sites = len(sums)
            self._sizes = sizes_of_sites(sums[:, 1], noise)
            self._members = float(self._sizes.sum())
            shares = shares_of_sites(noise, self._sizes, _MEANS)
            total = shares @ sums
            mean = self._range * float(total[0]) / max(float(total[1]), 1.0)
        else:
            shares = shares_of_sites(noise, self._sizes, 1.0)
            cells = float(shares @ self._by_site.sum(axis=1))
            mean = float(shares @ sums[:, 0]) / max(cells, 1.0)
        self._mean = float(np.clip(self._origin + mean, -HALF, HALF))

    def take_offsets(self, sums: Floats, noise: Floats) -> None:
        """Shrink sums, averaged with those before by their noise.

        Towards what is known of items already: how often they occur, features from the public
        pattern, and those that the caller gave.
        """
        width = self._agreed.size("offsets")
        sums, noise = _averaged(self._averaged, sums[:, :width], noise)
        if self._agreed.filled:
            self._take_links(sums, noise)
            return
        within: Floats | float = _RESIDUAL
        popularity = np.log1p(self.weights)
        if self._user:
            sums, weights = np.moveaxis(sums.reshape(len(sums), -1, 2), 2, 0)
            popularity = self._count(weights / COUNT, noise / COUNT**2)
            within = self._within * _RESIDUAL / (_RESIDUAL + COUNT**2)
        elif self.sites == 1:  # members' weights are known then, not only their sums
            within = self._squares / np.maximum(self.weights, 1e-300) * _RESIDUAL
        found = pooled(sums, self._by_site, noise, within)
        known = np.column_stack([popularity, self.public, self._given])
        self._offsets, self._offsets_sd = shrunk_towards(
            found.sums, found.weights, 0.0, found.variance, known
        )

    def _take_links(self, sums: Floats, noise: Floats) -> None:
        """Shrink sums of what is above zero: cells that are not listed hold nothing of it.

        A value that is mostly zero and at most four varies by at most four times its mean.
        """
        items = self._agreed.items
        if self._user:
            counts = np.maximum(sums[:, items] / COUNT, 1.0)
            self._by_site, sums = np.tile(counts[:, None], items), sums[:, :items]
        # users who have less count more here: what they have on average is another mean
        level = float(sums.sum() / max(float(self._by_site.sum()), 1.0))
        spread = level * (2.0 * HALF - level) if self._agreed.fill == -HALF else _RESIDUAL
        within = min(max(spread, _LEAST_SPREAD), _RESIDUAL)
        self._unit = math.sqrt(_RESIDUAL / within)  # such that values vary as others do
        apart = self._unit * (sums - level * self._by_site)
        found = pooled(apart, self._by_site, self._unit**2 * noise, _RESIDUAL)
        known = np.column_stack([self.public, self._given])
        means, deviations = shrunk_towards(found.sums, found.weights, 0.0, found.variance, known)
        self._offsets, self._offsets_sd = means / self._unit, deviations / self._unit
        self.weights = np.maximum(self._offsets + level, 0.0) * self._by_site.sum(axis=0)

    def _count(self, noisy: Floats, noise: Floats) -> Floats:
        """Take in how often items occur; return their popularity, on a log scale.

        How sites differ in that is hidden by noise: they count by their sizes.
        """
        per_member = max(float(noisy.sum()) / (self._members * self._agreed.items), 0.0)
        shares = shares_of_sites(noise, self._sizes, per_member)
        counts, popularity = denoised_counts(shares @ noisy, float(shares**2 @ noise))
        share = self._sizes / float(shares @ self._sizes)
        self._by_site = counts * share[:, None]
        self.weights = np.asarray(self._by_site.sum(axis=0))
        return popularity

    @property
    def _within(self) -> float:
        """The sampling variance per unit of weight of sums of messages of length one.

        The squared lengths add up to the number of members, which was released.
        """
        return self._members / max(float(self._by_site.sum()), 1.0)

    def take_covariance(self, sums: Floats, noise: Floats) -> None:
        """Start features with the leading eigenvectors, of all that was released of it so far."""
        popular, columns = self._popular, self._agreed.features
        rank, packed = min(columns, len(popular)), packing(len(popular))
        sums, noise = _averaged(self._covariances, sums[:, : packed.size], noise)
        # a member's outer product has length one, over as many numbers
        shares = shares_of_sites(noise, self._sizes, 1.0 / len(popular) ** 2)
        matrix = packed.unpack(shares @ sums)
        deviation = math.sqrt(float(shares**2 @ noise))
        self.features = np.zeros((self._agreed.items, columns))
        self.features[popular, :rank] = eigen_features(matrix, rank, deviation)

    def take_factors(self, sums: Floats, noise: Floats) -> None:
        """Shrink the items' side of a round of least squares."""
        items, columns = self._agreed.items, self._agreed.features
        table = sums[:, : items * columns].reshape(len(sums), -1, columns)
        found = pooled(table, self._by_site, noise, self._within / self._agreed.rank)
        rows = shrink(found.sums, found.weights, found.variance, 0.0)
        self.features = scaled_columns(rows, self._agreed.popular)

    def shared(self) -> Arrays:
        """Return mean, item offsets and features: of the pattern, learned, and given ones."""
        features = self.public, self.features, self._given
        item = self._agreed.item
        return {
            "mean": np.array([self._mean]),
            f"{item} offset": self._offsets,
            f"{item} offset{DEVIATION}": self._offsets_sd,
            item: np.column_stack(features),
            "kinds": np.repeat([1.0, 2.0, 3.0], [part.shape[1] for part in features]),
        }


def _averaged(known: list[Averaged], sums: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return every site's sums averaged with those before by their noise, and what is left."""
    known += [Averaged(sums.shape[1]) for _ in range(len(sums) - len(known))]
    left = [one.add(own, float(v)) for one, own, v in zip(known, sums, noise, strict=True)]
    return np.array([one.sums for one in known]), np.array(left)
