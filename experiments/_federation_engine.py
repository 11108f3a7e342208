"""Faults over the real engine: walled sites, the coordinator's command, and the engine's jobs."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from experiments import _federation_audit as audit
from experiments._federation_families import CASES, SITES
from experiments._network_cut import Lines, allowed, free_port
from tacit.federation.computation import Computation
from tacit.federation.engine.sites import RunningSite, running_site
from tacit.federation.provision import init_federation
from tacit.rounds.checkpoint import run_name
from tacit.rounds.messages import Message

TIMEOUT = 8.0
DEADLINE = 900.0


class Walled:
    """Three sites behind their walls, each to be started again."""

    def __init__(self, place: Path, lines: Lines | None) -> None:
        from experiments.federation_faults import write_site

        self.lines, host = lines, "localhost" if lines is None else lines.host
        self.place = init_federation(place / "federation", SITES, host=host, port=free_port(host))
        self.homes = {site: self.place / "sites" / site for site in SITES}
        for site, home in self.homes.items():
            write_site(home, site)
        self.stacks: dict[str, contextlib.ExitStack] = {}
        self.sites: dict[str, RunningSite] = {}

    def start(self, site: str) -> None:
        """Start a site, ending what is left of it."""
        self.end(site)
        within: Sequence[str] = () if self.lines is None else self.lines.within(site)
        stack = self.stacks[site] = contextlib.ExitStack()
        file = self.homes[site] / "site.toml"
        self.sites[site] = stack.enter_context(running_site(file, within))

    def end(self, site: str) -> None:
        """End a site, paused or not."""
        if site in self.sites:
            for process in _family(self.sites[site]):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(signal.SIGCONT)
            self.sites.pop(site)
            self.stacks.pop(site).close()

    def repair(self) -> None:
        """Start every site again whose command ended with one of its processes."""
        for site in SITES:
            unit = self.sites.get(site)
            ended = unit is None or unit.engine is None or unit.engine.poll() is not None
            if ended or (unit is not None and unit.data.poll() is not None):
                self.start(site)


def _family(unit: RunningSite) -> list[psutil.Process]:
    """Return the engine's processes of a site."""
    assert unit.engine is not None
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(unit.engine.pid)
        return [root, *root.children(recursive=True)]
    return []


