"""Random faults of all parties: nothing wrong accepted, charged twice or released anew.

Three sites, the coordinator and its job are processes; a site is two, one with the data and one
with the line. Each trial draws a family (every estimator of the registry), secure sums or not, and
one fault: SIGKILL, SIGSTOP (for less and for more than a call may take; sometimes a second process
of the party is started beside the paused one), SIGTERM, a cut line or a restart, of a site, its
line, the coordinator or the job, at a random moment of a random call. Of the secure trials one in
ten loses two of three sites of a confirmed list for good. Runs have no seed; the seed of what was
drawn for the trials is in the table, and ``--seed`` draws the same again.

Afterwards the ledgers, the outboxes and everything that left are held against the bars: a charge
for each run and a payment for each draw, no request answered by two messages, a result that the
messages in the outboxes give when they are added up again, and every run completed once the fault
is gone, or ended with the reason that the confirmed list is lost, and nothing more revealed. A
part of the faults of the full form is played over the real engine, behind its walls.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from experiments import _federation_audit as audit
from experiments._federation_families import CASES, SITES, missing, thresholds, toml, write_data
from experiments._federation_sites import (
    CONTEXT,
    PRELOAD,
    CoordinatorProcesses,
    SiteProcesses,
    sent,
)
from experiments.runner import Outcome
from tacit.federation.computation import Computation
from tacit.federation.files import SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.secure import keys
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.checkpoint import Checkpoint, Outbox, run_name
from tacit.rounds.messages import Message

OPTIONS = {
    "--faults": {"type": int, "help": "how many, instead of the form's own number"},
    "--seed": {"type": int, "help": "draw the same trials again; the runs have no seed"},
}
KINDS = ("SIGKILL", "SIGSTOP", "SIGTERM", "cut", "restart")
PLACES = ("site", "line", "coordinator", "job")
BARS = ("charge lost or doubled", "released anew", "wrong result", "not completed")
TIMEOUT = 6.0  # seconds a call may take
DEADLINE = 600.0  # seconds for a trial, all attempts together, on a machine that is busy
IDENTITIES = {site: keys.fresh_identity() for site in SITES}
PINNED = {site: keys.identity_public(key) for site, key in IDENTITIES.items()}


def run(quick: bool, faults: int | None = None, seed: int | None = None) -> Outcome:
    outcome, faults = Outcome(), faults or (6 if quick else 200)
    seed = secrets.randbits(32) if seed is None else seed
    rng = np.random.default_rng(seed)
    outcome.add({"what": "seed of the trials", "seed": seed})
    outcome.check("estimators that no trial could draw", len(missing()), "0", not missing())
    real = 0 if quick else faults // 8
    bad = dict.fromkeys(BARS, 0)
    with tempfile.TemporaryDirectory() as place, federation(Path(place)) as parties:
        for number in range(faults - real):
            row = Trial(parties, number, rng, brief=quick).play()
            outcome.add(row)
            for name in BARS:
                bad[name] += bool(row[name])
        for what, noticed in controls(parties).items():
            outcome.check(what, str(noticed), "True", noticed)
        bad[BARS[0]] += parties.corrupt_ledgers()
    if real:
        from experiments._federation_engine import engine_trials

        for row in engine_trials(real, rng):
            outcome.add(row)
            for name in BARS:
                bad[name] += bool(row.get(name))
    for name, count in bad.items():
        outcome.check(f"trials of {faults} with: {name}", count, "0", count == 0)
    played = [row for row in outcome.rows if "family" in row]
    secure = sum(bool(row["secure"]) for row in played)
    outcome.check("faults under secure sums", secure, f"≥ {faults // 2}", secure >= faults // 2)
    if not quick and faults >= 100:
        families = {CASES[row["family"]].computation for row in played}
        left = sorted({case.computation for case in CASES.values()} - families)
        outcome.check("estimators without a fault", len(left), "0", not left)
    return outcome


def write_site(home: Path, site: str, more: str = "") -> Path:
    """Write a site that allows every case, with its data and its ledger; return its file."""
    home.mkdir(parents=True, exist_ok=True)
    sources, allowed = write_data(home, site)
    (home / "identity.key").write_text(IDENTITIES[site].hex())
    pinned = {name: key.hex() for name, key in PINNED.items()}
    (home / "site.toml").write_text(
        f'name = "{site}"\nidentity = "identity.key"\npartners = {toml(pinned)}\n'
        # one ledger for every family: a person has one row, document and entry, and is replaced
        'ledger = {file = "ledger.db", epsilon = 1000000.0, delta = 0.9, unit = "user", '
        'neighbours = "replace-one", most = {row = 1, document = 1, entry = 1}}\n'
        f"{more}data = {toml(sources)}\nallow = {toml(allowed)}\n"
    )
    SiteConfig.read(home / "site.toml").create_ledger()
    return home / "site.toml"


def coordinator_text(name: str, threshold: int | None, policy: str, timeout: float) -> str:
    """Return a coordinator's file that runs one case."""
    case = CASES[name]
    pinned = toml({site: key.hex() for site, key in PINNED.items()})
    return (
        f"sites = {toml(SITES[: case.sites])}\ntimeout = {timeout}\nretries = 2\n"
        f'on_failure = "{policy}"\nminimum = {min(2, case.sites)}\npartners = {pinned}\n'
        f"computation = {toml([case.step(threshold)])}\n"
    )


