"""Clipped sums of per-example gradients: against a naive loop, and attacked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from opacus.layers import DPLSTM, DPMultiheadAttention
from torch import nn
from torch.nn import functional

from tacit.errors import ParameterError
from tacit.mechanisms.grid import Grid
from tacit.networks.architectures import convolutional, perceptron
from tacit.networks.exact_gradients import LinearSums
from tacit.networks.layers import (
    check_flat,
    check_rows_independent,
    check_supported,
    is_linear_stack,
)
from tacit.networks.sampled_gradients import SampledSums, check_gradients
from tacit.networks.traced_gradients import is_traceable

FINE = Grid(-44)


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


def loud(outputs, targets):
    """Return a loss whose gradients exceed every clip."""
    return 1e3 * cross_entropy(outputs, targets)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = DPLSTM(3, 4, batch_first=True)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(self.lstm(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self, batch_first=True):
        super().__init__()
        self.attention = DPMultiheadAttention(4, 2, batch_first=batch_first)
        self.norm = nn.LayerNorm(4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        turned = x if self.attention.batch_first else x.transpose(0, 1)
        mixed, _ = self.attention(turned, turned, turned)
        return self.last(self.norm(mixed.mean(1 if self.attention.batch_first else 0)))


def make(kind):
    """Return a network in float64 and the shape of its inputs."""
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    networks = {
        "perceptron": (perceptron(6, 3, (8, 5), rng=rng), (6,)),
        "no bias": (nn.Sequential(nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Linear(4, 3)), (6,)),
        "convolution": (convolutional(1, 8, 3, filters=(2, 3), rng=rng), (1, 8, 8)),
        "odd convolution": (
            nn.Sequential(
                nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(2, 1), bias=False),
                nn.Tanh(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Linear(24, 3),
            ),
            (2, 6, 7),
        ),
        "sequence": (
            nn.Sequential(
                nn.Linear(3, 4),
                nn.Tanh(),
                nn.Linear(4, 2),
                nn.Flatten(),
                nn.Linear(10, 3),
                nn.Softmax(1),
            ),
            (5, 3),
        ),
        "groups": (
            nn.Sequential(
                nn.Conv2d(2, 4, 3, groups=2),
                nn.GroupNorm(2, 4),
                nn.Tanh(),
                nn.Flatten(),
                nn.Linear(64, 3),
            ),
            (2, 6, 6),
        ),
        "recurrent": (Recurrent(), (5, 3)),
        "attention": (Attention(), (5, 4)),
    }
    network, shape = networks[kind]
    for p in network.parameters():  # no layer may start at zero, or others have no gradient
        nn.init.normal_(p, std=0.5)
    return network.double(), shape


def naive_examples(network, inputs, targets):
    """Return every example's own gradient, by a loop over examples."""
    rows = []
    for x, y in zip(inputs, targets, strict=True):
        loss = cross_entropy(network(x[None]), y[None]).sum()
        found = torch.autograd.grad(loss, list(network.parameters()))
        rows.append(torch.cat([g.reshape(-1) for g in found]).numpy())
    return np.array(rows)


def layer_slices(network):
    """Return the slices of every learning layer in the flat gradient."""
    slices, start = [], 0
    for layer in network.modules():
        size = sum(p.numel() for p in layer.parameters(recurse=False))
        if size:
            slices.append(slice(start, start + size))
            start += size
    return slices


def clip(rows, slices, norms):
    out = rows.copy()
    for part, norm in zip(slices, norms, strict=True):
        lengths = np.linalg.norm(rows[:, part], axis=1, keepdims=True)
        out[:, part] = rows[:, part] * np.minimum(1.0, norm / np.maximum(lengths, 1e-300))
    return out


def sums_of(network, clips, loss=cross_entropy):
    kind = LinearSums if is_linear_stack(network) else SampledSums
    return kind(network, loss, clips, FINE, 8)


def batch(shape, count, seed=0):
    rng = np.random.default_rng(seed)
    inputs = torch.from_numpy(2.0 * rng.standard_normal((count, *shape)))
    return inputs, torch.from_numpy(rng.integers(0, 3, count))


