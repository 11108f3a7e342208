"""Rows that count differently, layers with noise of their own, categories that are looked up."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import tacit as tc
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.site import Site
from tacit.networks import PrivateDropoutClassifier, PrivateDropoutRegressor, Training
from tacit.networks.agreement import Examples, NetworkAgreement
from tacit.networks.architectures import Given, Perceptron
from tacit.networks.dynamics import Dynamics
from tacit.networks.losses import CrossEntropy
from tacit.networks.tabular import Embedded
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import Message
from tests.contracts.hostile import Witness

PRIVACY = Privacy(2.0, 1e-2)


def summed(agreement, data, weights):
    gate = Witness(agreement)
    holder = agreement.holder("site", data, gate, None)
    holder.respond(Message(0, {"weights": weights.astype(np.float32)}, "step"))
    ((_, mechanism, value),) = gate.values
    return mechanism, value


def convolution():
    return Given(
        nn.Sequential(nn.Conv1d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(4, 2)), (1, 3)
    )


NETWORKS = {
    "linear": (Perceptron(3, 2), (0.5,), ()),
    "deep, layers": (Perceptron(3, 2, (4,)), (0.5, 0.2), ()),
    "deep, noise": (Perceptron(3, 2, (4,)), (0.5, 0.2), (1.0, 5.0)),
    "convolution, noise": (convolution(), (0.5, 0.2), (3.0, 1.0)),
    "looked up": (Embedded((0, 3, 5), 2, (4,)), (0.5,), ()),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_no_weight_of_a_row_lets_it_move_a_sum_too_far(name):
    blueprint, clips, noise = NETWORKS[name]
    numbers = Dynamics(
        1, 1.0, clips, rows=6.0, noise_multiplier=4.0, largest_weight=3.0, layer_noise=noise
    )
    agreement = NetworkAgreement(blueprint, CrossEntropy(), numbers, PRIVACY)
    rng, moved = np.random.default_rng(0), []
    for spread in (1e-3, 1.0, 1e15):
        inputs = torch.from_numpy(rng.normal(size=(6, *blueprint.shape)).astype(np.float32))
        if name == "looked up":
            inputs = torch.from_numpy(rng.integers(0, 3, (6, 3)).astype(np.float32))
        targets = torch.zeros(6, dtype=torch.int64)
        theta = spread * rng.normal(size=agreement.size)
        for count in (0.0, 0.5, 3.0, 1e300, np.inf, np.nan, -5.0):
            counts = np.array([1.0, 2.0, 0.1, 3.0, 1.0, count])
            mechanism, whole = summed(agreement, Examples(inputs, targets, weights=counts), theta)
            fewer = Examples(inputs[:-1], targets[:-1], weights=counts[:-1])
            _, rest = summed(agreement, fewer, theta)
            moved.append(mechanism.distance(whole, rest))
            if not count > 0.0:
                assert moved[-1] == 0.0
    assert 0.5 < max(moved) <= 1.0 + 1e-9
    assert mechanism.mechanism.noise_multiplier >= 4.0 * (1.0 - 1e-12)


def test_a_row_of_weight_two_counts_as_two_rows():
    numbers = Dynamics(1, 1.0, (0.5,), rows=6.0, noise_multiplier=4.0, largest_weight=2.0)
    agreement = NetworkAgreement(Perceptron(3, 2), CrossEntropy(), numbers, PRIVACY)
    inputs = torch.from_numpy(np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32))
    targets, theta = torch.tensor([0, 1, 0]), np.ones(agreement.size)
    twice = torch.cat([inputs, inputs[:1]]), torch.cat([targets, targets[:1]])
    _, one = summed(agreement, Examples(inputs, targets, weights=np.array([2.0, 1.0, 1.0])), theta)
    _, other = summed(agreement, Examples(*twice), theta)
    np.testing.assert_allclose(one.value(), other.value(), atol=1e-4)


def test_layers_have_the_noise_that_was_stated_and_one_price():
    plan = {"steps": 4, "sampling_rate": 1.0, "clip": (1.0, 0.5)}
    apart = Training(**plan, layer_noise=(1.0, 4.0)).decided(100, PRIVACY)
    first, second = (apart.noise / unit for unit in apart.units)
    assert second / 0.5 / (first / 1.0) == pytest.approx(4.0)
    # 1/σ² = Σ 1/σ_l²
    own = [first / 1.0, second / 0.5]
    joint = Training(steps=4, sampling_rate=1.0, clip=1.0).decided(100, PRIVACY).noise_multiplier
    assert sum(s**-2 for s in own) == pytest.approx(joint**-2, rel=1e-6)
    with pytest.raises(ParameterError, match="a clip for each layer"):
        Training(layer_noise=(1.0, 2.0))


def test_a_network_with_noise_by_layer_learns_and_says_how_much(tmp_path):
    X = np.random.default_rng(0).uniform(-1, 1, (800, 3))
    model = PrivateDropoutClassifier(
        (8,), bounds=(-1, 1), classes=(0, 1), rows=800, privacy=Privacy(8, 1e-5), random_state=0,
        training=Training(steps=30, clip=(0.3, 0.5), layer_noise=(4.0, 1.0)), dropout="run",
    ).fit(X, (X[:, 0] > 0).astype(int))  # fmt: skip
    assert model.score(X, (X[:, 0] > 0).astype(int)) > 0.85
    by_step, by_run = model.layer_dropout(), model.layer_dropout("run")
    assert all(a.alpha < b.alpha for a, b in zip(by_step, by_run, strict=True))
    sds = {layer.name: layer.median_alpha for layer in by_run}
    assert len(sds) == 4
    with pytest.raises(ParameterError, match="of must be"):
        model.layer_dropout("year")


def skewed(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 3))
    return X, np.where(X[:, 0] + 0.6 * rng.standard_normal(rows) > 0.9, "ill", "well")


def weighing(**more):
    settings = {
        "bounds": (-1, 1), "classes": ("ill", "well"), "rows": 3000,
        "privacy": Privacy(4, 1e-5), "training": Training(steps=40), **more,
    }  # fmt: skip
    return PrivateDropoutClassifier((), **settings)


def test_class_weights_are_public_and_find_the_rare_class(tmp_path):
    X, y = skewed()
    recall = {}
    for weight in (None, {"ill": 6.0}):
        model = weighing(class_weight=weight).fit(X, y)
        recall[weight is None] = np.mean(model.predict(X)[y == "ill"] == "ill")
    assert recall[False] > recall[True] + 0.2
    assert "rows count by class: ill 6, well 1" in model.certificate_.assumptions
    assert "a row counts 6 at most" in model.certificate_.assumptions
    assert model.certificate_.epsilon == pytest.approx(4.0, abs=1e-3)
    back = PrivateDropoutClassifier.from_release(model.release(tmp_path / "r"))
    assert back.class_weight == {"ill": 6.0} and back.scale_ == model.scale_
    np.testing.assert_array_equal(back.predict_proba(X[:9]), model.predict_proba(X[:9]))
    with pytest.raises(UnboundedData, match="would count the private labels"):
        weighing(class_weight="balanced").fit(X, y)
    with pytest.raises(ParameterError, match="class_weight names sick"):
        weighing(class_weight={"sick": 2.0}).fit(X, y)


def test_weights_of_rows_need_a_public_largest_one():
    X, y = skewed()
    counts = np.where(y == "ill", 4.0, 0.5)
    with pytest.raises(UnboundedData, match="weights must be given with sample_weight"):
        weighing().fit(X, y, sample_weight=counts)
    model = weighing(weights=4.0).fit(X, y, sample_weight=counts)
    again = weighing(weights=4.0).fit([Site("one holder", (X, y, counts))])
    assert np.mean(model.predict(X)[y == "ill"] == "ill") > 0.6
    assert np.mean(again.predict(X)[y == "ill"] == "ill") > 0.6
    with pytest.raises(ParameterError, match="one number for each"):
        weighing(weights=4.0).fit(X, y, sample_weight=counts[:9])
    free = weighing(privacy=None, rows=None).fit(X, y, sample_weight=counts)  # reads its own
    assert free.training_.largest_weight == 4.0


def visits(rows=2500, seed=0, towns=60):
    rng = np.random.default_rng(seed)
    good = np.random.default_rng(1).random(towns) < 0.5
    town = rng.integers(0, towns, rows)
    frame = pd.DataFrame({"age": rng.uniform(20, 90, rows), "town": [f"t{k}" for k in town]})
    frame["share"] = rng.uniform(0.5, 2.0, rows)
    frame["ill"] = np.where(good[town] ^ (frame.age > 80), "yes", "no")
    return frame


COLUMNS = {
    "age": tc.number(20, 90), "town": tc.category(*(f"t{k}" for k in range(60))),
    "share": tc.number(0, 2), "ill": tc.category("no", "yes"),
}  # fmt: skip


def test_categories_are_looked_up_and_a_column_says_what_rows_count(tmp_path):
    model = PrivateDropoutClassifier(
        (16,), columns=tc.Columns(COLUMNS), target="ill", normalize="embed", weights="share",
        rows=2500, privacy=Privacy(8, 1e-5), training=Training(steps=100, samples=5),
    ).fit(visits())  # fmt: skip
    assert model.score(visits(seed=3)) > 0.8
    names = [name for name, _ in model.module_.named_parameters()]
    assert names[0] == "tables.0.weight" and model.module_.tables[0].weight.shape == (60, 8)
    assert list(model.feature_names_in_) == ["age", "town"]
    assert model.training_.largest_weight == 2.0
    back = PrivateDropoutClassifier.from_release(model.release(tmp_path / "r"))
    rows = visits(9, seed=4).drop(columns=["ill", "share"])
    np.testing.assert_array_equal(back.predict_proba(rows), model.predict_proba(rows))
    model.summary()


def test_what_cannot_be_looked_up_or_weighed_is_refused():
    X, y = skewed(20)
    with pytest.raises(ParameterError, match="normalize='embed' goes with columns"):
        weighing(normalize="embed").fit(X, y)
    stated = tc.Columns(COLUMNS, target="ill")
    for wrong in ("town", "ill", "none"):
        model = PrivateDropoutClassifier((), columns=stated, weights=wrong, rows=9)
        with pytest.raises(ParameterError, match="weights must be the largest weight"):
            model.fit(visits(9))
    averaged = tc.Columns(COLUMNS, target="share", person="who", per_person="average")
    with pytest.raises(ParameterError, match="cannot be looked up"):
        PrivateDropoutRegressor((), columns=averaged, normalize="embed", rows=9).fit(visits(9))
