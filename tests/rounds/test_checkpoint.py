"""A run that dies is resumed: not charged twice, not released twice with different noise."""

import os
import random
import signal
import sys

import numpy as np
import pytest

from tacit.errors import RequestRefused, SiteFailure, TacitError
from tacit.mechanisms.base import privatize
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import repeat
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.checkpoint import Checkpoint, Outbox, Remembering
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.run import run
from tacit.rounds.sides import Coordinator, Participant

ROUNDS = 5
MECHANISM = Laplace(1.0, 1.0, (2,))


class Death(BaseException):
    """What kill -9 looks like from inside."""


class Walker(Coordinator):
    """Asks for steps from where it stands, and takes them."""

    def __init__(self, dies_before=None, dies_after=None):
        self.position, self.dies_before, self.dies_after = np.zeros(2), dies_before, dies_after

    @property
    def replies(self):
        return {"step": ArraySpec((2,))}

    def request(self, round):
        if round == self.dies_before:
            raise Death
        return Message(round, {"position": self.position}) if round < ROUNDS else None

    def absorb(self, round, collected):
        self.position = self.position + collected.total["step"]
        if round == self.dies_after:  # the round is complete, but not yet recorded
            raise Death

    def state(self):
        return {"position": self.position}

    def restore(self, state):
        self.position = state["position"]


class Plain(Participant):
    """Steps by a fixed function of the position."""

    def __init__(self, name, pull):
        self.name, self.pull, self.rounds = name, pull, []

    def respond(self, request):
        self.rounds.append(request.round)
        return Message(request.round, {"step": 0.1 * (self.pull - request["position"])})


class Private(Participant):
    """Steps by a private number, with noise through the gate."""

    def __init__(self, name, ledger, run="walk", spare=0):
        self.name, self.noise = name, Noise()
        schedule = repeat(MECHANISM.event, ROUNDS + spare)
        self.reservation = ledger.reserve(schedule, purpose="walk", run=run)

    def respond(self, request):
        step = privatize(MECHANISM, np.ones(2), ledger=self.reservation, rng=self.noise)
        return Message(request.round, {"step": step})


class Recorder(Participant):
    """Notes the bytes that leave a participant; may die before they arrive."""

    def __init__(self, participant, sent, dies_in=None):
        self.name, self.participant = participant.name, participant
        self.sent, self.dies_in = sent, dies_in

    def respond(self, request):
        reply = self.participant.respond(request)
        self.sent.append((self.name, request.round, reply.to_bytes()))
        if request.round == self.dies_in:
            raise Death
        return reply


def plain_sites():
    return [Plain("a", 1.0), Plain("b", -3.0)]


@pytest.fixture
def expected():
    walker = Walker()
    run(walker, plain_sites())
    return walker.position.tobytes()


# -- the coordinator's side -------------------------------------------------------------------


@pytest.mark.parametrize("k", range(ROUNDS))
def test_a_run_that_died_after_k_rounds_resumes_there(tmp_path, expected, k):
    with pytest.raises(Death):
        run(Walker(dies_before=k), plain_sites(), checkpoint=Checkpoint(tmp_path))
    walker, sites = Walker(), plain_sites()
    record = run(walker, sites, checkpoint=Checkpoint(tmp_path))
    assert walker.position.tobytes() == expected
    assert (record.resumed_at, record.rounds) == (k, ROUNDS)
    assert sites[0].rounds == list(range(k, ROUNDS))


def test_a_round_that_was_not_recorded_is_repeated(tmp_path, expected):
    with pytest.raises(Death):
        run(Walker(dies_after=2), plain_sites(), checkpoint=Checkpoint(tmp_path))
    walker, sites = Walker(), plain_sites()
    record = run(walker, sites, checkpoint=Checkpoint(tmp_path))
    assert walker.position.tobytes() == expected
    assert record.resumed_at == 2


def test_a_complete_run_asks_for_nothing_more(tmp_path, expected):
    run(Walker(), plain_sites(), checkpoint=Checkpoint(tmp_path))
    walker, sites = Walker(), plain_sites()
    run(walker, sites, checkpoint=Checkpoint(tmp_path))
    assert walker.position.tobytes() == expected
    assert sites[0].rounds == []


def test_a_run_without_a_record_starts_at_the_beginning(tmp_path):
    assert Checkpoint(tmp_path / "new" / "folder").load() is None


def test_excluded_sites_stay_excluded(tmp_path):
    class Fails(Plain):
        def respond(self, request):
            if request.round == 1:
                raise SiteFailure("down")
            return super().respond(request)

    def sites():
        return [*plain_sites(), Fails("c", 100.0)]

    whole = Walker()
    run(whole, sites(), on_failure="exclude")
    with pytest.raises(Death):
        run(Walker(dies_before=3), sites(), on_failure="exclude", checkpoint=Checkpoint(tmp_path))
    walker, again = Walker(), sites()
    record = run(walker, again, on_failure="exclude", checkpoint=Checkpoint(tmp_path))
    assert again[2].rounds == []
    assert record.sites == ("a", "b")
    assert walker.position.tobytes() == whole.position.tobytes()


