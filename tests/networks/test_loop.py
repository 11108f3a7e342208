"""The loop: what is charged, what is drawn, resuming, and attacks on whole runs."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tacit._core.rng import generator
from tacit.audit.bounds import epsilon_at_least
from tacit.errors import BudgetExceeded, ParameterError
from tacit.estimators.coordinator import Asking
from tacit.estimators.fit import reserve
from tacit.estimators.gate import Gate
from tacit.estimators.site import Site
from tacit.mechanisms.noise import Noise
from tacit.networks import Training, affordable_steps, sides, train
from tacit.networks.agreement import Examples
from tacit.networks.architectures import Given, Perceptron
from tacit.networks.exact_gradients import LinearSums
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import GaussianDpEvent, PoissonSampledDpEvent, leaves
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.aggregate import PlainAggregator
from tacit.rounds.checkpoint import run_name

PRIVACY = Privacy(1.0, 1e-5)


def cross_entropy(outputs, targets):
    return functional.cross_entropy(outputs, targets, reduction="none")


def data(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    inputs = torch.from_numpy(rng.standard_normal((rows, 4)).astype(np.float32))
    return inputs, (inputs[:, 0] > 0).long()


def network():
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.zero_()
        layer.bias.zero_()
    return layer


def settings(**given):
    """Return a training that says everything, whatever the rules are."""
    said = {"clip": 1.0, "step_size": 1.0, "precision": 1.0, "burn_in": 0.5}
    if given.get("method") != "dp-sgd":
        said["temperature"] = 1.0
    return Training(**{**said, **given})


def run(training, privacy=PRIVACY, *, seed=0, rows=60, module=None, **more):
    inputs, targets = data(rows)
    return train(
        module or network(), inputs, targets, cross_entropy, training, rows=60.0, privacy=privacy,
        random_state=seed, **more,
    )  # fmt: skip


def terms_of(training, path):
    """Return what such a run states in the ledger, as the run itself has it."""
    seen = []

    class Watching(Ledger):
        def reserve(self, *given, **more):
            seen.append(more["terms"])
            return super().reserve(*given, **more)

    run(training, ledger=Watching.open(path, epsilon=1.0, delta=1e-5), reports=9)
    return seen[0]


def event_of(training, privacy=PRIVACY):
    return training.agree(None, None, 60.0, privacy).event


def noise_of(training, privacy=PRIVACY):
    return training.decided(60.0, privacy).noise_multiplier


# --- accounting ---------------------------------------------------------------------------------


def test_every_step_is_one_sampled_gaussian_and_all_are_claimed():
    training = settings(steps=7, sampling_rate=0.5)
    ledger = Ledger.memory(epsilon=1.0, delta=1e-5)
    ((event, count),) = leaves(event_of(training)).items()
    assert count == 7
    assert isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, GaussianDpEvent)
    result = run(training, ledger=ledger)
    claims = [row.purpose for row in ledger.rows() if row.kind == "claim"]
    assert claims == [f"step[{k}:{k + 1}]" for k in range(7)]
    assert result.steps == 7 and result.certificate.epsilon <= 1.0
    with pytest.raises(BudgetExceeded):  # a second run was not paid for
        run(training, ledger=ledger)


def test_the_event_is_that_of_the_released_arrays_of_any_size():
    training = settings(steps=3, sampling_rate=0.25, clip=(0.3, 0.4))
    (event,) = leaves(event_of(training))
    for width in (1, 10, 10_000):
        agreement = training.agree(Perceptron(width, 2, (9,)), None, 60.0, PRIVACY)
        assert agreement.mechanism.event == event
    assert epsilon_of(event_of(training), 1e-5) <= 1.0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0])
def test_the_very_events_of_a_run_meet_the_guarantee(epsilon):
    """At ε = 0.5 noise that differed in the last bit cost 1e-11 too much, and was refused."""
    privacy = Privacy(epsilon, 1e-5)
    event = Training().agree(None, None, 60_000.0, privacy).event
    assert epsilon_of(event, 1e-5) <= epsilon
    ledger = Ledger.memory(epsilon=epsilon, delta=1e-5)
    ledger.reserve(event, purpose="test", delta=1e-5, asked=epsilon)


@pytest.mark.parametrize("accountant", ["pld", "rdp", "zcdp", "advanced"])
def test_every_accountant_gives_enough_noise(accountant):
    training = settings(steps=20, sampling_rate=0.3, accountant=accountant)
    assert epsilon_of(event_of(training), 1e-5) <= 1.0
    assert noise_of(training) >= noise_of(settings(steps=20, sampling_rate=0.3)) - 1e-9


def test_a_run_with_given_noise_stops_at_the_target():
    steps = affordable_steps(1.0, 1e-5, sampling_rate=0.2, noise_multiplier=5.0)
    given = {"sampling_rate": 0.2, "noise_multiplier": 5.0}
    assert noise_of(settings(steps=steps, **given)) == 5.0
    with pytest.raises(ParameterError, match="affordable_steps"):
        noise_of(settings(steps=steps + 1, **given))


# --- dynamics -----------------------------------------------------------------------------------


def test_without_noise_private_dropout_is_plain_langevin_dynamics():
    training = settings(steps=6, sampling_rate=1.0, clip=100.0, step_size=0.5, schedule="constant")
    found = run(training, Privacy(math.inf))
    module = network().double()
    inputs, targets = data()
    rng = generator(0, "langevin")
    theta, velocity = np.zeros(10), np.zeros(10)
    for _ in range(6):
        for p, part in zip(module.parameters(), (theta[:8], theta[8:]), strict=True):
            p.data = torch.from_numpy(part.copy()).reshape(p.shape)
        loss = cross_entropy(module(inputs.double()), targets).mean()
        gradients = torch.autograd.grad(loss, list(module.parameters()))
        slope = np.concatenate([g.numpy().reshape(-1) for g in gradients]) + theta / 60.0
        spread = math.sqrt(2.0 * 0.1 * 0.5 / 60.0)
        noise = spread * rng.standard_normal(10, dtype=np.float32)
        velocity = 0.9 * velocity - 0.5 * slope + noise
        theta = theta + velocity
    np.testing.assert_allclose(found.final, theta, atol=1e-5)
    plain = run(replace(training, method="sgld"), None)
    np.testing.assert_array_equal(plain.final, found.final)


def test_the_noise_vanishes_as_epsilon_grows():
    training = settings(steps=5, sampling_rate=1.0, step_size=0.5)
    free = run(training, Privacy(math.inf)).final
    distances = [
        np.linalg.norm(run(training, Privacy(epsilon, 1e-5)).final - free)
        for epsilon in (1.0, 30.0, 1e4)
    ]
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 0.05


def test_private_dropout_uses_the_privacy_noise_and_sgld_adds_to_it():
    def decided(method, privacy):
        return settings(steps=10, sampling_rate=0.5, method=method).decided(60.0, privacy)

    dpd = decided("dpd", PRIVACY)
    assert dpd.privacy_sd(0) > 0.1
    assert dpd.langevin_sd(0) == 0.0
    assert decided("sgld", PRIVACY).langevin_sd(0) == decided("dpd", None).langevin_sd(0) > 0.0
    assert decided("dp-sgd", None).langevin_sd(0) == 0.0


def test_how_many_examples_are_in_memory_does_not_change_the_result():
    whole = run(settings(steps=4, sampling_rate=0.7, examples_in_memory=64))
    pieces = run(settings(steps=4, sampling_rate=0.7, examples_in_memory=5))
    np.testing.assert_allclose(whole.final, pieces.final, atol=1e-5)


def test_progress_tells_epsilon_so_far_and_dropout():
    seen = []
    run(settings(steps=10, sampling_rate=0.5), watch=lambda p: seen.append(p), reports=5)
    assert [p.step for p in seen] == [2, 4, 6, 8, 10]
    spent = [p.epsilon for p in seen]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(1.0, abs=1e-3)
    assert {layer.name for layer in seen[-1].dropout} == {"weight", "bias"}
    assert all(0.0 < layer.rate < 1.0 for layer in seen[-1].dropout)


def test_watching_can_end_a_run():
    assert (
        run(settings(steps=10, sampling_rate=0.5), watch=lambda p: p.step >= 4, reports=5).steps
        == 4
    )


# --- resuming -----------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stop_after(step):
    def watch(progress):
        if progress.step >= step:
            raise Stop

    return watch


def test_an_interrupted_run_goes_on_and_neither_loses_nor_repeats_a_charge(tmp_path):
    training = settings(steps=9, sampling_rate=0.5)
    ledger = Ledger.open(tmp_path / "ledger.db", epsilon=1.0, delta=1e-5)
    how = {"ledger": ledger, "checkpoint": tmp_path / "run", "reports": 9}
    with pytest.raises(Stop):
        run(training, watch=stop_after(4), **how)
    spent = ledger.spent
    assert sum(row.kind == "claim" for row in ledger.rows()) == 4
    result = run(training, **how)
    assert (result.steps, result.lost) == (9, 0)
    assert ledger.spent == spent
    assert sum(row.kind == "claim" for row in ledger.rows()) == 9
    again = run(training, **how)  # all steps are done: nothing is asked
    np.testing.assert_array_equal(again.samples, result.samples)
    assert sum(row.kind == "claim" for row in ledger.rows()) == 9


def test_what_goes_on_is_what_would_have_been(tmp_path):
    """Without noise, and with every row in each step, only the start and Langevin's noise are
    random: both are the coordinator's, and it takes up its own."""
    training = settings(steps=9, sampling_rate=1.0, samples=3)
    whole = run(training, None)
    with pytest.raises(Stop):
        run(training, None, checkpoint=tmp_path / "run", watch=stop_after(6), reports=9)
    found = run(training, None, checkpoint=tmp_path / "run")
    for name in ("final", "average", "samples"):
        np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))


