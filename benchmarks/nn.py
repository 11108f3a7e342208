"""Private training: an epoch of the perceptron against the plain loop and against Opacus' hooks.

MNIST's shape (60,000 rows of 784 numbers, which are random here: they do not matter), one layer of
1,000 hidden units, Poisson samples of an expected size of 4,096, SGD. All three loops sample,
compute and move the weights; the private ones clip every example's gradient and add noise, and
tacit's is a run of its own, from checks and calibration to the certificate. Then
the gradients alone, without sampling and noise, of a small convolutional network on images and of
a table, an LSTM of 64 cells and a linear layer on sequences of 20 letters. Ratios of medians
within one run; rows also say what processor time a step took, of all threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.timing import in_turns, median_seconds, processor_seconds
from experiments.runner import Outcome
from tacit.mechanisms.noise import Noise
from tacit.networks import Training, perceptron, train
from tacit.networks.sampled_gradients import SampledSums
from tacit.privacy.guarantee import Privacy

ROWS, BATCH, PHYSICAL = 60_000, 4096, 512


def cross_entropy(outputs: Any, targets: Any) -> Any:
    return functional.cross_entropy(outputs, targets, reduction="none")


def plain_epoch(module: nn.Module, inputs: Any, targets: Any, steps: int, physical: int) -> None:
    """The same loop without privacy: one mean gradient a step, by autograd."""
    noise = Noise()
    optimiser = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        picks = torch.from_numpy(noise.sample(len(inputs), BATCH / ROWS))
        optimiser.zero_grad()
        for part in picks.split(physical):
            (cross_entropy(module(inputs[part]), targets[part]).sum() / BATCH).backward()
        optimiser.step()


def private_epoch(module: nn.Module, inputs: Any, targets: Any, steps: int) -> None:
    """One epoch through `tacit.networks.train`."""
    training = Training(
        steps=steps, sampling_rate=BATCH / ROWS, clip=1.0, step_size=0.1, method="dp-sgd"
    )
    train(module, inputs, targets, cross_entropy, training, rows=ROWS, privacy=Privacy(1.0, 1e-5))


def opacus_epoch(module: nn.Module, inputs: Any, targets: Any, steps: int) -> None:
    """One epoch with Opacus' own loop: hooks, DPOptimizer, its Poisson loader, its noise."""
    import warnings

    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    wrapped = GradSampleModule(module, loss_reduction="mean")
    optimiser = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9), noise_multiplier=1.0,
        max_grad_norm=1.0, expected_batch_size=BATCH,
    )  # fmt: skip
    noise = Noise()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(steps):
            picks = torch.from_numpy(noise.sample(len(inputs), BATCH / ROWS))
            parts = picks.split(256)  # 795,000 numbers for each example
            for k, part in enumerate(parts):
                optimiser.signal_skip_step(k < len(parts) - 1)
                cross_entropy(wrapped(inputs[part]), targets[part]).mean().backward()
                optimiser.step()
                optimiser.zero_grad()
    wrapped.to_standard_module()


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    rng = np.random.default_rng(0)
    rows = ROWS if not quick else 8192
    inputs = torch.from_numpy(rng.random((rows, 784), dtype=np.float32))
    targets = torch.from_numpy(rng.integers(0, 10, rows))
    # the quick form takes a third of an epoch; what a run does once is part of either
    steps, repeats = (5, 1) if quick else (15, 3)
    per_epoch = ROWS / BATCH / steps
    network = lambda: perceptron(784, 10, (1000,), rng=np.random.default_rng(0))  # noqa: E731
    works: dict[str, Callable[[], object]] = {
        "plain": lambda: plain_epoch(network(), inputs, targets, steps, BATCH),
        "tacit": lambda: private_epoch(network(), inputs, targets, steps),
    }
    times = in_turns(works, repeats)
    used = {name: processor_seconds(work) for name, work in works.items()}
    # per-example gradients of 795,000 numbers take most of a minute a step: a seventh of the rows,
    # scaled up, because the cost is one of examples
    few = min(rows, 8192)
    part = inputs[:few], targets[:few]
    once = median_seconds(lambda: opacus_epoch(network(), *part, 1), 1)
    times["opacus"] = once * steps * rows / few
    for name, seconds in times.items():
        outcome.add({
            "loop": name, "seconds a step": seconds / steps,
            "seconds an epoch": seconds * per_epoch, "threads": torch.get_num_threads(),
            **({"processor seconds a step": used[name] / steps} if name in used else {}),
        })  # fmt: skip
    ratio = times["tacit"] / times["plain"]
    outcome.check("private epoch over plain epoch, perceptron", ratio, "at most 1.8", ratio <= 1.8)
    faster = times["opacus"] / times["tacit"]
    outcome.check("Opacus' hooks over tacit, perceptron", faster, "above 1", faster > 1.0)
    for name, bar in (("convolution", 2.5), ("LSTM", 3.0)):
        per_example(outcome, name, bar, quick)
    return outcome


