"""Mixtures over tables by what is public about their columns."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import tacit as tc
from tacit._core.rng import WordStream
from tacit.data import rows as home
from tacit.errors import ParameterError
from tacit.moments.numerics.sums import FINE, entry_weights

COLUMNS = {"age": tc.number(20, 90), "dose": tc.number(0, 5)}


def table(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 2, rows)
    age = np.where(kind, 35.0, 75.0) + rng.normal(0, 4, rows)
    dose = np.where(kind, 3.5, 4.0) + rng.normal(0, 4 / 14, rows)  # a half-range is 35 and 2.5
    return pd.DataFrame({"dose": dose.clip(0, 5), "age": age.clip(20, 90)})


def test_means_and_spreads_come_in_the_callers_units_under_the_callers_names():
    model = tc.GaussianMixture(
        2, columns=tc.Columns(COLUMNS), privacy=tc.Privacy(50, 1e-6), random_state=0
    ).fit(table())
    assert model.columns_ == ("age", "dose")
    found = model.means_[np.argsort(model.means_[:, 0])]
    np.testing.assert_allclose(found[:, 0], [35, 75], atol=2)
    np.testing.assert_allclose(found[:, 1], [3.5, 4.0], atol=0.2)
    np.testing.assert_allclose(model.sd_, [4, 4 / 14], rtol=0.3)


def test_a_release_knows_its_columns(tmp_path):
    columns = tc.Columns({**COLUMNS, "sex": tc.category("f", "m", "x")})
    rng = np.random.default_rng(1)
    frame = table().assign(sex=rng.choice(["f", "m", "x"], 4000))
    model = tc.GaussianMixture(2, columns=columns, privacy=tc.Privacy(90, 1e-6)).fit(frame)
    assert model.columns_ == ("age", "dose", "sex=m", "sex=x")
    back = tc.GaussianMixture.from_release(model.release(tmp_path / "r"))
    assert back.columns == columns and back.columns_ == model.columns_
    np.testing.assert_allclose(back.predict_proba(frame), model.predict_proba(frame))
    assert back.score(frame) == pytest.approx(model.score(frame))


def test_a_density_is_one_of_the_callers_own_units():
    """It integrates to one over the plane of ages and doses."""
    model = tc.GaussianMixture(2, columns=tc.Columns(COLUMNS), random_state=0).fit(table())
    age, dose = np.meshgrid(np.linspace(0, 110, 221), np.linspace(-2, 7, 181))
    grid = pd.DataFrame({"dose": dose.ravel(), "age": age.ravel()})
    joint = logsumexp(model._log_joint(grid), axis=1)
    offset = joint.mean() - model.score(grid)  # what a score takes off all of them
    assert np.exp(joint - offset).sum() * 0.5 * 0.05 == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"columns": tc.Columns(COLUMNS), "centre": [1.0, 2.0]}, "a centre goes by names"),
        ({"columns": tc.Columns(COLUMNS), "centre": {"pulse": 1.0}}, "centre names 'pulse'"),
        ({"columns": tc.Columns(COLUMNS), "centre": {"age": 7.0}}, "centre"),
        ({"radius": 1.0, "centre": {"age": 30.0}}, "goes with columns"),
        ({"columns": tc.Columns(COLUMNS), "features": 2}, "leave features out"),
        ({"columns": tc.Columns(note=tc.text(["a"]))}, "is text, which a mixture does not read"),
        ({"columns": tc.Columns(COLUMNS), "privacy": tc.Privacy(1, 1e-6, unit="user")},
         "name the person in columns"),
        ({"columns": tc.Columns(COLUMNS, missing="drop"),
          "privacy": tc.Privacy(1, 1e-6, neighbours="replace-one")}, "none may be left out"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(settings, said):
    with pytest.raises(ParameterError, match=said):
        tc.GaussianMixture(2, **settings).fit(table(50))


def test_clusters_opposite_each_other_are_told_apart_from_another_centre(tmp_path):
    rng = np.random.default_rng(2)
    kind = rng.integers(0, 2, 4000)
    age = np.where(kind, 35.0, 75.0) + rng.normal(0, 3, 4000)
    dose = np.where(kind, 3.6, 1.4) + rng.normal(0, 0.2, 4000)
    frame = pd.DataFrame({"age": age.clip(20, 90), "dose": dose.clip(0, 5)})
    model = tc.GaussianMixture(
        2, columns=tc.Columns(COLUMNS), centre={"dose": 0.0}, privacy=tc.Privacy(90, 1e-6)
    ).fit(frame)
    order = np.argsort(model.means_[:, 0])
    np.testing.assert_allclose(model.means_[order], [[35, 3.6], [75, 1.4]], atol=2)
    back = tc.GaussianMixture.from_release(model.release(tmp_path / "r"))
    np.testing.assert_allclose(back.predict_proba(frame), model.predict_proba(frame))


# -- people with several rows --------------------------------------------------------------------


def contributions(model, agreement, data):
    """Return both sums as they come to the gate, with the same choice among people's rows."""
    fixed = home.WordStream
    home.WordStream = lambda: WordStream(7)
    try:
        moments = agreement.moments(model._read(data, agreement))
    finally:
        home.WordStream = fixed
    upper = np.triu(moments._second * 2.0**moments.exponent)
    second = upper + upper.T - np.diag(np.diag(upper))
    basis = np.eye(moments.features)
    third = moments.third(basis).astype(float) * 2.0**-FINE * entry_weights(moments.features)
    return second, third


