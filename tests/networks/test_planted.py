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
from tacit.mechanisms.grid import Grid
from tacit.networks import PrivateDropoutClassifier, Training, train
from tacit.networks.agreement import Examples, NetworkAgreement
from tacit.networks.architectures import Given
from tacit.networks.dynamics import Dynamics
from tacit.networks.judging import Judge
from tacit.networks.losses import CrossEntropy
from tacit.networks.weights import flat_weights, learned
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


class Counting(Planted):  # a number of calls, which changes everything after many of them
    calls = 0

    def keep(self, x):
        self.calls += 1
        return x * (1.0 if self.calls <= 3 else 0.5)


class CountingAlone(Counting):  # the same, in code that cannot be vectorised
    def keep(self, x):
        return super().keep(x) * (1.0 if x.abs().max().item() < 1e9 else 0.0)


class Caching(Planted):  # what the first row made is used for all of them
    def __init__(self):
        super().__init__()
        self.first = None

    def keep(self, x):
        if self.first is None:
            self.first = x.detach()
        return x + self.first


class Decaying(Planted):  # weights that a forward pass changes
    def keep(self, x):
        with torch.no_grad():
            self.last.weight.mul_(0.9)
        return x


class Writing(Planted):  # weights that are not learned, into which rows are written
    def __init__(self):
        super().__init__()
        self.kept = nn.Parameter(torch.zeros(3), requires_grad=False)

    def keep(self, x):
        self.kept.data = self.kept.data + x.detach().mean(0)
        return x + self.kept * 1.0


class Seeing(torch.autograd.Function):  # a rule of its own for batches, which sees all of one
    @staticmethod
    def forward(x):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, slope):
        return slope

    @staticmethod
    def vmap(info, in_dims, x):
        return x - x.mean(in_dims[0], keepdim=True), in_dims[0]


class ByRule(Planted):
    def keep(self, x):
        return Seeing.apply(x)


class Listening(nn.Parameter):  # a weight that hears of everything it is used with
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data, True)

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        EVERYWHERE.append(args)
        return super().__torch_function__(function, types, args, kwargs or {})


def listening():
    module = Planted()
    module.last.weight = Listening(module.last.weight.detach())
    return module


class Turning(nn.Module):  # a parametrization that counts
    calls = 0

    def forward(self, weight):
        self.calls += 1
        return weight * (-1.0) ** (self.calls > 3)


def turning():
    module = Planted()
    parametrize.register_parametrization(module.last, "weight", Turning())
    return module


class Complex(Planted):
    def __init__(self):
        super().__init__()
        self.turn = nn.Parameter(torch.ones(3, dtype=torch.complex64))

    def keep(self, x):
        return (x * self.turn).real


class Whole(Planted):
    def __init__(self):
        super().__init__()
        self.which = nn.Parameter(torch.arange(3), requires_grad=False)

    def keep(self, x):
        return x[:, self.which]


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
    "weights that hear": listening,
    "complex weights": Complex,
    "whole weights": Whole,
    "lazy statistics": lambda: nn.Sequential(
        nn.Linear(3, 2), nn.LazyInstanceNorm1d(affine=False, track_running_stats=True)
    ),
}
NOT_LEARNED = ("complex weights", "whole weights")  # which may stand in features
SEES_BATCHES = {  # no row moves another one's gradient, but predictions of batches would differ
    "added buffer": Adding,
    "assigned buffer": Assigning,
    "late buffer": Late,
}
REFUSED |= SEES_BATCHES | {"a copy that is none": Shared}
SEES_CALLS = {  # the same, where rows alone and a batch are not one call
    "what came first": Caching,
    "rows in fixed weights": Writing,
}
REFUSED |= SEES_CALLS
WITHIN = {
    "list": Listing,
    "list of the process": Everywhere,
    "inputs in place": InPlace,
    "tied weights": Tied,
    "parametrized": parametrized,
    "weight norm": lambda: nn.Sequential(parametrizations.weight_norm(nn.Linear(3, 2))),
    "a rule for batches": ByRule,
    "spectral norm": lambda: nn.Sequential(spectral_norm(nn.Linear(3, 2))),
}
COUNTING = {
    "calls": Counting,
    "calls, one by one": CountingAlone,
    "calls of a parametrization": turning,
    "decay": Decaying,
}
APART = WITHIN | SEES_BATCHES | SEES_CALLS | COUNTING


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


