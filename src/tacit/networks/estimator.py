"""The common base of the private networks: public inputs, fitting, predictions, release."""

from __future__ import annotations

import dataclasses
import math
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tacit._core.answers import Answer
from tacit._core.chains import inference_data
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.progress import progress_bar
from tacit._core.rng import generator
from tacit.data.matrices import check_lengths, warn_of_column
from tacit.data.schema import Columns
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement
from tacit.estimators.features import check_fitted, remember
from tacit.estimators.fit import Outcome, Place
from tacit.estimators.release import Release
from tacit.estimators.release.promise import gathered
from tacit.estimators.site import Site
from tacit.networks.agreement import Examples, NetworkAgreement
from tacit.networks.answers import network_answer
from tacit.networks.architectures import ACTIVATIONS, Given, Perceptron
from tacit.networks.backend import nn, torch
from tacit.networks.blanks import TO_STATE
from tacit.networks.dropout import LayerDropout, layer_dropout
from tacit.networks.dynamics import DYNAMICS, Dynamics
from tacit.networks.frozen import called, check_frozen
from tacit.networks.loop import Progress, Trained
from tacit.networks.rows import NORMALIZES, PIECE, check_normalize, seen_rows
from tacit.networks.tables import Facts, TableNetwork
from tacit.networks.training import Training
from tacit.networks.weights import flat_weights, learned, with_weights, write_weights
from tacit.privacy.certificate import Certificate
from tacit.privacy.guarantee import Privacy, shown
from tacit.privacy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PrivateNetwork"]

_REPORTS = 10
_HIDDEN, _ACTIVATION = (500,), "tanh"
_RAW = "saw_raw_data"  # of a module that was trained without privacy; its copies have it too
_RESTS = "rests_on"  # the certificates behind a module's weights; its copies have them too


