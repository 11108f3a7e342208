"""What a fitted linear regression is used for: predictions, draws, a release on disk."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Real, check
from tacit.data.sources import column_names, numeric_columns
from tacit.errors import MissingExtra, ParameterError
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.regression_bounds import PublicBounds
from tacit.estimators.regression_release import Design
from tacit.estimators.regression_scale import back_matrix
from tacit.estimators.regression_summary import SiteSummary
from tacit.estimators.release import write_release
from tacit.inference.regression import Posterior
from tacit.privacy.guarantee import Certificate

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FittedRegression"]


class FittedRegression(PrivateEstimator):
    """The half of `PrivateLinearRegression` that only reads what a fit left."""

    method: str
    bounds: Any
    y_bounds: Any
    target: str | None
    intercept: bool
    statistics: str
    design_: Design | None
    summaries_: dict[str, SiteSummary]
    certificates_: dict[str, Certificate]
    posterior_: Posterior
    coef_: NDArray[np.float64]
    coef_sd_: NDArray[np.float64]
    intercept_: float
    noise_sd_: float
    feature_names_in_: list[Any]
    _covariance: NDArray[np.float64]
    _noise_unit: float

    @property
    def _public(self) -> PublicBounds:
        return PublicBounds.of(self.bounds, self.y_bounds)

    def _matrix(self, X: Any) -> NDArray[np.float64]:
        assert self.design_ is not None
        width = self.design_.features
        public = self._public
        columns = list(public.pairs()) if public.by_name else self.feature_names_in_
        if columns and (column_names(X) or isinstance(X, Mapping)):
            table = numeric_columns(X, columns)
            return np.column_stack([table[name] for name in columns])
        matrix = np.asarray(X, np.float64)
        if matrix.ndim != 2 or matrix.shape[1] != width:
            raise ParameterError(f"X must have {width} columns, got shape {matrix.shape}")
        return matrix

    def _needs_fit(self) -> None:
        if not hasattr(self, "coef_"):
            raise ParameterError("there is no model yet: call fit first")

    def predict(self, X: Any, *, return_sd: bool = False, interval: float | None = None) -> Any:
        """Return the posterior predictive mean of the response, and how sure it is.

        Parameters
        ----------
        X
            Features on the caller's own scale.
        return_sd
            Also return the standard deviation, of coefficients and residual together.
        interval
            Also return the bounds (low, high) between which a new response lies with this
            probability.
        """
        self._needs_fit()
        matrix = self._matrix(X)
        mean = matrix @ self.coef_ + self.intercept_
        if not return_sd and interval is None:
            return mean
        if not np.isfinite(self._covariance).all():
            raise ParameterError(
                f"method {self.method!r} is a point estimate without intervals: use method='auto'"
            )
        whole = np.column_stack([np.ones(len(matrix)), matrix])
        # the offset is known; the rest of the intercept is uncertain as the covariance says
        spread = np.einsum("ij,jk,ik->i", whole, self._covariance, whole)
        residual = self.noise_sd_ if math.isfinite(self.noise_sd_) else 0.0
        sd = np.sqrt(np.maximum(spread, 0.0) + residual**2)
        out: list[Any] = [mean]
        if return_sd:
            out.append(sd)
        if interval is not None:
            check("interval", interval, Real(0, 1, open_low=True, open_high=True))
            from scipy.special import ndtri

            reach = float(ndtri(0.5 + interval / 2.0)) * sd
            out.append((mean - reach, mean + reach))
        return tuple(out)

    def score(self, X: Any, y: Any) -> float:
        """Return R² on given rows, such as public ones: this is not private."""
        y = np.asarray(y, np.float64)
        y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
        if y.shape != (len(found := self.predict(X)),):
            raise ParameterError(f"y must have one value for each row of X, got shape {y.shape}")
        residual = np.sum(np.square(y - found))
        return float(1.0 - residual / np.sum(np.square(y - y.mean())))

    def to_arviz(self) -> Any:
        """Return the posterior draws on the caller's own scale as ArviZ ``InferenceData``."""
        self._needs_fit()
        try:
            import arviz  # type: ignore[import-not-found, unused-ignore]
        except ImportError:
            raise MissingExtra("to_arviz", "diagnostics") from None
        assert self.design_ is not None
        draws = np.asarray(self.posterior_.draws) @ back_matrix(self.design_).T
        variance = np.asarray(self.posterior_.noise_variance)
        values = {
            "coef": draws[..., 1:],
            "intercept": draws[..., 0] + self.design_.middle[-1],
            "noise_sd": self._noise_unit * np.sqrt(variance.reshape(draws.shape[:2])),
        }
        names = list(self._public.names(self.design_, self.target)[:-1])
        return arviz.from_dict(
            posterior=values, coords={"feature": names}, dims={"coef": ["feature"]}
        )

    def release(self, folder: str | os.PathLike[str]) -> None:
        """Write coefficients, summaries and certificates to a folder, without pickle."""
        self._needs_fit()
        assert self.design_ is not None
        arrays: dict[str, Any] = {
            "coef": self.coef_, "coef_sd": self.coef_sd_, "covariance": self._covariance,
            "intercept": np.array(self.intercept_), "noise_sd": np.array(self.noise_sd_),
        }  # fmt: skip
        for name, summary in self.summaries_.items():
            for part, value in vars(summary.moments).items():
                if value is not None:
                    arrays[f"summary/{name}/{part}"] = np.asarray(value)
        settings = {
            "method": self.method, "statistics": self.statistics, "intercept": self.intercept,
            "middle": list(self.design_.middle), "half": list(self.design_.half),
            "norm": self.design_.rows.norm,
            "columns": list(self._public.names(self.design_, self.target)),
        }  # fmt: skip
        write_release(folder, "PrivateLinearRegression", arrays, self.certificates_, settings)
