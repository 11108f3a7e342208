"""`PrivatePoissonRegression`: rates of counts, with intervals that know the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar

import numpy as np
from scipy.special import xlogy
from sklearn.base import RegressorMixin

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Real, check
from tacit._core.rng import generator
from tacit.data.features import numbers, one_column
from tacit.data.reading import Table
from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.estimators.facts import Facts
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.predicting import beside
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.regression.bounds import PublicBounds
from tacit.regression.generalised.estimator import GeneralisedRegression
from tacit.regression.generalised.public import public_counts
from tacit.regression.generalised.simulation import simulated_error

__all__ = ["PrivatePoissonRegression"]

_POISSON = 1.01  # dispersion up to which counts vary as Poisson's law says


@stores_parameters
class PrivatePoissonRegression(RegressorMixin, GeneralisedRegression):  # type: ignore[misc]
    """Bayesian Poisson regression over one holder or many sites.

    Every site releases noisy sums of products of its rows once, and then noisy sums of clipped
    gradients in a few rounds; the posterior takes all of them, and counts what noise and sampling
    leave open. How much more counts vary than Poisson's law says is released too, and intervals
    are wider by it.

    Parameters
    ----------
    columns
        What is public about the table: `tacit.Columns`, a mapping of such or a file's path, with
        every feature and the target, a number from 0 on. Instead of ``bounds`` and ``y_bounds``.
    method
        ``"rounds"`` of gradients, ``"one-shot"``, a single release, or ``"auto"``, the better of
        both by what is public: rounds.
    bounds
        The public range of every feature: a mapping of column to (low, high), a sequence of
        pairs in the order of the columns of X, or one number, the public norm of a row.
    y_bounds
        The public range (0, high) of a count, or the largest count; what is above it is clipped.
    target
        The column of the count, where data are tables; that of ``columns`` unless given.
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
    coef_, intercept_, coef_sd_, intercept_sd_
        Posterior means and standard deviations of log-rates on the caller's own scale.
    dispersion_
        The variance of a count relative to its mean, 1 or more.
    draws_
        Draws of (intercept, coefficients): (chains, draws, terms). They are independent.
    rows_
        About how many rows there are, as it was released.
    certificate_, certificates_
        The certificate with the largest ε, and one per site.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (4000, 2))
    >>> y = rng.poisson(np.exp(0.2 * X[:, 0]))
    >>> model = PrivatePoissonRegression(
    ...     bounds=[(0, 10), (0, 10)], y_bounds=(0, 30), privacy=Privacy(1.0, 1e-6),
    ...     random_state=0).fit(X, y)
    >>> bool(abs(model.coef_[0] - 0.2) < 0.03)
    True
    """

    _link = "poisson"
    _purpose = "Poisson regression"
    _stored = ("columns", "method", "bounds", "y_bounds", "target", "rows", "draws")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **GeneralisedRegression._constraints,
        "y_bounds": AnyOf(InstanceOf(tuple, list), Real(0, open_low=True), None),
    }

    columns: Columns | Mapping[str, Any] | str | None = None
    _: KW_ONLY
    method: str = "auto"
    bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | float | None = None
    y_bounds: tuple[float, float] | float | None = None
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
        tags.regressor_tags.poor_score = (
            True  # of the responses that checks try, which are no counts
        )
        tags.target_tags.positive_only = True
        return tags

    @property
    def _public(self) -> PublicBounds:
        return public_counts(self.bounds, self.y_bounds, self.columns, self.target)

    @property
    def _top(self) -> float:
        return float(self._public.response[1])

    def _about(self) -> str:
        return f"log-rate of {self.columns_[-1]}"

    # -- predictions -----------------------------------------------------------------------

    def predict(self, X: Any, *, interval: float | None = None) -> Any:
        """Return the predictive mean of the count of each row.

        Parameters
        ----------
        X
            Features on the caller's own scale.
        interval
            Also return bounds (low, high) that hold a new count with this probability.
        """
        if interval is None:
            return self._means(X)[0]
        check("interval", interval, Real(0, 1, open_low=True, open_high=True))
        mean = self._means(X)[0]
        return mean, self._counts(X, interval)

    def _counts(self, X: Any, interval: float) -> tuple[Array, Array]:
        """Return the ends of intervals of new counts, from draws of rates and of counts."""
        matrix = self._public.features_of(self, X)
        draws = self.draws_.reshape(-1, len(self.coef_) + 1)
        rng, ends = generator(0, "counts"), [0.5 - interval / 2.0, 0.5 + interval / 2.0]
        found = []
        for row in matrix:
            rate = np.exp(np.minimum(draws[:, 1:] @ row + draws[:, 0], np.log(self._top)))
            if self.dispersion_ > _POISSON:  # a gamma mixture has the variance φ·μ
                excess = self.dispersion_ - 1.0
                rate = rng.gamma(rate / excess, excess)
            counts = np.minimum(rng.poisson(rate), self._top)
            found.append(np.quantile(counts, ends, method="inverted_cdf"))
        low, high = np.array(found).reshape(-1, 2).T
        return low, high

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        if interval is None:
            return beside(table, {"prediction": self.predict(dict(table))})
        mean, (low, high) = self.predict(dict(table), interval=interval)
        return beside(table, {"prediction": mean, "low": low, "high": high})

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return D², the share of deviance explained, on given rows: this is not private.

        Parameters
        ----------
        X, y
            Rows and their counts.
        sample_weight
            How much each row counts; all the same unless given.
        """
        found, truth = self.predict(X), numbers({"y": one_column(y)})[:, 0]
        if len(truth) != len(found):
            raise ParameterError(f"y must have one count for each row of X, got {len(truth)}")
        if (truth < 0.0).any():
            raise ParameterError("y must hold counts, which are 0 or more")
        weights = np.ones(len(truth)) if sample_weight is None else np.asarray(sample_weight)
        if not np.sum(weights) > 0.0:
            raise ParameterError("score needs at least one row that counts: pass rows X and y")
        base = np.full(len(truth), np.average(truth, weights=weights))
        own, free = (_deviance(truth, mean) @ weights for mean in (found, base))
        return float(1.0 - own / free) if free > 0.0 else 0.0

    @classmethod
    def _simulate(cls, facts: Facts, seed: int) -> float:
        return simulated_error(cls, facts, seed, y_bounds=(0.0, 30.0))


def _deviance(truth: Array, mean: Array) -> Array:
    """Return Poisson's deviance of every row."""
    return np.asarray(2.0 * (xlogy(truth, truth / mean) - truth + mean))