class PrivateNetwork(TableNetwork):
    """Base of `PrivateDropoutClassifier` and `PrivateDropoutRegressor`."""

    _purpose = "private network"
    _told: ClassVar[tuple[str, ...]] = (
        "privacy", "columns", "order", "target", "names", "hidden", "activation", "bounds",
        "normalize", "rows", "dropout", "shape", "given", "steps", "training",
    )  # fmt: skip
    _to_state = TO_STATE
    _stated_facts = ("inputs",)
    _takes_shards = True
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "hidden": AnyOf(InstanceOf(tuple, list), None),
        "activation": AnyOf(OneOf(*ACTIVATIONS), None),
        "target": AnyOf(InstanceOf(str), None),
        "module": AnyOf(InstanceOf(nn.Module), None),
        "features": AnyOf(InstanceOf(nn.Module), None),
        "normalize": OneOf(*NORMALIZES),
        "rows": AnyOf(Real(1), None),
        "training": AnyOf(InstanceOf(Training), None),
        "dropout": InstanceOf(bool),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "checkpoint": AnyOf(InstanceOf(str, os.PathLike), None),
        "device": OneOf("auto", "cpu", "cuda", "mps"),
        "progress": InstanceOf(bool),
        "random_state": AnyOf(Integer(0), None),
    }
    _inference_only = ("dropout",)

    # set by the subclasses' __init__
    hidden: Sequence[int] | None
    activation: str | None
    module: nn.Module | None
    features: nn.Module | None
    normalize: str
    training: Training | None
    dropout: bool
    privacy: Privacy | None
    device: str
    progress: bool
    random_state: int | None

    # -- what a subclass says ----------------------------------------------------------------

    @abstractmethod
    def _outputs(self) -> int:
        """Return how many outputs the network has."""

    @abstractmethod
    def _targets(self, y: Any) -> Any:
        """Return targets as a tensor; what is out of range is replaced silently."""

    @abstractmethod
    def _loss(self) -> Any:
        """Return the loss."""

    @abstractmethod
    def _target_notes(self) -> tuple[str, ...]:
        """Return what is public about the targets, in words."""

    def _output_scale(self) -> float:
        """Return how far an output has to move to matter; see `Training.decided`."""
        return 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        noisy = self.privacy is not None  # the few rows that checks try are lost in the noise
        for about in (tags.classifier_tags, tags.regressor_tags):
            if about is not None:
                about.poor_score = noisy
        tags.input_tags.sparse = True
        return tags

    # -- what is public -----------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_table()
        self._check_row_privacy("a network trained on rows", *NetworkAgreement.trusts)
        if self._ranges is None:
            raise UnboundedData(
                "bounds must be given: pass bounds=(low, high), the public range of every input, "
                "or one pair for each, or columns=Columns(…)"
            )
        if self.rows is None and self.privacy is not None:
            raise UnboundedData(
                "rows must be given: pass rows=…, a public, approximate number of rows; it is not "
                "read from the data"
            )
        if self.module is not None:
            for name in ("hidden", "activation"):
                if getattr(self, name) is not None:
                    raise ParameterError(f"{name} is not read where a module is given")
        for name in ("module", "features"):
            given = getattr(self, name)
            saw = given is not None and any(getattr(m, _RAW, False) for m in given.modules())
            if self.privacy is not None and saw:
                raise ParameterError(
                    f"{name} was trained on raw data without privacy, and would carry them into "
                    "what is released: pass one that has not seen them, or that of a private fit"
                )
            if given is not None:
                check_frozen(given, name)
        check_normalize(self.normalize, self.module, self.features)
        self._training.decided(
            self.rows or 1000.0,
            self.privacy,
            scale=self._output_scale(),
            rows_per_unit=self._rows_per_unit,
        )

    @property
    def _training(self) -> Training:
        return self.training or Training()

    def _agree(self, facts: Sequence[Facts | None], shares: int = 1) -> NetworkAgreement:
        known = [fact for fact in facts if fact is not None]
        shapes = {fact.shape for fact in known}
        if len(shapes) > 1:
            raise ParameterError(f"all sites must have rows of one shape, got {sorted(shapes)}")
        inputs, notes = self._input_notes()
        return self._training.agree(
            self._blueprint(shapes.pop()) if shapes else None,
            self._loss(),
            float(self.rows or sum(fact.rows for fact in known) or 1000.0),
            self._request(len(facts)),
            scale=self._output_scale(),
            sites=len(facts),
            rows_per_unit=self._rows_per_unit,
            shares=shares,
            inputs=inputs,
            targets=(*self._target_notes(), *notes),
            names=self._common(known),
            reports=_REPORTS,
            outputs=self._outputs(),
        )

    def _blueprint(self, shape: tuple[int, ...]) -> Perceptron | Given:
        """Return the network for rows of a shape."""
        if self.features is not None:
            made = self._inputs(np.zeros((1, *shape)))
            shape = tuple(made.shape[1:])
        return self._network(shape)

    def _network(self, shape: tuple[int, ...]) -> Perceptron | Given:
        """Return the network for what it sees: the caller's, or a perceptron."""
        if self.module is not None:
            kind = "int64" if self.normalize == "whole" else "float32"
            return Given(self.module, shape, kind)
        hidden = _HIDDEN if self.hidden is None else tuple(self.hidden)
        return Perceptron(
            math.prod(shape), self._outputs(), hidden, self.activation or _ACTIVATION
        )

    # -- reading ------------------------------------------------------------------------------

    def _read(self, data: Any, agreement: Agreement) -> Examples:
        assert isinstance(agreement, NetworkAgreement)
        X, targets, starts = self._held(data, agreement.names)
        inputs = self._inputs(X)
        check_lengths(len(inputs), len(targets))
        if not len(inputs):
            raise ParameterError("X must have at least one row")
        agreement.check_network()
        device = self.device
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        return agreement.check_examples(Examples(inputs, targets, device, starts))

    def _inputs(self, X: Any) -> Any:
        """Return rows as the network sees them."""
        whole = self.normalize == "whole"
        normalize = self.normalize if self.module is None or whole else None
        return seen_rows(X, self._ranges, features=self.features, normalize=normalize)

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X
            Rows, (examples, …); a table wherever it is kept; or a list of `Site` whose data are
            (X, y), or tables with the target where there are ``columns``.
        y
            One label or response per row, where ``X`` has none.
        """
        warn_of_column(y)
        return super().fit(X if y is None else (X, y))

    def _place(self) -> Place:
        return dataclasses.replace(super()._place(), progress=False)  # the bar is this one's own

    def _run(self, sites: Sequence[Site], agreement: Agreement) -> Outcome:
        assert isinstance(agreement, NetworkAgreement)
        with progress_bar(self.progress, agreement.rounds, self._purpose) as advance:
            done = 0

            def watch(progress: Progress) -> None:
                nonlocal done
                advance(progress.step - done, f"ε = {shown(progress.epsilon, 3)} so far")
                done = progress.step

            return super()._run(sites, dataclasses.replace(agreement, watch=watch))

    def _conclude(self, outcome: Outcome) -> None:
        agreement = outcome.agreement
        assert isinstance(agreement, NetworkAgreement) and agreement.blueprint is not None
        self.result_: Trained = outcome.result
        self.training_: Dynamics = agreement.dynamics
        self.history_ = list(self.result_.history)
        self._width, self.module_ = agreement.blueprint.shape, agreement.build()
        self._take_names(agreement.names)
        write_weights(learned(self.module_), self.result_.average)
        setattr(self.module_, _RAW, agreement.privacy is None)
        self._upstream = self._behind()
        paid = gathered([*outcome.certificates.items(), *self._upstream.items()])
        setattr(self.module_, _RESTS, paid)
        self.shared_ = {"samples": self.result_.samples, "final": self.result_.final} | {
            f"weights/{name}": p.detach().numpy() for name, p in self.module_.named_parameters()
        }

    def _behind(self) -> dict[str, Certificate]:
        """Return the certificates that a module of another private fit rests on."""
        found = []
        for name in ("module", "features"):
            given = getattr(self, name)
            for part in () if given is None else given.modules():
                found += [(f"{name}: {k}", c) for k, c in getattr(part, _RESTS, {}).items()]
        return gathered(found)

    def _take_names(self, names: Sequence[str]) -> None:
        """Keep what the inputs are called: of columns their own names, too."""
        self._names, table = tuple(names), self._table
        own = self._names if table is None else table.names
        if own or self.features is None:  # what fixed features take is their own business
            remember(self, len(own) or math.prod(self._width), own)

    # -- predictions ----------------------------------------------------------------------------

    def _predictions(self, X: Any) -> NDArray[np.float64]:
        """Return outputs (draws, rows, outputs): of posterior samples, or of the average.

        With ``dropout`` every sample is perturbed by the equivalent dropout of its step.
        """
        self._needs_fit()
        inputs = self._inputs(self._rows_to_predict(X))
        if self.training_.method == "dp-sgd":
            draws = self.result_.average[None]
        else:
            draws = self.result_.samples
        if self.dropout:
            rng = generator(self.random_state, "dropout")
            spread = self._dropout_sd()
            draws = draws + spread * rng.standard_normal(draws.shape, dtype=np.float32)
        found = []
        for flat in draws:
            with with_weights(self.module_, flat) as network, torch.no_grad():
                network.eval()
                parts = [called(network, part) for part in inputs.split(PIECE)]
                found.append(torch.cat(parts).numpy().astype(np.float64))
        return np.array(found)

    def _dropout_sd(self) -> float:
        """Return the noise of a step in the middle of the part that is averaged."""
        numbers = self.training_
        middle = int((1.0 + numbers.burn_in) / 2.0 * numbers.steps)
        return math.hypot(numbers.privacy_sd(middle), numbers.langevin_sd(middle))

    def layer_dropout(self) -> tuple[LayerDropout, ...]:
        """Return the equivalent dropout α of every layer at the averaged weights."""
        self._needs_fit()
        return layer_dropout(self.module_, self._dropout_sd())

    def _found(self, level: float) -> Answer:
        self._needs_fit()
        return network_answer(self, level)

    def to_arviz(self) -> Any:
        """Return the posterior samples of every array of weights as ArviZ ``InferenceData``."""
        self._needs_fit()
        if self.training_.method == "dp-sgd":
            raise ParameterError(
                "method='dp-sgd' has no posterior, and so no draws: use 'dpd' or 'sgld'"
            )
        values, start = {}, 0
        for name, p in self.module_.named_parameters():
            if p.requires_grad:
                part = self.result_.samples[:, start : start + p.numel()]
                values[name] = part.reshape(1, len(part), *p.shape)
                start += p.numel()
        return inference_data(values)

    def _needs_fit(self) -> None:
        check_fitted(self, "module_")

    # -- releases -------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        columns, asked = self._stated_columns, self.privacy
        return {
            "privacy": None if asked is None else asked.stated(),
            "columns": None if columns is None else columns.described(),
            "order": [] if columns is None else list(columns.encoded(list(columns))),
            "target": self.target,
            "names": list(self._names),
            "hidden": None if self.hidden is None else list(self.hidden),
            "activation": self.activation,
            "bounds": None if columns else np.asarray(self.bounds, np.float64).tolist(),
            "normalize": self.normalize,
            "rows": self.training_.rows,
            "dropout": self.dropout,
            "shape": list(self._width),
            "given": [n for n in ("module", "features") if getattr(self, n) is not None],
            "steps": [self.result_.steps, self.result_.lost],
            "training": {name: getattr(self.training_, name) for name in DYNAMICS},
        }

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        return {"samples": ("sample", "weight"), "final": ("weight",)}, {}

    def _adopt(self, release: Release) -> None:
        settings = release.settings
        asked = settings.pop("privacy", None)
        names, order = settings.pop("names", ()), settings.pop("order", ())
        if settings.get("columns"):
            settings["columns"] = Columns.of(settings["columns"]).in_order(order)
        else:
            bounds = settings["bounds"]
            settings["bounds"] = tuple(tuple(b) if isinstance(b, list) else b for b in bounds)
        self._width = tuple(settings.pop("shape"))
        self._needed: list[str] = settings.pop("given")
        steps, lost = settings.pop("steps")
        numbers = settings.pop("training")
        self.training_ = Dynamics(**{**numbers, "clips": tuple(numbers["clips"])})
        type(self).__init__(self, **settings)
        self.privacy = None if asked is None else Privacy(**asked)
        self._take_names(names)
        final = release.arrays["final"]
        self.result_ = Trained(final, final, release.arrays["samples"], steps, lost)
        self.history_ = []

    @classmethod
    def from_release(
        cls,
        folder: str | os.PathLike[str],
        *,
        module: nn.Module | None = None,
        features: nn.Module | None = None,
    ) -> Self:
        """Read a release back, every byte and certificate of it verified.

        Parameters
        ----------
        folder
            Where `release` wrote it.
        module, features
            Those of the network that was released, where it had some: a release holds numbers,
            and no code.
        """
        model = super().from_release(folder)
        for name, value in {"module": module, "features": features}.items():
            if (name in model._needed) != (value is not None):
                raise ParameterError(
                    f"the released network was trained with {name} of the caller's own, which a "
                    f"release does not hold: pass from_release(folder, {name}=…)"
                    if value is None
                    else f"{name} must be left out: the released network had none"
                )
            setattr(model, name, value)
        model._take_up()
        return model

    def _take_up(self) -> None:
        """Put the weights of a release into a network, by their names."""
        self.module_ = self._network(self._width).build(generator(0, "start"))
        own = dict(self.module_.named_parameters())
        weights = {name: self.shared_.get(f"weights/{name}") for name in own}
        if any(a is None or a.shape != tuple(own[name].shape) for name, a in weights.items()):
            raise ParameterError("module must have the weights of the network that was released")
        with torch.no_grad():
            for name, p in own.items():
                p.copy_(torch.from_numpy(np.array(weights[name])))
        average = flat_weights(learned(self.module_)).numpy()
        self.result_ = dataclasses.replace(self.result_, average=average)
        setattr(self.module_, _RESTS, dict(self.certificates_))