def test_a_crash_while_recording_leaves_the_last_complete_record(tmp_path, monkeypatch):
    checkpoint = Checkpoint(tmp_path)
    checkpoint.save(Message(1, {"position": np.zeros(2)}), ("c",))

    def power_cut(*paths):
        raise Death

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, step, power_cut)
            with pytest.raises(Death):
                checkpoint.save(Message(2, {"position": np.ones(2)}), ())
        state, excluded = Checkpoint(tmp_path).load()
        assert (state.round, excluded) == (1, ("c",))


def damaged(content):
    """Yield the content with each byte flipped, and cut short."""
    for position in range(len(content)):
        broken = bytearray(content)
        broken[position] ^= 0x04
        yield bytes(broken)
    for length in range(0, len(content), 7):
        yield content[:length]


def test_a_damaged_record_is_refused(tmp_path):
    Checkpoint(tmp_path).save(Message(3, {"position": np.zeros(2)}), ("site c", "site d"))
    (path,) = tmp_path.iterdir()
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(TacitError):
            Checkpoint(tmp_path).load()


# -- a participant's side ---------------------------------------------------------------------


def test_an_outbox_returns_what_was_put(tmp_path):
    outbox, request = Outbox(tmp_path), Message(3, {"position": np.ones(2)})
    assert outbox.last() is None
    reply = Message(3, {"step": np.array([0.1, np.nan])})
    outbox.put(request, reply, {"left": np.arange(3)})
    digest, found, state = Outbox(tmp_path).last()
    assert digest == request.digest and found.to_bytes() == reply.to_bytes()
    assert state["left"].tolist() == [0, 1, 2]
    outbox.put(Message(4, {}), Message(4, {}), {})
    assert Outbox(tmp_path).rounds() == [3, 4] and Outbox(tmp_path).last()[1].round == 4


def test_nobody_goes_back(tmp_path):
    """An older round is refused, also in the same words, by a live and by a restarted site."""
    requests = [Message(k, {"position": np.full(2, float(k))}) for k in range(3)]
    site = Remembering(Plain("a", 1.0), Outbox(tmp_path))
    for request in requests:
        site.respond(request)
    for one in (site, Remembering(Plain("a", 1.0), Outbox(tmp_path))):
        assert one.respond(requests[2]).round == 2
        for request in requests[:2]:
            with pytest.raises(RequestRefused):
                one.respond(request)


def test_a_process_that_was_overtaken_answers_nothing_more(tmp_path):
    """Two processes of one participant have one history: the second to answer is refused."""
    first, second = (Remembering(Plain("a", 1.0), Outbox(tmp_path)) for _ in range(2))
    first.respond(Message(0, {"position": np.zeros(2)}))
    for stale in (second, first):
        if stale is first:  # a new process goes on from the disk
            third = Remembering(Plain("a", 1.0), Outbox(tmp_path))
            third.respond(Message(1, {"position": np.ones(2)}))
        with pytest.raises(SiteFailure, match="another process of this site"):
            stale.respond(Message(2, {"position": np.ones(2)}))
    assert Outbox(tmp_path).rounds() == [0, 1]


def test_a_participant_goes_on_from_its_own_state(tmp_path):
    """A site that keeps something between rounds is the same after a restart."""

    class Adds(Plain):
        def respond(self, request):
            self.pull = self.pull + 1.0
            return super().respond(request)

        def state(self):
            return {"pull": np.array([self.pull])}

        def restore(self, state):
            self.pull = float(state["pull"][0])

    whole = Walker()
    run(whole, [Adds("a", 0.0)])
    for dies in ({"dies_before": 3}, {"dies_after": 2}):
        folder = tmp_path / str(dies)
        with pytest.raises(Death):
            run(Walker(**dies), [Remembering(Adds("a", 0.0), Outbox(folder / "a"))],
                checkpoint=Checkpoint(folder))  # fmt: skip
        resumed = Walker()
        run(resumed, [Remembering(Adds("a", 0.0), Outbox(folder / "a"))],
            checkpoint=Checkpoint(folder))  # fmt: skip
        np.testing.assert_array_equal(resumed.position, whole.position)


def test_another_request_for_an_answered_round_is_refused(tmp_path):
    class Counts(Plain):
        def respond(self, request):
            assert len(self.rounds) < 1, "asked again"
            return super().respond(request)

    site = Remembering(Counts("a", 1.0), Outbox(tmp_path))
    request = Message(3, {"position": np.ones(2)})
    first = site.respond(request)
    assert site.respond(request).to_bytes() == first.to_bytes()
    others = [
        Message(3, {"position": np.ones(2) * (1 + 1e-15)}),
        Message(3, {"position": np.ones(2, np.float32)}),
        Message(3, {"positions": np.ones(2)}),
        Message(3, {}),
    ]
    for other in others:
        with pytest.raises(SiteFailure, match="round 3 was answered already, to another request"):
            site.respond(other)


