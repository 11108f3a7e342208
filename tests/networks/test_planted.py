"""Modules that keep, share or leak what rows make of them: refused, or within the certificate.

For each of them the claim is the same: what leaves for rows with and without one unit differs by
that unit's clipped contribution alone, and what is left of the module is as it was before the fit.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.parametrizations import spectral_norm

from tacit.errors import ParameterError
from tacit.networks import PrivateDropoutClassifier, Training, train
from tacit.networks.agreement import Examples, NetworkAgreement
from tacit.networks.architectures import Given
from tacit.networks.dynamics import Dynamics
from tacit.networks.losses import CrossEntropy
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.messages import Message
from tests.contracts.hostile import Witness

PRIVACY = Privacy(2.0, 1e-5)
EVERYWHERE: list[torch.Tensor] = []
TOTAL = torch.zeros(3)


class Planted(nn.Module):
    """A linear layer, and what a child does besides."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        return self.last(self.keep(x))

    def keep(self, x):
        return x


class Adding(Planted):  # a buffer that is changed in place, and used
    def keep(self, x):
        self.seen += x.detach().mean(0)
        return x + self.seen


class Assigning(Planted):  # a buffer that is replaced
    def keep(self, x):
        self.seen = 0.9 * self.seen + x.detach().mean(0)
        return x - self.seen


class Running(Planted):  # running statistics that a layer keeps by itself
    def __init__(self):
        super().__init__()
        self.norm = nn.InstanceNorm1d(1, track_running_stats=True)

    def keep(self, x):
        return self.norm(x[:, None])[:, 0]


class Listing(Planted):  # a Python list of the module
    def __init__(self):
        super().__init__()
        self.rows = []

    def keep(self, x):
        self.rows.append(x.detach())
        return x


class Remembering(Listing):  # whose rows come back
    def keep(self, x):
        self.rows.append(x.detach().sum())
        return x + sum(self.rows[:-1])


class Everywhere(Planted):  # a list of the process
    def keep(self, x):
        EVERYWHERE.append(x.detach())
        return x


class EverywhereUsed(Planted):  # a tensor of the process, changed in place and used
    def keep(self, x):
        TOTAL.add_(x.detach().mean(0))
        return x + TOTAL


class InPlace(Planted):  # inputs are edited
    def keep(self, x):
        x.mul_(0.5).clamp_(-1, 1)
        return x


class Late(Planted):  # a buffer that appears with the first row
    def keep(self, x):
        if "late" not in self._buffers:
            self.register_buffer("late", x.detach().clone())
        return x + self.late


class Tied(Planted):  # one weight in two places
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.first.weight = self.last.weight

    def keep(self, x):
        return torch.tanh(self.first(x)) @ self.last.weight


class Called(Planted):  # an own __call__
    def __call__(self, x):
        return super().__call__(x - x.mean(0))


class Keeping(torch.autograd.Function):
    total = torch.zeros(3)

    @staticmethod
    def forward(ctx, x):
        Keeping.total = Keeping.total + x.detach().sum(0)
        return x + Keeping.total

    @staticmethod
    def backward(ctx, slope):
        return slope


class ByFunction(Planted):  # an autograd function with a memory
    def keep(self, x):
        return Keeping.apply(x)


class Mixing(Planted):
    def keep(self, x):
        return x - x.mean(0)


class Shared(Adding):  # a copy that is none
    def __deepcopy__(self, memo):
        return self


class Doubling(nn.Module):
    def forward(self, weight):
        return 2.0 * weight


def hooked(how):
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    if how == "tensor":
        module[0].weight.register_hook(lambda slope: EVERYWHERE.append(slope))
    else:
        getattr(module[2], f"register_{how}")(lambda *given: EVERYWHERE.append(given) or None)
    return module


def parametrized():
    module = Planted()
    parametrize.register_parametrization(module.last, "weight", Doubling())
    return module


def patched():
    module = Planted()
    module.last.forward = lambda x: x[:, :2] - x.mean(0)[:2]
    return module


