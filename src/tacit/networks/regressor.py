"""`PrivateDropoutRegressor`: a Bayesian network for a response, trained with a guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from tacit._core.check import Constraint, Real, as_bounds
from tacit.data.features import numbers
from tacit.data.kinds import Category, Kind
from tacit.data.reading import Table
from tacit.data.schema import Columns
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.predicting import beside, spread_about
from tacit.mechanisms.clipping import clip_values
from tacit.networks.backend import nn, torch
from tacit.networks.estimator import PrivateNetwork
from tacit.networks.losses import SquaredError
from tacit.networks.training import Training
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PrivateDropoutRegressor"]


class PrivateDropoutRegressor(RegressorMixin, PrivateNetwork):  # type: ignore[misc]
    """A Bayesian neural network for a bounded response by private dropout.

    The response is mapped to [−1, 1] by its public bounds; errors are normal with standard
    deviation ``noise_sd`` there.

    Parameters
    ----------
    hidden, activation, module, features, bounds, normalize, weights, rows, training, dropout, \
privacy, ledger, checkpoint, device, progress, random_state
        As in `PrivateDropoutClassifier`; ``module`` has one output.
    columns, target
        What is public about the table, and the column that is explained, one of numbers, dates or
        truth values. Instead of ``bounds`` and ``y_bounds``.
    y_bounds
        The public range (low, high) of the response.
    noise_sd
        Standard deviation of the response given the network, in half-ranges of ``y_bounds``.

    Attributes
    ----------
    module_, result_, training_, history_, certificate_, certificates_
        As in `PrivateDropoutClassifier`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, (3000, 3))
    >>> model = PrivateDropoutRegressor(
    ...     hidden=(), bounds=(-1, 1), y_bounds=(-2, 2), rows=3000,
    ...     privacy=Privacy(5.0, 1e-5), random_state=0).fit(X, X[:, 0] - X[:, 1])
    >>> mean, sd = model.predict(X[:5], return_sd=True)
    >>> mean.shape, sd.shape
    ((5,), (5,))
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **PrivateNetwork._constraints,
        "noise_sd": Real(0, open_low=True),
    }

    def __init__(
        self,
        hidden: Sequence[int] | None = None,
        *,
        columns: Columns | Mapping[str, Any] | str | None = None,
        target: str | None = None,
        activation: str | None = None,
        module: nn.Module | None = None,
        features: nn.Module | None = None,
        bounds: Any = None,
        normalize: str = "auto",
        y_bounds: tuple[float, float] | None = None,
        noise_sd: float = 0.2,
        weights: float | str | None = None,
        rows: float | None = None,
        training: Training | None = None,
        dropout: bool | str = False,
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        checkpoint: Any = None,
        device: str = "auto",
        progress: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.columns = columns
        self.target = target
        self.activation = activation
        self.module = module
        self.features = features
        self.bounds = bounds
        self.normalize = normalize
        self.y_bounds = y_bounds
        self.noise_sd = noise_sd
        self.weights = weights
        self.rows = rows
        self.training = training
        self.dropout = dropout
        self.privacy = privacy
        self.ledger = ledger
        self.checkpoint = checkpoint
        self.device = device
        self.progress = progress
        self.random_state = random_state

    @property
    def _span(self) -> tuple[float, float]:
        """The public range of the response."""
        if self.columns is not None:
            return self._response.range
        assert self.y_bounds is not None
        return self.y_bounds

    def _check_response(self, kind: Kind, averaged: bool) -> None:
        if self.y_bounds is not None:
            raise ParameterError("columns hold the ranges: leave y_bounds out")
        if isinstance(kind, Category):
            raise ParameterError(
                "the target must be a number, not a category: that is for PrivateDropoutClassifier"
            )

    def _check_parameters(self) -> None:
        if self.columns is not None:
            super()._check_parameters()
            return
        if self.y_bounds is None:
            raise UnboundedData(
                "y_bounds must be given: pass y_bounds=(low, high), the public range of the "
                "response, or columns=Columns(…)"
            )
        as_bounds("y_bounds", self.y_bounds, "the public range of the response")
        super()._check_parameters()

    def _target_notes(self) -> tuple[str, ...]:
        low, high = self._span
        return (f"the response lies in [{low:g}, {high:g}]",)

    def _outputs(self) -> int:
        return 1

    def _output_scale(self) -> float:
        return self.noise_sd

    def _targets(self, y: Any) -> Any:
        low, high = self._span
        values = numbers({"y": y})[:, 0] if self.columns is None else y
        values = clip_values(values, low, high)
        return torch.from_numpy((2.0 * (values - low) / (high - low) - 1.0).astype(np.float32))

    def _loss(self) -> SquaredError:
        return SquaredError(self.noise_sd)

    _told = (*PrivateNetwork._told, "y_bounds", "noise_sd")

    def _settings(self) -> dict[str, Any]:
        span = None if self.columns is not None else [float(end) for end in self._span]
        return super()._settings() | {"y_bounds": span, "noise_sd": self.noise_sd}

    def predict(self, X: Any, *, return_sd: bool = False) -> Any:
        """Return the predictive mean of each row, and its standard deviation if asked for.

        Parameters
        ----------
        X
            Rows.
        return_sd
            Whether to return the standard deviation too: spread of the posterior and of the
            response together.
        """
        self._needs_fit()
        low, high = self._span
        half = (high - low) / 2.0
        outputs = self._predictions(X)[:, :, 0]
        mean: NDArray[np.float64] = low + half * (outputs.mean(axis=0) + 1.0)
        if not return_sd:
            return mean
        return mean, half * np.sqrt(outputs.var(axis=0) + self.noise_sd**2)

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        mean, sd = self.predict(dict(table), return_sd=True)
        more = {} if interval is None else spread_about(mean, sd, interval)
        return beside(table, {"prediction": mean, **more})

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return R² on given rows, such as public ones: this is not private.

        Parameters
        ----------
        X
            Rows; a table with the target, where there are ``columns``.
        y
            Their responses, where ``X`` has none.
        sample_weight
            How much each row counts; all the same unless given.
        """
        found, true = self.predict(X), self._true(X, y)
        if self.columns is None:
            true = numbers({"y": true})[:, 0]
        return float(r2_score(true, found, sample_weight=sample_weight))