def test_a_damaged_reply_is_refused_and_not_drawn_again(tmp_path):
    request = Message(3, {"position": np.ones(2)})
    Outbox(tmp_path).put(request, Message(3, {"step": np.zeros(2)}), {})
    (path,) = tmp_path.iterdir()
    for content in damaged(path.read_bytes()):
        path.write_bytes(content)
        with pytest.raises(SiteFailure):
            Remembering(Plain("a", 1.0), Outbox(tmp_path)).respond(request)


def test_a_reply_is_kept_before_it_is_sent(tmp_path, monkeypatch):
    outbox = Outbox(tmp_path)

    def power_cut(request, reply, state):
        raise Death

    monkeypatch.setattr(outbox, "put", power_cut)
    with pytest.raises(Death):
        Remembering(Plain("a", 1.0), outbox).respond(Message(0, {"position": np.zeros(2)}))


# -- both sides, with noise -------------------------------------------------------------------


def private_run(folder, sent, *, dies_in=None, walker=None, spare=0):
    """Run the walk with two private sites whose ledgers and outboxes are in a folder."""
    walker, sites = walker or Walker(), []
    for name in ("a", "b"):
        ledger = Ledger.open(folder / f"{name}.db", epsilon=1e6)
        private = Remembering(Private(name, ledger, spare=spare), Outbox(folder / name))
        sites.append(Recorder(private, sent, dies_in if name == "b" else None))
    run(walker, sites, checkpoint=Checkpoint(folder / "run"))
    return walker


def replies_by_round(sent):
    """Return (site, round) → the set of different messages that left for it."""
    found = {}
    for name, number, data in sent:
        found.setdefault((name, number), set()).add(data)
    return found


@pytest.mark.parametrize("k", [0, 2, ROUNDS - 1])
def test_a_resumed_round_is_neither_charged_nor_drawn_twice(tmp_path, k):
    sent = []
    with pytest.raises(Death):
        private_run(tmp_path, sent, dies_in=k)
    private_run(tmp_path, sent)
    assert len(sent) == 2 * ROUNDS + 2  # both sites answered round k twice
    assert {len(messages) for messages in replies_by_round(sent).values()} == {1}
    for name in ("a", "b"):
        ledger = Ledger.open(tmp_path / f"{name}.db")
        kinds = [row.kind for row in ledger.rows()]
        assert kinds == ["charge"] + ["claim"] * ROUNDS
        ledger.verify()


def test_a_run_that_died_before_its_record_repeats_its_messages(tmp_path):
    sent = []
    with pytest.raises(Death):
        private_run(tmp_path, sent, walker=Walker(dies_after=3))
    resumed = private_run(tmp_path, sent)
    by_round = replies_by_round(sent)
    assert {len(messages) for messages in by_round.values()} == {1}
    steps = [Message.from_bytes(*messages)["step"] for messages in by_round.values()]
    np.testing.assert_allclose(resumed.position, np.sum(steps, axis=0), rtol=1e-12)


def test_without_an_outbox_a_resumed_round_would_be_drawn_twice(tmp_path):
    """The negative control of the two tests above."""
    ledger, sent = Ledger.open(tmp_path / "a.db", epsilon=1e6), []
    site = Recorder(Private("a", ledger, spare=1), sent, dies_in=2)
    with pytest.raises(Death):
        run(Walker(), [site], checkpoint=Checkpoint(tmp_path / "run"))
    site = Recorder(Private("a", ledger, spare=1), sent)
    run(Walker(), [site], checkpoint=Checkpoint(tmp_path / "run"))
    assert len(replies_by_round(sent)["a", 2]) == 2


def killed_run(folder, log, opcodes):
    """Run in a child that kills itself after so many instructions; return its exit code."""

    class Log(list):
        def append(self, entry):
            name, number, data = entry
            with open(log, "a") as file:
                file.write(f"{name} {number} {data.hex()}\n")

    def trace(frame, event, argument):
        nonlocal opcodes
        frame.f_trace_opcodes = True
        opcodes -= event == "opcode"
        if opcodes == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return trace

    child = os.fork()
    if child == 0:
        try:
            sys.settrace(trace)
            private_run(folder, Log(), spare=100)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("seed", range(5))
def test_a_run_that_is_killed_anywhere_never_sends_two_answers_to_one_request(tmp_path, seed):
    privatize(MECHANISM, np.ones(2), ledger=Ledger.memory(epsilon=9.0), rng=Noise())
    rng, log, deaths = random.Random(seed), tmp_path / "sent", 0
    # later children live longer, so that the run ends however long its code is
    while (code := killed_run(tmp_path, log, rng.randrange(1, 80_000 + 1000 * deaths))) != 0:
        assert code == -signal.SIGKILL
        deaths += 1
    sent = [line.split() for line in log.read_text().splitlines()]
    by_round = replies_by_round([(name, int(number), data) for name, number, data in sent])
    assert set(by_round) == {(name, number) for name in "ab" for number in range(ROUNDS)}
    assert {len(messages) for messages in by_round.values()} == {1}
    for name in ("a", "b"):
        ledger = Ledger.open(tmp_path / f"{name}.db")
        kinds = [row.kind for row in ledger.rows()]
        assert kinds.count("charge") == 1
        assert ROUNDS <= kinds.count("claim") <= ROUNDS + deaths
        ledger.verify()
    assert deaths > 1
