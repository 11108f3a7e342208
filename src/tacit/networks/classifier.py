"""`PrivateDropoutClassifier`: a Bayesian network for classes, trained with a guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.base import ClassifierMixin

from tacit._core.check import AnyOf, Constraint, InstanceOf, OneOf, Real, check
from tacit.data.kinds import Category, Kind
from tacit.data.problems import raise_for, trouble
from tacit.data.reading import Table, read_rows
from tacit.data.schema import Columns
from tacit.data.truth import Boolean
from tacit.data.values import few, plain_text, texts
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.fit import Outcome
from tacit.estimators.predicting import beside, shown_level
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
    columns, target
        What is public about the table: `tacit.Columns`, a mapping of such or a file's path; and
        the column that is explained, a category or a truth value, unless ``columns`` say it.
        Instead of ``bounds`` and ``classes``.
    module
        Any torch module to train instead, with one output per class; it is copied.
    features
        A fixed, public module that maps rows to what the network sees, row by row, such as
        `Scattering` or a network that was trained on public data, without its last layer: the
        best help where rows are few. Inputs reach it in [0, 1], and a perceptron gets what it
        makes of them with norm one (``normalize="row"``: centred too; ``"none"``: as it is).
    bounds
        The public range (low, high) of every input, or one pair for each.
    normalize
        What a perceptron sees: ``"range"`` maps every input to [−1, 1]/√inputs by its bounds;
        ``"row"`` also centres each row and scales it to norm one, which suits images;
        ``"none"`` maps to [−1, 1], for inputs within (−1, 1) whose norm is one already;
        ``"auto"`` is ``"row"`` for 16 or more inputs with one pair of bounds, such as pixels,
        else ``"range"``. ``"embed"`` looks the categories of ``columns`` up in tables that are
        learned, a few numbers for each of their values, where other ways see an indicator for
        each. ``"whole"`` leaves whole numbers as they are, for a ``module`` that looks symbols
        up, such as `recurrent`.
    classes
        The public labels.
    class_weight
        Label → what its rows count; public, and one for those that are not named.
    weights
        The largest number in ``sample_weight``, which is public; or the name of a column of
        ``columns`` that says what each row counts, up to the end of its range. What rows may
        count raises the noise in proportion.
    rows
        The public, approximate number of rows of all sites together; needed with ``privacy``.
    training
        How it is trained, see `Training`: what is not given there follows from ``rows`` and
        ``privacy``.
    dropout
        Whether predictions perturb every sample by the equivalent dropout (Monte-Carlo dropout):
        True, by that of one step; ``"run"``, by what the noise of all steps adds up to.
    privacy, ledger
        The guarantee asked for, with unit ``"row"``, or ``"user"`` where ``columns`` name the
        person, and who pays; None adds no noise.
    checkpoint
        A folder: a fit that was interrupted goes on from there, with the same ledger.
    device, progress
        Where torch computes (``"cpu"``, ``"cuda:1"``, …; ``"auto"`` takes what each holder's own
        machine has), and whether a progress bar is shown, with ε so far.
    random_state
        A seed for noise, samples and start, for tests only: the certificate then says so.

    Attributes
    ----------
    classes_
        The labels.
    module_, result_, training_
        The network at its averaged weights, the trajectory, and the settings that were used.
    scale_
        What outputs are multiplied by before they become probabilities, so that the network is as
        sure as it is right; released in the end (`Training.confidence`).
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
        "class_weight": AnyOf(InstanceOf(Mapping), OneOf("balanced"), None),
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
        classes: Sequence[Any] | None = None,
        class_weight: Mapping[Any, float] | None = None,
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
        self.classes = classes
        self.class_weight = class_weight
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
    def _labels(self) -> tuple[Any, ...]:
        """The public labels: those of the target, where columns are stated."""
        if self.columns is None:
            return tuple(self.classes if self.classes is not None else ())
        kind = self._response
        return kind.levels if isinstance(kind, Category) else (False, True)

    def _check_response(self, kind: Kind, averaged: bool) -> None:
        if self.classes is not None:
            raise ParameterError("columns hold the labels: leave classes out")
        if not isinstance(kind, Category | Boolean):
            raise ParameterError(
                f"the target must be a category or a truth value, not a {kind.word}: a number is "
                "for PrivateDropoutRegressor"
            )
        if averaged:
            raise ParameterError(
                "an average of labels is no label: pass rows_per_person=…, not averages"
            )

    def _check_parameters(self) -> None:
        if self.classes is None and self.columns is None:
            raise UnboundedData(
                "classes must be given: pass classes=…, the public labels, or columns=Columns(…); "
                "they are not read from the data"
            )
        super()._check_parameters()
        self._check_class_weight()

    def _check_class_weight(self) -> None:
        given = self.class_weight
        if given is None:
            return
        if not isinstance(given, Mapping):
            raise UnboundedData(
                "class_weight='balanced' would count the private labels: pass "
                "class_weight={label: weight}, from shares that are public"
            )
        known = {plain_text(label) for label in self._labels}
        unknown = [label for label in given if plain_text(label) not in known]
        if unknown:
            raise ParameterError(f"class_weight names {few(unknown)}, which are no classes")
        for weight in given.values():
            check("class_weight", weight, Real(0))
        if not max(self._class_weights()) > 0.0:
            raise ParameterError("class_weight must let some class count")

    def _class_weights(self) -> list[float]:
        """Return what the rows of every class count."""
        given = {plain_text(k): float(w) for k, w in (self.class_weight or {}).items()}
        return [given.get(plain_text(label), 1.0) for label in self._labels]

    def _largest_weight(self, facts: Any) -> float:
        return super()._largest_weight(facts) * max(self._class_weights())

    def _counts(self, weights: Any, targets: Any) -> Any:
        if self.class_weight is None:
            return weights
        own = np.array(self._class_weights())[targets.numpy()]
        return own if weights is None else own * weights

    def _target_notes(self) -> tuple[str, ...]:
        own = zip(map(plain_text, self._labels), self._class_weights(), strict=True)
        shown = ", ".join(f"{label} {weight:g}" for label, weight in own)
        more = () if self.class_weight is None else (f"rows count by class: {shown}",)
        return (f"the {self._outputs()} classes are public", *more)

    @property
    def _judged(self) -> bool:
        return True

    def _outputs(self) -> int:
        return len(self._labels)

    def _targets(self, y: Any) -> Any:
        """Return class numbers, label by label: what one is does not depend on the others.

        A label that is no class is refused, to the holder.
        """
        if self.columns is not None:  # positions in the target's list
            return torch.from_numpy(np.asarray(y, np.int64))
        place = {plain_text(one): k for k, one in enumerate(self._labels)}
        table = read_rows({"y": y})
        labels = texts(table.column("y"))
        known = labels.is_in(list(place)).fill_null(False).to_numpy()
        remedy = (
            f"it is none of the classes {few(list(place))}: mend it, or name the class; a "
            "continuous response is for PrivateDropoutRegressor"
        )
        raise_for(trouble(table, "unknown label", "y", ~known, labels, remedy))
        return torch.tensor([place[label] for label in labels.to_list()], dtype=torch.int64)

    def _loss(self) -> CrossEntropy:
        return CrossEntropy()

    def _conclude(self, outcome: Outcome) -> None:
        super()._conclude(outcome)
        self.classes_, self.scale_ = _as_array(self._labels), self.result_.scale

    def _adopt(self, release: Release) -> None:
        super()._adopt(release)
        own = release.settings["class_weight"]
        self.class_weight = None if own is None else dict(own)
        self.classes_, self.scale_ = _as_array(self._labels), self.result_.scale

    _told = (*PrivateNetwork._told, "classes", "class_weight")

    def _settings(self) -> dict[str, Any]:
        own = None if self.columns is not None else self.classes_.tolist()
        counts = (
            None if self.class_weight is None else [list(kv) for kv in self.class_weight.items()]
        )
        return super()._settings() | {"classes": own, "class_weight": counts}

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the predictive probabilities (rows, classes), averaged over the posterior."""
        outputs = self._predictions(X) * self.scale_
        shifted = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        return np.asarray((shifted / shifted.sum(axis=-1, keepdims=True)).mean(axis=0))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable class of each row."""
        found = self.predict_proba(X)
        return np.asarray(self.classes_[found.argmax(axis=1)])

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        shares = self.predict_proba(dict(table))
        names = map(shown_level, self.classes_.tolist())
        found = dict(zip(names, shares.T, strict=True))
        return beside(table, {"prediction": self.classes_[shares.argmax(axis=1)], **found})

    def entropy(self, X: Any) -> NDArray[np.float64]:
        """Return the entropy of each prediction, in nats: high where the network is unsure."""
        return entropy(self.predict_proba(X))

    def calibration_error(self, X: Any, y: Any, bins: int = 15) -> float:
        """Return the expected calibration error on given rows, such as public ones."""
        found = self.predict_proba(X)
        right = found.argmax(axis=1) == self._positions(X, y)
        return calibration_error(right, found.max(axis=1), bins)

    def _positions(self, X: Any, y: Any) -> NDArray[np.int64]:
        """Return the places of true labels among the classes, label by label."""
        return np.asarray(self._targets(self._true(X, y)).numpy(), np.int64)

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
        right = self.predict_proba(X).argmax(axis=1) == self._positions(X, y)
        return float(np.average(right, weights=sample_weight))


def _as_array(labels: Sequence[Any]) -> NDArray[Any]:
    """Return labels as an array that keeps them as they are."""
    alike = len({type(label) for label in labels}) == 1
    return np.asarray(labels) if alike else np.array(labels, object)