def test_the_history_of_a_run_that_went_on_begins_at_its_beginning(tmp_path):
    training = settings(steps=9, sampling_rate=1.0, samples=3)
    how = {"checkpoint": tmp_path / "run", "reports": 3}
    with pytest.raises(Stop):
        run(training, None, watch=stop_after(6), **how)
    whole = run(training, None, watch=lambda progress: None, reports=3)
    found = run(training, None, watch=lambda progress: None, **how)
    assert [progress.step for progress in found.history] == [3, 6, 9]
    assert found.history[2].dropout[0].name == whole.history[2].dropout[0].name


@pytest.mark.parametrize("done", [0, 4, 7])
def test_a_step_whose_outcome_was_lost_is_not_drawn_again(tmp_path, done):
    """Two steps are claimed, and the machine fails before their replies are kept."""
    training = settings(steps=9, sampling_rate=0.5)
    ledger = Ledger.open(tmp_path / "ledger.db", epsilon=1.0, delta=1e-5)
    how = {"ledger": ledger, "checkpoint": tmp_path / "run", "reports": 9}
    if done:
        with pytest.raises(Stop):
            run(training, watch=stop_after(done), **how)
    crashed = ledger.reserve(
        event_of(training), purpose="private network", delta=1e-5, asked=1.0, claim=2,
        run=run_name(tmp_path / "run"), terms=terms_of(training, tmp_path / "other.db"),
    )  # fmt: skip
    (event,) = leaves(event_of(training))
    crashed.at("step", done, 9, event).claim()  # a block of two
    result = run(training, **how)
    assert (result.steps, result.lost) == (7, 2)
    rows = [row.purpose for row in ledger.rows() if row.kind == "claim"]
    assert len(rows) == 8 and f"step[{done}:{done + 2}]" in rows


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    training = settings(steps=2, sampling_rate=0.5)
    run(training, checkpoint=tmp_path / "run")
    other = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    with pytest.raises(ParameterError, match="other settings"):
        run(training, checkpoint=tmp_path / "run", module=other)