def engine_trials(count: int, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield a row for each of so many faults; cuts only where this machine has namespaces."""
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        lines = stack.enter_context(Lines(SITES)) if allowed() else None
        walled = Walled(Path(place), lines)
        try:
            for site in SITES:
                walled.start(site)
            for number in range(count):
                trial = EngineTrial(walled, number, rng)
                row = trial.play()
                while not trial.fired:  # the run was over before: it is not counted
                    trial.at, trial.number = trial.at // 2, trial.number + 1000
                    row = trial.play()
                yield row
        finally:
            for site in SITES:
                walled.end(site)


class EngineTrial:
    """One run over the engine, with one fault."""

    def __init__(self, walled: Walled, number: int, rng: np.random.Generator) -> None:
        from experiments.federation_faults import KINDS, PLACES, draw

        self.walled, self.number = walled, number
        self.name, self.threshold = draw(rng, number)
        self.case = CASES[self.name]
        kinds = KINDS if walled.lines is not None else tuple(k for k in KINDS if k != "cut")
        self.kind, self.where = str(rng.choice(kinds)), str(rng.choice(PLACES))
        self.site = str(rng.choice(SITES[: self.case.sites]))
        messages = Computation(self.case.proposal("plan", self.threshold)).rounds
        self.at = int(rng.integers(messages * (5 if self.threshold else 1)))
        self.delay = float(rng.uniform(0.0, 0.3))
        self.seconds = float(rng.choice([3.0, TIMEOUT + 4.0]))
        self.undo: list[threading.Thread] = []
        self.fired = False

    def play(self) -> dict[str, Any]:
        """Run, let the fault happen, repair, until it is complete; then look at everything."""
        from experiments.federation_faults import BARS, coordinator_text

        home = self.walled.place / "coordinator"
        file, output = home / f"c{self.number}.toml", home / f"result-{self.number}"
        text = coordinator_text(self.name, self.threshold, "stop", TIMEOUT)
        file.write_text(f'output = "{output.name}"\n{text}')
        proposal = self.case.proposal(run_name(output / "run"), self.threshold)
        started, attempts = time.monotonic(), 0
        before: dict[str, dict[int, bytes]] = {}
        record = output / "run" / "record.json"
        while not record.exists() and time.monotonic() < started + DEADLINE:
            attempts += 1
            self.walled.repair()
            command = _coordinate(file)
            while command.poll() is None and time.monotonic() < started + DEADLINE:
                if not self.fired and self._due(command, output):
                    time.sleep(self.delay)
                    before = self._kept(proposal.run)
                    self._happen(command)
                self.walled.repair()
                time.sleep(0.05)
            with contextlib.suppress(psutil.NoSuchProcess):
                psutil.Process(command.pid).resume()
            command.terminate()
            command.wait()
        for thread in self.undo:
            thread.join()
        names, kept, complete = SITES[: self.case.sites], self._kept(proposal.run), record.exists()
        same = all(kept[s].get(r) == b for s, found in before.items() for r, b in found.items())
        homes, released = self.walled.homes, complete and json.loads(record.read_text())
        row = {
            BARS[0]: not all(audit.paid_once(homes[s], proposal, began=True) for s in names),
            BARS[1]: not same,
            BARS[2]: complete and not self._right(proposal, output),
            BARS[3]: not (complete and released["not_released"] is None),
            "ended": "completed" if complete else "no",
        }
        facts = {"number": self.number, "family": self.name, "secure": self.threshold or "",
                 "fault": self.kind, "at": self.where, "call": self.at, "policy": "stop",
                 "carried by": "engine",
                 "attempts": attempts, "seconds": time.monotonic() - started}  # fmt: skip
        return facts | row

    def _due(self, command: subprocess.Popen[bytes], output: Path) -> bool:
        if self.at == 0:
            return _server_job(command) is not None
        progress = output / "run" / "progress.jsonl"
        return progress.exists() and len(progress.read_bytes().splitlines()) >= self.at

    def _happen(self, command: subprocess.Popen[bytes]) -> None:
        self.fired = True
        unit, root = self.walled.sites[self.site], psutil.Process(command.pid)
        assert unit.engine is not None
        job = _server_job(command)
        targets = {
            "site": [psutil.Process(unit.data.pid)],
            "line": _family(unit),
            "coordinator": [root],
            "job": [] if job is None else [job],
        }[self.where]
        if self.kind == "cut":
            assert self.walled.lines is not None
            cut = [self.site] if self.where in ("site", "line") else SITES
            for site in cut:
                self._later(self.walled.lines.cut, site, self.seconds)
        elif self.kind == "restart" and self.where in ("site", "line"):
            self.walled.start(self.site)
        elif self.kind == "SIGSTOP":
            for process in targets:
                _send(process, signal.SIGSTOP)
            self._later(_continue_after, self.seconds, targets)
        else:
            number = signal.SIGKILL if self.kind == "SIGKILL" else signal.SIGTERM
            for process in targets[:1]:  # a tree is ended by its root
                _send(process, number)

    def _later(self, function: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=function, args=arguments)
        self.undo.append(thread)
        thread.start()

    def _kept(self, run: str) -> dict[str, dict[int, bytes]]:
        return {site: audit.replies(home, run) for site, home in self.walled.homes.items()}

    def _right(self, proposal: Any, output: Path) -> bool:
        """Whether every request follows from the messages kept, and so does the result."""
        from experiments.federation_faults import PINNED

        names = list(SITES[: self.case.sites])
        rounds = json.loads((output / "run" / "record.json").read_text())["rounds"]
        again = audit.implied(
            proposal, self.walled.homes, audit.seed_of(output / "run" / "checkpoint"),
            dict.fromkeys(range(rounds), names), PINNED,
        )  # fmt: skip
        if again is None:
            return False
        shared = Computation(proposal).shared(again)
        whole = Message.from_bytes((output / "run" / "outcome.tacit").read_bytes()).arrays
        common = set(shared) & set(whole)
        return not common or audit.agree({n: shared[n] for n in common},
                                         {n: whole[n] for n in common})  # fmt: skip


def _coordinate(file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tacit", "coordinate", str(file), "--json"]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )


def _server_job(command: subprocess.Popen[bytes]) -> psutil.Process | None:
    """Return the engine's job that drives the rounds."""
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in psutil.Process(command.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if any("runner_process" in word for word in process.cmdline()):
                    return process
    return None


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _continue_after(seconds: float, processes: Sequence[psutil.Process]) -> None:
    time.sleep(seconds)
    for process in processes:
        _send(process, signal.SIGCONT)
