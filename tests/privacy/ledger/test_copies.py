"""A copy of an estimator never holds a copy of the ledger, and a fork shares no connection."""

import copy
import os
import pickle
import signal
import threading

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

from tacit.errors import BudgetExceeded, LedgerError
from tacit.estimators.site import Site
from tacit.privacy.events import LaplaceDpEvent, repeat
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.summary.estimator import PrivateSummary

HUNDREDTH = LaplaceDpEvent(100.0)  # ε = 0.01


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    if request.param == "memory":
        return Ledger.memory(epsilon=4.0, delta=1e-5)
    return Ledger.open(tmp_path / "a.db", epsilon=4.0, delta=1e-5)


@pytest.fixture
def summary(ledger):
    privacy = Privacy(epsilon=1.0, delta=1e-6)
    return PrivateSummary({"x": (0, 1)}, privacy=privacy, ledger=ledger, noise="grid")


def table(rows=90):
    return np.random.default_rng(0).random((rows, 1))


# -- copies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copied_ledger_is_the_same_ledger(ledger, duplicate):
    assert duplicate(ledger) is ledger
    assert duplicate({"site": [ledger]})["site"][0] is ledger


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, clone])
def test_a_copied_estimator_shares_the_ledger(summary, ledger, duplicate):
    twin = duplicate(summary)
    assert twin is not summary
    assert twin.ledger is ledger
    summary.fit(table())
    twin.fit(table())
    assert ledger.remaining.epsilon == 2.0


def test_a_copied_site_shares_the_ledger(ledger):
    assert copy.deepcopy(Site("North", {"x": [1.0]}, ledger)).ledger is ledger


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_ledger_in_memory_cannot_be_pickled(protocol):
    ledger = Ledger.memory(epsilon=4.0, delta=1e-5)
    summary = PrivateSummary({"x": (0, 1)}, privacy=Privacy(1.0, 1e-6), ledger=ledger)
    for thing in (ledger, summary, Site("North", None, ledger)):
        with pytest.raises(TypeError, match="a ledger in memory cannot be pickled: a copy would"):
            pickle.dumps(thing, protocol)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickled_ledger_is_its_path_and_charges_the_same_file(tmp_path, monkeypatch, protocol):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger.open("a.db", epsilon=0.025, key="own.key", mark="own.mark")
    sent = pickle.dumps(ledger, protocol)
    ledger.charge(HUNDREDTH, purpose="after it was sent")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    twin = pickle.loads(sent)
    assert twin.id == ledger.id and twin.remaining == ledger.remaining
    twin.charge(HUNDREDTH, purpose="by the other process")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BudgetExceeded):
        ledger.charge(HUNDREDTH, purpose="what a copy would have allowed")
    assert ledger.verify() == 2
    assert not list((tmp_path / "elsewhere").iterdir())


def test_a_pickled_ledger_is_refused_where_the_file_is_not_that_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Ledger.open(tmp_path / name / "x.db", epsilon=1.0)
    sent = pickle.dumps(Ledger.open(tmp_path / "a" / "x.db"))
    (tmp_path / "a").rename(tmp_path / "moved")
    with pytest.raises(LedgerError, match="there is no ledger"):
        pickle.loads(sent)
    (tmp_path / "b").rename(tmp_path / "a")
    with pytest.raises(LedgerError, match="is another ledger"):
        pickle.loads(sent)


def test_a_ledger_whose_mark_is_a_function_cannot_be_pickled(tmp_path):
    ledger = Ledger.open(tmp_path / "a.db", epsilon=1.0, mark=lambda *told: None)
    with pytest.raises(TypeError, match="whose mark is a function cannot be pickled"):
        pickle.dumps(ledger)


def test_a_reservation_is_neither_copied_nor_pickled(ledger):
    reservation = ledger.reserve(repeat(HUNDREDTH, 3), purpose="run")
    assert copy.deepcopy(reservation) is reservation
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(reservation)


