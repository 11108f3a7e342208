"""The rounds of spectral learning: products with noisy second moments, then third moments.

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

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.spectral_release import Plan, weighted_sum
from tacit.mechanisms.base import privatize
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.operator import GaussianShare, NoisyOperator, OperatorGaussian
from tacit.models.mixture import spherical_moments, turned_within
from tacit.models.moments import SHRINK, DocumentMoments, SampleMoments, entry_weights
from tacit.models.whitening import spread
from tacit.privacy.ledger import Reservation
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected, Coordinator, Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_ROUNDS", "Holder", "Spectrum", "as_tensor", "check_room"]

DENSE = 512  # up to this size one round with the identity gives the whole matrix
_UNIT = 16  # vectors are whole numbers of 2^-16 under a secure sum
# Rounds end when no Ritz value that stands out of the noise changes by more than this share of the
# largest. A vector's error is about the root of that: far less than what the noise does to it.
_SETTLED = 1e-3
_LEAST_ROUNDS, MOST_ROUNDS = 4, 10


class Holder(Participant):
    """A site's part: one noisy second moment, and one third moment in the basis it led to."""

    def __init__(
        self,
        name: str,
        moments: DocumentMoments | SampleMoments,
        plan: Plan,
        mechanisms: tuple[OperatorGaussian, GaussianShare],
        reservation: Reservation | None,
        noise: Noise,
    ) -> None:
        self.name = name
        self._moments, self._plan, self._mechanisms = moments, plan, mechanisms
        self._reservation, self._noise = reservation, noise
        self._operator: NoisyOperator | None = None

    def respond(self, request: Message) -> Message:
        """Answer with a product, or with the third moment in a basis."""
        second, third = self._mechanisms
        if "vectors" in request.arrays:
            if self._operator is None:
                self._operator = privatize(
                    second, self._moments, ledger=self._reservation, rng=self._noise
                )
            return Message(request.round, {"product": self._operator.apply(request["vectors"])})
        if self._operator is None:
            raise SiteFailure("a basis was sent before any second moment was released")
        entries = self._moments.third(request["basis"])
        total = weighted_sum(entries, self._plan.rank, third.grid)
        released = privatize(third, total, ledger=self._reservation, rng=self._noise)
        self._moments = _Spent()  # one third moment, in one basis
        steps = np.rint(np.ldexp(released, -third.grid.exponent)).astype(np.int64)
        return Message(request.round, {"third": steps})


class _Spent(DocumentMoments):
    """In place of moments that were released already."""

    def __init__(self) -> None: ...

    def third(self, basis: Any) -> NDArray[Any]:
        raise SiteFailure("the third moment was released already, in one basis")


