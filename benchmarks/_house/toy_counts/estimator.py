"""`ToyCounts`: private counts of a column's categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer
from tacit.errors import ParameterError
from tacit.estimators.base import PrivateEstimator
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

from .agreement import CountsAgreement

__all__ = ["ToyCounts"]

METHODS = {"geometric": CountsAgreement}


class ToyCounts(PrivateEstimator):
    """Private counts of the categories of one column."""

    _purpose = "toy counts"
    _told = ("categories", "column", "method")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "categories": InstanceOf(tuple, list),
        "column": InstanceOf(str),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "random_state": AnyOf(Integer(0), None),
    }

    def __init__(
        self,
        categories: Sequence[str] = (),
        *,
        column: str = "kind",
        method: str = "geometric",
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.categories = categories
        self.column = column
        self.method = method
        self.privacy = privacy
        self.ledger = ledger
        self.random_state = random_state

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> CountsAgreement:
        return METHODS[self.method](tuple(self.categories), self.privacy, len(facts))

    def _read(self, data: Any, agreement: Any) -> Any:
        if isinstance(data, np.ndarray):  # positions already: an audit's own rows
            return data
        place = {name: k for k, name in enumerate(agreement.categories)}
        try:
            return np.array([place[str(value)] for value in data[self.column]], np.int64)
        except KeyError as error:
            raise ParameterError(f"{error} is none of the categories") from None

    def _conclude(self, outcome: Any) -> None:
        self.shared_ = {"counts": np.asarray(outcome.result)}
        self._name(self.shared_["counts"])

    def _name(self, counts: Any) -> None:
        self.counts_ = dict(zip(self.categories, counts.tolist(), strict=True))

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        return {"counts": ("category",)}, {"category": list(self.categories)}

    def _adopt(self, release: Any) -> None:
        ToyCounts.__init__(self, **release.settings)
        self._name(release.arrays["counts"])

    @classmethod
    def _simulate(cls, facts: Any, seed: int) -> float:
        """Return the error of a simulated fit: the largest of a share."""
        rng = np.random.default_rng(seed)
        names = [f"c{k}" for k in range(facts.features)]
        rows = rng.integers(facts.features, size=facts.rows)
        request = Privacy(facts.epsilon, facts.delta, unit="row")
        model = cls(names, privacy=request, random_state=seed).fit(
            {"kind": [names[k] for k in rows]}
        )
        real = np.bincount(rows, minlength=facts.features)
        return float(np.abs(model.shared_["counts"] - real).max() / facts.rows)