@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
@pytest.mark.parametrize("more", [{"rows_per_person": 3}, {"per_person": "average"}])
def test_no_person_moves_the_moments_by_more_than_the_certificate_says(more, neighbours):
    """An attacker brings 300 rows, as far out as rows can be; instead of another one, or not."""
    columns = tc.Columns(COLUMNS, person="id", **more)
    model = tc.GaussianMixture(
        2, columns=columns, privacy=tc.Privacy(1, 1e-6, neighbours=neighbours)
    )
    agreement = model._agree([None])
    rng = np.random.default_rng(1)
    others = pd.DataFrame({
        "id": np.repeat(np.arange(20), 2).astype(str), "age": rng.uniform(20, 90, 40),
        "dose": rng.uniform(0, 5, 40),
    })  # fmt: skip

    def with_person(age, dose):
        rows = {"id": ["evil"] * 300, "age": [age] * 300, "dose": [dose] * 300}
        return pd.concat([others, pd.DataFrame(rows)])

    other = others if neighbours == "add-remove-one" else with_person(20, 0)
    base = contributions(model, agreement, other)
    furthest = [0.0, 0.0]
    for age, dose in [(90, 5), (20, 5), (90, 0), (55, 5), (90, 2.5), (80, 4)]:
        found = contributions(model, agreement, with_person(age, dose))
        for k in (0, 1):
            furthest[k] = max(furthest[k], float(np.linalg.norm(found[k] - base[k])))
    for reached, allowed, share in zip(
        furthest, (agreement.second_sensitivity, agreement.third_sensitivity), (0.7, 0.9),
        strict=True,
    ):  # fmt: skip
        assert reached <= allowed * (1 + 1e-9)
        assert reached > share * allowed  # the attack has teeth


def test_noise_grows_with_the_rows_of_a_person_and_the_certificate_says_so():
    found = []
    for k in (1, 4):
        columns = tc.Columns(COLUMNS, person="id", rows_per_person=k, outside="clip")
        model = tc.GaussianMixture(2, columns=columns, privacy=tc.Privacy(40, 1e-6))
        found.append(model._agree([None]).mechanisms[0].scale)
        frame = table().assign(id=np.arange(4000) // 4)
        model.fit(frame)
        assert model.certificate_.unit == "user" and model.certificate_.verify().epsilon <= 40
        assert f"at most {k} rows of one person count" in model.certificate_.assumptions
    assert found[1] == pytest.approx(4 * found[0], rel=1e-6)
