"""A process that dies between a ledger's claim and its outbox has let nothing out: it goes on."""

import json

import numpy as np
import pytest

from tacit.errors import BudgetExceeded, LedgerCorrupt, SiteFailure
from tacit.estimators.gate import Gate
from tacit.federation.computation import Computation
from tacit.federation.coordinate import run_proposal
from tacit.federation.files import SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.service import SiteService
from tacit.privacy.events import GaussianDpEvent, NoOpDpEvent, event_from_json, repeat
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.reservation import Reservation, claimed_positions
from tacit.rounds.checkpoint import Outbox, Remembering
from tacit.rounds.messages import Message
from tacit.rounds.sides import Participant

from .support import FACTORIZATION, PINNED, SITES, USER, Direct, services

EVENT = GaussianDpEvent(8.0)
FIRST, SECOND, THIRD = (letter * 32 for letter in "abc")


class Killed(BaseException):
    """Ends a call as a killed process would: nothing is caught, nothing cleaned up."""


def proposal(secure: bool) -> Proposal:
    threshold = 2 if secure else None
    return Proposal("factorization", FACTORIZATION, USER, SITES, "run", threshold, colluding=0)


def restarted(found, site: str) -> None:
    found[site] = SiteService(SiteConfig.read(found[site].config.folder / "site.toml"))


def claims(ledger: Ledger):
    rows = [row for row in ledger.rows() if row.kind == "claim"]
    return [(claimed_positions(r.purpose), event_from_json(json.loads(r.event))) for r in rows]


@pytest.mark.parametrize("point", ["after the claim", "before the outbox"])
@pytest.mark.parametrize("secure", [False, True])
def test_a_site_that_is_killed_before_its_reply_is_kept_goes_on(
    tmp_path, monkeypatch, point, secure
):
    found, deaths = services(tmp_path), []
    claim, put = Reservation.claim_step, Outbox.put

    def dies(place):
        if "North" in str(place) and len(deaths) < 2:  # twice at the same step
            deaths.append(place)
            raise Killed

    def claiming(self, wanted):
        claim(self, wanted)
        if point == "after the claim" and wanted.position == 1:
            dies(self.ledger._store.path)

    def putting(self, request, reply, state):
        drew = "masked" in reply.arrays if secure else True
        if point == "before the outbox" and drew and request.round >= 1:
            dies(self.folder)
        put(self, request, reply, state)

    monkeypatch.setattr(Reservation, "claim_step", claiming)
    monkeypatch.setattr(Outbox, "put", putting)
    result = None
    while result is None:
        try:
            result = run_proposal(
                proposal(secure), Direct(found), checkpoint=tmp_path / "c", partners=PINNED
            )
        except Killed:
            restarted(found, "North")
    assert len(deaths) == 2
    assert result.record.sites == SITES
    ledger = Ledger.open(tmp_path / "North" / "ledger.db")
    assert ledger.spent.epsilon == 1.0
    assert [row.kind for row in ledger.rows()].count("charge") == 1
    made = claims(ledger)
    paid = [(c.step, c.first) for c, event in made if not isinstance(event, NoOpDpEvent)]
    assert len(paid) == len(set(paid)) == 4
    again = [c for c, event in made if isinstance(event, NoOpDpEvent)]
    assert len(again) == 2 and again[0].name == again[1].after
    ledger.verify()


def test_what_left_is_what_the_result_was_made_of(tmp_path, monkeypatch):
    """The noise of the try that died is nowhere in it."""
    found, drawn, deaths = services(tmp_path), [], []
    put = Outbox.put

    def putting(self, request, reply, state):
        if "North" in str(self.folder) and request.round == 0:
            drawn.append(next(iter(reply.arrays.values())).tobytes())
            if not deaths:
                deaths.append(1)
                raise Killed
        put(self, request, reply, state)

    monkeypatch.setattr(Outbox, "put", putting)
    seen = []

    def look(method, name, request, answer):
        if method == "respond" and name == "North":
            seen.append(answer)
        return answer

    with pytest.raises(Killed):
        run_proposal(proposal(False), Direct(found, look), checkpoint=tmp_path / "c")
    restarted(found, "North")
    run_proposal(proposal(False), Direct(found, look), checkpoint=tmp_path / "c")
    assert len(drawn) == 2 and drawn[0] != drawn[1]
    assert drawn[1] in seen[0] and not any(drawn[0] in answer for answer in seen)


def test_a_draw_that_failed_is_not_tried_until_it_succeeds(tmp_path, monkeypatch):
    """What was drawn may be why: another noise under the same claim would have another law."""
    found = services(tmp_path)
    release, failed = Gate.release, []

    def failing(self, *arguments):
        released = release(self, *arguments)
        if not failed:
            failed.append(1)
            raise ValueError
        return released

    monkeypatch.setattr(Gate, "release", failing)
    with pytest.raises(SiteFailure):
        run_proposal(proposal(False), Direct(found), checkpoint=tmp_path / "c")
    restarted(found, "North")
    with pytest.raises(SiteFailure):
        run_proposal(proposal(False), Direct(found), checkpoint=tmp_path / "c")
    assert len(claims(Ledger.open(tmp_path / "North" / "ledger.db"))) == 1