REFUSED = {
    "running statistics": Running,
    "forward hook": lambda: hooked("forward_hook"),
    "forward hook before": lambda: hooked("forward_pre_hook"),
    "backward hook": lambda: hooked("full_backward_hook"),
    "backward hook before": lambda: hooked("full_backward_pre_hook"),
    "tensor hook": lambda: hooked("tensor"),
    "patched layer": patched,
    "rows that come back": Remembering,
    "a tensor of the process": EverywhereUsed,
    "a function with a memory": ByFunction,
    "a call of its own": Called,
    "a mean over the batch": Mixing,
}
SEES_BATCHES = {  # no row moves another one's gradient, but predictions of batches would differ
    "added buffer": Adding,
    "assigned buffer": Assigning,
    "late buffer": Late,
}
REFUSED |= SEES_BATCHES | {"a copy that is none": Shared}
WITHIN = {
    "list": Listing,
    "list of the process": Everywhere,
    "inputs in place": InPlace,
    "tied weights": Tied,
    "parametrized": parametrized,
    "weight norm": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 2))),
    "spectral norm": lambda: nn.Sequential(spectral_norm(nn.Linear(3, 2))),
}
APART = WITHIN | SEES_BATCHES


@pytest.fixture(autouse=True)
def forgetting():
    yield
    EVERYWHERE.clear()
    TOTAL.zero_()
    Keeping.total = torch.zeros(3)


def rows(count=9):
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.normal(size=(count, 3)).astype(np.float32))
    return inputs, torch.from_numpy(rng.integers(0, 2, count))


def holder_of(module, data):
    numbers = Dynamics(2, 0.5, (0.5,), rows=10.0, noise_multiplier=4.0)
    agreement = NetworkAgreement(Given(module, (3,)), CrossEntropy(), numbers, PRIVACY)
    return agreement, agreement.holder("site", data, Witness(agreement), None)


def total(make, inputs, targets, order):
    """Return the sums of two steps over some rows, in an order."""
    torch.manual_seed(0)  # of buffers that start anywhere
    agreement, holder = holder_of(make(), Examples(inputs, targets))
    rng = np.random.default_rng(1)
    found = []
    for round in range(2):
        weights = rng.normal(size=agreement.size).astype(np.float32)
        asked = agreement.steps[0].read(Message(round, {"weights": weights}, "step"))
        found.append(holder.contribute(agreement.steps[0], asked, {}, holder.shards[0], order))
    return agreement, [part.integers for part in found]


@pytest.mark.parametrize("name", APART)
def test_what_a_module_keeps_moves_no_other_row(name):
    inputs, targets = rows()
    everybody = np.arange(9)
    agreement, whole = total(APART[name], inputs, targets, everybody)
    _, turned = total(APART[name], inputs, targets, everybody[::-1].copy())
    _, alone = total(APART[name], inputs, targets, np.array([4]))
    _, rest = total(APART[name], inputs, targets, np.delete(everybody, 4))
    inner = agreement.mechanism.mechanism
    for k in range(2):
        np.testing.assert_array_equal(whole[k], turned[k])
        np.testing.assert_array_equal(whole[k] - rest[k], alone[k])
        assert np.linalg.norm(alone[k] * inner.grid.step) <= 0.5
    assert np.any(whole[0] != whole[1])


@pytest.mark.parametrize("name", WITHIN)
def test_a_module_is_left_as_it_was(name):
    module = WITHIN[name]()
    before = {n: b.clone() for n, b in module.named_buffers()}
    X, y = rows(40)
    model = PrivateDropoutClassifier(
        module=module, bounds=(-2, 2), classes=(0, 1), rows=40, privacy=PRIVACY,
        training=Training(steps=2), random_state=0,
    ).fit(X.numpy(), y.numpy())  # fmt: skip
    model.predict_proba(X.numpy())
    found = dict(model.module_.named_buffers())
    assert found.keys() == before.keys()
    for n, b in before.items():
        torch.testing.assert_close(found[n], b, rtol=0, atol=0)
    assert "the module's own code" in str(model.certificate_)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_kept_apart_is_refused_before_anybody_pays(name):
    ledger = Ledger.memory(epsilon=2.0, delta=1e-4)
    inputs, targets = rows()
    for fit in (
        lambda: train(
            REFUSED[name](), inputs, targets, CrossEntropy(), Training(steps=2), rows=9.0,
            privacy=PRIVACY, ledger=ledger,
        ),
        lambda: PrivateDropoutClassifier(
            module=REFUSED[name](), bounds=(-2, 2), classes=(0, 1), rows=9, privacy=PRIVACY,
            ledger=ledger, training=Training(steps=2),
        ).fit(inputs.numpy(), targets.numpy()),
    ):  # fmt: skip
        with pytest.raises(ParameterError):
            fit()
    assert ledger.spent.epsilon == 0.0


