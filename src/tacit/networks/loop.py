"""`walk`: the coordinator's loop, and `train`, which runs it over one holder's tensors.

A step asks for the sum of clipped gradients at the weights and moves them by what was released
(`tacit.networks.dynamics` has the formulas). Everything here is post-processing: averages,
posterior samples, dropout rates.

**Resuming.** The whole run is reserved under its name before the first step, and every step is
claimed before its noise is drawn. With a folder for checkpoints the state before each step is
kept, and every reply before it is used, so an interrupted run goes on where it stopped. A step
that was claimed and whose reply was lost otherwise than by the end of its process is spent and not
drawn again: the run is shorter by it, and `Trained.lost` says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.agreement import Ask, Coordinating, Start
from tacit.estimators.fit import Place, fit
from tacit.estimators.site import ALONE, Site
from tacit.networks.agreement import STEP, Examples, NetworkAgreement
from tacit.networks.architectures import Given
from tacit.networks.backend import nn, torch
from tacit.networks.dropout import LayerDropout, layer_dropout
from tacit.networks.training import Training
from tacit.networks.weights import as_tensor, flat_weights, learned, write_weights
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import repeat
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Progress", "Trained", "train", "walk"]


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    step, steps
        How many steps are done, and how many there are.
    epsilon
        What the steps so far cost at the request's δ.
    signal
        The norm of the released mean gradient over that of its noise; about one where a step
        is noise only.
    dropout
        The equivalent dropout of every layer.
    """

    step: int
    steps: int
    epsilon: float
    signal: float
    dropout: tuple[LayerDropout, ...]


@dataclass(frozen=True)
class Trained:
    """What a run gave: all of it released, or post-processing of releases.

    Attributes
    ----------
    final, average, samples
        The last weights, their average after burn-in, and posterior samples (samples, weights);
        flat, in the order of the module's parameters.
    steps, lost
        How many steps were taken, and how many were paid for and lost in a crash.
    history
        `Progress` at a few steps.
    certificate
        Of the whole run, where `train` ran it.
    """

    final: NDArray[np.float32]
    average: NDArray[np.float32]
    samples: NDArray[np.float32]
    steps: int
    lost: int = 0
    history: tuple[Progress, ...] = ()
    certificate: Certificate | None = None


