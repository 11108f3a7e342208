"""Posteriors and the choice of statistics over tables, by what is public about their columns."""

import numpy as np
import pandas as pd
import pytest

import tacit as tc
from tacit.errors import ParameterError
from tacit.posterior.numerics.populations.laws import Bernoulli, Exponential
from tacit.posterior.sides import contribution

SMALL = {"chains": 2, "draws": 300, "warmup": 100}
WAIT = tc.number(0, 30)


def posterior(columns, population=None, **more):
    given = {"privacy": tc.Privacy(2, 1e-6), **SMALL, **more}
    return tc.PrivatePosterior(population or Exponential(), "mean", columns=columns, **given)


def table(people=1500, each=2, seed=0):
    rng = np.random.default_rng(seed)
    waits = np.repeat(rng.exponential(3.0, people), each).clip(0, 30)
    return pd.DataFrame({"ward": "A", "id": np.repeat(np.arange(people), each), "wait": waits})


def test_a_number_of_each_person_is_found_by_its_column(tmp_path):
    model = posterior(tc.Columns(wait=WAIT)).fit(table(each=1))
    assert abs(model.mean_[0] - 3.0) < 0.5
    assert model.certificate_.unit == "row"
    back = tc.PrivatePosterior.from_release(model.release(tmp_path / "r"))
    assert back.columns == tc.Columns(wait=WAIT)
    later = table(50, 1, seed=3)
    assert back.infer().score(later) == pytest.approx(model.score(later), abs=0.05)


@pytest.mark.parametrize("more", [{"rows_per_person": 1}, {"per_person": "average"}])
def test_a_person_counts_once_however_many_rows_there_are(more):
    model = posterior(tc.Columns(wait=WAIT, person="id", **more)).fit(table())
    assert model.certificate_.unit == "user" and model.released_.size == 1500
    assert "the number of people, 1500, is public" in model.certificate_.assumptions
    assert abs(model.mean_[0] - 3.0) < 0.5


@pytest.mark.parametrize("more", [{"rows_per_person": 1}, {"per_person": "average"}])
def test_no_person_moves_the_statistic_by_more_than_the_certificate_says(more):
    """Another person instead, with 300 rows at the other end of the range."""
    model = posterior(tc.Columns(wait=WAIT, person="id", **more))
    others = table(40, 1)

    def total(wait):
        evil = pd.DataFrame({"ward": "A", "id": ["evil"] * 300, "wait": [wait] * 300})
        data = pd.concat([others.astype({"id": str}), evil])
        agreement = model._agree([model._facts(data)])
        return agreement, contribution(agreement, model._read(data, agreement)).value()

    agreement, low = total(0.0)
    _, high = total(30.0)
    moved, allowed = float(np.abs(high - low).max()), agreement.mechanism.sensitivity
    assert 0.99 * allowed < moved <= allowed * (1 + 1e-9)


def test_truth_values_are_zeros_and_ones():
    frame = pd.DataFrame({"ill": ["yes", "no", "no", "yes"] * 300})
    model = posterior(tc.Columns(ill=tc.boolean()), Bernoulli()).fit(frame)
    assert abs(model.mean_[0] - 0.5) < 0.1


def test_a_selector_chooses_over_a_table():
    model = tc.StatisticSelector(
        Exponential(), ["mean", "|x|^2"], columns=tc.Columns(wait=WAIT, person="id",
        per_person="average"), parameters=[3.0], privacy=tc.Privacy(4, 1e-5), **SMALL,
    ).fit(table(800))  # fmt: skip
    assert model.certificate_.unit == "user" and abs(model.mean_[0] - 3.0) < 0.6


@pytest.mark.parametrize(
    ("columns", "more", "said"),
    [
        (tc.Columns(wait=WAIT), {"bounds": (0, 1)}, "leave bounds out"),
        (tc.Columns(wait=WAIT, person="id", rows_per_person=3), {}, "per_person='average'"),
        (tc.Columns(wait=WAIT, missing="drop"), {}, "nobody may be left out"),
        (tc.Columns(wait=WAIT, outside="drop"), {}, "nobody may be left out"),
        (tc.Columns(wait=WAIT, age=tc.number(0, 9)), {}, "target="),
        (tc.Columns(wait=tc.category("a", "b")), {}, "must hold numbers, not category"),
        (tc.Columns(wait=WAIT), {"privacy": tc.Privacy(1, 0.0, unit="user")}, "name the person"),
        (tc.Columns(wait=WAIT, person="id", rows_per_person=1),
         {"privacy": tc.Privacy(1, 0.0, unit="row")}, "must be 'user'"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(columns, more, said):
    with pytest.raises(ParameterError, match=said):
        posterior(columns, **more).fit(table(30))


def test_the_stated_number_of_people_must_be_theirs():
    with pytest.raises(ParameterError, match="the 9 people that size states, got 30"):
        posterior(tc.Columns(wait=WAIT), size=9).fit(table(30, 1))


def test_where_a_persons_rows_stand_says_nothing():
    """Somebody else's rows stand elsewhere: in the order of the table all others would move."""
    model = posterior(tc.Columns(wait=WAIT, person="id", rows_per_person=1))
    frame = table(300, 1)
    agreement = model._agree([model._facts(frame)])
    orders = np.array([model._read(frame, agreement) for _ in range(60)])
    np.testing.assert_array_equal(np.sort(orders, axis=1), [np.sort(frame.wait)] * 60)
    assert len({tuple(order) for order in orders}) == 60
    first = (orders[:, :150] == float(frame.wait[0])).sum()  # about half of them
    assert 12 < first < 48