class Spectrum(Coordinator):
    """The coordinator's part: the leading eigenvectors of the sum, then its third moment.

    Parameters
    ----------
    plan
        What is public.
    mechanisms
        The noise of a site, for the grids.
    whole
        Whether vectors and products are whole numbers, for a secure sum.
    rng
        For the first vectors.
    edge
        Where the spectrum of the noise ends; eigenvalues below need not settle.
    """

    def __init__(
        self,
        plan: Plan,
        mechanisms: tuple[OperatorGaussian, GaussianShare],
        whole: bool,
        rng: np.random.Generator,
        edge: float = 0.0,
    ) -> None:
        self.plan, self._mechanisms, self._whole = plan, mechanisms, whole
        self._edge = edge
        size = plan.matrix_size
        self.basis: NDArray[np.float64] | None = None
        self.third: NDArray[np.float64] = np.zeros((plan.rank,) * 3)
        self.sites: tuple[str, ...] = ()
        self._seen: list[tuple[Any, Mapping[str, Any]]] = []  # vectors, and every site's product
        self._values = np.full(plan.rank, np.inf)
        if self.dense:
            self._next: Any = np.eye(size)
        else:
            # many columns and few rounds: a product with 100 costs little more than with 20
            width = min(size, max(4 * plan.rank, 64))
            start = rng.standard_normal((size, width))
            start[:, 0] = 1.0  # gives the row sums, and so the number of documents
            start[:, 1:] -= start[:, 1:].mean(axis=0)
            self._next = np.linalg.qr(start)[0]

    @property
    def dense(self) -> bool:
        """Whether the whole matrix is seen at once; samples need it for their variance."""
        return self.plan.samples or self.plan.matrix_size <= DENSE

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """A product, or the third moment."""
        if self.basis is not None:
            return {"third": ArraySpec((self.plan.coordinates,), "int64")}
        kind = "int64" if self._whole else "float64"
        return {"product": ArraySpec(self._next.shape, kind)}

    def request(self, round: int) -> Message | None:
        """Send vectors until the eigenvectors have settled, then the basis."""
        if self.basis is not None:
            return None if self._done else Message(round, {"basis": self.basis})
        if not self._whole:
            return Message(round, {"vectors": self._next})
        unit = 0 if self.dense else _UNIT
        return Message(round, {"vectors": np.rint(np.ldexp(self._next, unit)).astype(np.int64)})

    _done = False

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in products or the third moment."""
        if self.sites and collected.sites != self.sites and not collected.by_site:
            raise SiteFailure(
                "a site was lost after the first moments were summed, and its part cannot be "
                "taken out of a secure sum: begin a new run without it"
            )
        if self.basis is not None:
            self._take_third(collected.total["third"], collected.sites)
            return
        vectors = self._next
        parts: Mapping[str, Any] = collected.by_site or {"": collected.total}
        products = {name: part["product"] for name, part in parts.items()}
        if self._whole:
            unit = 0 if self.dense else _UNIT
            vectors = np.ldexp(np.rint(np.ldexp(vectors, unit)), -unit)
            step = self._mechanisms[0].grid.step
            products = {name: np.ldexp(p * step, -unit) for name, p in products.items()}
        self._take_products(vectors, products, collected.sites)

    def _take_products(self, vectors: Any, products: Mapping[str, Any], sites: Any) -> None:
        self.sites = tuple(sites)
        self._seen.append((vectors, products))
        self._analyse(len(self._seen))

    def _take_third(self, steps: Any, sites: Any) -> None:
        lost = tuple(sites) != self.sites
        self.sites, self._steps, self._done = tuple(sites), np.asarray(steps), True
        self.third = as_tensor(steps, self._mechanisms[1].grid.exponent, self.plan.rank)
        if lost:
            self._turn()

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return all products, and the third moment once it is there: all of it was released."""
        kept = {"sites": np.frombuffer(json.dumps(self.sites).encode(), np.uint8)}
        for k, (vectors, products) in enumerate(self._seen):
            kept[f"vectors/{k}"] = vectors
            kept |= {f"product/{k}/{site}": product for site, product in products.items()}
        return kept | ({"third": self._steps} if self._done else {})

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state, by going through what was released again."""
        self._seen, self.basis, self._done = [], None, False
        sites = json.loads(state["sites"].tobytes())
        while f"vectors/{len(self._seen)}" in state:
            k = len(self._seen)
            start = f"product/{k}/"
            products = {n.removeprefix(start): a for n, a in state.items() if n.startswith(start)}
            seen = sites if "" in products else tuple(products)
            self._take_products(state[f"vectors/{k}"], products, seen)
        if "third" in state:
            self._take_third(state["third"], sites)

    def _summed(self, products: Mapping[str, Any]) -> NDArray[np.float64]:
        """Return a product with the sum over the sites that are left."""
        names = self.sites if len(products) > 1 else tuple(products)
        return np.asarray(sum(products[name] for name in names))

    def _analyse(self, rounds: int) -> None:
        """Find Ritz values and vectors; go on, or settle on the basis."""
        rank = self.plan.rank
        if self.dense:
            matrix = self._matrix()
            if self.plan.samples:
                self.spherical = spherical_moments(matrix, rank)
                self._settle(self.spherical.values, self.spherical.basis)
            else:
                values, vectors = np.linalg.eigh(matrix)
                self._settle(values[::-1], vectors[:, ::-1][:, :rank])
            return
        q, products = self._orthonormal()
        ritz = q.T @ products
        values, inner = np.linalg.eigh((ritz + ritz.T) / 2.0)
        values, inner = values[::-1], inner[:, ::-1][:, :rank]
        change = np.abs(values[:rank] - self._values) / np.abs(values[:rank]).max()
        self._values = values[:rank]
        still = bool((change[values[:rank] > self._edge] < _SETTLED).all())
        over = rounds >= MOST_ROUNDS or q.shape[0] == q.shape[1]
        if over or (still and rounds >= _LEAST_ROUNDS):
            self._settle(values, np.linalg.qr(q @ inner)[0])
            return
        # the next Krylov block, orthogonal to all before
        fresh = self._summed(self._seen[-1][1]).copy()
        for _ in range(2):
            fresh -= q @ (q.T @ fresh)
        self._next = np.linalg.qr(fresh[:, : q.shape[0] - q.shape[1]])[0]

    def _matrix(self) -> NDArray[np.float64]:
        """Return the whole noisy matrix, where the identity was sent."""
        product = self._summed(self._seen[0][1])
        return np.asarray((product + product.T) / 2.0)

    def _orthonormal(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return Q, an orthonormal basis of all vectors that were sent, and (A + E)·Q."""
        q, r = np.linalg.qr(np.hstack([vectors for vectors, _ in self._seen]))
        products = np.hstack([self._summed(products) for _, products in self._seen])
        return q, products @ np.linalg.inv(r)

    @property
    def sums(self) -> NDArray[np.float64]:
        """The row sums of the noisy matrix."""
        if self.dense:
            return np.asarray(self._matrix().sum(axis=1))
        vectors, products = self._seen[0]
        return np.asarray(self._summed(products)[:, 0] / vectors[:, 0].mean())

    def _turn(self) -> None:
        """Take a lost site out of the second moment in the basis, and turn the basis to fit."""
        basis = self.basis
        assert basis is not None
        if self.plan.samples:
            self.spherical = spherical_moments(self._matrix(), self.plan.rank, basis)
            turned, values = self.spherical.basis, self.spherical.values
        else:
            q, products = (
                (np.eye(len(basis)), self._matrix()) if self.dense else self._orthonormal()
            )
            # the basis lies in the span of Q, so (A + E)·U = (A + E)·Q·QᵀU
            turned, values = turned_within(basis.T @ products @ (q.T @ basis), basis)
        turn = basis.T @ turned
        self.third = np.einsum("abc,ai,bj,ck->ijk", self.third, turn, turn, turn, optimize=True)
        self._settle(values, turned)

    def _settle(self, values: Any, basis: Any) -> None:
        """Fix eigenvalues and basis: from here on the third moment may be asked for."""
        self.values = np.asarray(values)[: self.plan.rank]
        self.basis = np.ascontiguousarray(basis)


def check_room(plan: Plan, second: OperatorGaussian, moments: Any, sites: int) -> None:
    """Raise, at a site, where products of a secure sum could leave 64 bits.

    A unit moves an entry of a product by at most Δ₂ times the norm of a vector. Each site answers
    for its own share of the room, so none learns of another's size.
    """
    unit = 0 if plan.samples or plan.matrix_size <= DENSE else _UNIT
    room = np.ldexp(1.0, 62 - unit) * second.grid.step / sites
    if moments.units * plan.second_sensitivity > room:
        raise ParameterError(
            f"a site holds more than {room:.3g} units, too many for whole-number products at "
            "this little noise: make several sites of it, or use trust='site'"
        )


def as_tensor(steps: Any, exponent: int, rank: int) -> NDArray[np.float64]:
    """Return the symmetric tensor of released coordinates, undoing weights and `SHRINK`."""
    coordinates = np.ldexp(np.asarray(steps, np.float64), exponent)
    return spread(coordinates / entry_weights(rank) / SHRINK, rank)
