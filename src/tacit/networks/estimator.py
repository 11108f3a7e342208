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
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, check
from tacit._core.progress import progress_bar
from tacit._core.rng import generator
from tacit.data.matrices import check_lengths
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
from tacit.networks.backend import nn
from tacit.networks.blanks import TO_STATE
from tacit.networks.devices import Device, chosen_device
from tacit.networks.dropout import LayerDropout, layer_dropout
from tacit.networks.dynamics import DYNAMICS, Dynamics
from tacit.networks.frozen import check_frozen
from tacit.networks.lineage import certificates_behind, check_unseen, note_rests, note_saw
from tacit.networks.loop import Progress, Trained
from tacit.networks.predicting import noise_sds, outputs_of, samples_by_name
from tacit.networks.rows import NORMALIZES, check_normalize, seen_rows
from tacit.networks.tables import Facts, TableNetwork, together
from tacit.networks.tabular import Embedded
from tacit.networks.trainer import Trainer
from tacit.networks.training import Training
from tacit.networks.weights import flat_weights, learned, take_up, write_weights
from tacit.privacy.guarantee import Privacy, shown
from tacit.privacy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PrivateNetwork"]

_REPORTS = 10
_HIDDEN, _ACTIVATION = (500,), "tanh"
_FEATURES = "inputs are seen through fixed features, which are public and know none of the people"


