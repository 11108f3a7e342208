"""`Estimator`: what every estimator has, whether it asks for privacy or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from sklearn.base import BaseEstimator

from tacit._core.answers import Answering
from tacit._core.check import Constraint, check_table
from tacit._core.html import tag
from tacit.estimators.checking import Findings, tried
from tacit.estimators.parameters import parts_of, with_parts
from tacit.estimators.site import ALONE

__all__ = ["Estimator"]


class Estimator(Answering, BaseEstimator):  # type: ignore[misc]
    """Base of all estimators: ``__init__`` only stores, `_constraints` is checked at ``fit``.

    A notebook shows what was learned; before that, scikit-learn's picture of the parameters.
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {}

    def _check_parameters(self) -> None:
        check_table(self.get_params(deep=False), self._constraints)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters; where ``deep`` also parts, such as ``privacy__epsilon``."""
        found: dict[str, Any] = super().get_params(deep=deep)
        return found | parts_of(super().get_params(deep=False)) if deep else found

    def set_params(self, **params: Any) -> Self:
        """Set parameters, or parts of them: ``privacy__epsilon`` states another ε of the same."""
        super().set_params(**with_parts(self.get_params(deep=False), params))
        return self

    @property
    def _has_answer(self) -> bool:
        """Whether there is anything to show but parameters."""
        return any(name.endswith("_") and name[0] != "_" for name in vars(self))

    def _repr_html_(self) -> str:
        if not self._has_answer:
            return str(self._repr_html_inner())
        return self.summary().html(("Parameters", tag("pre", repr(self))))

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        if not self._has_answer:
            shown: dict[str, Any] = super()._repr_mimebundle_(**options)
            return shown
        return {"text/plain": str(self.summary()), "text/html": self._repr_html_()}

    def _try(self, data: Any) -> Any:
        """Read data as `fit` would, and raise what is wrong with them."""
        return data

    def check(self, data: Any, y: Any = None) -> Findings:
        """Return everything that is wrong with data, in one pass; nothing is fitted or paid.

        Parameters
        ----------
        data, y
            As in `fit`. What is found is for whoever holds the data.
        """
        self._check_parameters()
        return tried({ALONE: lambda: self._try(data if y is None else (data, y))})
