"""A site that is a process of its own, with marks planted wherever something could leak.

A mark is a text that occurs nowhere else: in values, in columns and tables that nobody agreed on,
in the names of people and files, in the folder's path. Whatever leaves the process is kept, so
that it can be searched for them. ``weakened`` takes one check out of the process: a negative
control, which an attack has to win against.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

from tacit.federation.files import SiteConfig
from tacit.federation.service import SiteService
from tacit.privacy.ledger.ledger import Ledger

CONTEXT = get_context("spawn")
MARKS = ("mark-value-7319", "mark_column_7319", "mark-person-7319", "mark-path-7319", "7319.25")
SETTINGS = {
    "model": {"ratings": "user:k item:k"},
    "rank": 2,
    "bounds": [1.0, 5.0],
    "method": "sgld",
    "options": {"rounds": 3},
    "entities": {"item": [f"i{k}" for k in range(6)]},
}
_FILE = """
name = "North"
[ledger]
file = "mark-path-7319.db"
epsilon = 4.0
delta = 1e-5
[data.mark_column_7319]
file = "mark-path-7319.csv"
value = "rating"
[[allow]]
computation = "factorization"
epsilon = 1.0
delta = 1e-6
unit = "user"
rounds = 3
partners = 2
[allow.settings]
model = {ratings = "user:k item:k"}
rank = 2
bounds = [1.0, 5.0]
method = "sgld"
options = {rounds = 3}
entities = {item = ["i0", "i1", "i2", "i3", "i4", "i5"]}
"""
GOOD = [
    f"mark-person-7319-{u},i{(u + k) % 6},{1 + (u * k) % 5}" for u in range(30) for k in range(3)
]
BAD = {
    "an item that nobody agreed on": ["mark-person-7319,mark-value-7319,3"],
    "a rating out of bounds": ["mark-person-7319,i1,7319.25"],
    "a missing rating": ["mark-person-7319,i1,"],
    "a rating that is no number": ["mark-person-7319,i1,mark-value-7319"],
    "a row too short": ["mark-person-7319,i1"],
    "no rows": None,
    "no file": None,
    "another column": None,
}


def write_site(folder: Path, bad: str | None = None) -> Path:
    """Write a site, with one thing wrong with its data where asked for."""
    home = folder / "mark-path-7319"
    home.mkdir(parents=True)
    heading = "user,mark_column_7319,rating" if bad == "another column" else "user,item,rating"
    rows = [] if bad == "no rows" else [*GOOD, *(BAD.get(bad or "") or [])]
    if bad != "no file":
        (home / "mark-path-7319.csv").write_text("\n".join([heading, *rows]) + "\n")
    (home / "site.toml").write_text(_FILE)
    SiteConfig.read(home / "site.toml").create_ledger()
    return home / "site.toml"


class Cost(NamedTuple):
    """What one call cost the site."""

    seconds: float
    megabytes: float


class Victim:
    """A running site, everything that it ever said, and what calls cost it."""

    def __init__(self, file: Path, weakened: str = "") -> None:
        self.file, self.said = file, []
        self._ours, theirs = CONTEXT.Pipe()
        self._process = CONTEXT.Process(
            target=_serve, args=(str(file), weakened, theirs), daemon=True
        )
        self._process.start()
        theirs.close()
        assert self._ours.recv() == "ready"

    def call(self, method: str, data: bytes) -> bytes:
        """Call the site, as the process that carries bytes would."""
        self._ours.send((method, data))
        answer: bytes = self._ours.recv()
        self.said.append(answer)
        return answer

    def costing(self, method: str, data: bytes) -> tuple[bytes, Cost]:
        """Call the site; return what it said and what that cost."""
        status = Path(f"/proc/{self._process.pid}/status")
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")  # the peak begins anew
        before, started = _field(status, "VmRSS"), time.perf_counter()
        answer = self.call(method, data)
        seconds = time.perf_counter() - started
        return answer, Cost(seconds, (_field(status, "VmHWM") - before) / 1024)

    def leaked(self) -> int:
        """Return how many answers hold a mark."""
        return sum(any(mark.encode() in answer for mark in MARKS) for answer in self.said)

    @property
    def spent(self) -> float:
        """What the site's ledger has paid."""
        return Ledger.open(self.file.parent / "mark-path-7319.db").spent.epsilon

    def close(self) -> None:
        """End the process."""
        self._ours.close()
        self._process.join(20)
        self._process.kill()
        self._process.join()


@contextmanager
def victim(folder: Path, weakened: str = "", bad: str | None = None) -> Iterator[Victim]:
    """Write a site and run it."""
    found = Victim(write_site(folder, bad), weakened)
    try:
        yield found
    finally:
        found.close()


def _field(status: Path, name: str) -> int:
    """Return a field of a process's status, in kB."""
    (line,) = [line for line in status.read_text().splitlines() if line.startswith(name + ":")]
    return int(line.split()[1])


def _serve(file: str, weakened: str, connection: Any) -> None:
    os.environ["TACIT_NUM_THREADS"] = "1"
    if weakened:
        WEAKENED[weakened]()
    service = SiteService(SiteConfig.read(file))
    connection.send("ready")
    while True:
        try:
            method, data = connection.recv()
        except EOFError:
            return
        connection.send(service.call(method, data))


# -- builds with one check taken out ------------------------------------------------------------


def _speaks() -> None:
    """Refusals say what went wrong."""
    from tacit.federation import wire
    from tacit.rounds.messages import Message

    def telling(error: Exception, request: bytes, run: str, site: str) -> bytes:
        return wire.answer(Message(0, {"text": wire.text_array(str(error))}), request, run, site)

    wire.refusal = telling


def _agrees_to_all() -> None:
    """The policy covers whatever comes."""
    from tacit.federation.policy import Permission

    Permission.objections = lambda self, proposal, plugins=(): []


def _goes_back() -> None:
    """Rounds may be asked again, and for something else."""
    from tacit.estimators import shards
    from tacit.rounds import checkpoint

    def admit(self: Any, round: int, name: str) -> Any:
        step = next(step for step in self._steps if step.name == name)
        return step, min(round, step.times - 1)

    def respond(self: Any, request: Any) -> Any:
        self.participant._last = None
        return self.participant.respond(request)

    shards.Order.admit = admit
    checkpoint.Remembering.respond = respond


def _reads_all() -> None:
    """Requests are not held against the step, and are as long as they like."""
    from tacit.estimators import steps
    from tacit.rounds import messages

    def read(self: Any, request: Any) -> Any:
        return steps.Asked(self.name, "", dict(request.arrays), {})

    steps.Step.read = read
    SiteService.limit = lambda self, method: 1 << 30
    messages.ArraySpec.problem = lambda self, array, sizes=None: None


WEAKENED = {
    "speaking": _speaks,
    "agreeing": _agrees_to_all,
    "going back": _goes_back,
    "reading all": _reads_all,
}