class Letters(nn.Module):
    """A table that is looked up, an LSTM, and a linear layer."""

    def __init__(self, cells: Any) -> None:
        super().__init__()
        self.table, self.last = nn.Embedding(28, 16), nn.Linear(64, 10)
        self.cells = cells(16, 64, batch_first=True)

    def forward(self, x: Any) -> Any:
        """Return outputs of sequences of letters."""
        return self.last(self.cells(self.table(x))[0].mean(1))


def per_example(outcome: Outcome, name: str, bar: float, quick: bool) -> None:
    """Compare sums of clipped gradients with a plain backward pass and with Opacus' hooks."""
    from opacus.grad_sample import GradSampleModule
    from opacus.layers import DPLSTM

    from tacit.mechanisms.grid import Grid
    from tacit.networks import convolutional
    from tacit.networks.crew import threads_for

    rng, rows = np.random.default_rng(0), 512 if quick else 2048
    if name == "convolution":
        module = theirs = convolutional(1, 28, 10, rng=rng)
        inputs = torch.from_numpy(rng.random((rows, 1, 28, 28), dtype=np.float32))
    else:
        module, theirs = Letters(nn.LSTM), Letters(DPLSTM)
        inputs = torch.from_numpy(rng.integers(0, 28, (rows, 20)))
    targets = torch.from_numpy(rng.integers(0, 10, rows))
    # as `tacit.networks.sides` has them
    size = 512 if name == "LSTM" else 256
    sums = SampledSums(module, cross_entropy, [1.0], Grid(-20), size)
    sums.prepare(inputs, targets)

    def plain() -> None:
        for part in torch.arange(rows).split(PHYSICAL):
            module.zero_grad()
            cross_entropy(module(inputs[part]), targets[part]).sum().backward()

    def private() -> None:
        with threads_for(size * sum(p.numel() for p in module.parameters())):
            sums.add(inputs, targets)
            sums.result()

    def hooks() -> None:
        wrapped = GradSampleModule(theirs, loss_reduction="sum")
        for part in torch.arange(rows).split(PHYSICAL):
            cross_entropy(wrapped(inputs[part]), targets[part]).sum().backward()
            found = [p.grad_sample.flatten(1) for p in theirs.parameters()]
            norms = torch.stack([g.norm(dim=1) for g in found]).norm(dim=0)
            for g in found:
                g.mul_(torch.clamp(1.0 / norms, max=1.0)[:, None]).sum(0)
            wrapped.zero_grad(set_to_none=True)
        wrapped.to_standard_module()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        times = in_turns({"plain": plain, "tacit": private, "opacus": hooks}, 1 if quick else 3)
    for way, seconds in times.items():
        row = {"loop": f"{name}, {way}", "seconds an epoch": seconds * ROWS / rows}
        outcome.add({**row, "threads": torch.get_num_threads()})
    ratio, faster = times["tacit"] / times["plain"], times["opacus"] / times["tacit"]
    text = f"at most {bar:g}"
    outcome.check(f"private epoch over plain epoch, {name}", ratio, text, ratio <= bar)
    outcome.check(f"Opacus' hooks over tacit, {name}", faster, "above 1", faster > 1.0)
