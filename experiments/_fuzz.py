"""What is fuzzed: each subject is an honest specimen, how it is damaged, and who reads it."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.federation import wire
from tacit.federation.files import CoordinatorConfig, SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.refusals import SENTENCES
from tacit.federation.secure.keys import fresh_identity
from tacit.federation.service import SiteService
from tacit.privacy.certificate import Certificate, _digest
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.messages import Message

EXTREMES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63), 10**30, 1e308, -1e308, 5e-324, 1e-300,
    math.nan, math.inf, -math.inf, "", "0", "inf", "a" * 5000, "\u0000", "../../etc/passwd", [],
    {}, [[]], [0] * 300, {"": {}}, "[" * 50,
)  # fmt: skip

SITE = """
name = "North"
identity = "identity.key"
answer_after = 0.0
plugins = []
[ledger]
file = "ledger.db"
epsilon = 4.0
delta = 1e-5
[data.patients]
file = "patients.csv"
[limits]
runs = 10
epsilon = 2.0
days = 30
[[allow]]
computation = "summary"
epsilon = 1.0
delta = 1e-6
unit = "row"
rounds = 1
partners = 2
[allow.settings]
bounds = {age = [0.0, 100.0]}
"""
COORDINATOR = """
sites = ["North", "South"]
timeout = 60
on_failure = "stop"
minimum = 2
retries = 1
[[computation]]
name = "ages"
computation = "summary"
privacy = {epsilon = 1.0, delta = 1e-6, unit = "row", trust = "site"}
[computation.settings]
bounds = {age = [0.0, 100.0]}
"""
PROPOSAL = Proposal(
    "summary",
    {"bounds": {"age": [0.0, 100.0]}},
    {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "trust": "site"},
    ("North", "South"),
    "run",
)


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with some flipped, cut out, repeated, swapped or made up."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
        at = rng.randrange(len(found) + 1)
        length = rng.choice((1, 1, 2, 4, 8, 64))
        kind = rng.randrange(5)
        if kind == 0 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del found[at : at + length]
        elif kind == 2:
            found[at:at] = rng.randbytes(length)
        elif kind == 3:
            found[at : at + length] = b"\xff" * length
        else:
            start = rng.randrange(len(found) + 1)
            found[at:at] = found[start : start + length]
    return bytes(found)


def damaged_tree(rng: random.Random, value: Any, depth: int = 0) -> Any:
    """Return plain data in which one place is something else, is gone or is new."""
    if isinstance(value, dict) and value and (depth == 0 or rng.random() < 0.8):
        key = rng.choice(sorted(value))
        kind = rng.randrange(6)
        if kind == 0:
            return {k: v for k, v in value.items() if k != key}
        if kind == 1:
            return {**value, rng.choice(("x", "__class__", key * 2)): rng.choice(EXTREMES)}
        return {**value, key: damaged_tree(rng, value[key], depth + 1)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        if rng.random() < 0.2:
            return value[:at] + value[at:] * 2
        return [*value[:at], damaged_tree(rng, value[at], depth + 1), *value[at + 1 :]]
    return rng.choice(EXTREMES)


def damaged_toml(rng: random.Random, text: str) -> str:
    """Return a file of settings in which a line, or a value, is something else."""
    lines = text.splitlines()
    at = rng.randrange(len(lines))
    name, equals, _ = lines[at].partition(" = ")
    kind = rng.randrange(4)
    if equals and kind < 3:
        extreme = rng.choice(EXTREMES)
        plain = json.dumps(extreme).replace("null", "nan").replace("Infinity", "inf")
        lines[at] = name + equals + plain.replace("NaN", "nan").replace(": ", " = ")
    elif kind == 3:
        lines[at] = damaged_bytes(rng, lines[at].encode()).decode(errors="replace")
    else:
        del lines[at]
    return "\n".join(lines)


@dataclass(frozen=True)
class Subject:
    """Something that strangers can hand in.

    Attributes
    ----------
    name
        What it is.
    share
        How many of a million.
    damaged
        Returns a damaged specimen.
    read
        Reads one; raises what it raises.
    """

    name: str
    share: int
    damaged: Callable[[random.Random], Any]
    read: Callable[[Any], Any]


def subjects(folder: Path) -> list[Subject]:
    """Return all of them; what needs files works in a folder."""
    asked = wire.ask(Message(3, {"x": np.arange(6.0), "kind": np.array([1])}, "rows"), "run")
    (folder / "site.toml").write_text(SITE, encoding="utf-8")
    (folder / "identity.key").write_text(fresh_identity().hex())
    (folder / "patients.csv").write_text("age\n" + "\n".join(map(str, range(20, 80))) + "\n")
    config = SiteConfig.read(folder / "site.toml")
    config.create_ledger()
    service = SiteService(config)
    certificate = _certificate()
    release = _release(folder / "release")
    ledger = _ledger(folder / "specimen.db")

    def json_of(tree: Any) -> str:
        return json.dumps(tree)

    def opened(text: str) -> None:
        arrays = {"proposal": wire.text_array(text), "digest": wire.text_array("0")}
        request = wire.ask(Message(0, arrays), "open")
        answer = wire._unpack(
            service.call("open", request),
            wire._bound("reply", "open", "North", request),
            wire.LARGEST,
            sealed=False,
        )
        assert set(answer.arrays) == {"refused"} and answer["refused"][0] < len(SENTENCES)

    def with_digest(tree: dict[str, Any]) -> str:
        tree = {key: value for key, value in tree.items() if key != "digest"}
        return json.dumps(tree | {"digest": _digest(tree)})

    def damaged_certificate(rng: random.Random) -> str:
        if rng.random() < 0.2:
            return damaged_bytes(rng, certificate.encode()).decode(errors="replace")
        found = damaged_tree(rng, json.loads(certificate))
        return with_digest(found) if isinstance(found, dict) else json.dumps(found)

    def read_file(name: str, kind: Any) -> Callable[[str], Any]:
        path = folder / name

        def read(text: str) -> Any:
            path.write_text(text, encoding="utf-8")
            return kind.read(path)

        return read

    def damaged_file(path: Path) -> Callable[[random.Random], bytes]:
        data = path.read_bytes()
        return lambda rng: damaged_bytes(rng, data)

    def read_ledger(data: bytes) -> None:
        path = folder / "damaged.db"
        for stale in folder.glob("damaged.db*"):
            stale.unlink()
        path.write_bytes(data)
        Ledger.open(path).verify()

    plain = json.loads(PROPOSAL.to_json())
    return [
        Subject(
            "requests",
            500_000,
            lambda rng: damaged_bytes(rng, asked),
            lambda data: wire.read_request(data, "run"),
        ),
        Subject(
            "messages",
            180_000,
            lambda rng: damaged_bytes(rng, asked[40:-32]),
            lambda data: Message.from_bytes(data, sealed=False),
        ),
        Subject(
            "proposals",
            150_000,
            lambda rng: json_of(damaged_tree(rng, plain)),
            Proposal.from_json,
        ),
        Subject(
            "openings at a site", 60_000, lambda rng: json_of(damaged_tree(rng, plain)), opened
        ),
        Subject("certificates", 80_000, damaged_certificate, Certificate.from_json),
        Subject(
            "sites' files",
            15_000,
            lambda rng: damaged_toml(rng, SITE),
            read_file("damaged-site.toml", SiteConfig),
        ),
        Subject(
            "coordinators' files",
            10_000,
            lambda rng: damaged_toml(rng, COORDINATOR),
            read_file("damaged-coordinator.toml", CoordinatorConfig),
        ),
        Subject("ledgers", 2_500, damaged_file(ledger), read_ledger),
        Subject("releases", 2_500, *release),
    ]


def _certificate() -> str:
    from tacit.privacy.events import GaussianDpEvent, repeat
    from tacit.privacy.guarantee import Privacy

    asked = Privacy(1.0, 1e-6, unit="row", trust="site")
    given = Certificate.issue(
        asked, repeat(GaussianDpEvent(4.0), 3), assumptions=("a", "b"), holder="N"
    )
    return given.to_json()


def _ledger(path: Path) -> Path:
    from tacit.privacy.events import GaussianDpEvent

    ledger = Ledger.open(path, epsilon=4.0, delta=1e-5)
    for number in range(4):
        ledger.charge(GaussianDpEvent(8.0), purpose=f"number {number}", delta=1e-6)
    return path


def _release(folder: Path) -> tuple[Callable[[random.Random], Any], Callable[[Any], Any]]:
    import tacit as tc
    from tacit.estimators.release import read_release
    from tacit.estimators.release.layout import sums_of

    rows = {"age": np.linspace(20.0, 80.0, 60)}
    request = tc.Privacy(1.0, 1e-6)
    tc.PrivateSummary({"age": (0.0, 100.0)}, privacy=request).fit(rows).release(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    whole = {name: (folder / name).read_bytes() for name in names}
    sums = folder / "SHA256SUMS"

    def damaged(rng: random.Random) -> tuple[str, bytes | None]:
        name = rng.choice(names)
        return name, None if rng.random() < 0.05 else damaged_bytes(rng, whole[name])

    def read(found: tuple[str, bytes | None]) -> None:
        name, data = found
        path = folder / name
        try:
            if data is None:
                path.unlink()
            else:
                path.write_bytes(data)
            if name not in ("SHA256SUMS", "SHA256SUMS.sig"):  # whoever forges lists digests anew
                own = {n: d for n, d in whole.items() if not n.startswith("SHA256SUMS")}
                own[name] = data if data is not None else b""
                sums.write_bytes(sums_of(own))
            read_release(folder)
        finally:
            path.write_bytes(whole[name])
            sums.write_bytes(whole["SHA256SUMS"])

    return damaged, read
