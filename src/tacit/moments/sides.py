"""The two sides of moments: products with noisy second moments, then third moments.

The coordinator needs the leading eigenvectors of the sum of all sites' noisy second moments. It
sends vectors, every site answers with the product of its noisy matrix, and a block Krylov method
with Rayleigh–Ritz on everything seen so far gives the eigenvectors in a few rounds. All products
are functions of one release per site. With the basis settled, every site releases its third
moment in that basis, once.

Where a secure sum is used vectors are whole numbers of 2⁻¹⁶ and so products are whole numbers:
they add up without error, modulo 2⁶⁴. Rounding the vectors costs no accuracy of the products; the
Ritz vectors are sought in the span of the rounded ones.

**A site that is lost** (where replies are seen one by one) is taken out of all sums. While
products are asked for, those of the others serve as before: Rayleigh–Ritz holds for any vectors.
Once the basis U was sent the others have released their third moment in it, and no second one is
due; so U stays, and their second moment Uᵀ(A + E)U in it, which follows from the products, takes
the place of the eigenvalues: a rotation of U makes it diagonal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.grid import Grid, GridSum, wide_sum
from tacit.mechanisms.symmetric_operator import BLOCK
from tacit.moments.agreement import MOST_ROUNDS, MomentAgreement
from tacit.moments.numerics.gaussians import (
    GaussianMoments,
    gaussian_moments,
    turned_within,
)
from tacit.moments.numerics.multisets import first_sums
from tacit.moments.numerics.sums import FINE, MOST_UNITS, SHRINK, entry_weights
from tacit.moments.numerics.whitening import spread
from tacit.rounds.sides import Collected

__all__ = [
    "Holding",
    "Spectrum",
    "as_tensor",
    "check_room",
    "in_steps",
    "weighted_sum",
]

# Rounds end when no Ritz value that stands out of the noise changes by more than this share of the
# largest. A vector's error is about the root of that: far less than what the noise does to it.
_SETTLED = 1e-3
_LEAST_ROUNDS = 4
_MOST_WORDS = 1 << 13  # whose pairs are kept, where documents are in shards: 256 MB


class WholeRows:
    """The second moments of shards: a sum whose rows are kept, block by block."""

    def __init__(self, blocks: list[GridSum], shape: tuple[int, int]) -> None:
        self._blocks, self.shape = blocks, shape
        self.exponent = blocks[0].grid.exponent

    @classmethod
    def of(cls, moments: Any) -> WholeRows:
        """Return the rows of one shard."""
        size, grid = moments.shape[0], Grid(moments.exponent)
        edges = [(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK)]
        return cls([GridSum(moments.rows(*edge), grid) for edge in edges], moments.shape)

    def __add__(self, other: WholeRows) -> WholeRows:
        pairs = zip(self._blocks, other._blocks, strict=True)
        return WholeRows([ours + theirs for ours, theirs in pairs], self.shape)

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return one of the blocks: rows ``start:stop`` and columns ``start:``."""
        return self._blocks[start // BLOCK].integers


class Holding(Holder):
    """A site with its documents or samples, whose sums are exact.

    Rows of one table's second moment are summed as they are needed; of shards, which are let go,
    they are kept.
    """

    agreement: MomentAgreement
    _whole = False  # whether rows are kept

    def hand(self) -> Self:
        """Return what contributes elsewhere, where a sum cannot be looked at later."""
        size = self.agreement.size
        if size > _MOST_WORDS:
            raise ParameterError(
                f"shards of documents with {size:,} words are more than the {_MOST_WORDS:,} whose "
                "pairs are kept: pass common=…, groups=…, or one table"
            )
        made = super().hand()
        made._whole = True
        return made

    def prepared(self, data: Any) -> Any:
        """Return documents or samples as exact sums."""
        return self.agreement.moments(data)

    def check_room(self) -> None:
        """Raise where sums could leave 64 bits."""
        super().check_room()
        units = sum(units for units, _ in self.sizes)
        if units > MOST_UNITS:
            raise ParameterError(
                f"{units:,} documents or samples are more than the {MOST_UNITS:,} whose moments "
                "64 bits hold: make several sites of them"
            )
        check_room(self.agreement, units)

    def contribute(self, step: Step, asked: Asked, kept: Kept, shard: Any, picks: Picks) -> Any:
        """Return the words, the second moment or the third, in steps of their own."""
        if step.name == "first":
            return GridSum(first_sums(shard.documents), Grid(-FINE))
        if step.name == "second":
            return WholeRows.of(shard) if self._whole else shard
        return GridSum(wide_sum([shard.third_sum(asked["basis"])]), Grid(shard.third_exponent))

    def completed(self, step: Step, asked: Asked, value: Any) -> Any:
        """Return sums on their mechanism's grid: rounded once, however many shards there are."""
        if step.name == "second":
            return value
        if step.name == "first":
            assert isinstance(step.mechanism, GridMechanism)
            return value.onto(step.mechanism.grid)
        public, entries = self.agreement, value.onto(Grid(-FINE)).integers
        return weighted_sum(entries, public.rank, public.mechanisms[1].grid)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return a product with the noisy matrix, or the third moment in whole steps."""
        if step.name in ("second", "look"):
            return {"product": released.apply(asked["vectors"])}
        assert isinstance(step.mechanism, GridMechanism)
        (name,) = step.leaving
        return {name: in_steps(released, step.mechanism.grid)}

    def units(self, shard: Any) -> int:
        """Return the number of documents or samples."""
        return int(shard.units)


class Spectrum:
    """What a coordinator makes of replies: leading eigenvectors, then the third moment in them.

    The basis is None until eigenvectors have settled. ``rng`` is for the first vectors; whoever
    decomposes the third moment goes on with it.
    """

    def __init__(self, public: MomentAgreement, rng: np.random.Generator) -> None:
        self.public, self.rng = public, rng
        self.basis: Array | None = None
        self.values: Array = np.full(public.rank, np.inf)
        self.third: Array = np.zeros((public.rank,) * 3)
        self.across: Array = np.zeros(0)  # what is asked for beside the third moment
        self.sites: tuple[str, ...] = ()  # whose moments these are
        self._words: Mapping[str, Any] = {}  # every site's words, where they came first
        self._seen: list[tuple[Any, Mapping[str, Any]]] = []  # vectors, and every site's product
        if public.dense:
            self._next: Any = np.eye(public.matrix_size)
        else:
            start = rng.standard_normal((public.size, public.width))
            start[:, 0] = 1.0  # gives the row sums, and so the number of documents
            start[:, 1:] -= start[:, 1:].mean(axis=0)
            self._next = np.linalg.qr(start)[0]

    @property
    def sent(self) -> NDArray[Any]:
        """The vectors of the next request."""
        if not self.public.whole:
            return np.asarray(self._next)
        return np.asarray(np.rint(np.ldexp(self._next, self.public.unit_bits)), np.int64)

    def take_first(self, found: Collected) -> None:
        """Take in the words of all documents."""
        parts: Mapping[str, Any] = found.by_site or {"": found.total}
        self._words = {name: part["words"] for name, part in parts.items()}
        self.sites = tuple(found.sites)

    def words_on(self, exponent: int) -> Array:
        """Return the sum of words over the sites that are left."""
        return np.ldexp(np.asarray(self._summed(self._words), np.float64), exponent)

    def take_products(self, found: Collected) -> None:
        """Take in products: find Ritz values and vectors; go on, or settle on the basis."""
        self._check_lost(found)
        vectors, bits = self._next, self.public.unit_bits
        parts: Mapping[str, Any] = found.by_site or {"": found.total}
        products = {name: part["product"] for name, part in parts.items()}
        if self.public.whole:
            vectors = np.ldexp(self.sent.astype(np.float64), -bits)
            step = self.public.mechanisms[0].grid.step
            products = {name: np.ldexp(p * step, -bits) for name, p in products.items()}
        self.sites = tuple(found.sites)
        self._seen.append((vectors, products))
        if self.public.dense:
            self._settle_whole()
        else:
            self._settle_or_go_on()

    def take_third(self, found: Collected) -> None:
        """Take in the third moment; a site that was lost on the way is taken out."""
        self._check_lost(found)
        lost, self.sites = tuple(found.sites) != self.sites, tuple(found.sites)
        exponent = self.public.mechanisms[1].grid.exponent
        self.third = as_tensor(found.total["third"], exponent, self.public.rank)
        more = found.total["third"][len(entry_weights(self.public.rank)) :]
        self.across = self.public.beside(np.ldexp(np.asarray(more, np.float64), exponent))
        if lost:
            self._turn()

    def _check_lost(self, found: Collected) -> None:
        if self.sites and tuple(found.sites) != self.sites and not found.by_site:
            raise SiteFailure(
                "a site was lost after the first moments were summed, and its part cannot be "
                "taken out of a secure sum: begin a new run without it"
            )

    def _summed(self, products: Mapping[str, Any]) -> Array:
        """Return a product with the sum over the sites that are left."""
        names = self.sites if len(products) > 1 else tuple(products)
        return np.asarray(sum(products[name] for name in names))

    def _settle_whole(self) -> None:
        """Take the eigenvectors of the whole matrix."""
        matrix, rank = self._matrix(), self.public.rank
        if self.public.unit == "row":
            self.gaussians = self._gaussians(matrix)
            self._settle(self.gaussians.values, self.gaussians.basis)
        else:
            values, vectors = np.linalg.eigh(matrix)
            self._settle(values[::-1], vectors[:, ::-1][:, :rank])

    def _gaussians(self, matrix: Array, basis: Array | None = None) -> GaussianMoments:
        """Read the second moment of samples."""
        public = self.public
        edge = public.edge(len(self.sites)) if public.by_feature else None
        return gaussian_moments(matrix, public.rank, basis, edge=edge)

    def _settle_or_go_on(self) -> None:
        """Take the Ritz vectors of all products once they have settled; else go on."""
        rank, rounds = self.public.rank, len(self._seen)
        q, products = self._orthonormal()
        ritz = q.T @ products
        values, inner = np.linalg.eigh((ritz + ritz.T) / 2.0)
        values, inner = values[::-1], inner[:, ::-1][:, :rank]
        change = np.abs(values[:rank] - self.values) / np.abs(values[:rank]).max()
        self.values = values[:rank]
        edge = self.public.edge(len(self.sites))
        still = bool((change[values[:rank] > edge] < _SETTLED).all())
        over = rounds >= MOST_ROUNDS or q.shape[0] == q.shape[1]
        if over or (still and rounds >= _LEAST_ROUNDS):
            self._settle(values, np.linalg.qr(q @ inner)[0])
            return
        # the next Krylov block, orthogonal to all before
        fresh = self._summed(self._seen[-1][1]).copy()
        for _ in range(2):
            fresh -= q @ (q.T @ fresh)
        self._next = np.linalg.qr(fresh[:, : q.shape[0] - q.shape[1]])[0]

    def _matrix(self) -> Array:
        """Return the whole noisy matrix, where the identity was sent."""
        product = self._summed(self._seen[0][1])
        return np.asarray((product + product.T) / 2.0)

    def _orthonormal(self) -> tuple[Array, Array]:
        """Return Q, an orthonormal basis of all vectors that were sent, and (A + E)·Q."""
        q, r = np.linalg.qr(np.hstack([vectors for vectors, _ in self._seen]))
        products = np.hstack([self._summed(products) for _, products in self._seen])
        return q, products @ np.linalg.inv(r)

    @property
    def sums(self) -> Array:
        """The row sums of the noisy matrix."""
        if self.public.dense:
            return np.asarray(self._matrix().sum(axis=1))
        vectors, products = self._seen[0]
        return np.asarray(self._summed(products)[:, 0] / vectors[:, 0].mean())

    def _turn(self) -> None:
        """Take a lost site out of the second moment in the basis, and turn the basis to fit."""
        basis = self.basis
        assert basis is not None
        if self.public.unit == "row":
            self.gaussians = self._gaussians(self._matrix(), basis)
            turned, values = self.gaussians.basis, self.gaussians.values
        else:
            q, products = (
                (np.eye(len(basis)), self._matrix()) if self.public.dense else self._orthonormal()
            )
            # the basis lies in the span of Q, so (A + E)·U = (A + E)·Q·QᵀU
            turned, values = turned_within(basis.T @ products @ (q.T @ basis), basis)
        turn = basis.T @ turned
        self.third = np.einsum("abc,ai,bj,ck->ijk", self.third, turn, turn, turn, optimize=True)
        self.across = self.across @ turn if len(self.across) else self.across
        self._settle(values, turned)

    def _settle(self, values: Any, basis: Any) -> None:
        """Fix eigenvalues and basis: from here on the third moment may be asked for."""
        self.values = np.asarray(values)[: self.public.rank]
        self.basis = np.ascontiguousarray(basis)


def check_room(public: MomentAgreement, units: int) -> None:
    """Raise, at a site, where products of a secure sum could leave 64 bits.

    A unit moves an entry of a product by at most Δ₂ times the norm of a vector. Each site answers
    for its own share of the room, so none learns of another's size.
    """
    room = np.ldexp(1.0, 62 - public.unit_bits) * public.mechanisms[0].grid.step / public.sites
    if public.whole and units * public.second_sensitivity > room:
        raise ParameterError(
            f"a site holds more than {room:.3g} rows or documents, too many for whole-number "
            "products at this little noise: make several sites of it, or use trust='site'"
        )


def in_steps(released: Any, grid: Grid) -> NDArray[np.int64]:
    """Return released numbers as whole numbers of grid steps, which a secure sum adds."""
    return np.asarray(np.rint(np.ldexp(released, -grid.exponent)), np.int64)


def weighted_sum(entries: NDArray[Any], rank: int, grid: Grid) -> GridSum:
    """Return the entries at a ≤ b ≤ c of a summed third moment as coordinates on a grid.

    Times √(permutations) they are coordinates along an orthonormal basis; what follows them is so
    already. Rounding the sum moves
    each by half a step, which the mechanism counts; the error of the product, some 2⁻⁵³ of a sum
    of at most 2²⁶, is far below what `tacit.moments.numerics.sums.SHRINK` leaves.
    """
    values, weights = np.ldexp(entries.astype(np.float64), -FINE), entry_weights(rank)
    values[: len(weights)] *= weights
    return GridSum(grid.round(values), grid)


def as_tensor(steps: Any, exponent: int, rank: int) -> Array:
    """Return the symmetric tensor of released coordinates, undoing weights and `SHRINK`."""
    weights = entry_weights(rank)
    coordinates = np.ldexp(np.asarray(steps, np.float64)[: len(weights)], exponent)
    return spread(coordinates / weights / SHRINK, rank)
