"""`PrivateLogisticRegression`: probabilities of two classes; intervals that know the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Real, check
from tacit.data.features import numbers, one_column
from tacit.data.reading import Table, read_rows
from tacit.data.schema import Columns
from tacit.data.values import plain_text
from tacit.errors import ParameterError
from tacit.estimators.facts import Facts
from tacit.estimators.fit import Outcome
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.predicting import beside, shown_level
from tacit.estimators.release import Release
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.regression.bounds import PublicBounds
from tacit.regression.generalised.estimator import GeneralisedRegression
from tacit.regression.generalised.public import labels_as_numbers, public_labels
from tacit.regression.generalised.simulation import simulated_error

__all__ = ["PrivateLogisticRegression"]


@stores_parameters
class PrivateLogisticRegression(ClassifierMixin, GeneralisedRegression):  # type: ignore[misc]
    """Bayesian logistic regression over one holder or many sites.

    Every site releases noisy sums of products of its rows once, and then noisy sums of clipped
    gradients in a few rounds; the posterior takes all of them, and counts what noise and sampling
    leave open.

    Parameters
    ----------
    columns
        What is public about the table: `tacit.Columns`, a mapping of such or a file's path, with
        every feature and the target, a category of two values or a truth value. Instead of
        ``bounds`` and ``classes``.
    method
        ``"rounds"`` of gradients, ``"one-shot"``, a single release, or ``"auto"``, the better of
        both by what is public: rounds.
    bounds
        The public range of every feature: a mapping of column to (low, high), a sequence of
        pairs in the order of the columns of X, or one number, the public norm of a row.
    classes
        The two public labels, the one that probabilities are of last.
    target
        The column of the label, where data are tables; that of ``columns`` unless given.
    rows
        About how many rows all sites have together, where that is public; helps where there are
        few. Not read from the data.
    draws
        How many draws of the posterior are kept.
    privacy
        The guarantee asked for; None adds no noise. The unit is a row, or a user where
        ``columns`` name the person.
    ledger
        Who pays when a single table is fitted; sites bring their own.
    noise
        How noise is drawn: on a ``"grid"``, or ``"exact"``, which is slower.
    checkpoint
        A folder: a fit that was interrupted goes on from there, with the same ledger.
    on_failure
        ``"stop"`` at the first site that fails, or ``"exclude"`` it and go on.
    progress
        Whether a progress bar is shown.
    random_state
        A seed for noise and draws, for tests only: certificates then say so.

    Attributes
    ----------
    classes_
        The labels.
    coef_, intercept_, coef_sd_, intercept_sd_
        Posterior means and standard deviations of log-odds on the caller's own scale.
    draws_
        Draws of (intercept, coefficients): (chains, draws, terms). They are independent.
    certificate_, certificates_
        The certificate with the largest ε, and one per site.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (4000, 2))
    >>> y = rng.random(4000) < 1 / (1 + np.exp(5 - X[:, 0]))
    >>> model = PrivateLogisticRegression(
    ...     bounds=[(0, 10), (0, 10)], classes=(False, True), privacy=Privacy(1.0, 1e-6),
    ...     random_state=0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 1.0) < 0.3), model.predict([[9.0, 5.0]]).tolist()
    (True, [True])
    """

    _link = "logistic"
    _purpose = "logistic regression"
    _stored = ("columns", "method", "bounds", "classes", "target", "rows", "draws")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **GeneralisedRegression._constraints,
        "classes": AnyOf(InstanceOf(tuple, list, np.ndarray), None),
    }

    columns: Columns | Mapping[str, Any] | str | None = None
    _: KW_ONLY
    method: str = "auto"
    bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | float | None = None
    classes: Sequence[Any] | None = None
    target: str | None = None
    rows: float | None = None
    draws: int = 1000
    privacy: Privacy | None = None
    ledger: Ledger | None = None
    noise: str = "grid"
    checkpoint: Any = None
    on_failure: str = "stop"
    progress: bool = False
    random_state: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = self._noisy  # of the few rows that checks try
        tags.classifier_tags.multi_class = False
        return tags

    @property
    def _public(self) -> PublicBounds:
        return self._public_and_labels[0]

    @property
    def _two(self) -> tuple[Any, ...]:
        """The labels."""
        return self._public_and_labels[1]

    @property
    def _public_and_labels(self) -> tuple[PublicBounds, tuple[Any, ...]]:
        return public_labels(self.bounds, self.classes, self.columns, self.target)

    def _numbers_of(self, data: Any) -> Any:
        """Return (X, y) with labels as 0 and 1; what one is does not depend on the others."""
        if isinstance(data, tuple) and len(data) == 2:
            return data[0], labels_as_numbers(data[1], self._two)
        if self.target is None:
            raise ParameterError(
                "a classifier requires y to be passed, but the target y is None: pass fit(X, y), "
                "or a table with target='the column of the label'"
            )
        table = read_rows(data)
        if not self._public.by_name:
            raise ParameterError(
                "a table needs names: pass bounds={feature: (low, high)}, or columns=Columns(…)"
            )
        features = numbers(table, list(self._public.pairs()), finite=False)
        return features, labels_as_numbers(table.column(self.target), self._two)

    def _about(self) -> str:
        return f"log-odds of {plain_text(self._two[1])}"

    def _conclude(self, outcome: Outcome) -> None:
        super()._conclude(outcome)
        self.classes_ = _as_array(self._two)

    def _adopt(self, release: Release) -> None:
        super()._adopt(release)
        self.classes_ = _as_array(self._two)

    # -- predictions -----------------------------------------------------------------------

    def predict_proba(self, X: Any, *, interval: float | None = None) -> Any:
        """Return the predictive probability of each class, (rows, 2).

        Parameters
        ----------
        X
            Features on the caller's own scale.
        interval
            Also return bounds (low, high) that hold the probability of the last class, given what
            sampling and noise leave open, with this probability.
        """
        if interval is not None:
            check("interval", interval, Real(0, 1, open_low=True, open_high=True))
        share, low, high = self._means(X, interval)
        found = np.column_stack([1.0 - share, share])
        return found if interval is None else (found, (low, high))

    def predict(self, X: Any) -> Any:
        """Return the more probable class of each row."""
        share = self._means(X)[0]
        return self.classes_[(share > 0.5).astype(int)]

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        share, low, high = self._means(dict(table), interval)
        names = [shown_level(one) for one in self.classes_.tolist()]
        found: dict[str, Any] = {
            "prediction": self.classes_[(share > 0.5).astype(int)],
            names[0]: 1.0 - share,
            names[1]: share,
        }
        if interval is not None:
            found |= {"low": low, "high": high}
        return beside(table, found)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is right; on given rows, and not private.

        Parameters
        ----------
        X
            Rows; a table with the target, where there are ``columns``.
        y
            Their labels, where ``X`` has none.
        sample_weight
            How much each row counts; all the same unless given.
        """
        right = (self._means(X)[0] > 0.5) == (self._true(X, y) > 0.5)
        return float(np.average(right, weights=sample_weight))

    def _true(self, X: Any, y: Any) -> Array:
        """Return true labels as 0 and 1."""
        public = self._public
        if public.columns is None or public.target is None:
            return np.asarray(labels_as_numbers(y, self._two))
        own = read_rows(X if y is None else {public.target: one_column(y)})
        kind = public.columns[public.target]
        found = Columns({public.target: kind}).read(own).values[public.target]
        return np.asarray(found, np.float64)

    @classmethod
    def _simulate(cls, facts: Facts, seed: int) -> float:
        return simulated_error(cls, facts, seed, classes=(0, 1))


def _as_array(labels: Sequence[Any]) -> Any:
    """Return labels as an array that keeps them as they are."""
    alike = len({type(label) for label in labels}) == 1
    return np.asarray(labels) if alike else np.array(labels, object)