@pytest.mark.parametrize("name", REFUSED)
def test_features_are_functions_of_a_row_or_refused(name):
    """A row is seen by fixed features as it would be alone, or nobody pays."""
    ledger = Ledger.memory(epsilon=2.0, delta=1e-4)
    inputs, targets = rows()
    features = REFUSED[name]()
    model = PrivateDropoutClassifier(
        (), features=features, bounds=(-2, 2), classes=(0, 1), rows=9, privacy=PRIVACY,
        ledger=ledger, training=Training(steps=2),
    )  # fmt: skip
    if name == "running statistics":  # which features, being fixed, do not change
        assert torch.equal(model._inputs(inputs[:1].numpy()), model._inputs(inputs.numpy())[:1])
        assert not features.norm.running_mean.any()
        return
    with pytest.raises(ParameterError):
        model.fit(inputs.numpy(), targets.numpy())
    assert ledger.spent.epsilon == 0.0


def test_features_that_keep_something_are_left_as_they_were():
    class Counting(Adding):
        def keep(self, x):
            super().keep(x)
            return x

    features = Counting()
    model = PrivateDropoutClassifier(
        (), features=features, bounds=(-2, 2), classes=(0, 1), rows=9, privacy=PRIVACY,
        training=Training(steps=2),
    )  # fmt: skip
    inputs, targets = rows()
    alone = torch.cat([model._inputs(row[None].numpy()) for row in inputs])
    assert torch.equal(model._inputs(inputs.numpy()), alone)
    model.fit(inputs.numpy(), targets.numpy())
    assert not features.seen.any() and not model.features.seen.any()


def test_a_batch_called_as_it_is_would_leak():
    """The broken twin of functional calls: every one of these moves others' sums or itself."""
    inputs, _ = rows()
    for make in (Adding, Assigning, Remembering, EverywhereUsed, ByFunction, Mixing, Late):
        module = make()
        with torch.no_grad():
            one_by_one = torch.cat([module(row[None]) for row in inputs])
            again = torch.cat([module(row[None]) for row in inputs.flip(0)]).flip(0)
            batch = make()(inputs)
        same = torch.equal(one_by_one, again) and torch.allclose(one_by_one, batch)
        assert not same, make


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (nn.Linear(4, 2), "rows of shape"),
        (nn.Linear(3, 5), "2 outputs"),
        (nn.Sequential(nn.Conv2d(1, 2, 3), nn.Flatten(), nn.Linear(2, 2)), "rows of shape"),
        (nn.Linear(3, 2).double(), "float32"),
        (nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)), "GroupNorm"),
    ],
)
def test_a_module_that_does_not_fit_costs_nothing(module, words):
    ledger = Ledger.memory(epsilon=2.0, delta=1e-4)
    inputs, targets = rows()
    with pytest.raises(ParameterError, match=words):
        PrivateDropoutClassifier(
            module=module, bounds=(-2, 2), classes=(0, 1), rows=9, privacy=PRIVACY,
            ledger=ledger, training=Training(steps=2),
        ).fit(inputs.numpy(), targets.numpy())  # fmt: skip
    with pytest.raises(ParameterError):  # a class that no output is for
        train(
            nn.Linear(3, 2), inputs, targets + 1, CrossEntropy(), Training(steps=2), rows=9.0,
            privacy=PRIVACY, ledger=ledger,
        )  # fmt: skip
    assert ledger.spent.epsilon == 0.0
