"""Random faults of sites and coordinator: nothing wrong accepted, charged twice or released anew.

Three sites, each a process with files and a ledger of its own, run a private factorization
of four rounds, half of them under secure aggregation. Each trial has one fault at a random
call: a site killed, paused, slow, restarted or lying (NaN, wrong shape, replayed message, wrong
round, unknown key), the coordinator killed, or all of them at once (a job that dies). The run is
then resumed until it is complete. Bars, over all trials: no wrong result is accepted (the
same rounds, replayed from what the sites really sent, give the same factors), every ledger holds
exactly one charge, no request was ever answered with two different messages, and no call lasts
longer than its timeout.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import signal
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments._federation_sites import CONTEXT, Processes
from experiments._network_cut import allowed, run_with_cut
from experiments.runner import Outcome
from tacit.errors import SiteFailure, TacitError
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.coordinate import Caller, run_proposal
from tacit.federation.files import SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.secure import keys
from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds import run as inprocess
from tacit.rounds.checkpoint import Outbox
from tacit.rounds.messages import Message
from tacit.rounds.run import drive
from tacit.rounds.sides import Participant

SITES = ("A", "B", "C")
KINDS = ("killed", "killed late", "paused", "slow", "restarted", "nan", "shape", "replay", "round",
         "key", "coordinator", "everything")  # fmt: skip
LIES = ("nan", "shape", "replay", "round", "key", "value")
SETTINGS = {
    "model": {"ratings": "user:k item:k"}, "rank": 2, "bounds": [1.0, 5.0], "method": "sgld",
    "options": {"rounds": 4}, "entities": {"item": 6},
}  # fmt: skip
PRIVACY = {"epsilon": 1.0, "delta": 1e-6, "unit": "user", "trust": "site"}
IDENTITIES = {site: keys.fresh_identity() for site in SITES}
PINNED = {site: keys.identity_public(key) for site, key in IDENTITIES.items()}
TIMEOUT = 10.0  # seconds a call may take; a paused site costs that much


class CoordinatorKilled(Exception):
    """Ends a run as a killed coordinator would: nothing is cleaned up."""


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    CONTEXT.set_forkserver_preload(["tacit.federation.service", "pandas"])
    rng = np.random.default_rng(0)
    trials, bad = (10 if quick else 100), dict.fromkeys(
        ("wrong result", "charge lost or doubled", "released anew", "longer than the timeout",
         "not completed"), 0
    )  # fmt: skip
    order = [KINDS[k % len(KINDS)] for k in range(trials)]
    for number, kind in enumerate(rng.permutation(order)):
        with tempfile.TemporaryDirectory() as place:
            row = trial(Path(place), str(kind), number, rng)
        for name in bad:
            bad[name] += bool(row[name])
        outcome.add(row)
    with (
        tempfile.TemporaryDirectory() as place
    ):  # a lie that nobody can notice, but for the replay
        control = trial(Path(place), "value", 0, np.random.default_rng(1))
    outcome.add(control)
    if not quick:
        network_cuts(outcome)
    found = control["wrong result"] or control["not completed"]
    outcome.check("a changed number is noticed by the replay", str(found), "True", found)
    for name, count in bad.items():
        outcome.check(f"trials of {trials} with: {name}", count, "0", count == 0)
    return outcome


def network_cuts(outcome: Outcome) -> None:
    """Cut a site's network in a real federation: for less, and for more than a call may take."""
    if not allowed():
        outcome.add({"fault": "network cut: this machine makes no network namespaces"})
        return
    rounds = 60
    step = {
        "name": "cut", "computation": "factorization", "privacy": PRIVACY, "seed": 3,
        "settings": SETTINGS | {"options": {"rounds": rounds}},
    }  # fmt: skip
    text = f"sites = {toml(SITES)}\ntimeout = 8.0\nretries = 3\ncomputation = {toml([step])}\n"
    for seconds in (0.0, 3.0, 20.0):
        with tempfile.TemporaryDirectory() as place:
            result, taken = run_with_cut(
                Path(place), SITES, lambda folder, site: write_site(folder, site, rounds), text,
                site="B", after=10, seconds=seconds,
            )  # fmt: skip
            homes = {site: Path(place, "federation", "sites", site) for site in SITES}
            spent = [Ledger.open(home / "ledger.db").spent.epsilon for home in homes.values()]
            right = result is not None and sent_by(homes, result)
        once = all(s == 1.0 for s in spent)
        outcome.add({"fault": f"network cut for {seconds:g} s", "site": "B", "secure": False,
                     "seconds": taken, "not completed": result is None,
                     "wrong result": result is not None and not right,
                     "charge lost or doubled": not once})  # fmt: skip
        good = right and once
        outcome.check(f"network cut for {seconds:g} s: completed, right, charged once", str(good),
                      "True", good)  # fmt: skip


