"""A ledger under concurrent processes, and under kill -9 between any two instructions."""

import multiprocessing
import os
import random
import signal
import sys

import pytest

from tacit.errors import BudgetExceeded
from tacit.mechanisms.base import privatize
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import LaplaceDpEvent, repeat
from tacit.privacy.ledger.ledger import Ledger

HUNDREDTH = LaplaceDpEvent(100.0)  # ε = 0.01
MECHANISM = Laplace(1.0, 1.0)
PROCESSES = 8

# -- several processes ------------------------------------------------------------------------

_barrier = None


def _remember(barrier):
    global _barrier
    _barrier = barrier


def _charge_many(path, who):
    """Charge a hundred times; return the purposes that were admitted."""
    ledger, done = Ledger.open(path), []
    _barrier.wait()
    for index in range(100):
        try:
            ledger.charge(HUNDREDTH, purpose=f"{who}-{index}")
            done.append(f"{who}-{index}")
        except BudgetExceeded:
            pass
    return done


def _open_and_charge(path, who):
    _barrier.wait()
    ledger = Ledger.open(path, epsilon=5.0, delta=1e-6)
    ledger.charge(HUNDREDTH, purpose=who)
    return ledger.id


def _draw_from_run(path, who):
    """Take up the run and draw until it is exhausted; return how often."""
    ledger = Ledger.open(path)
    _barrier.wait()
    reservation, drawn = ledger.reserve(repeat(HUNDREDTH, 40), purpose=who, run="r"), 0
    try:
        while True:
            reservation.claim(HUNDREDTH)
            drawn += 1
    except BudgetExceeded:
        return drawn


@pytest.fixture(scope="module")
def everybody():
    """Return a function that runs a worker in eight processes at once."""
    context = multiprocessing.get_context("fork")  # of a process that holds none of the ledgers
    pool = context.Pool(PROCESSES, _remember, (context.Barrier(PROCESSES),))

    def run(worker, path):
        # the barrier inside each worker makes every process take exactly one task
        tasks = [(str(path), f"process {index}") for index in range(PROCESSES)]
        return pool.starmap(worker, tasks, chunksize=1)

    yield run
    pool.close()
    pool.join()


def test_concurrent_charges_stop_exactly_at_the_ceiling(everybody, tmp_path):
    path = tmp_path / "a.db"
    Ledger.open(path, epsilon=5.0)  # admits 500
    done = everybody(_charge_many, path)
    admitted = [purpose for part in done for purpose in part]
    ledger = Ledger.open(path)
    rows = [row.purpose for row in ledger.rows()]
    assert len(admitted) == 500
    assert sorted(rows) == sorted(admitted)  # none lost
    assert len(set(rows)) == 500  # none double
    assert ledger.verify() == 500
    assert ledger.remaining.epsilon == 0.0


def test_a_race_to_create_a_ledger_leaves_one(everybody, tmp_path):
    for attempt in range(10):
        path = tmp_path / f"{attempt}.db"
        identities = everybody(_open_and_charge, path)
        assert len(set(identities)) == 1
        assert Ledger.open(path).verify() == PROCESSES
    left = {file.name for file in tmp_path.iterdir()}
    assert not [name for name in left if name.endswith(".new")]


def test_processes_that_take_up_one_run_at_once_share_its_steps(everybody, tmp_path):
    ledger = Ledger.open(tmp_path / "a.db", epsilon=5.0)
    drawn = everybody(_draw_from_run, tmp_path / "a.db")
    assert ledger.spent.epsilon == 0.4
    assert sum(drawn) == 40
    assert ledger.verify() == 41


# -- kill -9 ----------------------------------------------------------------------------------

pytestmark = pytest.mark.filterwarnings(
    "ignore:This process .* is multi-threaded:DeprecationWarning"
)


def _release(ledger, noise, written):
    """Release one number and tell the world."""
    privatize(MECHANISM, 0.0, ledger=ledger, rng=noise)
    os.write(written, b".")


def _release_then_charge(ledger, noise, written):
    """Do it the wrong way round: the world learns before the ledger does."""
    MECHANISM.draw(0.0, noise)
    os.write(written, b".")
    ledger.charge(MECHANISM.event, purpose="too late")


def _releases_for_ever(path, written, release=_release):
    ledger, noise = Ledger.open(path, epsilon=1e6), Noise()
    while True:
        release(ledger, noise, written)


def _die_after(opcodes):
    """Kill this process with SIGKILL after so many Python instructions."""

    def trace(frame, event, argument):
        nonlocal opcodes
        frame.f_trace_opcodes = True
        if event == "opcode":
            opcodes -= 1
            if opcodes == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return trace

    sys.settrace(trace)


