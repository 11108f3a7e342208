"""Clipped sums of per-example gradients: against a naive loop, and attacked."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from opacus.layers import DPGRU, DPLSTM, DPRNN, DPMultiheadAttention
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence

from tacit.errors import ParameterError
from tacit.mechanisms.grid import Grid
from tacit.networks import exact_gradients
from tacit.networks.architectures import convolutional, perceptron
from tacit.networks.exact_gradients import LinearSums
from tacit.networks.layers import (
    check_rows_independent,
    check_supported,
    is_flat,
    is_linear_stack,
)
from tacit.networks.losses import CrossEntropy
from tacit.networks.sampled_gradients import SampledSums
from tacit.networks.tiles import Tiles, UnlikeSlots

FINE = Grid(-44)


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


def loud(outputs, targets):
    """Return a loss whose gradients exceed every clip."""
    return 1e3 * cross_entropy(outputs, targets)


class Recurrent(nn.Module):
    def __init__(self, kind=DPLSTM, **more):
        super().__init__()
        self.cells = kind(3, 4, batch_first=True, **more)
        ways = 2 if more.get("bidirectional") else 1
        self.last = nn.Linear(4 * ways, 3)

    def forward(self, x):
        return self.last(self.cells(x)[0][:, -1])


class Attention(nn.Module):
    def __init__(self, batch_first=True, kind=DPMultiheadAttention):
        super().__init__()
        self.attention = kind(4, 2, batch_first=batch_first)
        self.norm = nn.LayerNorm(4)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        turned = x if self.attention.batch_first else x.transpose(0, 1)
        mixed, _ = self.attention(turned, turned, turned)
        return self.last(self.norm(mixed.mean(1 if self.attention.batch_first else 0)))


class Words(nn.Module):
    """Letters of words of different lengths, filled up with zeros."""

    def __init__(self, sparse=False):
        super().__init__()
        self.table = nn.Embedding(7, 4, padding_idx=0, sparse=sparse)
        self.cells = nn.GRU(4, 4, batch_first=True)
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        there = (x != 0).to(self.last.weight)[:, :, None]
        found = (self.cells(self.table(x))[0] * there).sum(1)
        return self.last(found / there.sum(1).clamp(min=1))


class Packed(Words):
    """The same by torch's packed sequences, which nobody can vectorise."""

    def forward(self, x):
        lengths = (x != 0).sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(
            self.table(x), lengths, batch_first=True, enforce_sorted=False
        )
        return self.last(self.cells(packed)[1][0])


class Tied(nn.Module):
    """One table that is looked up and multiplied by."""

    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(3, 4), nn.Linear(4, 3)
        self.last.weight = self.table.weight

    def forward(self, x):
        return self.last(torch.tanh(self.table(x)).mean(1))