@pytest.mark.parametrize(
    "kind",
    ["perceptron", "no bias", "convolution", "odd convolution", "sequence", "groups", "recurrent",
     "attention"],
)  # fmt: skip
def test_clipped_gradients_equal_a_naive_loop(kind):
    network, shape = make(kind)
    inputs, targets = batch(shape, 9)
    rows = naive_examples(network, inputs, targets)
    norm = float(np.median(np.linalg.norm(rows, axis=1)))  # some are clipped, some are not
    sums = sums_of(network, [norm])
    for start in (0, 4):  # physical batches
        stop = start + 5 if start else 4
        sums.add(inputs[start:stop], targets[start:stop])
    expected = clip(rows, [slice(None)], [norm]).sum(axis=0)
    found = sums.result().value()
    sums.close()
    assert np.abs(found - expected).max() / len(rows) / norm < 1e-6


@pytest.mark.parametrize("kind", ["perceptron", "convolution"])
def test_layers_have_clips_of_their_own(kind):
    network, shape = make(kind)
    inputs, targets = batch(shape, 7)
    rows, slices = naive_examples(network, inputs, targets), layer_slices(network)
    norms = [float(np.median(np.linalg.norm(rows[:, part], axis=1))) for part in slices]
    sums = sums_of(network, norms)
    sums.add(inputs, targets)
    found = sums.result().value()
    sums.close()
    expected = clip(rows, slices, norms).sum(axis=0)
    assert np.abs(found - expected).max() / len(rows) / max(norms) < 1e-6
    with pytest.raises(ParameterError, match="one for each of"):
        sums_of(network, [1.0] * 17)


def loud_batches(shape):
    """Batches that try to get a contribution beyond the clip."""
    inputs, targets = batch(shape, 6, seed=3)
    yield inputs, targets
    for size in (1e-30, 1e-3, 1e6, 1e18):
        yield inputs * size, targets
    for k in range(3):  # one loud example against a quiet one
        yield torch.stack([-3.0 * inputs[1], 0.1 * inputs[1]]), torch.tensor([k, (k + 1) % 3])
    lonely = torch.zeros_like(inputs)
    lonely.reshape(6, -1)[:, 0] = 1e9
    yield lonely, targets
    broken = inputs.clone()
    broken.reshape(6, -1)[0, 0], broken.reshape(6, -1)[1, 0] = float("nan"), float("inf")
    yield broken, targets


def largest_contribution(network, shape, sums):
    """Search for an example that moves the sum furthest, through the real code path."""
    worst = 0.0
    for inputs, targets in loud_batches(shape):
        sums.add(inputs[1:], targets[1:])
        without = sums.result().integers
        sums.add(inputs, targets)
        moved = (sums.result().integers - without).astype(np.float64)
        worst = max(worst, float(np.linalg.norm(moved) * FINE.step))
    return worst


@pytest.mark.parametrize("clip_norm", [0.3, 1.0, 1.7])
@pytest.mark.parametrize("kind", ["perceptron", "convolution"])
def test_no_example_moves_the_sum_by_more_than_its_clip(kind, clip_norm):
    network, shape = make(kind)
    for dtype in (torch.float64, torch.float32):
        network.to(dtype)
        sums = sums_of(network, [clip_norm], loud)
        original = sums.add

        def add(inputs, targets, original=original, dtype=dtype):
            original(inputs.to(dtype), targets)

        sums.add = add
        worst = largest_contribution(network, shape, sums)
        sums.close()
        size = sum(p.numel() for p in network.parameters())
        rounding = FINE.step * size**0.5  # counted by the mechanism
        assert 0.99 * clip_norm < worst <= clip_norm + rounding


def test_joint_clips_of_layers_add_up_as_squares():
    network, shape = make("perceptron")
    sums = sums_of(network, [0.3, 0.4, 1.2], loud)
    worst = largest_contribution(network, shape, sums)
    assert 1.2 < worst <= 1.3 + 1e-9


