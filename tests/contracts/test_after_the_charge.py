"""Whatever fails after the charge, of every estimator: what was released is there, and says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tacit.estimators.afterwards import Paid, concluded
from tacit.estimators.coordinator import Asking
from tacit.estimators.fit import Outcome
from tests.contracts.test_charge_last import SETTINGS, ledger_for, paid

HIDDEN = "a number of somebody's"


def failing(*given: Any, **more: Any) -> Any:
    raise np.linalg.LinAlgError(HIDDEN)


def holds(found: Paid, ledger: Any) -> None:
    assert ledger.counter > 1 and found.certificates
    assert any(len(arrays) for arrays in found.heard)
    assert all(np.asarray(a).dtype != object for one in found.heard for a in one.values())
    for certificate in found.certificates.values():
        certificate.verify(ledger)


@pytest.mark.parametrize("subject", SETTINGS[::2])
def test_a_coordinator_that_fails_on_what_it_heard_loses_nothing(
    subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numerics of another library fail as soon as anything that was drawn comes in."""
    going_on, run = Asking._next, []

    def fails(self: Asking, heard: Any) -> None:
        if heard is not None:
            failing()
        going_on(self, heard)

    ledger = ledger_for(subject)
    with monkeypatch.context() as patch:
        patch.setattr("tacit.estimators.fit.rehearse", run.append)
        patch.setattr(Asking, "_next", fails)
        with pytest.raises(np.linalg.LinAlgError) as caught:
            paid(subject, ledger)
    found = getattr(caught.value, "paid", None)
    if found is None:  # what came in was public: nothing was drawn yet
        assert run[0].open_rounds
    else:
        holds(found, ledger)


SOME = [one for one in SETTINGS[::2] if one.values[0].name.startswith(("post", "stat", "summ"))]


@pytest.mark.parametrize("subject", SOME)
def test_an_estimator_that_makes_nothing_of_it_keeps_it(
    subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = ledger_for(subject)
    outcome: Outcome = paid(subject, ledger)
    model = subject.build(**subject.settings[0])
    with monkeypatch.context() as patch:
        patch.setattr(type(model), "_conclude", failing)
        with pytest.raises(np.linalg.LinAlgError) as caught:
            concluded(model, outcome)
    assert "paid_" in "".join(caught.value.__notes__)
    holds(model.paid_, ledger)
    assert model.certificates_ == dict(outcome.certificates)
    assert HIDDEN not in str(vars(model))  # its words may be about data
    assert "Nothing could be made of" in str(model.summary())