def _fork(work, *arguments, opcodes=None):
    """Start ``work(*arguments, write end)`` in a forked child; return its id and the read end."""
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            if opcodes is not None:
                _die_after(opcodes)
            work(*arguments, written)
        finally:
            os._exit(0 if sys.exc_info()[0] is None else 1)
    os.close(written)
    return child, read


def _end(child, read, already=0):
    """Wait for a child; return how many bytes it wrote, and its exit code."""
    count = already
    while chunk := os.read(read, 4096):
        count += len(chunk)
    os.close(read)
    return count, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _killed_by_itself(path, rng, release=_release):
    opcodes = rng.randrange(1, 45_000)  # opening and a handful of releases
    count, code = _end(*_fork(lambda w: _releases_for_ever(path, w, release), opcodes=opcodes))
    assert code == -signal.SIGKILL
    return count


def _killed_by_its_parent(path, rng, release=_release):
    child, read = _fork(lambda w: _releases_for_ever(path, w, release))
    wanted, got = rng.randrange(6), 0
    while got < wanted:
        got += len(os.read(read, 1))
    for _ in range(rng.randrange(20_000)):  # some way into the next release
        pass
    os.kill(child, signal.SIGKILL)
    count, code = _end(child, read, got)
    assert code == -signal.SIGKILL
    return count


KILLS = {"itself": _killed_by_itself, "parent": _killed_by_its_parent}


@pytest.fixture(scope="module", autouse=True)
def _warm():
    """Compile and load everything once, so that children only charge, draw and die."""
    privatize(MECHANISM, 0.0, ledger=Ledger.memory(epsilon=10.0), rng=Noise())


@pytest.mark.parametrize("by", list(KILLS))
def test_no_release_is_forgotten_by_one_ledger_that_is_killed_again_and_again(by, tmp_path):
    path, rng = tmp_path / "a.db", random.Random(f"one {by}")
    before = Ledger.open(path, epsilon=1e6).counter
    for _ in range(50):
        released = KILLS[by](path, rng)
        rows = Ledger.open(path).verify()
        assert released <= rows - before <= released + 1  # at most the one it died in
        before = rows
    assert before > 50


@pytest.mark.parametrize("by", list(KILLS))
def test_no_release_is_forgotten_by_a_new_ledger(by, tmp_path):
    rng, some = random.Random(f"fresh {by}"), 0
    for attempt in range(50):
        path = tmp_path / f"{attempt}.db"
        released = KILLS[by](path, rng)
        ledger = Ledger.open(path, epsilon=1e6)  # the child may have died before creating it
        assert released <= ledger.verify() <= released + 1
        some += released > 0
    assert some > 10


@pytest.mark.parametrize("by", list(KILLS))
def test_the_kills_would_catch_a_charge_after_the_draw(by, tmp_path):
    path, rng, caught = tmp_path / "a.db", random.Random(f"wrong {by}"), 0
    before = Ledger.open(path, epsilon=1e6).counter
    for _ in range(25):
        released = KILLS[by](path, rng, _release_then_charge)
        rows = Ledger.open(path).verify()
        caught += rows - before < released
        before = rows
    assert caught > 0


STEPS = 12


def _finish_run(path, claim, written):
    """Take up the run and draw what is left of it."""
    ledger, noise = Ledger.open(path), Noise()
    schedule = repeat(MECHANISM.event, STEPS)
    reservation = ledger.reserve(schedule, purpose="run", run="r", claim=claim)
    while reservation.left:
        _release(reservation, noise, written)


@pytest.mark.parametrize("claim", [1, 4])
def test_a_run_that_is_killed_and_resumed_never_draws_more_than_it_reserved(claim, tmp_path):
    rng, deaths = random.Random(claim), 0
    for attempt in range(8):
        path, drawn, code = tmp_path / f"{attempt}.db", 0, None
        Ledger.open(path, epsilon=1e6)
        while code != 0:
            # later children live longer, so that the run ends however long its code is
            opcodes = rng.randrange(1, 90_000 + 1000 * deaths)
            work = lambda written, path=path: _finish_run(path, claim, written)  # noqa: E731
            released, code = _end(*_fork(work, opcodes=opcodes))
            assert code in (0, -signal.SIGKILL)
            drawn, deaths = drawn + released, deaths + (code != 0)
            assert drawn <= STEPS
        ledger = Ledger.open(path)
        ledger.verify()
        assert ledger.spent.epsilon == pytest.approx(STEPS * 1.0, rel=1e-4)  # charged once
    assert deaths > 8
