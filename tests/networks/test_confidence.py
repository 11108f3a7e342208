"""How sure a network may be: what a row can change, and what is made of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tacit._core.rng import generator
from tacit.estimators.agreement import Asked
from tacit.estimators.gate import Gate
from tacit.mechanisms.noise import Noise
from tacit.networks import PrivateDropoutClassifier, Training
from tacit.networks.agreement import CONFIDENCE, Examples
from tacit.networks.architectures import Given, Perceptron
from tacit.networks.confidence import NORM, PARTS, contributions, scale_of
from tacit.networks.losses import CrossEntropy
from tacit.networks.sequences import recurrent
from tacit.networks.single_rows import RowFunction
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.guarantee import Privacy

PRIVACY = Privacy(2.0, 1e-5)


def asked(blueprint, rows=200.0, each=1, privacy=PRIVACY):
    plan = Training(steps=3, samples=2)
    return plan.agree(blueprint, CrossEntropy(), rows, privacy, rows_per_unit=each, judged=True)


def summed(agreement, data, weights):
    """Return what all rows contribute, through the site's own code."""
    site = agreement.holder("a", data, Gate(None, Noise(seed=0)), None)
    step = agreement.step(CONFIDENCE)
    shape = agreement.asked_about, agreement.size
    request = Asked(CONFIDENCE, "", {"weights": np.broadcast_to(weights, shape)}, {})
    units = np.arange(site.units(data))
    return site.completed(step, request, site.contribute(step, request, {}, data, units)).value()


def hostile_weights(size, rng):
    """Yield weights that a hostile coordinator may ask about."""
    for spread in (0.0, 1.0, 1e4, 1e30, 3e38):
        yield (spread * rng.standard_normal(size)).clip(-3e38, 3e38).astype(np.float32)


@pytest.mark.parametrize("deep", [False, True])
def test_no_weights_let_one_row_move_the_answer_too_far(deep):
    rng = generator(0, "hostile")
    module = nn.Sequential(nn.Conv1d(1, 2, 2), nn.ReLU(), nn.Flatten(), nn.Linear(6, 3))
    blueprint = Given(module, (1, 4)) if deep else Perceptron(4, 3)
    agreement = asked(blueprint)
    inputs = torch.from_numpy(rng.standard_normal((40, *blueprint.shape)).astype(np.float32))
    inputs[1], inputs[2] = 3e38, float("nan")
    targets = torch.from_numpy(rng.integers(0, 3, 40))
    found = []
    for weights in hostile_weights(agreement.size, rng):
        whole = summed(agreement, Examples(inputs, targets), weights)
        for left_out in range(4):
            keep = np.delete(np.arange(40), left_out)
            fewer = summed(agreement, Examples(inputs[keep], targets[keep]), weights)
            found.append(np.linalg.norm(whole - fewer))
    # the grid's room is in the mechanism's sensitivity
    assert 0.5 * NORM < max(found) <= NORM
    assert min(found) == 0.0  # what is no number contributes nothing


def test_a_person_s_rows_together_stay_within_the_bound():
    agreement = asked(Perceptron(4, 2), each=3)
    inputs, targets = torch.ones(5, 4), torch.zeros(5, dtype=torch.int64)
    weights = np.zeros(agreement.size, np.float32)
    weights[:4] = 50.0
    with_all = Examples(inputs, targets, starts=np.array([0, 2, 5]))
    without = Examples(inputs[:2], targets[:2], starts=np.array([0, 2]))
    moved = np.linalg.norm(
        summed(agreement, with_all, weights) - summed(agreement, without, weights)
    )
    assert 2.9 * NORM < moved <= 3 * NORM
    assert agreement.judging.mechanism.sensitivity <= 3 * NORM


def test_the_question_is_paid_from_the_same_budget():
    agreement, free = asked(Perceptron(4, 2)), Training(steps=3, confidence=0.0)
    assert epsilon_of(agreement.event, 1e-5) == pytest.approx(2.0, abs=1e-3)
    plain = free.agree(Perceptron(4, 2), CrossEntropy(), 200.0, PRIVACY, judged=True)
    ratio = agreement.dynamics.noise_multiplier / plain.dynamics.noise_multiplier
    assert [step.name for step in plain.steps] == ["step"] and 1.005 < ratio < 1.03


def test_contributions_reach_the_bound_and_know_right_from_wrong():
    outputs = torch.tensor([[[80.0, 0.0], [80.0, 0.0], [0.0, 0.0], [float("inf"), 0.0]]])
    found = contributions(outputs, torch.tensor([0, 1, 0, 0]))
    assert found.norm(dim=1)[0] == pytest.approx(NORM)
    assert found[0, 0] == -found[1, 0] and torch.equal(found[0, 1:], found[1, 1:])
    assert not found[3].any()


@pytest.mark.parametrize("true", [1.0, 3.0, 8.0])
def test_the_scale_is_found_under_noise(true):
    rng = generator(1, "scale")
    outputs = 2.0 * rng.standard_normal((3000, 5))
    shares = np.exp(outputs) / np.exp(outputs).sum(1, keepdims=True)
    labels = torch.tensor([rng.choice(5, p=row) for row in shares])
    sums = contributions(torch.tensor(outputs / true)[None], labels).sum(0).numpy()
    scales = [scale_of(sums + 30.0 * rng.standard_normal(PARTS), 30.0, 3000, 5) for _ in range(20)]
    assert np.median(scales) == pytest.approx(true, rel=0.15)


def test_modest_predictions_become_as_sure_as_they_are_right():
    rng = generator(0, "table")
    X = rng.uniform(-1, 1, (3000, 6))
    y = (X[:, 0] + 0.3 * rng.standard_normal(3000) > 0).astype(int)
    model = PrivateDropoutClassifier(
        (), bounds=(-1, 1), classes=(0, 1), rows=2000, privacy=Privacy(1, 1e-5), random_state=0,
        training=Training(steps=40, step_size=0.05),
    ).fit(X[:2000], y[:2000])  # fmt: skip
    after = model.calibration_error(X[2000:], y[2000:])
    assert model.scale_ == model.shared_["scale"][0] > 1.5
    model.scale_ = 1.0
    assert after < 0.08 < model.calibration_error(X[2000:], y[2000:])


@pytest.mark.parametrize("cells", ["gru", "lstm"])
def test_recurrent_layers_answer_many_rows_at_once(cells):
    # torch cannot vectorise them: 5,000 rows and 20 draws one by one took minutes
    module = recurrent(5, 2, hidden=4, cells=cells, rng=np.random.default_rng(0)).eval()
    rows = torch.from_numpy(np.random.default_rng(1).integers(1, 5, (9, 6)))
    rows[3, 4:] = 0
    run = RowFunction(module)

    def same(found):
        alone = torch.cat([module(row[None]) for row in rows]).detach()
        torch.testing.assert_close(found, alone, rtol=1e-4, atol=1e-5)

    same(run(rows))
    assert run._vectorised
    with torch.no_grad():
        for p in module.parameters():  # read where they are, and as they are now
            p.add_(torch.ones_like(p) * 0.3)
    same(run(rows))
    weights = {n: p.detach() - 0.2 for n, p in module.named_parameters()}
    found = run(rows, weights)
    with torch.no_grad():
        for p in module.parameters():
            p.sub_(0.2)
    same(found)
