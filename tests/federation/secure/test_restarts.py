"""Secure sums whose parties come and go: nothing but bytes and disks lasts between two messages.

Every site is made anew from its disk before each request, and the coordinator after each exchange,
so that a restart lies between any two of them.
"""

import itertools

import numpy as np
import pytest

from tacit.errors import SiteFailure
from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.federation.secure.exchange import EXCHANGES
from tacit.federation.secure.site import SecureParticipant
from tacit.federation.secure.terms import Terms
from tacit.rounds.checkpoint import Checkpoint, Outbox, Remembering
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.run import drive
from tacit.rounds.sides import Coordinator, Participant
from tests.federation.identities import identity, pinned

NAMES = tuple("ABCDEF")
THRESHOLD = 4
VALUES = {name: 10**k for k, name in enumerate(NAMES)}
ROUNDS = 2


class Sums(Coordinator):
    """Asks twice, the second time with the first sum."""

    replies = {"x": ArraySpec((2,), "int64")}  # noqa: RUF012

    def __init__(self):
        self.found = []

    def request(self, round):
        last = self.found[-1] if self.found else 0
        return Message(round, {"last": np.array([last])}) if round < ROUNDS else None

    def absorb(self, round, collected):
        assert collected.by_site is None
        self.found.append(int(collected.total["x"][0]))

    def state(self):
        return {"found": np.array(self.found, np.int64)}

    def restore(self, state):
        self.found = [int(n) for n in state["found"]]


class Draws(Participant):
    """Adds fresh noise, and notes how often it drew; the noise adds up to nothing."""

    drawn: dict = {}  # noqa: RUF012

    def __init__(self, name):
        self.name = name

    def respond(self, request):
        key = self.name, request.round
        self.drawn[key] = self.drawn.get(key, 0) + 1
        fresh = int(np.random.default_rng().integers(10**9))
        return Message(request.round, {"x": np.array([VALUES[self.name], fresh])})


class Net:
    """Carries bytes to sites that are made anew from their disks.

    Parameters
    ----------
    folder
        Where disks are.
    lost
        Site → (round of the computation, exchange) from which on it does not answer.
    late
        Whether it does what it is asked for, and its answer is lost.
    """

    def __init__(self, folder, lost=None, late=False):
        self.folder, self.lost, self.late = folder, dict(lost or {}), late
        self.terms = Terms(b"run", NAMES, THRESHOLD, 1)
        self.answers = {}
        Draws.drawn = {}

    def site(self, name):
        side = SecureParticipant(Draws(name), self.terms, identity(name), pinned(NAMES))
        return Remembering(side, Outbox(self.folder / name))

    def ask(self, request, names):
        for name in names:
            own = request if isinstance(request, Message) else request[name]
            number, _, exchange = (int(n) for n in own["place"])
            gone = (number, exchange) >= self.lost.get(name, (99, 0))
            if gone and not self.late:
                yield name, ConnectionError()
                continue
            try:
                sent = own.to_bytes()
                answer = self.site(name).respond(Message.from_bytes(sent)).to_bytes()
            except SiteFailure as error:
                yield name, error
                continue
            assert self.answers.setdefault((name, sent), answer) == answer
            yield name, ConnectionError() if gone else Message.from_bytes(answer)

    def run(self, on_failure="exclude", minimum=THRESHOLD):
        """Run to the end, the coordinator dying after every exchange; return the sums."""

        class Dies(Exception):
            pass

        def die(record):
            raise Dies

        while True:
            inner = Sums()
            coordinator = SecureCoordinator(inner, self.terms, pinned(NAMES))
            try:
                drive(coordinator, NAMES, self.ask, on_failure=on_failure, minimum=minimum,
                      checkpoint=Checkpoint(self.folder / "c"), progress=die)  # fmt: skip
            except Dies:
                continue
            return inner.found


def sum_and_exchange(sent):
    number, _, exchange = Message.from_bytes(sent)["place"]
    return number, EXCHANGES[exchange]


def total(names):
    return sum(VALUES[name] for name in names)


def test_restarts_everywhere_change_nothing(tmp_path):
    net = Net(tmp_path)
    assert net.run() == [total(NAMES)] * ROUNDS
    assert set(Draws.drawn.values()) == {1}


PLACES = list(itertools.combinations_with_replacement(range(len(EXCHANGES)), 2))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("places", PLACES)
def test_sites_that_are_lost_at_any_exchange_are_survived(tmp_path, places, late):
    """B and E are lost for good at two exchanges of the first sum."""
    net = Net(tmp_path, {"B": (0, places[0]), "E": (0, places[1])}, late)
    arrived = [
        name for name in NAMES
        if name not in "BE" or places["BE".index(name)] > EXCHANGES.index("mask")
    ]  # fmt: skip
    left = [name for name in NAMES if name not in "BE"]
    assert net.run() == [total(arrived), total(left)]
    assert set(Draws.drawn.values()) <= {1}