def test_a_state_of_another_day_draws_nothing_again(tmp_path, monkeypatch):
    """An outbox without the try that claimed a step cannot say that nothing of it left."""
    found, put = services(tmp_path), Outbox.put

    def putting(self, request, reply, state):
        if "North" in str(self.folder) and request.round == 2:
            raise Killed
        put(self, request, reply, state)

    monkeypatch.setattr(Outbox, "put", putting)
    with pytest.raises(Killed):
        run_proposal(proposal(False), Direct(found), checkpoint=tmp_path / "c")
    monkeypatch.undo()
    (tries,) = (tmp_path / "North").rglob("tries")
    tries.unlink()
    restarted(found, "North")
    with pytest.raises(SiteFailure):
        run_proposal(proposal(False), Direct(found), checkpoint=tmp_path / "c")
    log = (tmp_path / "North" / "state" / "refused.log").read_text()
    assert "was drawn before" in log


def test_a_network_draws_a_step_again_instead_of_skipping_it(tmp_path, monkeypatch):
    settings = {
        "inputs": ["a", "b"], "target": "kind", "hidden": [2], "bounds": [[-1, 1], [0, 2]],
        "classes": ["no", "yes"], "rows": 40, "training": {"steps": 3, "samples": 1},
    }  # fmt: skip
    privacy = {"epsilon": 4.0, "delta": 1e-5, "trust": "site"}
    computation = Computation(Proposal("network-classifier", settings, privacy, ("east",), "run"))
    ledger = Ledger.open(tmp_path / "l.db", epsilon=4.0, delta=1e-4)
    rows = np.random.default_rng(0).uniform(0, 1, (40, 2))
    table = {"a": rows[:, 0], "b": rows[:, 1], "kind": np.where(rows[:, 0] > 0.5, "yes", "no")}
    asking = computation.coordinator()

    def site():
        side = computation.site("east", {"t": {"table": table}}, ledger)
        return Remembering(side.participant, Outbox(tmp_path / "outbox"))

    put, one = Outbox.put, site()
    monkeypatch.setattr(Outbox, "put", lambda *a: (_ for _ in ()).throw(Killed()))
    with pytest.raises(Killed):
        one.respond(asking.request(0))
    monkeypatch.setattr(Outbox, "put", put)
    assert site().respond(asking.request(0))["drawn"].tolist() == [1]


# -- the ledger's part ----------------------------------------------------------------------------


def reserved(ledger: Ledger) -> Reservation:
    return ledger.reserve(repeat(EVENT, 3), purpose="test", delta=1e-6, run="run", claim=2)


def test_a_claim_is_repeated_by_name_and_for_nothing():
    ledger = Ledger.memory(epsilon=9.0, delta=1e-5)
    held = reserved(ledger)
    held.at("round", 0, 3, EVENT, name=FIRST).claim()
    for lost in ((), (SECOND,)):
        with pytest.raises(BudgetExceeded, match="drawn before"):
            held.at("round", 0, 3, EVENT, name=THIRD, lost=lost).claim()
    held.at("round", 0, 3, EVENT, name=SECOND, lost=(FIRST,)).claim()
    with pytest.raises(BudgetExceeded):  # that try is not the last one any more
        held.at("round", 0, 3, EVENT, name=THIRD, lost=(FIRST,)).claim()
    assert held.claimed("round") == 1 and held.left == {EVENT: 2}
    assert reserved(ledger).claimed("round") == 1
    ledger.verify()


def test_a_ledger_that_claims_a_step_again_without_its_last_try_is_corrupt():
    for purpose in (f"round[0:1] try {THIRD} after {SECOND}", f"round[0:1] try {THIRD}"):
        ledger = Ledger.memory(epsilon=9.0, delta=1e-5)
        held = reserved(ledger)
        held.at("round", 0, 3, EVENT, name=FIRST).claim()
        ledger._claim(held, lambda text=purpose: (text, NoOpDpEvent()))
        with pytest.raises(LedgerCorrupt, match="claimed before"):
            ledger.verify()


def test_a_claim_that_is_repeated_and_paid_for_is_corrupt():
    ledger = Ledger.memory(epsilon=9.0, delta=1e-5)
    held = reserved(ledger)
    held.at("round", 0, 3, EVENT, name=FIRST).claim()
    ledger._claim(held, lambda: (f"round[0:1] try {SECOND} after {FIRST}", EVENT))
    with pytest.raises(LedgerCorrupt, match="claimed before"):
        ledger.verify()


def test_only_what_draws_is_named_on_disk(tmp_path):
    class Public(Participant):
        name = "A"

        def respond(self, request):
            return Message(request.round, {"x": np.zeros(1)})

    Remembering(Public(), Outbox(tmp_path)).respond(Message(0))
    assert not (tmp_path / "tries").exists()