class PrivateNetwork(TableNetwork):
    """Base of `PrivateDropoutClassifier` and `PrivateDropoutRegressor`."""

    _purpose = "private network"
    _told: ClassVar[tuple[str, ...]] = (
        "privacy", "columns", "order", "target", "names", "hidden", "activation", "bounds",
        "normalize", "rows", "weights", "dropout", "shape", "given", "steps", "training",
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
        "weights": AnyOf(Real(0, open_low=True), InstanceOf(str), None),
        "training": AnyOf(InstanceOf(Training), None),
        "dropout": AnyOf(InstanceOf(bool), OneOf("run")),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "checkpoint": AnyOf(InstanceOf(str, os.PathLike), None),
        "device": Device(),
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
    dropout: bool | str
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

    @property
    def _judged(self) -> bool:
        """Whether it is asked in the end how sure the network may be."""
        return False

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
            if self.privacy is not None:
                check_unseen(name, given)
            if given is not None:
                check_frozen(given, name)
        check_normalize(self.normalize, self.module, self.features)
        self._training.decided(
            self.rows or 1000.0,
            self.privacy,
            scale=self._output_scale(),
            rows_per_unit=self._rows_per_unit,
            judged=self._judged,
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
        notes += () if self.features is None else (_FEATURES,)
        return self._training.agree(
            self._blueprint(shapes.pop()) if shapes else None,
            self._loss(),
            float(self.rows or sum(fact.rows for fact in known) or 1000.0),
            self._request(len(facts)),
            scale=self._output_scale(),
            sites=len(facts),
            rows_per_unit=self._rows_per_unit,
            shares=shares,
            largest_weight=self._largest_weight(known),
            judged=self._judged,
            inputs=inputs,
            targets=(*self._target_notes(), *notes),
            names=self._common(known),
            reports=_REPORTS,
            outputs=self._outputs(),
        )

    def _blueprint(self, shape: tuple[int, ...]) -> Perceptron | Embedded | Given:
        """Return the network for rows of a shape."""
        if self.features is not None:
            shape = tuple(self._inputs(np.zeros((1, *shape))).shape[1:])
        return self._network(shape)

    def _network(self, shape: tuple[int, ...]) -> Perceptron | Embedded | Given:
        """Return the network for what it sees: the caller's, or a perceptron."""
        if self.module is not None:
            kind = "int64" if self.normalize == "whole" else "float32"
            return Given(self.module, shape, kind)
        hidden = _HIDDEN if self.hidden is None else tuple(self.hidden)
        rest = self._outputs(), hidden, self.activation or _ACTIVATION
        levels = self._levels
        return Embedded(levels, *rest) if levels else Perceptron(math.prod(shape), *rest)

    # -- reading ------------------------------------------------------------------------------

    def _read(self, data: Any, agreement: Agreement) -> Examples:
        assert isinstance(agreement, NetworkAgreement)
        X, targets, starts, weights = self._held(data, agreement.names)
        inputs = self._inputs(X)
        check_lengths(len(inputs), len(targets))
        if not len(inputs):
            raise ParameterError("X must have at least one row")
        agreement.check_network()
        where = chosen_device(self.device)
        return agreement.check_examples(Examples(inputs, targets, where, starts, weights))

    def _inputs(self, X: Any) -> Any:
        """Return rows as the network sees them."""
        whole = self.normalize == "whole"
        normalize = self.normalize if self.module is None or whole else None
        return seen_rows(
            X, self._ranges, features=self.features, normalize=normalize, levels=self._levels
        )

    # -- fitting ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train the network.

        Parameters
        ----------
        X
            Rows, (examples, …); a table wherever it is kept; or a list of `Site` whose data are
            (X, y), or tables with the target where there are ``columns``.
        y
            One label or response per row, where ``X`` has none.
        sample_weight
            What each row counts, up to ``weights``; a site's data may be (X, y, weights).
        """
        return super().fit(together(X, y, sample_weight))

    def trainer(self, X: Any, y: Any = None, sample_weight: Any = None) -> Trainer:
        """Return a `Trainer` that takes the steps of `fit` one by one; in the end this is fitted.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`.
        """
        self._check_parameters()
        sites = self._as_sites(together(X, y, sample_weight))
        agreed: Any = self._agreed(sites)
        return Trainer.of(agreed, lambda own: self._running(sites, own), self._keep)

    @property
    def partial_fit(self) -> Any:
        """Refused: `hasattr` is False, and the error says why."""
        raise AttributeError(
            "there is no partial_fit: noise and price are those of a whole run over all rows. "
            "Drive a run with trainer(X, y), or go on from a fit: module=fitted.module_"
        )

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
        note_saw(self.module_, agreement.privacy is None)
        self._upstream = certificates_behind({"module": self.module, "features": self.features})
        paid = gathered([*outcome.certificates.items(), *self._upstream.items()])
        note_rests(self.module_, paid)
        own = {f"weights/{n}": p.detach().numpy() for n, p in self.module_.named_parameters()}
        run = {"samples": self.result_.samples, "final": self.result_.final}
        self.shared_ = {**run, "scale": np.array([self.result_.scale]), **own}

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
        point = self.training_.method == "dp-sgd"
        draws = self.result_.average[None] if point else self.result_.samples
        if self.dropout:
            rng = generator(self.random_state, "dropout")
            spread = np.float32(noise_sds(self.module_, self.training_, self.dropout == "run"))
            draws = draws + spread * rng.standard_normal(draws.shape, dtype=np.float32)
        return outputs_of(self.module_, draws, inputs)

    def layer_dropout(self, of: str = "step") -> tuple[LayerDropout, ...]:
        """Return the equivalent dropout α of every layer at the averaged weights.

        Parameters
        ----------
        of
            ``"step"``: of the noise of one step, as the thesis has it; ``"run"``: of what the
            noise of all steps adds to the averaged weights.
        """
        self._needs_fit()
        check("of", of, OneOf("step", "run"))
        return layer_dropout(self.module_, noise_sds(self.module_, self.training_, of == "run"))

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
        return inference_data(samples_by_name(self.module_, self.result_.samples))

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
            "weights": self.weights,
            "dropout": self.dropout,
            "shape": list(self._width),
            "given": [n for n in ("module", "features") if getattr(self, n) is not None],
            "steps": [self.result_.steps, self.result_.lost],
            "training": {name: getattr(self.training_, name) for name in DYNAMICS},
        }

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        return {"samples": ("sample", "weight"), "final": ("weight",), "scale": ("one",)}, {}

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
        apart = {name: tuple(numbers[name]) for name in ("clips", "layer_noise")}
        self.training_ = Dynamics(**{**numbers, **apart})
        type(self).__init__(self, **settings)
        self.privacy = None if asked is None else Privacy(**asked)
        self._take_names(names)
        final = release.arrays["final"]
        scale = float(release.arrays["scale"][0])
        self.result_ = Trained(final, final, release.arrays["samples"], steps, lost, scale=scale)
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
        take_up(self.module_, self.shared_)
        average = flat_weights(learned(self.module_)).numpy()
        self.result_ = dataclasses.replace(self.result_, average=average)
        note_rests(self.module_, self.certificates_)
