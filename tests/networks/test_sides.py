"""A site that is sent the weights by somebody who may be hostile."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from tacit.errors import ParameterError
from tacit.mechanisms.grid import GridSum
from tacit.networks import agreement as agreements
from tacit.networks.agreement import Examples, NetworkAgreement
from tacit.networks.architectures import Given, Perceptron, convolutional
from tacit.networks.dynamics import Dynamics
from tacit.networks.losses import CrossEntropy, SquaredError
from tacit.networks.sampled_gradients import SampledSums
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import Message
from tests.contracts.hostile import Witness

LARGEST, SMALLEST = np.finfo(np.float32).max, np.float32(1.4e-45)


class Scored(nn.Module):
    """Layers without biases, and one that Opacus has to look into."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Linear(3, 4, bias=False), nn.LayerNorm(4)
        self.last = nn.Linear(4, 2, bias=False)

    def forward(self, x):
        return self.last(self.norm(torch.relu(self.first(x))))


def stack():
    return nn.Sequential(nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Linear(4, 2, bias=False))


NETWORKS = {
    "linear": Perceptron(3, 2),
    "deep": Perceptron(3, 2, (4, 4)),
    "without biases": Given(stack(), (3,)),
    "convolutional": Given(
        convolutional(1, 8, 2, filters=(2,), rng=np.random.default_rng(0)), (1, 8, 8)
    ),
    "by hooks": Given(Scored(), (3,)),
}
WEIGHTS = {
    "largest": lambda rng, n: LARGEST * rng.choice([-1, 1], n),
    "smallest": lambda rng, n: SMALLEST * rng.choice([-1, 1], n),
    "all scales": lambda rng, n: rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-45, 38, n),
    "large": lambda rng, n: rng.choice([-1, 1], n) * 10.0 ** rng.uniform(0, 20, n),
    "small": lambda rng, n: rng.choice([-1, 1], n) * 10.0 ** rng.uniform(-30, 0, n),
    "some zero": lambda rng, n: rng.normal(size=n) * rng.integers(0, 2, n) * 1e19,
}


def agreement_of(blueprint, loss, clips=(0.5,)):
    numbers = Dynamics(1, 0.5, clips, rows=10.0, noise_multiplier=4.0)
    return NetworkAgreement(blueprint, loss, numbers, Privacy(2.0, 1e-5))


def summed(agreement, data, weights):
    gate = Witness(agreement)
    holder = agreement.holder("site", data, gate, None)
    holder.respond(Message(0, {"weights": weights.astype(np.float32)}, "step"))
    ((_, mechanism, value),) = gate.values
    return mechanism, value


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("name", NETWORKS)
def test_no_weights_let_one_example_move_a_sum_too_far(name, kind):
    rng = np.random.default_rng(0)
    shape = NETWORKS[name].shape
    for loss in (CrossEntropy(), SquaredError(1e-3)):
        agreement = agreement_of(NETWORKS[name], loss)
        for scale in (1.0, 1e-20, 1e20):
            rows = torch.from_numpy(rng.normal(size=(6, *shape)).astype(np.float32))
            rows[-1] *= scale  # the one that is there or not
            targets = loss.made_up(6)
            weights = WEIGHTS[kind](rng, agreement.size)
            mechanism, whole = summed(agreement, Examples(rows, targets), weights)
            _, rest = summed(agreement, Examples(rows[:-1], targets[:-1]), weights)
            assert isinstance(whole, GridSum)
            assert mechanism.distance(whole, rest) <= 1.0 + 1e-9


def test_one_bad_example_spoils_no_other():
    """Its numbers overflow: it counts as nothing, and the others as they would without it."""
    for name, blueprint in NETWORKS.items():
        agreement = agreement_of(blueprint, CrossEntropy())
        rng = np.random.default_rng(1)
        rows = torch.from_numpy(rng.normal(size=(4, *blueprint.shape)).astype(np.float32))
        rows[1] = float("inf")
        rows[2] = float("nan")
        targets = torch.zeros(4, dtype=torch.int64)
        weights = rng.normal(size=agreement.size)
        _, whole = summed(agreement, Examples(rows, targets), weights)
        _, others = summed(agreement, Examples(rows[[0, 3]], targets[[0, 3]]), weights)
        assert np.abs(whole.integers - others.integers).max() <= 4, name
        assert np.abs(whole.integers).max() > 0, name


class Wide(nn.Module):
    """2¹⁸ weights, whose gradients are computed one example at a time."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(1, 1 << 17, bias=False)
        self.last = nn.Linear(1 << 17, 1, bias=False)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x)))


def test_gradients_of_a_batch_fill_128_megabytes_at_most(monkeypatch):
    monkeypatch.setattr(SampledSums, "prepare", lambda *_: None)

    def batch(blueprint, **more):
        agreement = replace(agreement_of(blueprint, SquaredError(1.0)), **more)
        rows = torch.zeros(1, *blueprint.shape)
        return agreement.holder(
            "site", Examples(rows, rows.flatten(1)[:, 0]), Witness(agreement), 0
        )._batch

    assert batch(NETWORKS["deep"]) == 512 and batch(NETWORKS["by hooks"]) == 256
    assert batch(Given(Wide(), (1,))) == 128  # of 2¹⁸ numbers of four bytes
    assert batch(NETWORKS["by hooks"], examples_in_memory=3) == 3


def test_without_a_network_there_is_nothing_to_build_and_no_worst_case():
    agreement = agreement_of(None, CrossEntropy())
    with pytest.raises(ParameterError, match="there is no network yet"):
        agreement.build()
    with pytest.raises(ParameterError, match="there is no worst case"):
        agreement.worst_case()
    with pytest.raises(ParameterError, match="there is no worst case"):
        agreement_of(Perceptron(3, 2), lambda outputs, targets: outputs).worst_case()


def test_every_row_needs_a_target():
    agreement = agreement_of(Perceptron(3, 2), CrossEntropy())
    with pytest.raises(ParameterError, match="targets must have 3 rows, got 2"):
        agreement.check_examples(Examples(torch.zeros(3, 3), torch.zeros(2, dtype=torch.int64)))


def test_a_sample_of_exactly_as_many_rows_as_fit_is_taken(monkeypatch):
    agreement = agreement_of(Perceptron(3, 2), CrossEntropy())  # half of the rows
    monkeypatch.setattr(agreements, "_MOST_ROWS", 4)
    for rows in (8, 9):
        data = Examples(torch.zeros(rows, 3), torch.zeros(rows, dtype=torch.int64))
        with nullcontext() if rows == 8 else pytest.raises(ParameterError, match="sampling_rate"):
            agreement.check_examples(data)


def test_a_request_that_failed_leaves_nothing_behind(monkeypatch):
    agreement = agreement_of(Perceptron(3, 2), CrossEntropy())
    rows, targets = torch.ones(3, 3), torch.zeros(3, dtype=torch.int64)
    holder = agreement.holder("site", Examples(rows, targets), Witness(agreement), None)
    asked = agreement.steps[0].read(Message(0, {"weights": np.zeros(8, np.float32)}, "step"))
    shard, picks = holder.shards[0], np.arange(3)
    once = holder.contribute(agreement.steps[0], asked, {}, shard, picks)
    with monkeypatch.context() as patch:
        patch.setattr(type(holder._sums), "exact", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            holder.contribute(agreement.steps[0], asked, {}, shard, picks)
    again = holder.contribute(agreement.steps[0], asked, {}, shard, picks)
    np.testing.assert_array_equal(once.integers, again.integers)
