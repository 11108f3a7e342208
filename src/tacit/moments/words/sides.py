"""A site's side of words, pairs and triples: exact sums, each document by itself."""

from __future__ import annotations

from typing import Any

from tacit.data.documents import Documents
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.grid import Grid, GridSum
from tacit.moments.numerics.multisets import first_sums, joint_sums
from tacit.moments.numerics.sums import FINE
from tacit.moments.sides import in_steps
from tacit.moments.words.agreement import JointAgreement

__all__ = ["JointHolder"]


class JointHolder(Holder):
    """A site with its documents."""

    agreement: JointAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: Documents, picks: Picks
    ) -> GridSum:
        """Return the words, or weighted pairs and triples, of a shard, in steps of their own."""
        public = self.agreement
        if step.name == "first":
            return GridSum(first_sums(shard, public.norm), Grid(-FINE))
        most = (1.0, 1.0) if public.pure else asked["most"]
        places = asked.arrays["groups"] if public.common else public.places
        total = joint_sums(shard, places, public.kinds, most, public.share, public.norm)
        return GridSum(total, Grid(-FINE))

    def completed(self, step: Step, asked: Asked, value: GridSum) -> GridSum:
        """Return a sum on its mechanism's grid: rounded once, however many shards there are."""
        assert isinstance(step.mechanism, GridMechanism)
        return value.onto(step.mechanism.grid)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return a release in whole steps, which a secure sum adds."""
        assert isinstance(step.mechanism, GridMechanism)
        (name,) = step.leaving
        return {name: in_steps(released, step.mechanism.grid)}

    def units(self, shard: Documents) -> int:
        """Return the number of documents."""
        return len(shard)