def test_cross_validation_charges_one_ledger_for_every_fit(summary, ledger):
    scores = cross_val_score(summary, table(), cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    assert [row.kind for row in ledger.rows()].count("charge") == 3
    assert ledger.remaining.epsilon == 1.0
    ledger.verify()


def test_cross_validation_stops_at_the_ceiling(summary, ledger):
    with pytest.raises(BudgetExceeded):
        cross_val_score(summary, table(), cv=5, error_score="raise")
    assert ledger.remaining.epsilon == 0.0


# -- forks ------------------------------------------------------------------------------------

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def in_child(work, patience=60):
    """Run ``work`` in a forked child that is ended if it hangs; return its id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(patience)
            work()
            code = 0
        except LedgerError:
            code = 3
        except BudgetExceeded:
            code = 4
        finally:
            os._exit(code)
    return child


def outcome(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_forked_children_charge_through_connections_of_their_own(tmp_path):
    ledger = Ledger.open(tmp_path / "a.db", epsilon=4.0)
    ledger.charge(HUNDREDTH, purpose="before")

    def work():
        for _ in range(25):
            ledger.charge(HUNDREDTH, purpose=f"{os.getpid()}")

    children = [in_child(work) for _ in range(4)]
    work()
    assert [outcome(child) for child in children] == [0] * 4
    assert ledger.verify() == 1 + 5 * 25
    assert len({row.purpose for row in ledger.rows()}) == 6
    assert ledger.remaining.epsilon == 2.74


def test_a_child_that_ends_leaves_its_parents_connection_alone(tmp_path):
    ledger = Ledger.open(tmp_path / "a.db", epsilon=4.0)
    for _ in range(5):
        assert outcome(in_child(lambda: ledger.remaining)) == 0
        ledger.charge(HUNDREDTH, purpose="parent")
    assert ledger.verify() == 5


def test_a_reservation_is_refused_in_a_forked_child(tmp_path):
    ledger = Ledger.open(tmp_path / "a.db", epsilon=4.0)
    reservation = ledger.reserve(repeat(HUNDREDTH, 3), purpose="run", claim=3)
    reservation.claim(HUNDREDTH)  # two further steps are claimed, in this process only
    assert outcome(in_child(lambda: reservation.claim(HUNDREDTH))) == 3
    assert reservation.left == {HUNDREDTH: 2}


def test_a_named_step_is_refused_in_a_forked_child(tmp_path):
    """What a process claimed in one block it draws itself: its child would draw it once more."""
    ledger = Ledger.open(tmp_path / "a.db", epsilon=4.0)
    reservation = ledger.reserve(repeat(HUNDREDTH, 3), purpose="run", claim=3)
    reservation.at("rows", 0, 3, HUNDREDTH).claim()  # two further positions are claimed with it
    second = reservation.at("rows", 1, 3, HUNDREDTH)
    assert outcome(in_child(second.claim)) == 3
    second.claim()


def test_a_ledger_in_memory_is_not_spent_twice_through_a_fork():
    ledger = Ledger.memory(epsilon=0.01)
    child = outcome(in_child(lambda: ledger.charge(HUNDREDTH, purpose="child")))
    assert child in (3, 4)  # refused
    ledger.charge(HUNDREDTH, purpose="parent")


@pytest.mark.parametrize("what", ["charge", "remaining", "reserve"])
def test_a_child_does_not_wait_for_a_thread_that_it_does_not_have(tmp_path, what):
    ledger = Ledger.open(tmp_path / "a.db", epsilon=4.0)
    work = {
        "charge": lambda: ledger.charge(HUNDREDTH, purpose="x"),
        "remaining": lambda: ledger.remaining,
        "reserve": lambda: ledger.reserve(HUNDREDTH, purpose="x", run="r").left,
    }[what]
    held, done = threading.Event(), threading.Event()

    def hold():
        with ledger._store._lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        child = in_child(work, patience=10)
    finally:
        done.set()
        thread.join()
    assert outcome(child) == 0
