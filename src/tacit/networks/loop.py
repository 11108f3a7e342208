"""`walk`: the coordinator's loop.

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
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.agreement import Ask, Coordinating, Start
from tacit.networks.agreement import CONFIDENCE, STEP, NetworkAgreement
from tacit.networks.backend import torch
from tacit.networks.confidence import PARTS, scale_of
from tacit.networks.dropout import LayerDropout, layer_dropout, weight_sds, weight_units
from tacit.networks.weights import as_tensor, flat_weights, learned, write_weights
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import repeat

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Progress", "State", "Trained", "walk"]


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
    scale
        What a classifier's outputs are multiplied by before they become probabilities.
    certificate
        Of the whole run, where `train` or a `Trainer` ran it.
    """

    final: NDArray[np.float32]
    average: NDArray[np.float32]
    samples: NDArray[np.float32]
    steps: int
    lost: int = 0
    history: tuple[Progress, ...] = ()
    scale: float = 1.0
    certificate: Certificate | None = None


def walk(agreement: NetworkAgreement, start: Start) -> Coordinating:
    """Ask for every step and move the weights; return `Trained`."""
    numbers, reports = agreement.dynamics, agreement.reports
    state = State(agreement, start)
    shown = {max(1, (k + 1) * numbers.ends // reports) for k in range(reports)}
    while not state.ended and state.step + state.lost < numbers.ends:
        found = yield Ask(STEP, keep=state.kept(), weights=state.theta.numpy())
        if found is None:  # whoever drives the run has enough
            break
        if not found.total["drawn"][0]:
            state.lost += 1
            continue
        state.move(found.total["sum"])
        if agreement.follow is not None:
            agreement.follow(state)
        if state.step in shown:
            state.history.append(state.progress())
            if agreement.watch is not None and agreement.watch(state.history[-1]):
                break
    state.ended = True
    if not numbers.judged_rate:
        return state.trained()
    found = yield Ask(CONFIDENCE, keep=state.kept(), weights=state.draws())
    noise = agreement.judging.mechanism.scale * (numbers.sites / numbers.shares) ** 0.5
    if found is None or not found.total["drawn"][0]:
        return state.trained(np.zeros(PARTS), np.inf)
    return state.trained(found.total["sum"], noise)


class State:
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
        self.ended = False
        self._units = weight_units(self._module, agreement.dynamics.units)
        self.history: list[Progress] = []
        if start.state is not None:
            self._restore(start.state)

    def move(self, released: NDArray[np.float64]) -> None:
        """Take one step by a released sum of gradients."""
        numbers, theta, step = self._numbers, self.theta, self.step
        self._gradient = as_tensor(released).to(theta) / numbers.expected
        if self._units is not None:
            self._gradient = self._gradient / torch.from_numpy(self._units)
        pull = (theta - self._first) * (numbers.precision / numbers.rows)
        eta = numbers.step_size_at(step)
        velocity = self._velocity * numbers.momentum - eta * (self._gradient + pull)
        spread = weight_sds(numbers, self._units, lambda unit: numbers.langevin_sd(step, unit))
        if np.any(spread > 0.0):
            drawn = self._rng.standard_normal(len(theta), dtype=np.float32)
            velocity = velocity + torch.from_numpy(drawn * np.float32(spread))
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
        own = weight_sds(numbers, self._units, lambda unit: total / (numbers.expected * unit))
        noise = float(np.linalg.norm(np.broadcast_to(own, self.theta.shape)))
        signal = float(self._gradient.norm()) / noise if noise else np.inf
        write_weights(self._parameters, self.theta.numpy())
        sds = weight_sds(numbers, self._units, lambda u: numbers.privacy_sd(step - 1, u))
        dropout = layer_dropout(self._module, sds)
        return Progress(step, numbers.steps, epsilon, signal, dropout)

    @property
    def gradient(self) -> NDArray[np.float32]:
        """The mean gradient that was released last."""
        found: NDArray[np.float32] = self._gradient.numpy()
        return found

    def average(self) -> NDArray[np.float32]:
        """Return the averaged weights, or the last ones before there are any."""
        if not self._averaged:
            return np.asarray(self.theta.numpy(), np.float32)
        return np.asarray(self._average.numpy(), np.float32)

    def draws(self) -> NDArray[np.float32]:
        """Return the posterior samples that the last question is about, evenly spread."""
        count = self._agreement.asked_about
        if self._numbers.method == "dp-sgd":
            return self.average()[None]
        own = self._samples or [self.theta.numpy()]
        return np.array([own[k * len(own) // count] for k in range(count)], np.float32)

    def _scale(self, sums: NDArray[np.float64], noise: float) -> float:
        """Return what outputs are multiplied by, by what was said of them."""
        rows = self._numbers.judged_rate * self._numbers.rows
        return scale_of(sums, noise, rows, self._agreement.outputs or 2)

    def trained(self, sums: Any = None, noise: float = 0.0) -> Trained:
        """Return the result; with what was said about how sure the network may be."""
        final = self.theta.numpy()
        samples = np.array(self._samples or [final], np.float32)
        scale = 1.0 if sums is None else self._scale(sums, noise)
        run = self.step, self.lost, tuple(self.history), scale
        return Trained(final, self.average(), samples, *run)

    # -- restarts --------------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """Return the state: everything in it was released, or follows from releases."""
        note = {
            "step": self.step,
            "averaged": self._averaged,
            "lost": self.lost,
            "ended": self.ended,
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
        self.ended = note["ended"]
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
