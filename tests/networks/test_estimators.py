"""The classifier and the regressor: public inputs, guarantees, predictions, release."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn

from tacit.errors import BudgetExceeded, NotCertified, ParameterError, UnboundedData
from tacit.estimators.release import read_release
from tacit.estimators.site import Site
from tacit.networks import (
    PrivateDropoutClassifier,
    PrivateDropoutRegressor,
    Scattering,
    Training,
    calibration_error,
    convolutional,
    entropy,
    perceptron,
)
from tacit.networks.dropout import layer_dropout, weight_alpha
from tacit.networks.rows import seen_rows
from tacit.privacy.events import leaves
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.published.ermis2020_dropout import ThesisTraining

PRIVACY = Privacy(2.0, 1e-5)


def table(rows=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, 3))
    return X, np.where(X[:, 0] > 0, "yes", "no")


TRAINING = {field.name for field in fields(Training)}


def classifier(**more):
    """Return a classifier; settings of the training go there."""
    training = {"steps": 12} | {name: more.pop(name) for name in TRAINING & set(more)}
    settings = {
        "hidden": (), "bounds": (-1, 1), "classes": ("no", "yes"), "rows": 600,
        "training": Training(**training), "privacy": PRIVACY, "random_state": 0,
    }  # fmt: skip
    return PrivateDropoutClassifier(**{**settings, **more})


@pytest.fixture(scope="module")
def fitted():
    return classifier(samples=5).fit(*table())


def test_it_learns_and_certifies_what_was_asked(fitted):
    X, y = table(seed=1)
    assert fitted.score(X, y) > 0.85
    certificate = fitted.certificate_.verify()
    assert 1.9 < certificate.epsilon <= 2.0
    # and one question in the end: how sure may it be
    assert sum(leaves(certificate.event).values()) == fitted.result_.steps + 1 == 13
    text = str(certificate)
    for words in ("one row is added or removed", "clipped to", "about 600 rows", "2 classes"):
        assert words in text


def test_predictions_come_with_uncertainty(fitted):
    X, y = table(seed=1)
    found = fitted.predict_proba(X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    wrong = fitted.predict(X) != y
    unsure = fitted.entropy(X)
    assert unsure[wrong].mean() > unsure[~wrong].mean()
    assert 0.0 <= fitted.calibration_error(X, y) < 0.5
    assert fitted.result_.samples.shape == (5, 8)
    posterior = fitted.to_arviz().posterior
    assert sum(posterior[name].size for name in posterior) == 5 * 8


def test_dropout_at_prediction_widens_the_prediction(fitted):
    X, _ = table(seed=1)
    noisy = clone(fitted).set_params(dropout=True).fit(*table())
    np.testing.assert_array_equal(noisy.result_.final, fitted.result_.final)  # the same training
    assert not np.array_equal(noisy.predict_proba(X), fitted.predict_proba(X))
    rates = [layer.rate for layer in fitted.layer_dropout()]
    assert all(0.0 < rate < 1.0 for rate in rates)


def test_less_privacy_is_less_dropout():
    alphas = [
        classifier(privacy=Privacy(epsilon, 1e-5), step_size=2.0, temperature=0.0)
        .fit(*table()).layer_dropout()[0].alpha
        for epsilon in (0.5, 2.0, 8.0)
    ]  # fmt: skip
    assert alphas == sorted(alphas, reverse=True)


@pytest.mark.parametrize("name", ["bounds", "classes", "rows"])
def test_nothing_public_is_read_from_the_data(name):
    with pytest.raises(UnboundedData, match=name):
        classifier(**{name: None}).fit(*table())


def test_bad_parameters_are_refused_by_name():
    for name, constraint in PrivateDropoutClassifier._constraints.items():
        for bad in constraint.bad_values():
            if name in ("bounds", "rows", "classes") and bad is None:
                continue
            with pytest.raises(ParameterError, match=name):
                classifier(**{name: bad}).fit(*table(10))
    with pytest.raises(ParameterError, match="add-remove-one"):
        classifier(privacy=Privacy(1.0, 1e-5, neighbours="replace-one")).fit(*table())
    with pytest.raises(ParameterError, match="unit"):
        classifier(privacy=Privacy(1.0, 1e-5, unit="user")).fit(*table())
    with pytest.raises(ParameterError, match="fit first"):
        classifier().predict(table()[0])


def test_missing_cells_and_strange_labels_are_named_and_nobody_pays():
    X, y = table()
    ledger = Ledger.memory(epsilon=3.0, delta=1e-4)
    for bad, said in ((np.nan, "'0', missing: X, row 8"), (None, "unknown label.* row 4: '\\?'")):
        inputs, labels = X.copy(), y.astype(object)
        if bad is None:
            labels[3] = "?"
        else:
            inputs[7, 0] = bad
        with pytest.raises(ParameterError, match=said):
            classifier(steps=2, ledger=ledger).fit(inputs, labels)
    assert ledger.counter == 0
    X[1, 0], X[2, 1] = np.inf, 1e300  # outside its bounds: clipped
    found = classifier(steps=2).fit(X, y)
    assert np.isfinite(found.result_.final).all()


def test_one_text_among_numbers_changes_no_other_label():
    numbers = classifier(steps=2, classes=(0, 1, 2))
    for labels in ([0, 1, 2], [0, 1, "2"], ["0", 1.0, 2], np.array([0.0, 1.0, 2.0])):
        assert numbers._targets(labels).tolist() == [0, 1, 2]


def test_a_fit_is_charged_and_refused_where_nothing_is_left(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db", epsilon=3.0, delta=1e-4)
    model = classifier(steps=2, ledger=ledger)
    assert model.price().affordable
    model.fit(*table())
    assert ledger.spent.epsilon == pytest.approx(2.0)
    model.certificate_.verify(ledger)
    with pytest.raises(BudgetExceeded):
        clone(model).fit(*table())


def test_the_release_holds_weights_and_certificate_and_refuses_seeds(tmp_path, fitted):
    with pytest.raises(NotCertified, match="seeded"):
        fitted.release(tmp_path / "seeded")
    model = classifier(steps=2, random_state=None).fit(*table())
    model.release(tmp_path / "release")
    release = read_release(tmp_path / "release")
    assert release.estimator == "PrivateDropoutClassifier"
    assert {"weights/2.weight", "weights/2.bias", "samples"} <= set(release.arrays)


def test_a_release_can_be_read_back_and_predicts_the_same(tmp_path):
    X, y = table(200)
    model = classifier(steps=3, samples=2, hidden=(4,), dropout=True, random_state=None).fit(X, y)
    model.release(tmp_path / "classes")
    found = PrivateDropoutClassifier.from_release(tmp_path / "classes")
    found.set_params(dropout=False)
    model.set_params(dropout=False)
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    assert list(found.classes_) == ["no", "yes"]
    assert found.certificate_.epsilon == model.certificate_.epsilon
    assert found.layer_dropout() == model.layer_dropout()
    with pytest.raises(ParameterError, match="had none"):
        PrivateDropoutClassifier.from_release(tmp_path / "classes", module=nn.Linear(3, 2))
    numbers = PrivateDropoutRegressor(
        hidden=(), bounds=[(-1, 1)] * 3, y_bounds=(-1, 1), rows=200, privacy=PRIVACY,
        training=Training(steps=3, method="dp-sgd"),
    ).fit(X, X[:, 0])  # fmt: skip
    numbers.release(tmp_path / "numbers")
    again = PrivateDropoutRegressor.from_release(tmp_path / "numbers")
    for ours, theirs in zip(
        numbers.predict(X, return_sd=True), again.predict(X, return_sd=True), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)


def test_a_module_is_no_part_of_a_release_and_is_given_again(tmp_path):
    X, y = table(100)
    network = nn.Sequential(nn.Flatten(), nn.Linear(3, 2))
    model = classifier(hidden=None, module=network, steps=2, random_state=None).fit(X, y)
    model.release(tmp_path / "release")
    with pytest.raises(ParameterError, match="module"):
        PrivateDropoutClassifier.from_release(tmp_path / "release")
    with pytest.raises(ParameterError, match="the weights of the network"):
        PrivateDropoutClassifier.from_release(tmp_path / "release", module=nn.Linear(3, 2))
    again = PrivateDropoutClassifier.from_release(tmp_path / "release", module=network)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_what_is_fitted_holds_no_state_that_a_module_gathered_from_rows():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 2)
            self.register_buffer("seen", torch.zeros(3))

        def forward(self, x):
            self.seen += x.detach().sum(0)
            return self.linear(x)

    network = Counting()
    model = classifier(hidden=None, module=network, steps=2).fit(*table(50))
    assert not model.module_.seen.any() and not network.seen.any()


# --- several sites ------------------------------------------------------------------------------


def halves(rows=600):
    X, y = table(rows)
    return [Site("a", (X[::2], y[::2])), Site("b", (X[1::2], y[1::2]))]


def test_sites_add_up_their_gradients_and_each_adds_its_own_noise():
    privacy = Privacy(4.0, 1e-5, trust="site")
    model = classifier(privacy=privacy).fit(halves())
    assert model.score(*table(seed=1)) > 0.85
    assert set(model.certificates_) == {"a", "b"} and model.record_.rounds == 13
    alone = classifier(privacy=privacy)._training.decided(600, privacy, judged=True)
    both = model.training_
    assert both.noise == pytest.approx(math.sqrt(2) * alone.noise)
    assert both.expected == alone.expected
    assert "the sites hold different rows" in str(model.certificate_)
    with pytest.raises(ParameterError, match="trust='site'"):
        classifier(privacy=Privacy(4.0, 1e-5, trust="central")).fit(halves())
    X, y = table(20)
    with pytest.raises(ParameterError, match="one shape"):
        classifier(privacy=privacy).fit([Site("a", (X, y)), Site("b", (X[:, :2], y))])


def test_without_noise_two_sites_learn_what_one_does():
    X, y = table()
    one = classifier(privacy=None, sampling_rate=1.0).fit(X, y)
    two = classifier(privacy=None, sampling_rate=1.0).fit(halves())
    np.testing.assert_allclose(two.result_.final, one.result_.final, rtol=1e-4, atol=1e-5)


def test_a_proposal_names_columns_and_settings_and_no_code():
    settings = {
        "inputs": ["a", "b"], "target": "y", "hidden": [], "bounds": [-1, 1],
        "classes": ["no", "yes"], "rows": 100, "training": {"steps": 2, "clip": [0.5]},
    }  # fmt: skip
    model, facts = PrivateDropoutClassifier._proposed(settings, PRIVACY, 0)
    agreement = model._agree([facts])
    assert (agreement.rounds, agreement.size) == (3, 6)
    assert agreement.digest == model._agree([facts]).digest
    rows = {"a": np.zeros(3), "b": np.ones(3), "y": np.array(["no", "yes", "no"])}
    data = model._read(model._tables({"t": {"table": rows}}, facts), agreement)
    assert data.inputs.shape == (3, 2) and data.targets.tolist() == [0, 1, 0]
    for name in ("module", "features", "checkpoint", "ledger"):
        with pytest.raises(ParameterError, match=name):
            PrivateDropoutClassifier._proposed({**settings, name: "x"}, PRIVACY, 0)
    with pytest.raises(ParameterError, match="target"):
        PrivateDropoutClassifier._proposed({"bounds": [-1, 1]}, PRIVACY, 0)


# --- parameters ---------------------------------------------------------------------------------


def test_no_parameter_is_ignored():
    network = nn.Linear(3, 2)
    for name, value in {"hidden": (3,), "activation": "relu", "normalize": "row"}.items():
        with pytest.raises(ParameterError, match=name):
            classifier(**{"hidden": None, "module": network, name: value}).fit(*table())
    with pytest.raises(ParameterError, match="normalize"):
        classifier(features=nn.Flatten(), normalize="range").fit(*table())
    with pytest.raises(ParameterError, match="temperature"):
        Training(method="dp-sgd", temperature=1.0)
    with pytest.raises(ParameterError, match="accountant"):
        Training(noise_multiplier=2.0, accountant="rdp")
    with pytest.raises(ParameterError, match="noise_multiplier"):
        classifier(noise_multiplier=2.0, privacy=None).fit(*table())
    with pytest.raises(ParameterError, match="recipe"):
        ThesisTraining(accountant="pld")
    for kind in (PrivateDropoutClassifier, PrivateDropoutRegressor):
        assert len(kind._get_param_names()) <= 20


def test_pricing_changes_nothing_and_needs_no_data():
    model = classifier()
    before = dict(vars(model))
    assert model.price().sites[0].epsilon <= 2.0
    assert vars(model) == before


def test_a_refused_network_costs_nothing():
    ledger = Ledger.memory(epsilon=2.0, delta=1e-4)
    for bad, words in {
        nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)): "GroupNorm",
        nn.Linear(3, 2).double(): "float32",
    }.items():
        with pytest.raises(ParameterError, match=words):
            classifier(hidden=None, module=bad, ledger=ledger).fit(*table(20))
    with pytest.raises(ParameterError, match="clip"):
        classifier(clip=(1.0, 1.0), ledger=ledger).fit(*table(20))
    assert ledger.spent.epsilon == 0.0


def test_published_noise_says_what_it_claims():
    training = ThesisTraining(recipe="zcdp", sampling_rate=0.2, steps=50)
    model = classifier(privacy=Privacy(1.0, 1e-4), training=training).fit(*table())
    certificate = model.certificate_
    assert (certificate.claimed_epsilon, certificate.calibration) == (1.0, "published")
    assert certificate.epsilon != pytest.approx(1.0, abs=0.01)
    assert "zCDP composition" in str(certificate)


def test_a_run_with_noise_by_hand_stops_where_the_guarantee_is_used_up():
    model = classifier(steps=None, sampling_rate=0.2, noise_multiplier=8.0).fit(*table())
    assert 1.8 < model.certificate_.epsilon <= 2.0
    steps = model.training_.steps + 1
    more = classifier(steps=steps, sampling_rate=0.2, noise_multiplier=8.0)
    with pytest.raises(ParameterError, match="affordable_steps"):
        more.fit(*table())


def test_settings_of_the_training_reach_the_loop():
    model = classifier(schedule="cosine", examples_in_memory=50, burn_in=0.5)
    assert model._agree([None]).examples_in_memory == 50
    training = model.fit(*table()).training_
    assert (training.schedule, training.burn_in) == ("cosine", 0.5)
    assert training.step_size_at(6) == pytest.approx(0.5 * training.step_size)


def test_many_inputs_of_one_range_are_normalised_row_by_row():
    rows = np.random.default_rng(0).uniform(0, 16, (5, 20))
    alike = classifier(bounds=(0, 16))._inputs(rows)
    torch.testing.assert_close(alike.norm(dim=1), torch.ones(5), atol=1e-3, rtol=0)
    torch.testing.assert_close(alike.sum(1), torch.zeros(5), atol=1e-4, rtol=0)
    apart = classifier(bounds=[(0, 16)] * 20)._inputs(rows)
    torch.testing.assert_close(apart, torch.from_numpy(rows / 8 - 1).float() / 20**0.5)
    few = classifier(bounds=(0, 16))._inputs(rows[:, :4])
    torch.testing.assert_close(few, torch.from_numpy(rows[:, :4] / 8 - 1).float() / 2)


def test_a_bias_takes_a_small_share_of_the_clip():
    network = perceptron(4, 3, rng=np.random.default_rng(0))
    x = torch.tensor([[0.5, 0.5, 0.5, 0.5]])  # of norm one
    network(x)[0, 0].backward()
    weight, bias = network[2].weight.grad.norm(), network[2].bias.grad.norm()
    assert float(weight) == pytest.approx(1.0) and float(bias) == pytest.approx(0.2)


def test_regressors_scale_clip_and_steps_by_the_spread_of_the_response():
    X, _ = table()
    settings = {"hidden": (), "bounds": (-1, 1), "y_bounds": (-2, 2), "rows": 600,
                "privacy": PRIVACY, "training": Training(steps=3)}  # fmt: skip
    one, half = (
        PrivateDropoutRegressor(noise_sd=sd, **settings).fit(X, X[:, 0]).training_
        for sd in (1.0, 0.5)
    )
    assert half.norm == 2.0 * one.norm
    assert half.step_size == pytest.approx(0.25 * one.step_size)


def test_an_interrupted_fit_goes_on(tmp_path):
    ledger = Ledger.open(tmp_path / "ledger.db", epsilon=2.0, delta=1e-5)
    model = classifier(ledger=ledger, checkpoint=tmp_path / "run")
    model.fit(*table())
    again = clone(model).fit(*table())  # all steps are done: nothing is charged or drawn
    np.testing.assert_array_equal(again.result_.final, model.result_.final)
    assert again.result_.steps == 12


def test_any_supported_module_can_be_trained():
    rng = np.random.default_rng(0)
    images = rng.uniform(0, 1, (60, 1, 8, 8))
    labels = rng.integers(0, 3, 60)
    images[np.arange(60), 0, labels] += 1.0
    network = convolutional(1, 8, 3, filters=(2,), rng=rng)
    before = [p.detach().clone() for p in network.parameters()]
    model = PrivateDropoutClassifier(
        module=network, bounds=(0, 2), classes=(0, 1, 2), rows=60, privacy=PRIVACY,
        training=Training(steps=3, clip=(0.5, 0.5), step_size=0.5),
    ).fit(images, labels)  # fmt: skip
    assert model.predict(images).shape == (60,)
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), before, strict=True))
    bad = nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.BatchNorm1d(3))
    with pytest.raises(ParameterError, match="GroupNorm"):
        clone(model).set_params(module=bad).fit(images, labels)


class Large(nn.Module):
    """Public features whose numbers have any size."""

    def forward(self, x):
        return 1e3 * torch.cat([x, x.square(), torch.ones_like(x)], 1)


def test_a_perceptron_sees_any_features_with_norm_one():
    rows = table(40)[0]
    plain = seen_rows(rows, (-1, 1), features=Large(), normalize="none")
    scaled = seen_rows(rows, (-1, 1), features=Large(), normalize="auto")
    centred = seen_rows(rows, (-1, 1), features=Large(), normalize="row")
    assert plain.norm(dim=1).min() > 1e3
    torch.testing.assert_close(scaled, plain / plain.norm(dim=1, keepdim=True))
    torch.testing.assert_close(centred.norm(dim=1), torch.ones(40))
    assert centred.mean(1).abs().max() < 1e-6
    model = classifier(features=Large()).fit(*table())
    assert any("fixed features" in note for note in model.certificate_.assumptions)
    assert model.score(*table(seed=1)) > 0.85


def test_fixed_features_see_one_row_at_a_time():
    features = Scattering()
    images = torch.rand(5, 1, 16, 16)
    torch.testing.assert_close(features(images)[2:3], features(images[2:3]))
    assert (features(images).norm(dim=1) <= 1.0 + 1e-4).all()
    assert torch.isfinite(features(torch.zeros(1, 1, 16, 16))).all()

    class Standardised(nn.Module):
        def forward(self, x):
            return x - x.mean(0)

    with pytest.raises(ParameterError, match="depends on the other examples"):
        classifier(features=Standardised()).fit(*table())


def test_the_regressor_learns_and_its_spread_covers():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (3000, 2))
    y = 5.0 + 2.0 * X[:, 0] + rng.normal(0, 0.2, 3000)
    model = PrivateDropoutRegressor(
        hidden=(), bounds=(-1, 1), y_bounds=(0, 10), rows=3000, noise_sd=0.1,
        training=Training(steps=40), privacy=Privacy(4.0, 1e-5), random_state=0,
    ).fit(X, y)  # fmt: skip
    mean, sd = model.predict(X, return_sd=True)
    assert model.score(X, y) > 0.8
    assert np.mean(np.abs(mean - y) < 3.0 * sd) > 0.9
    with pytest.raises(UnboundedData, match="y_bounds"):
        clone(model).set_params(y_bounds=None).fit(X, y)


def test_epsilon_infinity_and_no_privacy_are_the_same_run():
    X, y = table()
    free = classifier(privacy=None).fit(X, y)
    infinite = classifier(privacy=Privacy(math.inf)).fit(X, y)
    np.testing.assert_array_equal(free.result_.final, infinite.result_.final)
    assert not free.certificate_.is_private


def test_dropout_of_weights_and_layers():
    layer = nn.Linear(2, 2, bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 0.0]]))
    alpha = weight_alpha([[1.0, 2.0], [3.0, 0.0]], 0.5)
    np.testing.assert_allclose(alpha, [[0.25, 0.0625], [0.25 / 9, np.inf]])
    (found,) = layer_dropout(layer, 0.5)
    assert found.alpha == pytest.approx(4 * 0.25 / 14)
    assert found.rate == pytest.approx(found.alpha / (1 + found.alpha))


def test_calibration_error_and_entropy_of_known_cases():
    assert calibration_error([True] * 7 + [False] * 3, [0.7] * 10) == pytest.approx(0.0)
    assert calibration_error([True] * 5 + [False] * 5, [0.9] * 10) == pytest.approx(0.4)
    np.testing.assert_allclose(entropy(np.full((1, 10), 0.1)), math.log(10))


def test_noise_moves_outputs_as_little_in_wide_networks_as_in_narrow_ones():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((50, 20)).astype(np.float32))
    x = x / x.norm(dim=1, keepdim=True)
    moves = []
    for width in (10, 1000):
        network = perceptron(20, 3, (width,), rng=rng)
        with torch.no_grad():
            for p in network.parameters():
                p.add_(torch.from_numpy(rng.standard_normal(p.shape).astype(np.float32)))
            moves.append(float(network(x).std()))
    assert moves[1] < 2.0 * moves[0]


def test_without_torch_tacit_works_and_nn_says_what_to_install():
    code = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch':\n            raise ImportError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "import tacit; tacit.Privacy(1.0)\n"
        "import tacit.networks as networks\n"
        "from tacit.estimators.families import estimator_names, estimator_of\n"
        "print(*(name for name in estimator_names() if name.startswith('network')))\n"
        "for use in (lambda: networks.train, lambda: networks.PrivateDropoutClassifier,\n"
        "            lambda: estimator_of('network-regressor')):\n"
        "    try:\n        use()\n    except ImportError as error:\n        print(error)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, *errors = out.stdout.strip().splitlines()
    assert names == "network-classifier network-regressor"
    assert errors == ["tacit.networks needs the extra 'nn': pip install 'tacit[nn]'"] * 3


def test_two_folders_are_two_runs_whatever_they_are_called(tmp_path):
    ledger = Ledger.memory(epsilon=2.0, delta=1e-4)
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (40, 2)), rng.integers(0, 2, 40)
    for spent, parent in enumerate(("first", "second"), 1):
        model = PrivateDropoutClassifier(
            hidden=(), bounds=(-1, 1), classes=(0, 1), rows=40, ledger=ledger,
            training=Training(steps=3), privacy=Privacy(1.0, 1e-5),
            checkpoint=tmp_path / parent / "run",
        ).fit(x, y)  # fmt: skip
        assert model.result_.steps == 3 and model.result_.lost == 0
        assert ledger.spent.epsilon == spent