@dataclass
class Parties:
    """The sites of a federation that lasts for all trials."""

    place: Path
    sites: dict[str, SiteProcesses] = field(default_factory=dict)
    beside: list[SiteProcesses] = field(default_factory=list)  # older processes, still there
    logs: dict[str, list[SiteProcesses]] = field(default_factory=dict)
    started: int = 0
    last: Any = None  # a run that is complete, for the controls

    @property
    def homes(self) -> dict[str, Path]:
        """Site → its folder."""
        return {site: self.place / site for site in SITES}

    @property
    def paths(self) -> dict[str, str]:
        """Site → its line."""
        return {site: str(home / "line.sock") for site, home in self.homes.items()}

    def start(self, site: str) -> None:
        """Start a site, beside what runs already."""
        self.started += 1
        self.sites[site] = SiteProcesses(self.homes[site], self.started)
        self.logs.setdefault(site, []).append(self.sites[site])

    def restart(self, site: str) -> None:
        """End a site and start it again."""
        self.sites[site].end()
        self.start(site)

    def repair(self) -> None:
        """Bring up what is down and end what was replaced."""
        for old in self.beside:
            old.end()
        self.beside.clear()
        for site, processes in self.sites.items():
            if not processes.alive:
                self.restart(site)

    def sizes(self) -> dict[Path, int]:
        """Return how long what left is by now."""
        logs = [unit.log for units in self.logs.values() for unit in units]
        return {log: log.stat().st_size for log in logs if log.exists()}

    def left(self, site: str, since: dict[Path, int]) -> Iterator[tuple[str, bytes, bytes]]:
        """Yield what left a site since then."""
        for unit in self.logs[site]:
            yield from sent(unit.log, since.get(unit.log, 0))

    def corrupt_ledgers(self) -> int:
        """Return how many ledgers do not add up in the end."""
        wrong = 0
        for home in self.homes.values():
            try:
                Ledger.open(home / "ledger.db").verify()
            except Exception:
                wrong += 1
        return wrong