class BatchClipped(LinearSums):
    """A broken twin that clips the sum of a batch instead of every example."""

    def add(self, inputs, targets):
        for k in range(len(inputs)):
            super().add(inputs[k : k + 1], targets[k : k + 1])
        whole = np.concatenate([t.reshape(-1) for t in self._total]).astype(np.float64)
        factor = min(1.0, 2.0**44 / np.linalg.norm(whole))
        self._total = [np.rint(t * factor).astype(np.int64) for t in self._total]


def test_the_search_catches_a_sum_that_clips_the_batch():
    # clipped as a whole, a batch of norm C turns into one of norm C in another direction
    network, shape = make("perceptron")
    broken = BatchClipped(network, loud, [1.0], FINE, 8)
    broken._limits = [1e4]
    assert largest_contribution(network, shape, broken) > 1.05


def test_sums_do_not_depend_on_order_or_physical_batches():
    network, shape = make("perceptron")
    network.float()
    inputs, targets = batch(shape, 50)
    inputs = inputs.float()
    sums = sums_of(network, [1.0])
    with torch.no_grad():
        sums.add(inputs[:0], targets[:0])
    sums.add(inputs, targets)
    whole = sums.result().integers
    for k in range(50):
        sums.add(inputs[k : k + 1], targets[k : k + 1])
    assert np.abs(sums.result().integers - whole).max() * FINE.step < 1e-4


def test_stacks_of_plain_layers_are_traced_and_all_others_go_through_opacus():
    traced = {kind: is_traceable(make(kind)[0]) for kind in ("convolution", "odd convolution",
              "sequence", "groups", "recurrent", "attention")}  # fmt: skip
    assert traced == {"convolution": True, "odd convolution": True, "sequence": True,
                      "groups": False, "recurrent": False, "attention": False}  # fmt: skip
    layer = nn.Linear(3, 3)
    assert not is_traceable(nn.Sequential(layer, nn.Tanh(), layer))  # has two inputs
    assert not is_traceable(nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True)))
    frozen = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))
    frozen[0].weight.requires_grad_(False)
    assert not is_traceable(frozen)


# --- refusals -----------------------------------------------------------------------------------


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x - x.mean(0))


class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.weight


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), "GroupNorm"),
        (nn.Sequential(nn.LSTM(4, 4)), "DPLSTM"),
        (nn.Sequential(nn.MultiheadAttention(4, 2)), "DPMultiheadAttention"),
        (Odd(), "no known per-example gradient"),
        (nn.Sequential(nn.Tanh()), "at least one parameter"),
    ],
)
def test_layers_without_per_example_gradients_are_refused(network, words):
    with pytest.raises(ParameterError, match=words):
        check_supported(network)


def test_a_network_that_looks_across_the_batch_is_refused():
    check_rows_independent(nn.Sequential(nn.Linear(4, 2), nn.Dropout(0.5)), (4,))
    with pytest.raises(ParameterError, match="depends on the other examples"):
        check_rows_independent(Mixing(), (4,))


def test_layers_with_the_batch_along_another_axis_are_refused():
    check_gradients(Attention(), (5, 4), torch.float32)
    with pytest.raises(ParameterError, match="per-example gradients"):
        check_gradients(Attention(batch_first=False), (5, 4), torch.float32)
    with pytest.raises(ParameterError, match="per-example gradients"):  # as long as the batch
        check_gradients(Attention(batch_first=False), (3, 4), torch.float32)


def test_an_embedding_that_changes_its_own_weights_is_refused():
    """Rows that one example looks up would be others when the next one does."""
    with pytest.raises(ParameterError, match="max_norm"):
        check_supported(nn.Sequential(nn.Embedding(3, 2, max_norm=1.0), nn.Flatten()))


def test_sequences_in_a_stack_of_linear_layers_are_refused():
    with pytest.raises(ParameterError, match="Flatten"):
        check_flat(nn.Sequential(nn.Linear(4, 3)), (5, 4), torch.float32)
    sums = sums_of(nn.Sequential(nn.Linear(4, 3)).double(), [1.0])
    with pytest.raises(ParameterError, match="Flatten"):
        sums.add(torch.zeros(2, 5, 4, dtype=torch.float64), torch.zeros(2, 5, dtype=torch.int64))