@pytest.mark.parametrize("name", [name for name in REFUSED if name not in NOT_LEARNED])
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


@pytest.mark.slow  # such features are tried row by row
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


class Choosy(Planted):  # rows that a module does not take
    def keep(self, x):
        if x.abs().max().item() > 100.0 or bool((x == 1.0).all()):
            raise ValueError(f"no row with {x.abs().max().item()}")
        return x


class Looking(Planted):  # numbers that are looked up in a table, which some are beyond
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(200, 3)

    def keep(self, x):
        return self.table((10.0 * x).abs().long()).sum(1)


class ChoosyLoss(CrossEntropy):
    def __call__(self, outputs, targets):
        if outputs.abs().max().item() > 60.0:
            raise ValueError("no such outputs")
        return super().__call__(outputs, targets)


@pytest.mark.parametrize("name", ["module", "lookup", "loss", "loss of a stack"])
def test_a_row_at_which_code_raises_counts_as_nothing_and_moves_no_other(name):
    """An error after the charge would say which rows there are."""
    makers = {"module": Choosy, "lookup": Looking, "loss": Planted}
    module = makers.get(name, lambda: nn.Linear(3, 2))
    loss = ChoosyLoss() if "loss" in name else CrossEntropy()
    inputs, targets = rows(40)
    inputs[[3, 17]] *= 1e3  # made-up rows are not like that
    numbers = Dynamics(2, 0.5, (0.5,), rows=40.0, noise_multiplier=4.0)
    torch.manual_seed(0)
    agreement = NetworkAgreement(Given(module(), (3,)), loss, numbers, PRIVACY)
    weights = np.random.default_rng(1).normal(size=agreement.size).astype(np.float32)
    asked = agreement.steps[0].read(Message(0, {"weights": weights}, "step"))
    holder = agreement.holder("site", Examples(inputs, targets), Witness(agreement), None)

    def total(order):
        shard = holder.shards[0]
        return holder.contribute(agreement.steps[0], asked, {}, shard, order).integers

    whole = total(np.arange(40))
    kept = [total(np.array([k])) for k in range(40)]
    np.testing.assert_array_equal(whole, sum(kept))
    assert [k for k, part in enumerate(kept) if not part.any()] == [3, 17]


@pytest.mark.parametrize("kind", [Counting, CountingAlone, Decaying, Choosy, ByRule])
def test_what_a_row_says_of_how_sure_a_network_may_be_is_its_own(kind):
    torch.manual_seed(0)
    module = kind()
    inputs, targets = rows(20)
    inputs[[3, 17]] *= 1e3
    judge = Judge(module, 1.0, Grid(-30), 8)
    judge.prepare((3,), torch.float32, torch.int64)
    asked = flat_weights(learned(module)).numpy()[None]
    before = asked.copy()
    judge.ask(asked)
    whole = judge.sum(inputs, targets).integers
    kept = [judge.sum(inputs[k : k + 1], targets[k : k + 1]).integers for k in range(20)]
    np.testing.assert_array_equal(whole, sum(kept))
    np.testing.assert_array_equal(asked, before)
    assert kept[3].any() != (kind is Choosy)


def test_a_fit_goes_on_where_a_module_raises_at_a_row():
    inputs, targets = rows(40)
    inputs[7] = 2.0  # at the bounds, which the module sees as ones
    with pytest.raises(ValueError, match="no row with"):
        Choosy()(torch.ones(1, 3))
    PrivateDropoutClassifier(
        module=Choosy(), bounds=(-2, 2), classes=(0, 1), rows=40, privacy=PRIVACY,
        training=Training(steps=2, sampling_rate=1.0), random_state=0,
    ).fit(inputs.numpy(), targets.numpy())  # fmt: skip


def test_parametrizations_that_are_kept_between_calls_are_refused():
    inputs, targets = rows()
    ledger = Ledger.memory(epsilon=2.0, delta=1e-4)
    with parametrize.cached(), pytest.raises(ParameterError, match="cached"):
        train(
            parametrized(), inputs, targets, CrossEntropy(), Training(steps=2), rows=9.0,
            privacy=PRIVACY, ledger=ledger,
        )  # fmt: skip
    assert ledger.spent.epsilon == 0.0


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