class Kept(Participant):
    """A site that can only repeat what it has sent."""

    def __init__(self, name: str, outbox: Outbox) -> None:
        self.name, self.outbox = name, outbox

    def respond(self, request: Message) -> Message:
        """Answer as it did; refuse what it was never asked."""
        digest, reply, _ = self.outbox.read(request.round)
        if digest != request.digest:
            raise SiteFailure(f"round {request.round} was asked for in other words")
        return reply


def sent_by(homes: dict[str, Path], result) -> bool:
    """Whether the messages in the sites' outboxes, run again in one process, give a result."""
    sites, proposals = [], set()
    for site, home in homes.items():
        (folder,) = [path.parent for path in home.glob("state/*/outbox")]
        proposals.add((folder / "proposal.json").read_text(encoding="utf-8"))
        sites.append(Kept(site, Outbox(folder / "outbox")))
    (text,) = proposals
    computation = Computation(Proposal.from_json(text))
    coordinator = computation.coordinator()
    try:
        inprocess.run(coordinator, sites)
    except TacitError:
        return False
    again = computation.shared(coordinator)
    return set(again) == set(result) and all(np.array_equal(again[n], result[n]) for n in again)


def toml(value) -> str:
    """Return a value in TOML's inline form."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}" = {toml(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def write_site(folder: Path, site: str, rounds: int = 4) -> Path:
    rng = np.random.default_rng(ord(site))
    user, item = np.nonzero(rng.random((10, 6)) < 0.6)
    folder.mkdir(exist_ok=True)
    rows = [f"u{u},{i},{rng.integers(1, 6)}" for u, i in zip(user, item, strict=True)]
    (folder / "ratings.csv").write_text("\n".join(["user,item,rating", *rows]) + "\n")
    (folder / "identity.key").write_text(IDENTITIES[site].hex())
    pinned = toml({name: key.hex() for name, key in PINNED.items()})
    (folder / "site.toml").write_text(
        f'name = "{site}"\nidentity = "identity.key"\npartners = {pinned}\n'
        'ledger = {file = "ledger.db", epsilon = 4.0, delta = 1e-5}\n'
        'data = {ratings = {file = "ratings.csv", value = "rating"}}\n'
        '[[allow]]\ncomputation = "factorization"\nepsilon = 1.0\ndelta = 1e-6\nunit = "user"\n'
        f"rounds = {rounds}\nseeded = true\ncolluding = 0\n[allow.settings]\n"
        'model = {ratings = "user:k item:k"}\nrank = 2\nbounds = [1, 5]\nmethod = "sgld"\n'
        f"options = {{rounds = {rounds}}}\nentities = {{item = 6}}\n"
    )
    SiteConfig.read(folder / "site.toml").create_ledger()
    return folder / "site.toml"


def trial(place: Path, kind: str, number: int, rng: np.random.Generator) -> dict:
    """Run once with one fault, resume until complete, and look at everything."""
    secure = bool(number % 2)
    # the seed makes the coordinator's side repeatable; sites' noise is checked by its bytes
    proposal = Proposal("factorization", SETTINGS, PRIVACY, SITES, f"run {number}",
                        2 if secure else None, seed=number, colluding=0)  # fmt: skip
    sites = Processes({site: write_site(place / site, site) for site in SITES})
    at, site = int(rng.integers(1, 21 if secure else 5)), str(rng.choice(SITES))
    when = float(rng.uniform(0.0, 0.05))
    fault = Fault(sites, kind, site, at, when, proposal.run)
    exclude = kind not in ("coordinator", "everything") and bool(rng.integers(2))
    longest, attempts, result = 0.0, 0, None
    try:
        while result is None and attempts < 5:
            attempts += 1
            started = time.perf_counter()
            try:
                result = run_proposal(
                    proposal, sites, timeout=TIMEOUT, checkpoint=place / "c", minimum=2,
                    on_failure="exclude" if exclude or attempts == 3 else "stop",
                    progress=fault.progress, partners=PINNED,
                )  # fmt: skip
            except (TacitError, CoordinatorKilled):
                fault.repair()
            longest = max(longest, time.perf_counter() - started)
    finally:
        sites.close()
    spent = [Ledger.open(place / s / "ledger.db").spent.epsilon for s in SITES]
    return {
        "fault": kind, "site": site, "at call": at, "secure": secure,
        "policy": "exclude" if exclude else "stop", "attempts": attempts,
        "left": 0 if result is None else len(result.record.sites),
        "seconds": longest,
        "wrong result": result is not None and not replayed(proposal, sites, result),
        "charge lost or doubled": any(s != 1.0 for s in spent),
        "released anew": any(
            len(releases(found, request, proposal.run, s)) > 1
            for (s, request), found in sites.answers.items()
        ),
        # opening, beginning, rounds and closing: only one call meets the fault
        "longer than the timeout": longest > 4 * TIMEOUT,
        "not completed": result is None,
    }  # fmt: skip


def releases(answers: set[bytes], request: bytes, run: str, site: str) -> set[bytes]:
    """Return the answers that release something: a refusal does not."""
    found = set()
    for answer in answers:
        with contextlib.suppress(TacitError):
            wire.read_answer(answer, request, run, site)
            found.add(answer)
    return found


class Fault:
    """One fault, at the n-th round that a site is asked for."""

    def __init__(
        self, sites: Processes, kind: str, site: str, at: int, when: float, run: str
    ) -> None:
        self.sites, self.kind, self.site, self.at, self.when = sites, kind, site, at, when
        self.run, self.asked, self.first, self.done = run, 0, b"", False
        sites.disturb, sites.change = self.disturb, self.change

    def disturb(self, method: str, site: str):
        """Do something to the site's process before, or just after, a request goes out."""
        if method != "respond" or site != self.site:
            return None
        self.asked += 1
        if self.asked != self.at or self.done:
            return None
        kind = self.kind
        self.done = kind not in LIES
        if kind == "killed":
            self.sites.end(site)
        elif kind == "restarted":
            self.sites.start(site)
            self.done = True
        elif kind == "paused":
            self.sites.signal(site, signal.SIGSTOP)
        elif kind == "slow":
            self.sites.signal(site, signal.SIGSTOP)
            return lambda: (time.sleep(0.3), self.sites.signal(site, signal.SIGCONT))
        elif kind in ("killed late", "everything"):  # in the middle of its answer
            return lambda: (time.sleep(self.when), self.sites.signal(site, signal.SIGKILL))
        return None

    def progress(self, record) -> None:
        """Kill the coordinator after a round."""
        if self.kind in ("coordinator", "everything") and record.rounds == self.at - 1:
            self.kind = "over"
            raise CoordinatorKilled

    def change(self, method: str, site: str, request: bytes, answer: bytes) -> bytes:
        """Lie in place of the site."""
        if method != "respond" or site != self.site:
            return answer
        self.first = self.first or answer
        if self.kind not in LIES or self.asked != self.at or self.done:
            return answer
        self.done = True
        if self.kind == "replay" and self.first != answer:
            return self.first
        message = wire.read_answer(answer, request, self.run, site)
        arrays = {name: array.copy() for name, array in message.arrays.items()}
        name, round_ = next(iter(arrays)), message.round
        if self.kind == "nan":
            arrays[name] = np.full(arrays[name].shape, np.nan)
        elif self.kind == "shape":
            arrays[name] = arrays[name][:-1]
        elif self.kind == "key":
            arrays["another"] = np.zeros(1)
        elif self.kind == "value":
            arrays[name] = arrays[name] + 1.0
        else:
            round_ += 1
        return wire.answer(Message(round_, arrays), request, self.run, site)

    def repair(self) -> None:
        """Bring up what is down, as an operator would; a job that died takes all sites along."""
        for site in SITES:
            dead = site not in self.sites.running or not self.sites.running[site][0].is_alive()
            if dead or self.kind in ("paused", "over"):
                self.sites.start(site)
        self.kind = "repaired" if self.done or self.kind == "over" else self.kind


