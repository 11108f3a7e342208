"""`PrivateDropoutClassifier`: a Bayesian network for classes, trained with a guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from tacit._core.check import AnyOf, Constraint, InstanceOf
from tacit.data.columns import column_array
from tacit.data.reading import read_rows
from tacit.data.values import plain_text, texts
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.networks.backend import nn, torch
from tacit.networks.estimator import PrivateNetwork
from tacit.networks.losses import CrossEntropy
from tacit.networks.training import Training
from tacit.networks.uncertainty import calibration_error, entropy
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PrivateDropoutClassifier"]


class PrivateDropoutClassifier(ClassifierMixin, PrivateNetwork):  # type: ignore[misc]
    """A Bayesian neural network for classes by private dropout.

    Every step adds noise to the sum of clipped per-example gradients of a Poisson sample, which
    is where the guarantee comes from; the same noise drives Langevin dynamics, so the trajectory
    gives posterior samples and predictions with uncertainty at no further cost.

    Parameters
    ----------
    hidden, activation
        Widths of the hidden layers of a perceptron (none: a linear model; 500 unless given), and
        what follows each (``"tanh"`` unless given).
    module
        Any torch module to train instead, with one output per class; it is copied.
    features
        A fixed, public module that maps rows to what the network sees, row by row, such as
        `Scattering`; inputs reach it in [0, 1].
    bounds
        The public range (low, high) of every input, or one pair for each.
    normalize
        What a perceptron sees: ``"range"`` maps every input to [−1, 1]/√inputs by its bounds;
        ``"row"`` also centres each row and scales it to norm one, which suits images;
        ``"none"`` maps to [−1, 1], for inputs within (−1, 1) whose norm is one already;
        ``"auto"`` is ``"row"`` for 16 or more inputs with one pair of bounds, such as pixels,
        else ``"range"``.
    classes
        The public labels.
    rows
        The public, approximate number of rows of all sites together; needed with ``privacy``.
    training
        How it is trained, see `Training`: what is not given there follows from ``rows`` and
        ``privacy``.
    dropout
        Whether predictions perturb every sample by the equivalent dropout (Monte-Carlo dropout).
    privacy, ledger
        The guarantee asked for, with unit ``"row"``, and who pays; None adds no noise.
    checkpoint
        A folder: a fit that was interrupted goes on from there, with the same ledger.
    device, progress
        Where torch computes, and whether a progress bar is shown, with ε so far.
    random_state
        A seed for noise, samples and start, for tests only: the certificate then says so.

    Attributes
    ----------
    classes_
        The labels.
    module_, result_, training_
        The network at its averaged weights, the trajectory, and the settings that were used.
    history_
        `Progress` along the run: ε so far and equivalent dropout of every layer.
    certificate_, certificates_
        The certificate.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 5))
    >>> y = (X[:, 0] + X[:, 1] > 0).astype(int)
    >>> model = PrivateDropoutClassifier(
    ...     hidden=(), bounds=(-3, 3), classes=(0, 1), rows=2000,
    ...     privacy=Privacy(2.0, 1e-5), random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9
    True
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **PrivateNetwork._constraints,
        "classes": AnyOf(InstanceOf(tuple, list, np.ndarray), None),
    }

    def __init__(
        self,
        hidden: Sequence[int] | None = None,
        *,
        activation: str | None = None,
        module: nn.Module | None = None,
        features: nn.Module | None = None,
        bounds: Any = None,
        normalize: str = "auto",
        classes: Sequence[Any] | None = None,
        rows: float | None = None,
        training: Training | None = None,
        dropout: bool = False,
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        checkpoint: Any = None,
        device: str = "auto",
        progress: bool = False,
        random_state: int | None = None,
    ) -> None:
        self.hidden = hidden
        self.activation = activation
        self.module = module
        self.features = features
        self.bounds = bounds
        self.normalize = normalize
        self.classes = classes
        self.rows = rows
        self.training = training
        self.dropout = dropout
        self.privacy = privacy
        self.ledger = ledger
        self.checkpoint = checkpoint
        self.device = device
        self.progress = progress
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if self.classes is None:
            raise UnboundedData(
                "classes must be given: pass classes=…, the public labels; they are not read from "
                "the data"
            )
        super()._check_parameters()

    def _target_notes(self) -> tuple[str, ...]:
        return (f"the {self._outputs()} classes are public",)

    def _outputs(self) -> int:
        return len(self.classes or ())

    def _targets(self, y: Any) -> Any:
        """Return class numbers, label by label: what one is does not depend on the others.

        A label that is no class is refused, to the holder.
        """
        place = {plain_text(one): k for k, one in enumerate(self.classes or ())}
        values = y if isinstance(y, list | tuple) else column_array(y).reshape(-1)
        if isinstance(values, np.ndarray) and values.dtype.kind == "c":
            raise ParameterError("Complex data not supported: labels are none of the classes")
        labels = texts(read_rows({"y": values}).column("y")).to_list()
        wrong = [row for row, label in enumerate(labels) if label not in place]
        if wrong:
            raise ParameterError(
                f"row {wrong[0] + 1} has the label {labels[wrong[0]]!r}, which is none of the "
                f"classes, and so have {len(wrong) - 1} more rows: mend them, or name the class; "
                "a continuous response is for PrivateDropoutRegressor"
            )
        return torch.tensor([place[label] for label in labels], dtype=torch.int64)

    def _loss(self) -> CrossEntropy:
        return CrossEntropy()

    def _conclude(self, outcome: Outcome) -> None:
        super()._conclude(outcome)
        self.classes_ = np.asarray(self.classes)

    def _adopt(self, release: Release) -> None:
        super()._adopt(release)
        self.classes_ = np.asarray(self.classes)

    def _settings(self) -> dict[str, Any]:
        return super()._settings() | {"classes": self.classes_.tolist()}

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the predictive probabilities (rows, classes), averaged over the posterior."""
        outputs = self._predictions(X)
        shifted = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        return np.asarray((shifted / shifted.sum(axis=-1, keepdims=True)).mean(axis=0))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        found = self.predict_proba(X)
        return np.asarray(self.classes_[found.argmax(axis=1)])

    def entropy(self, X: Any) -> NDArray[np.float64]:
        """Return the entropy of each prediction, in nats: high where the network is unsure."""
        return entropy(self.predict_proba(X))

    def calibration_error(self, X: Any, y: Any, bins: int = 15) -> float:
        """Return the expected calibration error on given rows, such as public ones."""
        found = self.predict_proba(X)
        right = self.classes_[found.argmax(axis=1)] == np.asarray(y)
        return calibration_error(right, found.max(axis=1), bins)