class Odd(nn.Module):
    """A parameter of its own, and a layer whose weights are used behind its back."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.last = nn.Linear(4, 3)

    def forward(self, x):
        return self.last(x * self.weight) + functional.linear(x.square(), self.last.weight)


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
        "attention, turned": (Attention(batch_first=False), (5, 4)),
        "torch's attention": (Attention(kind=nn.MultiheadAttention), (5, 4)),
        "LSTM": (Recurrent(nn.LSTM, num_layers=2), (5, 3)),
        "GRU": (Recurrent(nn.GRU, bidirectional=True), (5, 3)),
        "RNN": (Recurrent(nn.RNN, nonlinearity="relu", bias=False), (5, 3)),
        "DPGRU": (Recurrent(DPGRU), (5, 3)),
        "DPRNN": (Recurrent(DPRNN), (5, 3)),
        "words": (Words(), (6,)),
        "sparse words": (Words(sparse=True), (6,)),
        "packed words": (Packed(), (6,)),
        "tied": (Tied(), (6,)),
        "odd": (Odd(), (4,)),
        "norms": (
            nn.Sequential(
                nn.Conv1d(2, 4, 3),
                nn.GroupNorm(2, 4),
                nn.Tanh(),
                nn.InstanceNorm1d(4, affine=True),
                nn.Flatten(),
                nn.LayerNorm(16),
                nn.Linear(16, 3),
            ),
            (2, 6),
        ),
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
        dense = [g.to_dense() if g.is_sparse else g for g in found]
        rows.append(torch.cat([g.reshape(-1) for g in dense]).numpy())
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


LOOKED_UP = ("words", "sparse words", "packed words", "tied")
KINDS = [
    "perceptron", "no bias", "convolution", "odd convolution", "sequence", "groups", "norms",
    "recurrent", "LSTM", "GRU", "RNN", "DPGRU", "DPRNN", "attention", "attention, turned",
    "torch's attention", *LOOKED_UP, "odd",
]  # fmt: skip


def rows_for(kind, shape, count, seed=0):
    """Return examples; letters where a network looks them up."""
    inputs, targets = batch(shape, count, seed)
    if kind in LOOKED_UP:
        inputs = (inputs.abs() * 9).long() % (3 if kind == "tied" else 7)
    return inputs, targets


@pytest.mark.parametrize("kind", KINDS)
def test_clipped_gradients_equal_a_naive_loop(kind):
    network, shape = make(kind)
    inputs, targets = rows_for(kind, shape, 9)
    rows = naive_examples(network, inputs, targets)
    norm = float(np.median(np.linalg.norm(rows, axis=1)))  # some are clipped, some are not
    sums = sums_of(network, [norm])
    for start in (0, 4):  # physical batches
        stop = start + 5 if start else 4
        sums.add(inputs[start:stop], targets[start:stop])
    expected = clip(rows, [slice(None)], [norm]).sum(axis=0)
    found = sums.result().value()
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

    def exact(self):
        total = super().exact()
        factor = min(1.0, 2.0 / max(np.linalg.norm(total.value()), 1e-300))
        return type(total)(np.rint(total.integers * factor).astype(np.int64), total.grid)


def test_the_search_catches_a_sum_that_clips_the_batch():
    # clipped as a whole, a batch of norm C turns into one of norm C in another direction
    network, shape = make("perceptron")
    broken = BatchClipped(network, loud, [1.0], FINE, 8)
    broken._limits = [1e4]
    assert largest_contribution(network, shape, broken) > 1.05


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "packed words"])
def test_a_row_gives_the_same_bits_wherever_it_stands(kind):
    network, shape = make(kind)
    network.float()
    inputs, targets = rows_for(kind, shape, 70)
    inputs = inputs.float() if inputs.is_floating_point() else inputs
    found = (LinearSums if is_linear_stack(network) else SampledSums)(
        network, cross_entropy, [1.0], FINE, 32
    )

    def total(order):
        found.add(inputs[order], targets[order])
        return found.result().integers

    whole = total(torch.arange(70))
    order = torch.from_numpy(np.random.default_rng(1).permutation(70))
    np.testing.assert_array_equal(total(order), whole)
    with_twin = torch.cat([order[:33], order[:1], order[33:]])
    for k in (0, 13, 69):
        others = torch.cat([torch.arange(k), torch.arange(k + 1, 70)])
        np.testing.assert_array_equal(total(others) + total(torch.tensor([k])), whole)
    np.testing.assert_array_equal(total(with_twin) - whole, total(order[:1]))


def linear_total(network, inputs, targets, loss=cross_entropy, size=64):
    sums = LinearSums(network, loss, [1.0], FINE, size)
    sums.add(inputs, targets)
    return sums.exact().integers


def test_any_number_of_threads_gives_the_same_bits(monkeypatch):
    network, shape = make("perceptron")
    inputs, targets = batch(shape, 700)
    loss, before, found, hands = CrossEntropy(), torch.get_num_threads(), [], set()
    kept = exact_gradients._Hand.add

    def add(self, *given):
        hands.add(id(self))
        kept(self, *given)

    monkeypatch.setattr(exact_gradients._Hand, "add", add)
    try:
        for count in (1, 2, 3):
            monkeypatch.setenv("TACIT_NUM_THREADS", str(count))
            torch.set_num_threads(count)
            found.append(linear_total(network.float(), inputs.float(), targets, loss))
            assert torch.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
    assert len(hands) > 1
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("broken", [False, True])
def test_sums_of_many_loud_rows_are_exact_and_longer_pieces_would_not_be(broken, monkeypatch):
    if broken:
        monkeypatch.setattr(exact_gradients, "_PIECE", 1 << 20)
    network, shape = make("perceptron")
    inputs, targets = batch(shape, 1)
    inputs = torch.zeros_like(inputs)
    inputs[0, :2] = torch.tensor([1e6, 0.9e6])  # two numbers of the direction, odd or not
    count = 40_009
    whole = linear_total(network, inputs.repeat(count, 1), targets.repeat(count), loud, 512)
    one = linear_total(network, inputs, targets, loud, 512)
    assert np.array_equal(whole, count * one) != broken
    assert np.abs(one).max() > 2.0**38


class Slanted(SampledSums):
    """A broken twin: gradients are those of a batch of their own size, wherever a row stands."""

    def add(self, inputs, targets):
        if self._gradients is None:
            self.prepare(inputs, targets)
        found = self._gradients(inputs, targets)
        bend = torch.arange(len(inputs))[:, None] * 1e-7  # as another order of adding up would
        self._gradients, kept = lambda *_: [part + part * bend for part in found], self._gradients
        self._add_tile(self._gradients(None, None), np.ones(len(inputs), bool))
        self._gradients = kept


def test_the_bits_tell_a_place_in_the_batch():
    network, shape = make("groups")
    inputs, targets = batch(shape, 20)
    sums = Slanted(network.float(), cross_entropy, [1.0], FINE, 32)
    sums.add(inputs.float(), targets)
    whole = sums.result().integers
    sums.add(inputs.float().flip(0), targets.flip(0))
    assert np.any(sums.result().integers != whole)


def test_slots_that_compute_otherwise_are_left_out_and_rows_that_see_each_other_are_refused():
    rows = torch.arange(24.0).reshape(8, 3)

    def draw(count, number):
        return [rows[:1].repeat(count, 1) + torch.arange(count)[:, None] + number]

    def odd_ends(x):
        return [x * torch.where(torch.arange(len(x)) % 4 == 3, 1 + 1e-6, 1.0)[:, None]]

    assert Tiles.probed(odd_ends, draw, 8).slots.tolist() == [0, 1, 2, 4, 5, 6]
    lonely = Tiles.probed(lambda x: [x + torch.arange(len(x))[:, None]], draw, 8)
    assert (lonely.size, lonely.slots.tolist()) == (1, [0])
    with pytest.raises(UnlikeSlots, match="other examples"):
        Tiles.probed(lambda x: [x - x.mean(0)], draw, 8)
    seen = []

    def keeping(x):
        seen.append(x.sum())
        return [x + sum(seen)]

    with pytest.raises(UnlikeSlots, match="those before"):
        Tiles.probed(keeping, draw, 8)


@pytest.mark.parametrize(("width", "hidden"), [(5, 8), (7, 8), (13, 8), (5, 10), (2, 1)])
def test_narrow_layers_have_slots_that_compute_alike(width, hidden):
    # kernels of narrow products add up in another order in every fourth row, and most rows do not
    # show it: two looks took slots for equal that were not, and the network was refused
    module = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 2))
    sums = LinearSums(module, cross_entropy, [1.0], Grid(-30), 512)
    inputs = torch.rand((700, width), generator=torch.Generator().manual_seed(0))
    targets = torch.arange(700) % 2
    sums.prepare(inputs[:1], targets[:1])
    assert sums.fitting > 64
    sums.reset()
    sums.add(inputs, targets)
    whole = sums.result().integers
    sums.add(inputs.flip(0), targets.flip(0))
    assert np.array_equal(sums.result().integers, whole)


# --- refusals -----------------------------------------------------------------------------------


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(x - x.mean(0))


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), "GroupNorm"),
        (nn.Sequential(nn.Linear(4, 4), nn.InstanceNorm1d(4, track_running_stats=True)), "leave"),
        (nn.Sequential(nn.LazyLinear(4)), "takes its size from the first rows"),
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


def test_an_embedding_that_changes_its_own_weights_is_refused():
    """Rows that one example looks up would be others when the next one does."""
    with pytest.raises(ParameterError, match="max_norm"):
        check_supported(nn.Sequential(nn.Embedding(3, 2, max_norm=1.0), nn.Flatten()))


def test_sequences_in_a_stack_of_linear_layers_need_gradients_of_every_position():
    network = nn.Sequential(nn.Linear(4, 3))
    assert not is_flat(network, (5, 4)) and is_flat(network, (4,))
    sums = sums_of(network.double(), [1.0])
    with pytest.raises(ParameterError, match="Flatten"):
        sums.add(torch.zeros(2, 5, 4, dtype=torch.float64), torch.zeros(2, 5, dtype=torch.int64))


def test_only_plain_sequences_are_stacks():
    """A child of `Sequential` may do with its layers what it likes."""

    class Own(nn.Sequential):
        def forward(self, x):
            return super().forward(x) - x.mean(0)

    class Called(nn.Sequential):
        def __call__(self, x):
            return super().__call__(x - x.mean(0))

    layers = nn.Linear(4, 4), nn.Tanh()
    assert is_linear_stack(nn.Sequential(*layers, nn.Sequential(nn.Linear(4, 2))))
    patched = nn.Sequential(*layers)
    patched.forward = lambda x: x
    twice = nn.Sequential(layers[0], layers[1], layers[0])
    stateful = nn.Sequential(nn.Linear(4, 4), nn.InstanceNorm1d(4))
    for other in (Own(*layers), Called(*layers), nn.Sequential(Own(*layers)), patched, twice,
                  stateful, nn.Sequential(nn.Linear(4, 4), nn.Flatten(0))):  # fmt: skip
        assert not is_linear_stack(other)
