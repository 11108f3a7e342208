"""Networks over tables by what is public about their columns."""

import numpy as np
import pandas as pd
import pytest

import tacit as tc
from tacit.errors import ParameterError
from tacit.estimators.agreement import Asked
from tacit.estimators.gate import Gate
from tacit.mechanisms.noise import Noise

nn = pytest.importorskip("tacit.networks")
rows_of = pytest.importorskip("tacit.networks.sides").rows_of

COLUMNS = {
    "age": tc.number(20, 90), "sex": tc.category("f", "m"), "treated": tc.boolean(),
    "seen": tc.date("2020-01-01", "2026-12-31"), "ill": tc.category("no", "yes"),
    "dose": tc.number(0, 6),
}  # fmt: skip


def table(rows=1500, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "seen": pd.to_datetime("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, rows), "D"),
        "treated": rng.choice(["yes", "no"], rows), "sex": rng.choice(["f", "m"], rows),
        "age": rng.uniform(20, 90, rows),
    })  # fmt: skip
    frame["ill"] = np.where(frame.age + 25 * (frame.sex == "m") > 67, "yes", "no")
    frame["dose"] = 1 + frame.age / 30 + (frame.sex == "m")
    return frame


def columns(*but, **more):
    return tc.Columns({n: k for n, k in COLUMNS.items() if n not in but}, **more)


def classifier(stated, **more):
    given = {"rows": 1500, "privacy": tc.Privacy(8, 1e-5), "target": "ill", **more}
    return nn.PrivateDropoutClassifier((), columns=stated, **given)


def test_a_classifier_takes_kinds_and_gives_labels(tmp_path):
    frame = table()
    model = classifier(columns("dose")).fit(frame)
    assert list(model.classes_) == ["no", "yes"]
    assert list(model.feature_names_in_) == ["age", "sex", "treated", "seen"]
    assert model.score(frame) > 0.9
    assert model.score(frame.drop(columns="ill"), frame.ill) == model.score(frame)
    assert set(model.predict(frame)) == {"no", "yes"}
    assert model.calibration_error(frame, None) < 0.5
    back = nn.PrivateDropoutClassifier.from_release(model.release(tmp_path / "r"))
    assert back.columns == model.columns and list(back.classes_) == ["no", "yes"]
    np.testing.assert_allclose(back.predict_proba(frame), model.predict_proba(frame))


def test_a_regressor_explains_a_number_in_its_own_units(tmp_path):
    frame = table()
    model = nn.PrivateDropoutRegressor(
        (), columns=columns("ill", target="dose"), rows=1500, privacy=tc.Privacy(8, 1e-5)
    ).fit(frame)
    assert model.score(frame) > 0.8
    assert model.score(frame, frame.dose) == model.score(frame)
    back = nn.PrivateDropoutRegressor.from_release(model.release(tmp_path / "r"))
    np.testing.assert_allclose(back.predict(frame), model.predict(frame))


def test_no_rows_have_no_predictions():
    model = classifier(columns("dose"), privacy=None).fit(table(50))
    assert model.predict(table(50)[:0]).shape == (0,)


def test_a_truth_value_is_explained_as_one():
    frame = table().assign(ill=lambda f: f.ill == "yes")
    stated = tc.Columns(age=COLUMNS["age"], sex=COLUMNS["sex"], ill=tc.boolean())
    model = classifier(stated).fit(frame)
    assert model.classes_.dtype == bool and model.score(frame) > 0.9