def walk(agreement: NetworkAgreement, start: Start) -> Coordinating:
    """Ask for every step and move the weights; return `Trained`."""
    numbers, reports = agreement.dynamics, agreement.reports
    state = _State(agreement, start)
    shown = {max(1, (k + 1) * numbers.steps // reports) for k in range(reports)}
    while state.step + state.lost < numbers.steps:
        found = yield Ask(STEP, keep=state.kept(), weights=state.theta.numpy())
        if not found.total["drawn"][0]:
            state.lost += 1
            continue
        state.move(found.total["sum"])
        if state.step in shown:
            state.history.append(state.progress())
            if agreement.watch is not None and agreement.watch(state.history[-1]):
                break
    return state.trained()


class _State:
    """Where a run is. Tensors are replaced, never changed: what was kept stays as it was."""

    def __init__(self, agreement: NetworkAgreement, start: Start) -> None:
        self._agreement, self._numbers = agreement, agreement.dynamics
        self._module = agreement.build(generator(start.seed, "start"))
        self._parameters = learned(self._module)
        self._rng = generator(start.seed, "langevin")
        self.theta = self._first = flat_weights(self._parameters)
        self._velocity = torch.zeros_like(self.theta)
        self._average = torch.zeros_like(self.theta, dtype=torch.float64)
        self._gradient: Any = None
        self._samples: list[NDArray[np.float32]] = []
        self.step = self.lost = self._averaged = 0
        self.history: list[Progress] = []
        if start.state is not None:
            self._restore(start.state)

    def move(self, released: NDArray[np.float64]) -> None:
        """Take one step by a released sum of gradients."""
        numbers, theta, step = self._numbers, self.theta, self.step
        self._gradient = as_tensor(released).to(theta) / numbers.expected
        pull = (theta - self._first) * (numbers.precision / numbers.rows)
        eta = numbers.step_size_at(step)
        velocity = self._velocity * numbers.momentum - eta * (self._gradient + pull)
        spread = numbers.langevin_sd(step)
        if spread > 0.0:
            drawn = self._rng.standard_normal(len(theta), dtype=np.float32)
            velocity = torch.add(velocity, torch.from_numpy(drawn), alpha=spread)
        self._velocity, self.theta = velocity, theta + velocity
        if not bool(torch.isfinite(self.theta).all()):
            raise ParameterError(
                f"the weights diverged after {step + 1} steps: pass a smaller step_size"
            )
        if numbers.is_averaged(step):
            self._averaged += 1
            self._average = self._average + (self.theta - self._average) / self._averaged
        if step in numbers.kept:
            self._samples.append(self.theta.numpy())
        self.step += 1

    def progress(self) -> Progress:
        """Return how far the run is, with the ε of the steps so far."""
        numbers, agreement, step = self._numbers, self._agreement, self.step
        epsilon = np.inf
        if agreement.privacy is not None and not agreement.is_free:
            spent = repeat(agreement.mechanism.event, step + self.lost)
            epsilon = epsilon_of(spent, agreement.privacy.delta)
        scale = agreement.mechanism.mechanism.scale
        total = scale * (numbers.sites / numbers.shares) ** 0.5
        noise = total / numbers.expected * len(self.theta) ** 0.5
        signal = float(self._gradient.norm()) / noise if noise else np.inf
        write_weights(self._parameters, self.theta.numpy())
        dropout = layer_dropout(self._module, numbers.privacy_sd(step - 1))
        return Progress(step, numbers.steps, epsilon, signal, dropout)

    def trained(self) -> Trained:
        """Return the result."""
        final = self.theta.numpy()
        average = self._average.numpy().astype(np.float32) if self._averaged else final
        samples = np.array(self._samples or [final], np.float32)
        return Trained(final, average, samples, self.step, self.lost, tuple(self.history))

    # -- restarts --------------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """Return the state: everything in it was released, or follows from releases."""
        note = {
            "step": self.step,
            "averaged": self._averaged,
            "lost": self.lost,
            "rng": self._rng.bit_generator.state,
            "history": [asdict(progress) for progress in self.history],
        }
        return {
            "theta": self.theta.numpy(),
            "velocity": self._velocity.numpy(),
            "average": self._average.numpy(),
            "first": self._first.numpy(),
            "note": np.frombuffer(json.dumps(note).encode(), np.uint8),
        } | {f"sample/{k}": sample for k, sample in enumerate(self._samples)}

    def _restore(self, state: Mapping[str, Any]) -> None:
        note = json.loads(state["note"].tobytes())
        self.step, self.lost, self._averaged = note["step"], note["lost"], note["averaged"]
        self._rng.bit_generator.state = note["rng"]
        self.history = [
            Progress(
                **(shown | {"dropout": tuple(LayerDropout(**one) for one in shown["dropout"])})
            )
            for shown in note["history"]
        ]
        self.theta, self._velocity, self._average, self._first = (
            as_tensor(state[name]) for name in ("theta", "velocity", "average", "first")
        )
        count = sum(name.startswith("sample/") for name in state)
        self._samples = [state[f"sample/{k}"] for k in range(count)]


def train(
    module: nn.Module,
    inputs: Any,
    targets: Any,
    loss: Callable[[Any, Any], Any],
    training: Training,
    *,
    rows: float,
    privacy: Privacy | None = None,
    ledger: Ledger | None = None,
    checkpoint: Any = None,
    watch: Callable[[Progress], bool | None] | None = None,
    reports: int = 10,
    device: str = "cpu",
    random_state: int | None = None,
) -> Trained:
    """Train any module whose layers have per-example gradients.

    Parameters
    ----------
    module
        The network; its parameters hold the start and, in the end, the averaged weights.
    inputs, targets
        Tensors with one row per example.
    loss
        (outputs, targets) → one loss per example, each of its own output alone.
    training
        The public settings.
    rows
        The public, approximate number of rows.
    privacy, ledger
        The guarantee and who pays; without privacy there is no noise.
    checkpoint
        A folder: a run that was interrupted goes on from there, with the same ledger.
    watch, reports
        Called with the `Progress` a few times in a run; returning True ends the run early, which
        still costs what was reserved.
    device
        Where torch computes.
    random_state
        A seed for noise, samples and start, for tests only: the certificate then says so.
    """
    kind = str(inputs.dtype).removeprefix("torch.")
    agreement = training.agree(
        Given(module, tuple(inputs.shape[1:]), kind),
        loss,
        rows,
        privacy,
        watch=watch,
        reports=0 if watch is None else reports,
    )
    agreement.check_network()
    data = agreement.check_examples(Examples(inputs, targets, device))
    site = Site(ALONE, None, ledger)
    place = Place("private network", random_state, checkpoint=checkpoint)
    outcome = fit(agreement, [site], {site.name: data}, place)
    trained: Trained = outcome.result
    write_weights(learned(module), trained.average)
    return replace(trained, certificate=outcome.certificates[site.name])
