"""A run that is driven step by step: the bits, the price and the promise of `fit`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn

from tacit.errors import BudgetExceeded, ParameterError
from tacit.networks import PrivateDropoutClassifier, Trainer, Training, train
from tacit.networks.losses import CrossEntropy
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

PRIVACY = Privacy(1.0, 1e-5)
PLAN = Training(steps=6, sampling_rate=0.5, clip=1.0, step_size=1.0)


def rows(count=60):
    rng = np.random.default_rng(0)
    inputs = torch.from_numpy(rng.standard_normal((count, 4)).astype(np.float32))
    return inputs, (inputs[:, 0] > 0).long()


def trainer(plan=PLAN, privacy=PRIVACY, **more):
    torch.manual_seed(0)
    layer = nn.Linear(4, 2)
    made = Trainer(
        layer, *rows(), CrossEntropy(), plan, rows=60, privacy=privacy, random_state=3, **more
    )
    return layer, made


def test_it_learns_the_bits_of_a_whole_run():
    layer, steps = trainer()
    seen = [(stage.step, stage.epsilon, stage.weights) for stage in steps]
    found = steps.finish()
    torch.manual_seed(0)
    other = nn.Linear(4, 2)
    whole = train(other, *rows(), CrossEntropy(), PLAN, rows=60, privacy=PRIVACY, random_state=3)
    assert [step for step, _, _ in seen] == [1, 2, 3, 4, 5, 6] and found.steps == 6
    assert np.array_equal(found.final, whole.final) and np.array_equal(seen[-1][2], found.final)
    assert torch.equal(layer.weight, other.weight)
    assert all(before[1] < after[1] for before, after in pairwise(seen))
    assert seen[-1][1] == pytest.approx(found.certificate.epsilon, abs=1e-6)


def test_stopping_early_costs_what_was_reserved_and_says_so():
    ledger = Ledger.memory(epsilon=1.0, delta=1e-5)
    _, steps = trainer(ledger=ledger)
    for stage in steps:
        if stage.step == 2:
            steps.stop()
    found = steps.finish()
    assert found.steps == 2 and found.certificate.epsilon == pytest.approx(1.0, abs=1e-3)
    assert ledger.spent.epsilon == pytest.approx(found.certificate.epsilon, abs=1e-6)
    assert next(iter(steps), None) is None and steps.finish().steps == 2


def test_a_stop_that_was_decided_beforehand_costs_no_more_than_that():
    plan = Training(steps=6, sampling_rate=0.5, clip=1.0, step_size=1.0, stop_at=0.6)
    _, steps = trainer(plan)
    stages = list(steps)
    found, agreement = steps.finish(), steps.agreement
    assert 0 < found.steps == len(stages) == agreement.dynamics.ends < 6
    assert found.certificate.epsilon <= 0.6
    assert epsilon_of(agreement.event, 1e-5) <= 0.6
    # the noise is that of the whole run, and one step more would cost too much
    whole = PLAN.decided(60, PRIVACY)
    assert agreement.dynamics.noise_multiplier == whole.noise_multiplier
    with pytest.raises(ParameterError, match="at most the epsilon"):
        Training(stop_at=2.0).decided(60, PRIVACY)


def test_what_is_wrong_costs_nothing_and_a_poor_ledger_refuses_before_a_step():
    ledger = Ledger.memory(epsilon=0.5, delta=1e-5)
    _, steps = trainer(ledger=ledger)
    with pytest.raises(ParameterError, match="no step was taken"):
        steps.finish()
    with pytest.raises(BudgetExceeded):
        next(iter(steps))
    assert ledger.spent.epsilon == 0.0


def test_a_stage_tells_of_its_own_step_only():
    _, steps = trainer()
    first = steps.take()
    gradient = first.gradient.copy()
    second = steps.take()
    assert np.array_equal(first.gradient, gradient) and not np.array_equal(
        gradient, second.gradient
    )
    with pytest.raises(ParameterError, match="ask before the next"):
        _ = first.epsilon


def test_an_interrupted_run_goes_on_and_draws_nothing_twice(tmp_path):
    ledger = Ledger.open(tmp_path / "own.db", epsilon=1.0, delta=1e-5)
    _, first = trainer(checkpoint=tmp_path / "run", ledger=ledger)
    for _ in range(3):
        first.take()
    _, again = trainer(checkpoint=tmp_path / "run", ledger=ledger)
    assert [stage.step for stage in again] == [4, 5, 6]
    found = again.finish()
    assert found.steps == 6 and ledger.spent.epsilon == pytest.approx(1.0, abs=1e-3)


def table(count=400):
    X = np.random.default_rng(0).uniform(-1, 1, (count, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no")


def classifier(**more):
    return PrivateDropoutClassifier(
        (), bounds=(-1, 1), classes=("no", "yes"), rows=400, privacy=PRIVACY, random_state=0,
        training=Training(steps=8), **more,
    )  # fmt: skip


def test_an_estimator_is_fitted_by_its_steps():
    model, whole = classifier(), classifier().fit(*table())
    steps = model.trainer(*table())
    assert [stage.step for stage in steps] == list(range(1, 9))
    for name, array in whole.shared_.items():
        assert np.array_equal(model.shared_[name], array), name
    assert model.certificate_.event == whole.certificate_.event


def test_an_estimator_that_is_stopped_still_knows_how_sure_it_may_be():
    model = classifier()
    steps = model.trainer(*table())
    steps.take()
    steps.finish()
    assert model.result_.steps == 1 and model.record_.rounds == 2
    assert model.predict(table()[0][:2]).shape == (2,)


def test_partial_fit_is_refused_with_a_reason():
    assert not hasattr(classifier(), "partial_fit")
    with pytest.raises(
        AttributeError, match=r"a whole run over all rows. Drive a run with trainer"
    ):
        classifier().partial_fit(*table())