@pytest.mark.parametrize("exchange", range(len(EXCHANGES)))
@pytest.mark.parametrize("late", [False, True])
def test_one_too_many_ends_the_run_and_it_goes_on_when_they_are_back(tmp_path, exchange, late):
    net = Net(tmp_path, dict.fromkeys("BCE", (1, exchange)), late)
    for _ in range(2):
        with pytest.raises(SiteFailure, match=r"3 sites are left in round .*, 4 are needed"):
            net.run()
    shown = [name for name, sent in net.answers if sum_and_exchange(sent) == (1, "unmask")]
    assert len(shown) <= (6 if late else 3) * (exchange == 4)
    net.lost = {}
    assert net.run() == [total(NAMES)] * ROUNDS
    assert set(Draws.drawn.values()) == {1}


def secrets_left(folder):
    """Run over all sites; return how many secrets there were, and how many files hold one."""
    net, secrets = Net(folder), set()

    def noted(request, names):
        for name, answer in ask(request, names):
            member = net.site(name).participant._member
            if member is not None:
                secrets.update(bytes(s) for s in (member.sealing, member.masking, member.seed))
                secrets.update(bytes(held)[:66] for held in member.held.values())
            yield name, answer

    ask, net.ask = net.ask, noted
    assert net.run() == [total(NAMES)] * ROUNDS
    contents = [path.read_bytes() for name in NAMES for path in (folder / name).iterdir()]
    assert contents
    return len(secrets), sum(any(secret in found for secret in secrets) for found in contents)


def test_after_a_step_nothing_secret_of_it_is_on_disk(tmp_path):
    """Keys, seeds and held shares stand on a site's disk in the middle, and nowhere in the end."""
    count = ROUNDS * len(NAMES) * (3 + len(NAMES))
    assert secrets_left(tmp_path) == (count, 0)


def test_without_erasing_secrets_stay_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(Outbox, "erase_earlier", lambda self: None)
    monkeypatch.setattr(Outbox, "erase", lambda self, round: None)
    assert secrets_left(tmp_path)[1] >= ROUNDS * len(NAMES)


def test_what_a_crash_left_behind_is_erased_at_the_next_start(tmp_path, monkeypatch):
    net = Net(tmp_path, {"A": (0, 3)})
    monkeypatch.setattr(Outbox, "erase_earlier", lambda self: None)
    monkeypatch.setattr(Outbox, "erase", lambda self, round: None)
    assert net.run() == [total(NAMES), total(NAMES) - VALUES["A"]]
    (tmp_path / "A" / "round-000009.tacit.new").write_bytes(b"half of a state")
    monkeypatch.undo()
    files = sorted((tmp_path / "A").iterdir())
    before = {path: path.stat().st_size for path in files}
    net.site("A")
    after = {path: path.stat().st_size for path in files if path.exists()}
    assert [path.name for path in before if path not in after] == ["round-000009.tacit.new"]
    assert [after[path] < before[path] for path in after] == [True, True, False]


def test_a_resumed_run_asks_what_was_asked_before_and_computes_nothing_again(tmp_path):
    """Its coordinator would ask for something else each time, and dies in the first exchange."""

    class Fickle(Sums):
        def request(self, round):
            drawn = np.random.default_rng().integers(10**9, size=1)
            return Message(round, {"last": drawn}) if round < ROUNDS else None

    class Dies(Exception):
        pass

    net = Net(tmp_path)

    def asked(request, names):
        yield from net.ask(request, names[:2])
        raise Dies

    def go(ask):
        inner = Fickle()
        coordinator = SecureCoordinator(inner, net.terms, pinned(NAMES))
        drive(coordinator, NAMES, ask, checkpoint=Checkpoint(tmp_path / "c"))
        return inner.found

    with pytest.raises(Dies):
        go(asked)
    assert go(net.ask) == [total(NAMES)] * ROUNDS


def test_two_processes_of_one_site_confirm_one_list(tmp_path):
    """A process that was left behind cannot sign what the other one did not."""
    net = Net(tmp_path)
    kept = {}

    def stale(request, names):
        first = request if isinstance(request, Message) else request[names[0]]
        number, _, exchange = (int(n) for n in first["place"])
        if (number, EXCHANGES[exchange]) == (0, "confirm"):
            kept["A"] = net.site("A")
            yield from ask(request, names)
            marks = net.terms.marks(NAMES[:5])
            other = Message(99, {"place": first["place"], "group": marks})
            with pytest.raises(SiteFailure, match="another process of this site"):
                kept["A"].respond(other)
        else:
            yield from ask(request, names)

    ask, net.ask = net.ask, stale
    assert net.run() == [total(NAMES)] * ROUNDS
    assert kept