def test_weights_that_diverge_are_an_error_that_says_what_to_do():
    with pytest.raises(ParameterError, match="step_size"):
        run(settings(steps=50, sampling_rate=1.0, step_size=1e38, schedule="constant"), None)


# --- an attack on whole runs --------------------------------------------------------------------


class BatchClipped(LinearSums):
    """A broken twin that clips the sum of a batch instead of every example."""

    def __init__(self, module, loss, clips, grid, *more):
        super().__init__(module, loss, clips, grid, *more)
        self._clip, self._limits = clips[0], [1e4]

    def result(self):
        total = super().result()
        norm = np.linalg.norm(total.value())
        factor = min(1.0, self._clip / max(norm, 1e-300))
        return type(total)(np.rint(total.integers * factor).astype(np.int64), total.grid)


def scores(count, with_canary):
    """Return how far runs of one step moved along the gradient of a canary.

    The others' gradients point the other way, so that a batch that is clipped as a whole turns
    around when a loud canary joins it.
    """
    training = settings(
        steps=1, sampling_rate=1.0, momentum=0.0, schedule="constant", method="dp-sgd",
        precision=0.0, examples_in_memory=4,
    )  # fmt: skip
    privacy = Privacy(4.0, 1e-5)
    inputs = torch.tensor([[-1.0, -1.0]] * 3 + [[50.0, 50.0]] * with_canary)
    targets = torch.zeros(len(inputs), dtype=torch.int64)
    module = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(module.weight)
    agreement = training.agree(Given(module, (2,)), cross_entropy, 3.0, privacy)
    data, site = Examples(inputs, targets), Site("the data", None)
    found = []
    for number in range(count):
        held = reserve(agreement, [site], "audit")[site.name]
        gate = Gate(held, Noise(seed=2 * number + with_canary))
        holder, asking = agreement.holder("a", data, gate, None), Asking(agreement, 0)
        reply = holder.respond(asking.request(0))
        asking.absorb(0, PlainAggregator().collect({"a": reply}))
        found.append(float(asking.result.final @ np.array([1.0, 1.0, -1.0, -1.0])))
    return np.array(found)


RUNS = 900


@pytest.mark.parametrize("broken", [False, True])
def test_canaries_never_show_more_than_certified_and_catch_clipping_of_the_batch(
    broken, monkeypatch
):
    if broken:
        monkeypatch.setattr(sides, "LinearSums", BatchClipped)
    ours, theirs = scores(RUNS, True), scores(RUNS, False)
    bound = epsilon_at_least(ours, theirs, delta=1e-5, kind="gaussian", confidence=0.999)
    assert (bound.epsilon > 4.0) == broken
    assert bound.epsilon > 1.0
