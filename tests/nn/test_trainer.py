"""The loop: what is charged, what is drawn, resuming, and attacks on whole runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tacit._core.rng import generator
from tacit.audit.bounds import epsilon_at_least
from tacit.errors import BudgetExceeded, ParameterError
from tacit.mechanisms.noise import Noise
from tacit.nn import Training, affordable_steps, train
from tacit.nn import trainer as trainer_module
from tacit.nn.linear import LinearSums
from tacit.nn.rules import default_training
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.events import GaussianDpEvent, PoissonSampledDpEvent, leaves, repeat
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger
from tacit.rounds.checkpoint import Checkpoint

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


def run(training, privacy=PRIVACY, reservation=None, *, seed=0, rows=60, module=None, **more):
    inputs, targets = data(rows)
    if privacy is not None and reservation is None and math.isfinite(privacy.epsilon):
        ledger = Ledger.memory(epsilon=1e9, delta=0.5)
        reservation = ledger.reserve(
            training.schedule_of(privacy), purpose="test", delta=privacy.delta
        )
    return train(
        module or network(), inputs, targets, cross_entropy, training, rows=60.0, privacy=privacy,
        reservation=reservation, noise=Noise(seed=seed), rng=generator(seed, "langevin"), **more,
    )  # fmt: skip


def reserved(training, ledger, run=None):
    return ledger.reserve(training.schedule_of(PRIVACY), purpose="test", delta=1e-5, run=run)


# --- accounting ---------------------------------------------------------------------------------


def test_every_step_is_one_sampled_gaussian_and_all_are_claimed():
    training = Training(steps=7, rate=0.5)
    ledger = Ledger.memory(epsilon=1.0, delta=1e-5)
    reservation = reserved(training, ledger)
    ((event, count),) = leaves(training.schedule_of(PRIVACY)).items()
    assert count == 7
    assert isinstance(event, PoissonSampledDpEvent) and isinstance(event.event, GaussianDpEvent)
    result = run(training, reservation=reservation)
    claims = [row for row in ledger.rows() if row.kind == "claim"]
    assert result.steps == len(claims) == 7
    assert not reservation.left
    with pytest.raises(BudgetExceeded):  # an eighth step was not paid for
        run(training, reservation=reservation)


def test_the_event_is_that_of_the_released_arrays_of_any_size():
    training = Training(steps=3, rate=0.25, clip=(0.3, 0.4))
    (event,) = leaves(training.schedule_of(PRIVACY))
    for size in (1, 10, 100_000):
        assert training.mechanism(size, PRIVACY).event == event
    assert epsilon_of(training.schedule_of(PRIVACY), 1e-5) <= 1.0


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 10.0])
def test_the_very_events_of_a_run_meet_the_guarantee(epsilon):
    """At ε = 0.5 noise that differed in the last bit cost 1e-11 too much, and was refused."""
    privacy = Privacy(epsilon, 1e-5)
    training = default_training(60_000, privacy)
    assert epsilon_of(training.schedule_of(privacy), 1e-5) <= epsilon
    ledger = Ledger.memory(epsilon=epsilon, delta=1e-5)
    ledger.reserve(training.schedule_of(privacy), purpose="test", delta=1e-5, asked=epsilon)


@pytest.mark.parametrize("accountant", ["pld", "rdp", "zcdp", "advanced"])
def test_every_accountant_gives_enough_noise(accountant):
    training = Training(steps=20, rate=0.3, accountant=accountant)
    assert epsilon_of(training.schedule_of(PRIVACY), 1e-5) <= 1.0
    assert training.multiplier(PRIVACY) >= Training(steps=20, rate=0.3).multiplier(PRIVACY) - 1e-9


def test_published_noise_is_the_thesis_s_and_costs_more_than_it_claims():
    thesis = Training(steps=20_000, rate=0.01, accountant="zcdp", calibration="published")
    claimed = Privacy(0.5, 1e-4)
    assert thesis.multiplier(claimed) == pytest.approx(3.23, abs=0.01)
    assert thesis.published(claimed).epsilon() == pytest.approx(1.51, abs=0.01)
    advanced = Training(steps=20_000, rate=0.01, accountant="advanced", calibration="published")
    assert advanced.multiplier(claimed) == pytest.approx(10.88, abs=0.05)
    with pytest.raises(ParameterError, match="accountant"):
        Training(steps=2, rate=0.1, calibration="published").check_privacy(claimed)


def test_a_run_with_given_noise_stops_at_the_target():
    steps = affordable_steps(1.0, 1e-5, rate=0.2, noise_multiplier=5.0)
    fits = Training(steps=steps, rate=0.2, noise_multiplier=5.0)
    fits.check_privacy(PRIVACY)
    with pytest.raises(ParameterError, match="affordable_steps"):
        Training(steps=steps + 1, rate=0.2, noise_multiplier=5.0).check_privacy(PRIVACY)


# --- dynamics -----------------------------------------------------------------------------------


def test_without_noise_private_dropout_is_plain_langevin_dynamics():
    training = Training(steps=6, rate=1.0, clip=100.0, learning_rate=0.5, schedule="constant")
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
    plain = run(Training(steps=6, rate=1.0, clip=100.0, learning_rate=0.5, schedule="constant",
                         strategy="sgld"), None)  # fmt: skip
    np.testing.assert_array_equal(plain.final, found.final)


def test_the_noise_vanishes_as_epsilon_grows():
    settings = {"steps": 5, "rate": 1.0, "clip": 1.0, "learning_rate": 0.5}
    free = run(Training(**settings), Privacy(math.inf)).final
    distances = [
        np.linalg.norm(run(Training(**settings), Privacy(epsilon, 1e-5)).final - free)
        for epsilon in (1.0, 30.0, 1e4)
    ]
    assert distances[0] > distances[1] > distances[2]
    assert distances[2] < 0.05


def test_private_dropout_uses_the_privacy_noise_and_sgld_adds_to_it():
    dpd = Training(steps=10, rate=0.5)
    sgld = Training(steps=10, rate=0.5, strategy="sgld")
    assert dpd.privacy_sd(0, 60, PRIVACY) > 0.1
    assert dpd.langevin_sd(0, 60, PRIVACY) == 0.0
    assert sgld.langevin_sd(0, 60, PRIVACY) == dpd.langevin_sd(0, 60, None) > 0.0
    assert Training(steps=10, rate=0.5, strategy="dp-sgd").langevin_sd(0, 60, None) == 0.0


def test_physical_batches_do_not_change_the_result():
    whole = run(Training(steps=4, rate=0.7, physical=64))
    pieces = run(Training(steps=4, rate=0.7, physical=5))
    np.testing.assert_allclose(whole.final, pieces.final, atol=1e-5)


def test_progress_tells_epsilon_so_far_and_dropout():
    seen = []
    run(Training(steps=10, rate=0.5), watch=lambda p: seen.append(p), reports=5)
    assert [p.step for p in seen] == [2, 4, 6, 8, 10]
    spent = [p.epsilon for p in seen]
    assert spent == sorted(spent)
    assert spent[-1] == pytest.approx(1.0, abs=1e-3)
    assert {layer.name for layer in seen[-1].dropout} == {"weight", "bias"}
    assert all(0.0 < layer.rate < 1.0 for layer in seen[-1].dropout)


def test_watching_can_end_a_run():
    assert run(Training(steps=10, rate=0.5), watch=lambda p: p.step >= 4, reports=5).steps == 4


# --- resuming -----------------------------------------------------------------------------------


class Stop(Exception):
    pass


def stop_after(step):
    def watch(progress):
        if progress.step >= step:
            raise Stop

    return watch


def test_an_interrupted_run_goes_on_and_neither_loses_nor_repeats_a_charge(tmp_path):
    training = Training(steps=9, rate=0.5)
    ledger = Ledger.open(tmp_path / "ledger.db", epsilon=1.0, delta=1e-5)
    folder = Checkpoint(tmp_path / "run")
    with pytest.raises(Stop):
        run(training, reservation=reserved(training, ledger, "a"), checkpoint=folder, every=100,
            watch=stop_after(4), reports=9)  # fmt: skip
    spent = ledger.spent
    again = reserved(training, ledger, "a")
    assert sum(again.left.values()) == 5
    result = run(training, reservation=again, checkpoint=folder)
    assert (result.steps, result.lost) == (9, 0)
    assert ledger.spent == spent
    assert sum(row.kind == "claim" for row in ledger.rows()) == 9
    assert not again.left


def test_a_step_whose_outcome_was_lost_is_not_drawn_again(tmp_path):
    training = Training(steps=9, rate=0.5)
    ledger = Ledger.open(tmp_path / "ledger.db", epsilon=1.0, delta=1e-5)
    folder = Checkpoint(tmp_path / "run")
    with pytest.raises(Stop):
        run(training, reservation=reserved(training, ledger, "a"), checkpoint=folder, every=1,
            watch=stop_after(4), reports=9)  # fmt: skip
    crashed = reserved(training, ledger, "a")
    for _ in range(2):  # claimed, and the machine fails before the state is kept
        crashed.claim(training.mechanism(10, PRIVACY).event)
    result = run(training, reservation=reserved(training, ledger, "a"), checkpoint=folder)
    assert (result.steps, result.lost) == (7, 2)
    assert sum(row.kind == "claim" for row in ledger.rows()) == 9


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    training = Training(steps=2, rate=0.5)
    folder = Checkpoint(tmp_path / "run")
    run(training, checkpoint=folder)
    with pytest.raises(ParameterError, match="another network"):
        run(training, checkpoint=folder, module=nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)))


# --- an attack on whole runs --------------------------------------------------------------------


class BatchClipped(LinearSums):
    """A broken twin that clips the sum of a batch instead of every example."""

    def __init__(self, module, loss, clips, grid, physical):
        super().__init__(module, loss, clips, grid, physical)
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
    training = Training(
        steps=1, rate=1.0, clip=1.0, learning_rate=1.0, momentum=0.0, schedule="constant",
        strategy="dp-sgd", precision=0.0, physical=4,
    )  # fmt: skip
    privacy = Privacy(4.0, 1e-5)
    inputs = torch.tensor([[-1.0, -1.0]] * 3 + [[50.0, 50.0]] * with_canary)
    targets = torch.zeros(len(inputs), dtype=torch.int64)
    ledger = Ledger.memory(epsilon=1e5, delta=0.1)
    every = repeat(training.schedule_of(privacy), count)
    reservation = ledger.reserve(every, purpose="audit", delta=1e-5, claim=count)
    noise, module = Noise(seed=1 + with_canary), nn.Linear(2, 2, bias=False)
    found = []
    for _ in range(count):
        nn.init.zeros_(module.weight)
        result = train(
            module, inputs, targets, cross_entropy, training, rows=3.0, privacy=privacy,
            reservation=reservation, noise=noise, rng=generator(0, "x"),
        )  # fmt: skip
        found.append(float(result.final @ np.array([1.0, 1.0, -1.0, -1.0])))
    return np.array(found)


RUNS = 900


@pytest.mark.parametrize("broken", [False, True])
def test_canaries_never_show_more_than_certified_and_catch_clipping_of_the_batch(
    broken, monkeypatch
):
    if broken:
        monkeypatch.setattr(trainer_module, "LinearSums", BatchClipped)
    ours, theirs = scores(RUNS, True), scores(RUNS, False)
    bound = epsilon_at_least(ours, theirs, delta=1e-5, kind="gaussian", confidence=0.999)
    assert (bound.epsilon > 4.0) == broken
    assert bound.epsilon > 1.0
