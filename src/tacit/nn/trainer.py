"""`train`: the loop, with its checkpoints.

A step samples rows with the secure generator, adds up their clipped gradients in physical batches,
releases the sum through the gate, and moves the weights (`tacit.nn.training` has the formulas).
Everything after the gate is post-processing: averages, posterior samples, dropout rates.

**Resuming.** The whole schedule is reserved under the run's name before the first step, and every
step claims its event before its noise is drawn. A checkpoint holds the state after a step. On
resuming, the ledger says how many steps were claimed: those that were claimed and whose outcome is
lost (a crash between the claim and the next checkpoint) are spent and not drawn again, the run is
shorter by their number, and `Trained.lost` says so. A run that was interrupted politely writes its
state on the way out and loses nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from tacit.errors import ParameterError
from tacit.mechanisms.base import privatize
from tacit.mechanisms.noise import Noise
from tacit.nn.dropout import LayerDropout, layer_dropout
from tacit.nn.layers import check_rows_independent, check_supported, is_linear_stack
from tacit.nn.linear import LinearSums
from tacit.nn.sampled import SampledSums, check_gradients
from tacit.nn.training import Training
from tacit.privacy.accounting import accountant as make_accountant
from tacit.privacy.events import leaves
from tacit.privacy.guarantee import Privacy
from tacit.privacy.reservation import Reservation
from tacit.rounds.checkpoint import Checkpoint
from tacit.rounds.messages import Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Progress", "Trained", "train"]

_MOST_ROWS = 1 << 17  # of a sample: 2^44 steps each, so that int64 sums have room


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


@dataclass
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
    """

    final: NDArray[np.float32]
    average: NDArray[np.float32]
    samples: NDArray[np.float32]
    steps: int
    lost: int = 0
    history: list[Progress] = field(default_factory=list)


