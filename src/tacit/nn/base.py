"""The common base of the private networks: public inputs, fitting, predictions, release."""

from __future__ import annotations

import copy
import math
import os
from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from torch import nn

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, as_bounds
from tacit._core.rng import generator
from tacit.errors import MissingExtra, ParameterError, UnboundedData
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.progress import progress_bar
from tacit.estimators.release import write_release
from tacit.estimators.site import Site
from tacit.mechanisms.clipping import clip_values
from tacit.nn.dropout import LayerDropout, layer_dropout, with_weights
from tacit.nn.layers import check_rows_independent
from tacit.nn.networks import ACTIVATIONS, perceptron
from tacit.nn.rules import default_training
from tacit.nn.trainer import Progress, Trained, train
from tacit.nn.training import ACCOUNTANTS, SCHEDULES, STRATEGIES, Training
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Certificate, Privacy
from tacit.privacy.ledger import Ledger
from tacit.rounds.checkpoint import Checkpoint, run_name

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PrivateNetwork"]

_PIECE = 2000  # rows that are predicted or mapped at once
_ALIKE = 16  # inputs that share one range and can be compared with each other, such as pixels


class PrivateNetwork(PrivateEstimator):
    """Base of `PrivateDropoutClassifier` and `PrivateDropoutRegressor`."""

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "hidden": InstanceOf(tuple, list),
        "activation": OneOf(*ACTIVATIONS),
        "module": AnyOf(InstanceOf(nn.Module), None),
        "features": AnyOf(InstanceOf(nn.Module), None),
        "normalize": OneOf("auto", "range", "row", "none"),
        "rows": AnyOf(Real(1), None),
        "strategy": OneOf(*STRATEGIES),
        "steps": AnyOf(Integer(1), None),
        "rate": AnyOf(Real(2.0**-40, 1), None),
        "clip": AnyOf(Real(0, open_low=True), InstanceOf(tuple), None),
        "learning_rate": AnyOf(Real(0, open_low=True), None),
        "learning_rate_schedule": OneOf(*SCHEDULES),
        "noise_multiplier": AnyOf(Real(0, open_low=True), None),
        "momentum": Real(0, 1, open_high=True),
        "precision": Real(0),
        "temperature": Real(0),
        "burn_in": AnyOf(Real(0, 1, open_high=True), None),
        "samples": Integer(1),
        "dropout": InstanceOf(bool),
        "accountant": OneOf(*ACCOUNTANTS),
        "calibration": OneOf("certified", "published"),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "checkpoint": AnyOf(InstanceOf(str, os.PathLike), None),
        "physical": AnyOf(Integer(1), None),
        "device": OneOf("auto", "cpu", "cuda", "mps"),
        "progress": InstanceOf(bool),
        "random_state": AnyOf(Integer(0), None),
    }

    # set by the subclasses' __init__
    bounds: Any
    normalize: str
    rows: float | None
    privacy: Privacy | None
    features: nn.Module | None
    module: nn.Module | None

    # -- what is public -----------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_row_privacy("a network trained on rows")
        if self.bounds is None:
            raise UnboundedData(
                "bounds must be given: pass bounds=(low, high), the public range of every input, "
                "or one pair for each"
            )
        if self.rows is None and self.privacy is not None:
            raise UnboundedData(
                "rows must be given: pass rows=…, a public, approximate number of rows; it is not "
                "read from the data"
            )
        self._training().check_privacy(self.privacy)

    def _training(self, rows: float | None = None) -> Training:
        """Return the settings of a run."""
        given = self.get_params(deep=False)
        names = ("steps", "rate", "clip", "learning_rate", "noise_multiplier", "momentum",
                 "strategy", "precision", "temperature", "burn_in", "samples", "accountant",
                 "calibration", "physical")  # fmt: skip
        settings = {name: given[name] for name in names}
        settings["schedule"] = given["learning_rate_schedule"]
        return default_training(
            self.rows or rows or 1000.0, self.privacy, scale=self._output_scale(), **settings
        )

    def _output_scale(self) -> float:
        """Return how far an output has to move to matter; see `tacit.nn.rules`."""
        return 1.0

    def schedule(self) -> DpEvent:
        """Return everything that one fit releases: one sampled Gaussian per step."""
        return self._training().schedule_of(self.privacy)

    def _charged(self) -> Privacy | None:
        """A published calibration is charged what it really gives."""
        privacy = self.privacy
        if privacy is None or self.get_params(deep=False)["calibration"] != "published":
            return privacy
        return privacy.with_epsilon(self._training().published(privacy).epsilon() * (1 + 1e-9))

    def _ranges(self, width: int) -> tuple[Any, Any]:
        """Return low and high of every input."""
        bounds = self.bounds
        if len(bounds) == 2 and all(np.isscalar(b) for b in bounds):
            return as_bounds("bounds", tuple(bounds), "the public range of every input")
        if len(bounds) != width:
            raise ParameterError(f"bounds must name {width} inputs, got {len(bounds)}")
        pairs = [as_bounds(f"bounds[{k}]", tuple(b), "its range") for k, b in enumerate(bounds)]
        low, high = np.array(pairs, np.float64).T
        return low, high

    def _inputs(self, X: Any) -> Any:
        """Return rows as the network sees them: a function of each row alone.

        Inputs are clipped to their bounds and mapped to [0, 1], which is what ``features`` and a
        ``module`` of the caller's get; a perceptron gets rows of norm one or less.
        """
        array = np.asarray(X)
        if array.ndim < 2:
            raise ParameterError(f"X must have one row per example, got shape {array.shape}")
        out = []
        for start in range(0, len(array), _PIECE):
            piece = np.asarray(array[start : start + _PIECE], np.float64)
            if np.isscalar(self.bounds[0]):
                low, high = self._ranges(0)
                mapped = (clip_values(piece, low, high) - low) / (high - low)
            else:
                low, high = self._ranges(array.shape[1])
                mapped = clip_values((piece - low) / (high - low), 0.0, 1.0)
            rows = torch.from_numpy(mapped.astype(np.float32))
            if self.features is not None:
                with torch.no_grad():
                    rows = self.features(rows)
            elif self.module is None:
                rows = _NORMALIZE[self._normalization(math.prod(array.shape[1:]))](rows)
            out.append(rows)
        return torch.cat(out) if out else torch.zeros((0, *array.shape[1:]))

    def _normalization(self, width: int) -> str:
        """Return how a perceptron's rows are normalised; by what is public."""
        if self.normalize != "auto":
            return self.normalize
        return "row" if width >= _ALIKE and np.isscalar(self.bounds[0]) else "range"

    # -- fitting --------------------------------------------------------------------------------

    @abstractmethod
    def _outputs(self) -> int:
        """Return how many outputs the network has."""

    @abstractmethod
    def _targets(self, y: Any) -> Any:
        """Return targets as a tensor; what is out of range is replaced silently."""

    @abstractmethod
    def _loss(self, outputs: Any, targets: Any) -> Any:
        """Return one loss per example."""

    def fit(self, X: Any, y: Any) -> Self:
        """Train the network.

        Parameters
        ----------
        X
            Rows, (examples, …).
        y
            One label or response per row.
        """
        self._check_parameters()
        given = self.get_params(deep=False)
        inputs, targets = self._loaded(X, y)
        rows = float(self.rows or len(inputs))
        training = self._training(rows)
        seed = given["random_state"]
        self.module_ = self._network(inputs, generator(seed, "start"))
        folder = given["checkpoint"]
        run = None if folder is None else run_name(folder)
        site = Site("the data", None, given["ledger"])
        (reservation,) = self._reserve([site], "private network", run).values()
        noise = self._noise("grid", site.name)
        with progress_bar(given["progress"], training.steps, "private network") as advance:
            done = 0

            def watch(progress: Progress) -> None:
                nonlocal done
                advance(progress.step - done, f"ε = {progress.epsilon:.3g} so far")
                done = progress.step

            self.result_: Trained = train(
                self.module_, inputs, targets, self._loss, training, rows=rows,
                privacy=self.privacy, reservation=reservation, noise=noise,
                rng=generator(seed, "langevin"), device=self._device(), watch=watch,
                checkpoint=None if folder is None else Checkpoint(folder),
            )  # fmt: skip
        self.module_.to("cpu")
        self.training_, self.history_ = training, self.result_.history
        self._rows = rows
        claim = None
        if self.privacy is not None and training.calibration == "published":
            published = training.published(self.privacy)
            claim = (published.claimed_epsilon, published.claim)
        self.certificate_: Certificate = self._certify(
            site, reservation, noise, self._assumptions(training), claim
        )
        self.certificates_ = {site.name: self.certificate_}
        return self

    def _loaded(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return inputs and targets; the holder's own business, before anything is paid for."""
        inputs, targets = self._inputs(X), self._targets(y)
        if len(inputs) != len(targets):
            raise ParameterError(f"y must have one value for each of {len(inputs)} rows")
        if not len(inputs):
            raise ParameterError("X must have at least one row")
        if self.features is not None:
            check_rows_independent(self.features, np.shape(X)[1:])
        return inputs, targets

    def _network(self, inputs: Any, rng: np.random.Generator) -> nn.Module:
        """Return the network to train: a copy of the caller's, or a perceptron."""
        if self.module is not None:
            return copy.deepcopy(self.module)
        given = self.get_params(deep=False)
        width = math.prod(inputs.shape[1:])
        return perceptron(
            width, self._outputs(), given["hidden"], activation=given["activation"], rng=rng
        )

    def _device(self) -> str:
        wanted = str(self.get_params(deep=False)["device"])
        if wanted != "auto":
            return wanted
        return "cuda" if torch.cuda.is_available() else "cpu"

    def _assumptions(self, training: Training) -> tuple[str, ...]:
        """Return every public input."""
        clips = ", ".join(f"{clip:g}" for clip in training.clips)
        return (
            f"inputs lie in {self.bounds if np.isscalar(self.bounds[0]) else 'their bounds'}",
            f"about {self._rows:g} rows, a public number",
            f"every example's gradient is clipped to {clips} and sampled with probability "
            f"{training.rate:g} in each of {training.steps} steps; which rows were sampled stays "
            "secret",
            "torch computes an example's gradient to the last bit as it would beside other "
            "examples in a batch of the same size",
            "the network, its start and all settings were chosen without looking at the data",
            *self._own_assumptions(),
        )

    def _own_assumptions(self) -> tuple[str, ...]:
        return ()

    # -- predictions ----------------------------------------------------------------------------

    def _predictions(self, X: Any) -> NDArray[np.float64]:
        """Return outputs (draws, rows, outputs): of posterior samples, or of the average.

        With ``dropout`` every sample is perturbed by the equivalent dropout of its step.
        """
        self._needs_fit()
        given = self.get_params(deep=False)
        inputs = self._inputs(X)
        if given["strategy"] == "dp-sgd":
            draws = self.result_.average[None]
        else:
            draws = self.result_.samples
        if given["dropout"]:
            rng = generator(given["random_state"], "dropout")
            spread = self._dropout_sd()
            draws = draws + spread * rng.standard_normal(draws.shape, dtype=np.float32)
        found = []
        for flat in draws:
            with with_weights(self.module_, flat) as network, torch.no_grad():
                network.eval()
                parts = [
                    network(inputs[start : start + _PIECE])
                    for start in range(0, len(inputs), _PIECE)
                ]
                found.append(torch.cat(parts).numpy().astype(np.float64))
        return np.array(found)

    def _dropout_sd(self) -> float:
        """Return the noise of a step in the middle of the part that is averaged."""
        training = self.training_
        middle = int((1.0 + training.burn_in) / 2.0 * training.steps)
        privacy = training.privacy_sd(middle, self._rows, self.privacy)
        return math.hypot(privacy, training.langevin_sd(middle, self._rows, self.privacy))

    def layer_dropout(self) -> tuple[LayerDropout, ...]:
        """Return the equivalent dropout α of every layer at the averaged weights."""
        self._needs_fit()
        return layer_dropout(self.module_, self._dropout_sd())

    def to_arviz(self) -> Any:
        """Return the posterior samples of every array of weights as ArviZ ``InferenceData``."""
        self._needs_fit()
        try:
            import arviz
        except ImportError:
            raise MissingExtra("to_arviz", "diagnostics") from None
        values, start = {}, 0
        for name, p in self.module_.named_parameters():
            if p.requires_grad:
                part = self.result_.samples[:, start : start + p.numel()]
                values[name] = part.reshape(1, len(part), *p.shape)
                start += p.numel()
        return arviz.from_dict(posterior=values)

    def release(self, folder: str | os.PathLike[str]) -> None:
        """Write weights, posterior samples and the certificate to a folder, without pickle."""
        self._needs_fit()
        arrays: dict[str, Any] = {"samples": self.result_.samples, "final": self.result_.final}
        for name, p in self.module_.named_parameters():
            arrays[f"weights/{name}"] = p.detach().numpy()
        training = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(self.training_).items()
        }
        settings = {"network": str(self.module_), "training": training, "rows": self._rows}
        write_release(folder, type(self).__name__, arrays, self.certificates_, settings)

    def _needs_fit(self) -> None:
        if not hasattr(self, "result_"):
            raise ParameterError("this network is not fitted yet: call fit first")


def _unit_rows(rows: Any) -> Any:
    """Return rows without their mean, with norm one."""
    flat = rows.flatten(1)
    flat = flat - flat.mean(1, keepdim=True)
    return flat / (flat.norm(dim=1, keepdim=True) + 1e-6)


def _ball_rows(rows: Any) -> Any:
    """Return rows in [0, 1] mapped to [−1, 1]/√inputs, so that no norm exceeds one."""
    flat = rows.flatten(1)
    return (2.0 * flat - 1.0) / math.sqrt(flat.shape[1])


def _as_is(rows: Any) -> Any:
    """Return rows in [0, 1] mapped to [−1, 1]."""
    return 2.0 * rows.flatten(1) - 1.0


_NORMALIZE = {"range": _ball_rows, "row": _unit_rows, "none": _as_is}
