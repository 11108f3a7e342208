"""Sites that a run went on without: what they keep, and how a resumed run treats them."""

import json
import os

import numpy as np
import pytest

from tacit.errors import SiteFailure
from tacit.federation import wire
from tacit.federation.coordinate import coordinate, run_proposal
from tacit.federation.files import CoordinatorConfig, SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.secure import keys
from tacit.federation.secure.exchange import EXCHANGES
from tacit.federation.service import SiteService
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.checkpoint import Outbox, Remembering
from tacit.rounds.messages import Message

from .support import (
    FACTORIZATION,
    INFERENCE,
    PINNED,
    REGRESSION,
    ROW,
    SITES,
    USER,
    Direct,
    services,
    toml,
)

SECURE = Proposal("factorization", FACTORIZATION, USER, SITES, "run", 2, colluding=0)


class Stop(Exception):
    """Ends a coordinator."""


def restarted(found, site: str) -> None:
    found[site] = SiteService(SiteConfig.read(found[site].config.folder / "site.toml"))


def secrets_made(monkeypatch) -> set[bytes]:
    made: set[bytes] = set()
    for name in ("fresh_key", "fresh_seed"):
        fresh = getattr(keys, name)
        monkeypatch.setattr(keys, name, lambda fresh=fresh: (made.add(s := fresh()), s)[1])
    return made


def files_with(secrets: set[bytes], folder) -> int:
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    return sum(any(secret in found for secret in secrets) for found in contents)


def without_west(at: int):
    """Lose all of West's answers from the n-th on, until the rounds are over."""
    asked = []

    def lost(method, name, request, answer):
        if method == "respond" and name == "West":
            asked.append(1)
            if len(asked) >= at:
                raise TimeoutError
        return answer

    return lost


@pytest.mark.parametrize(
    ("exchange", "restart"), [(1, False), (2, False), (3, True), (4, True), (5, False)]
)
def test_one_time_keys_of_a_site_that_was_left_out_end_with_the_run(
    tmp_path, monkeypatch, exchange, restart
):
    secrets = secrets_made(monkeypatch)
    direct = Direct(services(tmp_path), without_west(5 + exchange))
    held = []

    def look(record):
        held.append(files_with(secrets, tmp_path / "West"))
        if restart and record.rounds == 12:
            restarted(direct.services, "West")

    result = run_proposal(SECURE, direct, partners=PINNED, on_failure="exclude", progress=look)
    assert result.record.sites == SITES[:2]
    # in the middle they stand on its disk, but for an exchange that closed its step
    assert (held[-1] > 0) == (exchange < len(EXCHANGES))
    assert files_with(secrets, tmp_path / "West") == 0
    assert Ledger.open(tmp_path / "West" / "ledger.db").spent.epsilon == 1.0


def test_without_forgetting_they_would_stay(tmp_path, monkeypatch):
    secrets = secrets_made(monkeypatch)
    monkeypatch.setattr(Remembering, "close", lambda self: None)
    direct = Direct(services(tmp_path), without_west(8))
    run_proposal(SECURE, direct, partners=PINNED, on_failure="exclude")
    assert files_with(secrets, tmp_path / "West") > 0


@pytest.mark.parametrize("restart", [False, True])
def test_a_site_that_forgot_confirms_no_other_list(tmp_path, restart):
    """It closes in the middle of a sum that it has confirmed, and is asked for another one."""
    direct = Direct(services(tmp_path), without_west(9))
    asked = {}

    def keep(method, name, request, answer):
        if name == "West":
            asked.setdefault(method, []).append(request)
        return without(method, name, request, answer)

    without, direct.fault = direct.fault, keep
    run_proposal(SECURE, direct, partners=PINNED, on_failure="exclude")
    west = direct.services["West"]
    if restart:
        restarted(direct.services, "West")
        west = direct.services["West"]
        west.call("open", asked["open"][0])
        west.call("begin", asked["begin"][0])
    advertised = wire.read_request(asked["respond"][5], "run")
    place = advertised["place"] + np.array([0, 1, 0])  # another try of the same sum
    again = Message(30, dict(advertised.arrays) | {"place": place}, advertised.step)
    answer = west.call("respond", wire.ask(again, "run"))
    with pytest.raises(SiteFailure):
        wire.read_answer(answer, wire.ask(again, "run"), "run", "West")
    assert "the run is over here" in (west.config.state / "refused.log").read_text()