def train(
    module: nn.Module,
    inputs: Any,
    targets: Any,
    loss: Callable[[Any, Any], Any],
    training: Training,
    *,
    rows: float,
    privacy: Privacy | None,
    reservation: Reservation | None,
    noise: Noise,
    rng: np.random.Generator,
    checkpoint: Checkpoint | None = None,
    every: int = 10,
    watch: Callable[[Progress], bool | None] | None = None,
    reports: int = 10,
    device: str = "cpu",
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
    privacy, reservation
        The guarantee and who pays; None for both where there is no noise.
    noise, rng
        The source of privacy noise and of secret samples; the generator of Langevin noise.
    checkpoint, every
        Where the state is kept, and after how many steps.
    watch, reports
        Called with the `Progress` a few times in a run; returning True ends the run early, which
        still costs what was reserved.
    device
        Where torch computes.
    """
    check_supported(module)
    check_rows_independent(module, tuple(inputs.shape[1:]), inputs.dtype)
    if not is_linear_stack(module):
        check_gradients(module, tuple(inputs.shape[1:]), inputs.dtype)
    if len(inputs) != len(targets):
        raise ParameterError(f"targets must have {len(inputs)} rows, got {len(targets)}")
    if training.rate * len(inputs) > _MOST_ROWS:
        raise ParameterError(f"a sample may hold about {_MOST_ROWS} rows: pass a smaller rate")
    module.to(device)
    loop = _Loop(module, loss, training, rows, privacy, noise, rng)
    try:
        return loop.run(inputs, targets, reservation, checkpoint, every, watch, reports, device)
    finally:
        loop.sums.close()


class _Loop:
    """The state of a run and its step."""

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Any, Any], Any],
        training: Training,
        rows: float,
        privacy: Privacy | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        self.module, self.training, self.rows, self.privacy = module, training, rows, privacy
        self.noise, self.rng = noise, rng
        self.parameters = [p for p in module.parameters() if p.requires_grad]
        self.theta = _flat(self.parameters)
        self.start = self.theta.clone()
        self.velocity = torch.zeros_like(self.theta)
        self.average = torch.zeros_like(self.theta, dtype=torch.float64)
        self.averaged = 0
        self.samples: list[NDArray[np.float32]] = []
        self.step = 0
        self.lost = 0
        self.signal = 0.0
        self.mechanism = training.mechanism(len(self.theta), privacy)
        inner = self.mechanism.mechanism
        # what rounding may add is taken off every clip in proportion
        clips = [norm * (inner.sensitivity / training.norm) for norm in training.clips]
        linear = is_linear_stack(module)
        # per-example gradients, where they exist, fill 128 MB at most
        fitting = 512 if linear else max(8, min(512, (1 << 25) // len(self.theta)))
        self.physical = training.physical or fitting
        kind = LinearSums if linear else SampledSums
        self.sums: LinearSums | SampledSums = kind(module, loss, clips, inner.grid, self.physical)

    def run(
        self,
        inputs: Any,
        targets: Any,
        reservation: Reservation | None,
        checkpoint: Checkpoint | None,
        every: int,
        watch: Callable[[Progress], bool | None] | None,
        reports: int,
        device: str,
    ) -> Trained:
        """Take all steps that are left."""
        training, history = self.training, []
        if checkpoint is not None:
            self._resume(checkpoint, reservation)
        shown = {max(1, (k + 1) * training.steps // reports) for k in range(reports)}
        saved = self.step
        try:
            while self.step + self.lost < training.steps:
                self._advance(inputs, targets, reservation, device)
                if checkpoint is not None and self.step % every == 0:
                    self._save(checkpoint)
                    saved = self.step
                if self.step in shown and watch is not None:
                    history.append(self.progress())
                    if watch(history[-1]):
                        break
        finally:
            if checkpoint is not None and saved != self.step:
                self._save(checkpoint)
        return self._trained(history)

    def _advance(
        self, inputs: Any, targets: Any, reservation: Reservation | None, device: str
    ) -> None:
        """Take one step."""
        picks = self.noise.sample(len(inputs), self.training.rate)
        for start in range(0, len(picks), self.physical):
            part = torch.from_numpy(picks[start : start + self.physical])
            self.sums.add(inputs[part].to(device), targets[part].to(device))
        total = self.sums.result()
        released = privatize(self.mechanism, total, ledger=reservation, rng=self.noise)
        self._move(released)
        self.step += 1

    def _move(self, released: NDArray[np.float64]) -> None:
        """Move the weights by a released sum of gradients; nothing private from here on."""
        training, theta = self.training, self.theta
        expected = training.rate * self.rows
        gradient = torch.from_numpy(released).to(theta) / expected
        sd = self.mechanism.mechanism.scale / expected
        self.signal = float(gradient.norm()) / (sd * len(theta) ** 0.5) if sd else np.inf
        eta = training.rate_at(self.step)
        pull = (theta - self.start) * (training.precision / self.rows)
        self.velocity.mul_(training.momentum).sub_(eta * (gradient + pull))
        spread = training.langevin_sd(self.step, self.rows, self.privacy)
        if spread > 0.0:
            drawn = self.rng.standard_normal(len(theta), dtype=np.float32)
            self.velocity.add_(torch.from_numpy(drawn).to(theta), alpha=spread)
        theta.add_(self.velocity)
        _write(self.parameters, theta)
        if self.step >= int(training.burn_in * training.steps):
            self.averaged += 1
            self.average += (theta - self.average) / self.averaged
        if self.step in training.kept():
            self.samples.append(theta.cpu().numpy().astype(np.float32).copy())

    def progress(self) -> Progress:
        """Return how far the run is, with the ε of the steps so far."""
        epsilon = np.inf
        events = leaves(self.mechanism.event)
        if self.privacy is not None and self.mechanism.mechanism.scale > 0.0:
            spent = make_accountant("pld")
            for event, count in events.items():
                spent = spent.add(event, count * (self.step + self.lost))
            epsilon = spent.epsilon(self.privacy.delta)
        sd = self.training.privacy_sd(self.step - 1, self.rows, self.privacy)
        dropout = layer_dropout(self.module, sd)
        return Progress(self.step, self.training.steps, epsilon, self.signal, dropout)

    def _trained(self, history: list[Progress]) -> Trained:
        """Return the result, and leave the averaged weights in the module."""
        average = self.average if self.averaged else self.theta
        final = self.theta.cpu().numpy().astype(np.float32)
        whole = average.cpu().numpy().astype(np.float32)
        _write(self.parameters, average.to(self.theta))
        samples = np.array(self.samples or [final], np.float32)
        return Trained(final, whole, samples, self.step, self.lost, history)

    # -- checkpoints ------------------------------------------------------------------------

    def _save(self, checkpoint: Checkpoint) -> None:
        """Keep the state: everything in it was released, or follows from releases."""
        note = {"averaged": self.averaged, "lost": self.lost, "rng": self.rng.bit_generator.state}
        checkpoint.save(
            Message(self.step, {
                "theta": self.theta.cpu().numpy(), "velocity": self.velocity.cpu().numpy(),
                "average": self.average.cpu().numpy(), "start": self.start.cpu().numpy(),
                "samples": np.array(self.samples, np.float32).reshape(-1, len(self.theta)),
                "note": np.frombuffer(json.dumps(note).encode(), np.uint8),
            }), (),
        )  # fmt: skip

    def _resume(self, checkpoint: Checkpoint, reservation: Reservation | None) -> None:
        """Go on from a checkpoint; steps that were claimed and lost are not drawn again."""
        found = checkpoint.load()
        if found is not None:
            state, _ = found
            if state["theta"].shape != tuple(self.theta.shape):
                raise ParameterError("the checkpoint belongs to another network")
            note = json.loads(state["note"].tobytes())
            self.step, self.averaged = state.round, int(note["averaged"])
            self.theta = torch.from_numpy(state["theta"].copy()).to(self.theta)
            self.velocity = torch.from_numpy(state["velocity"].copy()).to(self.theta)
            self.start = torch.from_numpy(state["start"].copy()).to(self.theta)
            self.average = torch.from_numpy(state["average"].copy()).to(self.average)
            self.samples = list(state["samples"].copy())
            self.lost = int(note["lost"])
            self.rng.bit_generator.state = note["rng"]
            _write(self.parameters, self.theta)
        if reservation is not None:
            left = sum(reservation.left.values())
            self.lost = self.training.steps - left - self.step


def _flat(parameters: Sequence[Any]) -> Any:
    """Return parameters as one flat vector of its own."""
    return torch.cat([p.detach().reshape(-1) for p in parameters]).clone()


def _write(parameters: Sequence[Any], flat: Any) -> None:
    """Write a flat vector back into parameters."""
    start = 0
    with torch.no_grad():
        for p in parameters:
            p.copy_(flat[start : start + p.numel()].view_as(p))
            start += p.numel()