class Replay:
    """Answers from what the sites really sent."""

    def __init__(self, sites: Processes, run: str) -> None:
        self.answers, self.run = sites.answers, run

    def call(self, method: str, data, names, timeout: float):
        """Yield the recorded answer of every site."""
        for site in names:
            own = data if isinstance(data, bytes) else data[site]
            known = releases(self.answers.get((site, own), set()), own, self.run, site)
            yield site, next(iter(known)) if known else ConnectionError("was not asked")


def replayed(proposal: Proposal, sites: Processes, result) -> bool:
    """Whether the rounds, run again over what the sites sent, give the same factors."""
    computation = Computation(dataclasses.replace(proposal))
    inner = computation.coordinator()
    terms = computation.terms
    coordinator = inner if terms is None else SecureCoordinator(inner, terms, PINNED)
    gone = {failure.site: failure.round for failure in result.record.failures}
    gone |= {site: 0 for site in SITES if site not in result.record.sites and site not in gone}
    caller = Caller(Replay(sites, proposal.run), proposal.run, TIMEOUT)

    def ask(request, names):
        for site, answer in caller("respond", request, names):
            asked = request if isinstance(request, Message) else request[site]
            left = gone.get(site, 1 << 30) <= asked.round
            yield site, ConnectionError("left") if left else answer

    try:
        drive(coordinator, SITES, ask, on_failure="exclude", minimum=2)
    except TacitError:
        return False
    again = computation.shared(inner)
    return all(np.array_equal(again[n], f) for n, f in result.outcome.items()) and bool(
        json.dumps(sorted(again)) == json.dumps(sorted(result.outcome))
    )