def test_a_list_that_cannot_be_finished_is_named_whenever_the_run_is_tried_again(tmp_path):
    away = False

    def lost(method, name, request, answer):
        nonlocal away
        asked = direct.calls.count(("respond", name))
        away = away or (method == "respond" and name != "North" and asked == 4)
        if away and name != "North":
            raise TimeoutError
        return answer

    direct = Direct(services(tmp_path), lost)
    how = {"checkpoint": tmp_path / "c", "on_failure": "exclude", "partners": PINNED}
    for _ in range(2):
        with pytest.raises(SiteFailure, match=r"when 2 of them are back, and is lost without"):
            run_proposal(SECURE, direct, **how)
    direct.fault = None
    assert run_proposal(SECURE, direct, **how).record.sites == SITES


def test_a_site_that_died_while_it_erased_its_keys_closes_again(tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def dies(self, round, digest, reply, state):
        if "over" in state:
            raise Killed
        put(self, round, digest, reply, state)

    put, cut = Outbox._put, os.truncate
    direct, how = Direct(services(tmp_path)), {"checkpoint": tmp_path / "c", "partners": PINNED}
    monkeypatch.setattr(Outbox, "_put", dies)
    monkeypatch.setattr("os.truncate", lambda path, size: None)  # only the zeros got to the disk
    with pytest.raises(Killed):
        run_proposal(SECURE, direct, **how)
    monkeypatch.setattr(Outbox, "_put", put)
    monkeypatch.setattr("os.truncate", cut)
    restarted(direct.services, "North")
    assert set(run_proposal(SECURE, direct, **how).certificates) == set(SITES)


def test_a_site_that_never_began_is_not_charged_by_being_told_of_the_end(tmp_path):
    def lost(method, name, request, answer):
        if name == "West" and method == "begin" and direct.calls.count((method, name)) == 1:
            raise TimeoutError
        return answer

    found = services(tmp_path)
    begin = found["West"]._begin
    found["West"]._begin = lambda request: (_ for _ in ()).throw(OSError())
    direct = Direct(found, lost)
    plain = Proposal("factorization", FACTORIZATION, USER, SITES, "run")
    result = run_proposal(plain, direct, on_failure="exclude")
    found["West"]._begin = begin
    assert result.record.sites == SITES[:2]
    assert Ledger.open(tmp_path / "West" / "ledger.db").spent.epsilon == 0.0
    assert direct.calls[-1] == ("close", "West")


def test_a_site_that_missed_the_beginning_stays_out_of_a_resumed_run(tmp_path):
    """It would be asked for a round in the middle, and could never answer it."""
    away = True

    def lost(method, name, request, answer):
        if name == "West" and away:
            raise TimeoutError
        return answer

    def stop(record):
        if record.rounds == 2:
            raise Stop

    plain = Proposal("factorization", FACTORIZATION, USER, SITES, "run")
    direct = Direct(services(tmp_path), lost)
    with pytest.raises(Stop):
        run_proposal(plain, direct, checkpoint=tmp_path / "c", on_failure="exclude", progress=stop)
    away = False
    result = run_proposal(plain, direct, checkpoint=tmp_path / "c")
    assert result.record.sites == SITES[:2] and result.record.resumed_at == 2


def test_a_coordinator_that_died_while_it_wrote_its_release_writes_it_again(tmp_path, monkeypatch):
    step = {"name": "r", "computation": "regression", "privacy": ROW,
            "settings": REGRESSION | INFERENCE}  # fmt: skip
    path = tmp_path / "coordinator.toml"
    path.write_text(f"sites = {toml(SITES)}\ncomputation = {toml([step])}\n")
    config, direct = CoordinatorConfig.read(path), Direct(services(tmp_path))
    real = json.dumps

    def dies(content, **options):
        if isinstance(content, dict) and "not_released" in content:
            raise Stop
        return real(content, **options)

    monkeypatch.setattr("tacit.federation.coordinate.json.dumps", dies)
    with pytest.raises(Stop):
        coordinate(config, direct)
    monkeypatch.undo()
    assert (tmp_path / "result" / "r" / "release" / "manifest.json").exists()
    coordinate(config, direct)
    record = json.loads((tmp_path / "result" / "r" / "record.json").read_text())
    assert record["not_released"] is None
