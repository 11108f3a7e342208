"""The methods of `PrivateRecommender` by name, and the settings of the default one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tacit._core.check import OneOf, Real, check
from tacit.errors import ParameterError
from tacit.factorization.offsets.sums import HALF
from tacit.recommender.implicit import ImplicitFeedback
from tacit.recommender.local.every_item import ItemResponseGradient, ResponseGradient
from tacit.recommender.local.groups import LocalGroups
from tacit.recommender.local.one_answer import LocalGradient
from tacit.recommender.method import RecommenderMethod, Task
from tacit.recommender.private_weights import PrivateWeightsAgreement
from tacit.recommender.weighted import WeightedOffsetsAgreement

__all__ = ["KINDS", "METHODS", "HeterogeneousOffsets", "WeightedOffsetsAgreement"]

_MEAN, _LATER = 0.02, 0.3  # shares of the squared noise multiplier; offsets have the rest
_PRODUCTS = 7  # of the public pattern


@dataclass(frozen=True)
class HeterogeneousOffsets(RecommenderMethod):
    """Certified: item offsets under weights W_ij, features from the public pattern.

    Parameters
    ----------
    clip
        c, where a rating's distance from its user's mean is clipped, of a half-range of 2.
    prior_weight
        κ, the weight of the overall mean in a user's own mean.
    pattern
        Whether items get features from who rated what.
    factors
        Whether a private step learns how items are liked along those features; ``"auto"``: where
        that stands out from the noise.
    public_weights
        Whether privacy weights are public. If not, sums of them pass the gate as well, and a
        rating and its weight together have ε (`tacit.recommender.private_weights`).
    """

    clip: float = 1.0
    prior_weight: float = 20.0
    pattern: bool = True
    factors: bool | str = "auto"
    public_weights: bool = True

    unit = "entry"
    trusts = ("aggregator", "site", "central")
    parts = True
    told = ("clip", "prior_weight", "pattern", "factors", "public_weights")

    def __post_init__(self) -> None:
        check("clip", self.clip, Real(0, 2 * HALF, open_low=True))
        check("prior_weight", self.prior_weight, Real(0, open_low=True))
        check("pattern", self.pattern, OneOf(True, False))
        check("factors", self.factors, OneOf("auto", True, False))
        if self.factors is True and not self.pattern:
            raise ParameterError("factors need pattern=True: they start from its features")
        check("public_weights", self.public_weights, OneOf(True, False))
        if not self.public_weights and self.factors is True:
            raise ParameterError("a round on factors needs public_weights=True: pass 'auto'")
        if not self.public_weights and self.clip > HALF:
            raise ParameterError("private weights need a clip of at most 2, the half-range")

    def check(self, task: Task) -> None:
        """Refuse what the method cannot give."""
        super().check(task)
        if task.noisy and task.privacy is not None and task.privacy.delta == 0.0:
            raise ParameterError("this method adds Gaussian noise: pass Privacy(…, delta=1e-6)")

    def agree(self, task: Task) -> WeightedOffsetsAgreement:
        """Return what is public about a fit."""
        self.check(task)
        factors = self.factors if self.public_weights else False
        later = [("later", _LATER)] if factors is not False and self.pattern else []
        rest = 1.0 - _MEAN - (_LATER if later else 0.0)
        plan = (("mean", _MEAN), ("offsets", rest), *later)
        kind = WeightedOffsetsAgreement if self.public_weights else PrivateWeightsAgreement
        return kind(
            items=task.items,
            rank=task.rank,
            bounds=task.bounds,
            unit="entry",
            privacy=task.privacy,
            sites=task.sites,
            plan=plan,
            later=("offsets", "damped factors"),
            clip=self.clip,
            prior_weight=self.prior_weight,
            products=_PRODUCTS if self.pattern else 0,
            weighted=self.public_weights,
            item_weights=task.item_weights,
            source="exact" if task.devices else "grid",
            task=task,
            factors=factors,
        )


METHODS: dict[str, Callable[[], RecommenderMethod]] = {
    "heterogeneous": HeterogeneousOffsets,
    "offsets": partial(HeterogeneousOffsets, pattern=False),
    "private-weights": partial(HeterogeneousOffsets, public_weights=False),
    "implicit": ImplicitFeedback,
    "groups": LocalGroups,
    "gd": LocalGradient,
    "gd-dr": partial(LocalGradient, dimensions=100),
    "responses": ResponseGradient,
    "item-responses": ItemResponseGradient,
}
# every class of settings, by its name in a release
KINDS: dict[str, type[RecommenderMethod]] = {
    kind.__name__: kind
    for kind in (
        HeterogeneousOffsets,
        ImplicitFeedback,
        ItemResponseGradient,
        LocalGradient,
        LocalGroups,
        ResponseGradient,
    )
}