def test_labels_are_judged_one_by_one_whatever_their_type():
    """Labels 0 and 1 read from a file are text: an accuracy of zero would be silently wrong."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (600, 2))
    y = (X[:, 0] > 0).astype(int)
    model = nn.PrivateDropoutClassifier((), bounds=(-1, 1), classes=(0, 1), rows=600).fit(X, y)
    texts = [str(label) for label in y]
    assert model.score(X, texts) == model.score(X, y) > 0.9
    assert model.calibration_error(X, texts) == model.calibration_error(X, y)
    with pytest.raises(ParameterError, match="row 2: '2'"):
        model.score(X[:2], ["1", "2"])


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: classifier(columns("dose"), target=None), "target must be one of the columns"),
        (lambda: classifier(columns("ill"), target="dose"), "must be a category or a truth value"),
        (lambda: classifier(columns("dose"), classes=("a", "b")), "leave classes out"),
        (lambda: classifier(columns("dose"), bounds=(0, 1)), "leave bounds out"),
        (lambda: classifier(columns("dose", person="id", per_person="average")),
         "an average of labels is no label"),
        (lambda: classifier(columns("dose"), privacy=tc.Privacy(1, 1e-5, unit="user")),
         "name the person"),
        (lambda: nn.PrivateDropoutRegressor(columns=columns("dose"), target="ill", rows=10),
         "must be a number, not a category"),
        (lambda: nn.PrivateDropoutRegressor(target="dose", bounds=(0, 1), y_bounds=(0, 1)),
         "target goes with columns"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(make, said):
    with pytest.raises(ParameterError, match=said):
        make().fit(table(50))


# -- people with several rows --------------------------------------------------------------------


def summed(model, agreement, data, weights):
    """Return the sum of all people's gradients as it comes to the gate."""
    side = agreement.holder("here", model._read(data, agreement), Gate(None, Noise("grid")), None)
    step, (shard,) = agreement.step("step"), side.shards
    everybody = np.arange(side.units(shard))
    asked = Asked(step.name, "", {"weights": weights.astype(np.float32)}, {})
    return side.units(shard), side.contribute(step, asked, {}, shard, everybody).value()


@pytest.mark.parametrize("hidden", [(), (4,)])
def test_no_person_moves_a_step_by_more_than_the_certificate_says(hidden):
    """An attacker brings 300 rows with the largest gradients; three of them count."""
    stated = tc.Columns(
        age=COLUMNS["age"], sex=COLUMNS["sex"], ill=COLUMNS["ill"], person="id", rows_per_person=3
    )
    model = nn.PrivateDropoutClassifier(
        hidden, columns=stated, target="ill", rows=60, privacy=tc.Privacy(1, 1e-5),
        training=nn.Training(steps=5, sampling_rate=0.5, clip=0.05),
    )  # fmt: skip
    agreement = model._agree([model._facts(None)])
    allowed = 3 * 0.05
    assert agreement.dynamics.unit_norm == pytest.approx(allowed)
    rng = np.random.default_rng(2)
    others = table(40)[["age", "sex", "ill"]].assign(id=np.arange(40).astype(str))
    weights = rng.normal(size=agreement.size)
    count, base = summed(model, agreement, others, weights)
    assert count == 40
    furthest = 0.0
    for age, sex, ill in [(90, "m", "no"), (20, "f", "yes"), (90, "m", "yes"), (20, "m", "no")]:
        evil = pd.DataFrame({"age": [age] * 300, "sex": sex, "ill": ill, "id": "evil"})
        count, found = summed(model, agreement, pd.concat([others, evil]), weights)
        assert count == 41
        furthest = max(furthest, float(np.linalg.norm(found - base)))
    assert furthest <= allowed
    assert furthest > 0.95 * allowed  # the attack has teeth


def test_people_are_sampled_not_rows():
    """A person's rows are all in a sample or all out of it."""
    stated = tc.Columns(
        age=COLUMNS["age"], ill=COLUMNS["ill"], person="id", rows_per_person=4, target="ill"
    )
    model = nn.PrivateDropoutClassifier((), columns=stated, rows=80, privacy=tc.Privacy(1, 1e-5))
    agreement = model._agree([model._facts(None)])
    frame = table(80)[["age", "ill"]].assign(id=np.tile(np.arange(20), 4))
    held = model._read(frame, agreement)
    assert len(held.starts) == 21 and held.starts[-1] == 80
    seen = held.inputs[:, 0].numpy()
    found = {tuple(np.sort(seen[rows_of(held.starts, np.array([k]))])) for k in range(20)}
    ages = (2 * (frame.age - 20) / 70 - 1).astype(np.float32)
    wanted = {tuple(np.sort(ages[frame.id == k])) for k in range(20)}
    np.testing.assert_allclose(sorted(found), sorted(wanted), atol=1e-6)


def test_the_unit_is_the_person_and_the_price_is_what_was_asked():
    stated = columns("dose", person="id", rows_per_person=2)
    frame = table().assign(id=np.arange(1500) // 2)
    model = classifier(stated).fit(frame)
    certificate = model.certificate_
    assert certificate.unit == "user" and certificate.verify().epsilon <= 8.0
    assert "at most 2 rows of one person count" in certificate.assumptions
    assert any("which users were sampled" in note for note in certificate.assumptions)
    assert model.score(frame) > 0.8