@contextlib.contextmanager
def federation(place: Path) -> Iterator[Parties]:
    """Write three sites, and run them."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    CONTEXT.set_forkserver_preload(PRELOAD)
    parties = Parties(place)
    for site in SITES:
        write_site(place / site, site)
        parties.start(site)
    try:
        yield parties
    finally:
        for unit in (*parties.beside, *parties.sites.values()):
            unit.end()


def draw(rng: np.random.Generator, number: int) -> tuple[str, int | None]:
    """Return a case, and a threshold for every second one."""
    able = {name: [t for t, why in thresholds(name).items() if t and why is None]
            for name in CASES}  # fmt: skip
    names = [name for name in CASES if able[name]] if number % 2 == 0 else list(CASES)
    name = str(rng.choice(names))
    return name, int(rng.choice(able[name])) if number % 2 == 0 else None


class Trial:
    """One run with one fault; a brief one lasts for less than a call may take."""

    def __init__(
        self, parties: Parties, number: int, rng: np.random.Generator, *, brief: bool = False
    ) -> None:
        self.parties, self.number = parties, number
        self.name, self.threshold = draw(rng, number)
        self.case = CASES[self.name]
        self.kind, self.where = str(rng.choice(KINDS)), str(rng.choice(PLACES))
        self.site = str(rng.choice(SITES[: self.case.sites]))
        self.policy = str(rng.choice(["stop", "exclude"]))
        self.for_good = self.threshold == 2 and bool(rng.random() < 0.2)
        computation = Computation(self.case.proposal("plan", self.threshold))
        whole, opened = computation.rounds, computation.agreement.open_rounds
        sums = (whole - opened) * (5 if self.threshold else 1)
        self.at = int(rng.integers(1, 2 + opened + sums + 2))
        if self.for_good:  # in the exchanges where a list is confirmed
            last = 2 + opened + 5 * int(rng.integers(whole - opened))
            self.at = last + int(rng.integers(4, 6))
            self.kind, self.where, self.policy = "SIGKILL", "two sites", "exclude"
            self.site = SITES[1]
        self.delay = float(rng.uniform(0.0, 0.03))
        self.long, self.twice = not brief and bool(rng.integers(2)), bool(rng.integers(2))
        self.fired, self.undo = False, []
        self.places: list[list[int]] = []  # where a list was lost, after every attempt
        self.since = parties.sizes()

    def play(self) -> dict[str, Any]:
        """Run, let the fault happen, repair, until it is complete; then look at everything."""
        while True:
            row = self._play()
            if self.fired or self.at == 1:
                return row
            self.at = max(1, self.at // 2)  # the run was over before: it is not counted
            self.number += 100_000

    def _play(self) -> dict[str, Any]:
        folder = self.parties.place / f"c{self.number}"
        folder.mkdir()
        file = folder / "coordinator.toml"
        file.write_text(coordinator_text(self.name, self.threshold, self.policy, TIMEOUT))
        output = folder / "result"
        self.proposal = self.case.proposal(run_name(output / "run"), self.threshold)
        base = {site: unit.calls.value for site, unit in self.parties.sites.items()}
        for site in SITES[1:] if self.for_good else ():  # neither of them answers that call
            self.parties.sites[site].hold.value = base[site] + self.at
        started, attempts, reasons = time.monotonic(), 0, []
        before: dict[str, dict[int, bytes]] = {}
        while not (output / "complete").exists() and time.monotonic() < started + DEADLINE:
            if self.for_good and self.fired and attempts >= 2:
                break
            attempts += 1
            command = CoordinatorProcesses(file, output, self.parties.paths)
            while command.process.is_alive() and time.monotonic() < started + DEADLINE:
                self._undo_due()
                unit = self.parties.sites[self.site]
                if not self.fired and unit.calls.value - base[self.site] >= self.at:
                    time.sleep(self.delay)
                    before = self._kept()
                    command = self._happen(command, file, output)
                time.sleep(0.002)
            command.end()
            if (output / "failed.json").exists():
                reasons.append(json.loads((output / "failed.json").read_text())["reason"])
            self._undo_due(everything=True)
            if self.for_good and self.fired:
                self.places.append(self._place(output))
            else:
                self.parties.repair()
        row = self._judge(folder, reasons, before)
        self.parties.repair()
        facts = {"number": self.number, "family": self.name, "secure": self.threshold or "",
                 "fault": self.kind, "at": self.where, "call": self.at, "policy": self.policy,
                 "carried by": "sockets", "attempts": attempts,
                 "seconds": time.monotonic() - started}  # fmt: skip
        return facts | row | ({"why": reasons[-1]} if reasons else {})

    # -- the fault ---------------------------------------------------------------------------

    def _happen(
        self, command: CoordinatorProcesses, file: Path, output: Path
    ) -> CoordinatorProcesses:
        """Do it; return the coordinator that runs afterwards."""
        parties, self.fired = self.parties, True
        if self.for_good:
            for site in SITES[1:]:
                parties.sites[site].end()
            return command
        unit = parties.sites[self.site]
        at_site = self.where in ("site", "line")
        target = {"site": unit.data.pid, "line": unit.client.pid, "job": command.job,
                  "coordinator": command.process.pid}[self.where]  # fmt: skip
        if self.kind == "cut":
            for site in [self.site] if at_site else SITES:
                parties.sites[site].cut(2.5 if self.long else 0.3)
        elif self.kind == "restart" and at_site:
            parties.restart(self.site)
        elif self.kind == "restart":
            command.end()
            return CoordinatorProcesses(file, output, parties.paths)
        elif self.kind == "SIGSTOP":
            _signal(target, signal.SIGSTOP)
            later = time.monotonic() + (TIMEOUT + 1.0 if self.long else 0.5)
            self.undo.append((later, lambda: _signal(target, signal.SIGCONT)))
            if at_site and self.twice:  # its holder starts it again, beside the paused one
                parties.beside.append(unit)
                parties.start(self.site)
        else:
            _signal(target, signal.Signals[self.kind])
        return command

    def _undo_due(self, everything: bool = False) -> None:
        due = [pair for pair in self.undo if everything or pair[0] <= time.monotonic()]
        for pair in due:
            self.undo.remove(pair)
            pair[1]()

    # -- what came of it ------------------------------------------------------------------------

    def _kept(self) -> dict[str, dict[int, bytes]]:
        return {s: audit.replies(h, self.proposal.run) for s, h in self.parties.homes.items()}

    def _judge(
        self, folder: Path, reasons: list[str], before: dict[str, dict[int, bytes]]
    ) -> dict[str, Any]:
        output, homes = folder / "result", self.parties.homes
        names = SITES[: self.case.sites]
        complete, kept = (output / "complete").exists(), self._kept()
        record = json.loads((output / "run" / "record.json").read_text()) if complete else {}
        ended = self.for_good and not complete and self._named(reasons)
        same = all(kept[s].get(r) == b for s, found in before.items() for r, b in found.items())
        left = {site: list(self.parties.left(site, self.since)) for site in names}
        row = {
            BARS[0]: not all(
                audit.paid_once(homes[s], self.proposal, began=bool(kept[s])) for s in names
            ),
            BARS[1]: not same
            or not all(audit.released_once(homes[s], self.proposal, s, left[s]) for s in names),
            BARS[2]: complete and not self._right(output),
            BARS[3]: not (ended or (complete and self._released(record))),
            "ended": "completed" if complete else "list lost" if ended else "no",
        }
        if complete and self.threshold is None:
            self.parties.last = self.proposal, output, _members(output), names
        return row

    def _released(self, record: dict[str, Any]) -> bool:
        """Whether it was released, or a site was left out that gave no certificate at the end."""
        why = record["not_released"]
        return why is None or (self.policy == "exclude" and "gave no certificate" in why)

    def _place(self, output: Path) -> list[int]:
        """Return the sum, the try and the exchange that the coordinator is at."""
        saved = Checkpoint(output / "run" / "checkpoint").load()
        return [-1, 0, 0] if saved is None else saved[0].arrays["place"].tolist()

    def _named(self, reasons: list[str]) -> bool:
        """Whether a run whose list cannot be finished says so, and revealed nothing more."""
        wanted = "is lost without them" if self.places[-1][2] >= 3 else "2 are needed"
        stayed = len({tuple(place) for place in self.places}) == 1
        return stayed and bool(reasons) and wanted in reasons[-1]

    def _right(self, output: Path) -> bool:
        """Whether what was learned is what the messages in the outboxes imply."""
        again = _implied(self.proposal, self.parties.homes, output, _members(output))
        return again is not None and audit.agree(again, _learned(output))


def _learned(output: Path) -> dict[str, Any]:
    return dict(Message.from_bytes((output / "learned.tacit").read_bytes()).arrays)


def _members(output: Path) -> dict[int, list[str]]:
    """Return whose answers each round took in, in the process that went on from it."""
    lines = (output / "absorbed.jsonl").read_text(encoding="utf-8").splitlines()
    return dict(json.loads(line) for line in lines)


def _implied(
    proposal: Proposal, homes: dict[str, Path], output: Path, members: dict[int, list[str]]
) -> dict[str, Any] | None:
    seed = audit.seed_of(output / "run" / "checkpoint")
    again = audit.implied(proposal, homes, seed, members, PINNED)
    return None if again is None else audit.arrays_of(again.result)


def _signal(process: int, number: signal.Signals) -> None:
    if process:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def controls(parties: Parties) -> dict[str, bool]:
    """Change one number of a kept message, and one that left: both must be noticed."""
    proposal, output, members, names = parties.last
    boxes = {
        name: Outbox(audit.run_folder(parties.homes[name], proposal.run) / "outbox")
        for name in names
    }
    # one that answered: a site may have been left out before its first round
    site, outbox = next((name, box) for name, box in boxes.items() if box.rounds())
    home, last = parties.homes[site], outbox.rounds()[-1]
    digest, reply, state = outbox.read(last)
    left = [
        (method, request, answer)
        for method, request, answer in parties.left(site, {})
        if method == "respond"
    ]
    before = audit.released_once(home, proposal, site, left)
    arrays = {name: array + 1 for name, array in reply.arrays.items()}
    outbox._put(last, digest, Message(last, arrays, reply.step), state)
    again = _implied(proposal, parties.homes, output, members)
    return {
        "control: a changed number is noticed in the result": again is None
        or not audit.agree(again, _learned(output)),
        "control: a message that is not the one kept is noticed": before
        and not audit.released_once(home, proposal, site, left),
    }
