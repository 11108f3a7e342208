"""Private training: an epoch of the perceptron against the plain loop and against Opacus' hooks.

MNIST's shape (60,000 rows of 784 numbers, which are random here: they do not matter), one layer of
1,000 hidden units, Poisson samples of an expected size of 4,096, SGD. All three loops sample,
compute and move the weights; the private ones clip every example's gradient and add noise. Ratios
of medians within one run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.timing import in_turns, median_seconds
from experiments.runner import Outcome
from tacit.mechanisms.noise import Noise
from tacit.networks import Training, perceptron, train
from tacit.networks.sampled_gradients import SampledSums
from tacit.privacy.guarantee import Privacy

ROWS, BATCH = 60_000, 4096


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
    # a few steps stand for an epoch: every step costs the same
    steps, repeats = (2, 1) if quick else (5, 3)
    per_epoch = ROWS / BATCH / steps
    network = lambda: perceptron(784, 10, (1000,), rng=np.random.default_rng(0))  # noqa: E731
    times = in_turns(
        {
            "plain": lambda: plain_epoch(network(), inputs, targets, steps, BATCH),
            "tacit": lambda: private_epoch(network(), inputs, targets, steps),
        },
        repeats,
    )
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
        })  # fmt: skip
    ratio = times["tacit"] / times["plain"]
    outcome.check("private epoch over plain epoch, perceptron", ratio, "at most 2.0", ratio <= 2.0)
    faster = times["opacus"] / times["tacit"]
    outcome.check("Opacus' hooks over tacit", faster, "above 1", faster > 1.0)
    convolution(outcome, quick)
    return outcome


def convolution(outcome: Outcome, quick: bool) -> None:
    """Add what per-example gradients of a small convolutional network cost; no bar."""
    from tacit.mechanisms.grid import Grid
    from tacit.networks import convolutional

    rng = np.random.default_rng(0)
    module = convolutional(1, 28, 10, rng=rng)
    inputs = torch.from_numpy(rng.random((128 if quick else 512, 1, 28, 28), dtype=np.float32))
    targets = torch.from_numpy(rng.integers(0, 10, len(inputs)))
    sums = SampledSums(module, cross_entropy, [1.0], Grid(-20), 128)

    def work() -> None:
        sums.add(inputs, targets)
        sums.result()

    seconds = median_seconds(work, 2)
    sums.close()
    outcome.add({"loop": "convolution, per-example gradients",
                 "seconds an epoch": seconds * ROWS / len(inputs)})  # fmt: skip
