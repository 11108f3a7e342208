"""One step, one vector: what is agreed on, and what a proposal may state."""

import numpy as np
import pytest

from tacit import Privacy, PrivateLinearRegression
from tacit.errors import ParameterError
from tacit.estimators.coordinator import Asking
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.design import Design

SETTINGS = {"bounds": {"b": [0, 1], "a": [0, 2]}, "y_bounds": [-1, 3], "target": "y"}


def agreement(neighbours=ADD_REMOVE, **more):
    design = Design((0.0,) * 3, (1.0,) * 3, neighbours=neighbours)
    privacy = Privacy(1.0, 1e-6, neighbours=neighbours, trust="site")
    return RegressionAgreement(design, ("b", "a", "y"), privacy, **more)


def test_a_request_holds_nothing_and_a_reply_one_vector():
    found = agreement()
    (step,) = found.steps
    assert not step.asks and set(step.replies) == {"vector"}
    assert Asking(found, 1).request(0).size == 0
    assert set(agreement(REPLACE).steps[0].replies) == {"vector", "rows"}


def test_everything_that_changes_a_release_changes_the_digest():
    one = agreement()
    design = one.design
    others = [
        agreement(REPLACE), agreement(sites=2), agreement(noise="grid"),
        RegressionAgreement(design, ("a", "b", "y"), one.privacy),
        RegressionAgreement(design, one.columns, Privacy(2.0, 1e-6, trust="site")),
        RegressionAgreement(Design((0.0,) * 3, (1.0,) * 3, clip=1.0), one.columns, one.privacy),
    ]  # fmt: skip
    digests = {found.digest for found in (one, *others)}
    assert len(digests) == 1 + len(others)
    assert agreement().digest == one.digest


@pytest.mark.parametrize("design", [
    Design((0.0,) * 15, (1.0,) * 15, neighbours=REPLACE), Design((1.0, 2.0), (3.0, 4.0)),
    Design((0.0,) * 4, (1.0,) * 4, clip=0.3, neighbours=REPLACE),
    Design((0.0,) * 4, (1.0,) * 4, clip=0.3),
    Design((0.0,) * 4, (1.0,) * 4, statistics="Sz", clip=0.7),
], ids=range(5))  # fmt: skip
def test_the_worst_case_reaches_the_sensitivity_or_says_why_not(design):
    names = tuple(f"x{k}" for k in range(len(design.half)))
    found = RegressionAgreement(design, names, Privacy(1.0, 1e-6, neighbours=design.neighbours))
    case, mechanism = found.worst_case(), found.mechanism
    ours, theirs = (design.vector(part.total, mechanism) for part in case)
    share = mechanism.distance(ours, theirs)
    assert share <= 1.0
    assert isinstance(found.steps[0].reach, str) or share > 0.99


def test_a_clip_that_no_row_reaches_says_so():
    far = RegressionAgreement(
        Design((0.0,) * 3, (1.0,) * 3, clip=9.0), ("a", "b", "y"), Privacy(1.0, 1e-6)
    )
    assert "as long as" in far.steps[0].reach


def test_settings_of_a_proposal_become_pairs_in_their_order():
    model, facts = PrivateLinearRegression._proposed(SETTINGS, Privacy(1.0, 1e-6), 3)
    assert facts is None and model.bounds == {"b": (0, 1), "a": (0, 2)}
    found = model._agree([None] * 2)
    assert found.columns == ("b", "a", "y") and found.sites == 2
    assert np.allclose(found.design.half, [0.5, 1.0, 2.0])


@pytest.mark.parametrize("wrong", [
    {"bounds": [[0, 1]]}, {"target": None, "bounds": None}, {"noise": "grid"}, {"average": 2},
    {"calibration": "published"}, {"on_failure": "exclude"},
])  # fmt: skip
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ParameterError):
        PrivateLinearRegression._proposed({**SETTINGS, **wrong}, Privacy(1.0, 1e-6), None)
    without = {name: value for name, value in SETTINGS.items() if name != "target"}
    with pytest.raises(ParameterError, match="target"):
        PrivateLinearRegression._proposed(without, Privacy(1.0, 1e-6), None)
