"""The files of a federation: a site's and the coordinator's, in TOML, checked when read."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit._core.check import InstanceOf, Integer, OneOf, Real, Text, check
from tacit.errors import LedgerError, ParameterError
from tacit.federation.engine.wall import ENTRIES, Wall
from tacit.federation.history import History
from tacit.federation.policy import Limits, Permission, Policy
from tacit.federation.proposal import Proposal
from tacit.federation.secure.threshold import default_threshold
from tacit.privacy.guarantee import NEIGHBOURS, UNITS
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.naming import name_ledger

__all__ = ["CoordinatorConfig", "SiteConfig", "Step"]


_TEXT, _TABLE, _LIST = Text(), InstanceOf(dict, text="a table"), InstanceOf(list, text="a list")
_SITE: dict[str, Any] = {
    "name": _TEXT,
    "kit": _TEXT,
    "state": _TEXT,
    "identity": _TEXT,
    "people_key": _TEXT,
    "ledger": _TABLE,
    "data": _TABLE,
    "partners": _TABLE,
    "coordinators": _TABLE,
    "limits": _TABLE,
    "allow": _LIST,
    "plugins": _LIST,
    "largest_message": Integer(1),
    "answer_after": Real(0),
    **dict.fromkeys(ENTRIES, InstanceOf(object)),  # the wall reads them itself
}
_COORDINATOR: dict[str, Any] = {
    "kit": _TEXT,
    "admin": _TEXT,
    "output": _TEXT,
    "identity": _TEXT,
    "sites": _LIST,
    "computation": _LIST,
    "plugins": _LIST,
    "timeout": Real(0, open_low=True),
    "on_failure": OneOf("stop", "exclude"),
    "minimum": Integer(1),
    "retries": Integer(0),
    "rehearsal": OneOf(True, False),
    "partners": _TABLE,
}
_LEDGER = {"file": _TEXT, "epsilon": Real(0, open_low=True), "delta": Real(0, 1, open_high=True)}
_LEDGER_MORE = {  # what it is for, follows from what is allowed; key and mark lie beside it
    "unit": OneOf(*UNITS),
    "neighbours": OneOf(*NEIGHBOURS),
    "most": _TABLE,
    "key": _TEXT,
    "mark": _TEXT,
    "instead_of": _TEXT,
}
_PARTS: dict[str, Any] = {  # what stands in lists and tables
    "data": _TABLE,
    "allow": _TABLE,
    "computation": _TABLE,
    "partners": _TEXT,
    "coordinators": _TEXT,
    "plugins": _TEXT,
    "sites": _TEXT,
}


def _read(path: str | os.PathLike[str], known: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    file = Path(path).resolve()
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParameterError(f"{file} is no TOML: {error}") from None
    unknown = sorted(set(data) - set(known))
    if unknown:
        raise ParameterError(
            f"{file} has the unknown entry {unknown[0]!r}: known are {sorted(known)}"
        )
    try:
        for name, value in data.items():
            check(name, value, known[name])
            parts = value.values() if isinstance(value, dict) else value
            for part in parts if name in _PARTS else ():
                check(f"an entry of {name}", part, _PARTS[name])
    except ParameterError as error:
        raise ParameterError(f"{file}: {error}") from None
    return file, data


def _hex_keys(table: Mapping[str, str]) -> dict[str, bytes]:
    try:
        return {name: bytes.fromhex(key) for name, key in table.items()}
    except (ValueError, TypeError):
        raise ParameterError("identities must be public keys in hexadecimal") from None


def _key_in(path: Path | None, lacks: str = "no signing key") -> bytes | None:
    """Return the key that a file holds, or None without a file."""
    if path is None:
        return None
    try:
        return bytes.fromhex(path.read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        raise ParameterError(f"{path} holds {lacks} in hexadecimal") from None


@dataclass(frozen=True)
class SiteConfig:
    """What a site's file says.

    Attributes
    ----------
    name
        The site.
    folder
        Where the file lies; other paths are relative to it.
    kit
        The start-up kit of the transport.
    state
        Where replies that were paid for are kept.
    ledger
        ``file``, ``epsilon`` and ``delta`` of the ledger; its ``unit`` and ``neighbours`` where
        they do not follow from what is allowed, ``most`` of finer units, its ``key`` and ``mark``.
    data
        Table → its source, and what its columns are.
    policy
        What the site consents to.
    identity, partners
        The file of the site's own signing key, and the public keys of all sites.
    largest
        The longest message that is read, in bytes.
    plugins
        Families besides tacit's own that may be run here.
    coordinators
        Name → public key of those whose proposals are read; anybody's, where there are none.
    answer_after
        Seconds before which no answer leaves: hides how long it took, and so how much there is.
    wall
        What stands between the data and the network.
    people
        The file of a secret in hexadecimal that the sites share and no coordinator has: it decides
        at which of them somebody counts whom several know.
    """

    name: str
    folder: Path
    kit: Path
    state: Path
    ledger: Mapping[str, Any]
    data: Mapping[str, Mapping[str, Any]]
    policy: Policy
    identity: Path | None = None
    partners: Mapping[str, bytes] = field(default_factory=dict)
    largest: int = 1 << 30
    plugins: tuple[str, ...] = ()
    coordinators: Mapping[str, bytes] = field(default_factory=dict)
    answer_after: float = 0.0
    wall: Wall = field(default_factory=Wall)
    people: Path | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SiteConfig:
        """Read and check a site's file."""
        file, data = _read(path, _SITE)
        for needed in ("name", "ledger"):
            if needed not in data:
                raise ParameterError(f"{file} lacks {needed!r}")
        for key, kind in _LEDGER.items():
            if key not in data["ledger"]:
                raise ParameterError(f"{file}: [ledger] lacks {key!r}")
            check(f"ledger.{key}", data["ledger"][key], kind)
        for key, value in data["ledger"].items():
            if key not in _LEDGER | _LEDGER_MORE:
                raise ParameterError(f"{file}: [ledger] has the unknown entry {key!r}")
            check(f"ledger.{key}", value, (_LEDGER | _LEDGER_MORE)[key])
        folder = file.parent
        identity = data.get("identity")
        return cls(
            data["name"],
            folder,
            folder / data.get("kit", "kit"),
            folder / data.get("state", "state"),
            data["ledger"],
            data.get("data", {}),
            Policy(
                tuple(Permission.from_table(table) for table in data.get("allow", [])),
                Limits.from_table(data.get("limits", {})),
            ),
            None if identity is None else folder / identity,
            _hex_keys(data.get("partners", {})),
            int(data.get("largest_message", 1 << 30)),
            tuple(data.get("plugins", [])),
            _hex_keys(data.get("coordinators", {})),
            float(data.get("answer_after", 0.0)),
            Wall.from_table(data, folder),
            folder / data["people_key"] if "people_key" in data else None,
        )

    def page(self) -> str:
        """Return what the site consents to and what stands around it, to read and sign."""
        return f"{self.policy.page(self.name, self.plugins)}\n\n{self.wall.page()}"

    @property
    def _ledger_file(self) -> Path:
        return self.folder / str(self.ledger["file"])

    def create_ledger(self) -> Ledger:
        """Create the site's ledger with its ceiling, once."""
        path = self._ledger_file
        if path.exists():
            raise LedgerError(f"{path} exists already: a ledger is created once")
        if History(self.state).runs():
            raise LedgerError(
                f"runs were paid for from a ledger that is gone: restore {path}; a new one would "
                "begin with the whole budget"
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        return self._endorsed(Ledger.open(path, **{**self._protected, **self._stated}))

    @property
    def _protected(self) -> dict[str, str]:
        """What the ledger is for, where its table does not say: what all permissions ask for."""
        if "unit" in self.ledger:
            return {}
        asked = sorted({(one.unit, str(one.neighbours)) for one in self.policy.permissions})
        if len(asked) > 1:
            raise ParameterError(
                f"what is allowed is about different units, {asked}: state unit and neighbours in "
                "[ledger], the coarsest that any use needs"
            )
        return {"unit": asked[0][0], "neighbours": asked[0][1]} if asked else {}

    @property
    def _stated(self) -> dict[str, Any]:
        """What the file says about its ledger, as `Ledger.open` takes it."""
        apart = ("file", "instead_of")
        found = {name: value for name, value in self.ledger.items() if name not in apart}
        for name in {"key", "mark"} & set(found):
            found[name] = self.folder / found[name]
        return found

    def _endorsed(self, ledger: Ledger) -> Ledger:
        """Let the site's identity vouch for the ledger's key, so that partners pin one of them."""
        identity = self.key()
        if identity is not None and not ledger.identity:
            ledger.endorse(identity)
        return ledger

    def open_ledger(self) -> Ledger:
        """Open the site's ledger; one that is not there is never made on the way."""
        path = self._ledger_file
        if not path.exists():
            paid = History(self.state).runs()
            remedy = "restore it" if paid else "`tacit ledger create` with this site's file"
            raise LedgerError(f"there is no ledger {path}: {remedy}")
        return self._endorsed(Ledger.open(path, **self._stated))

    def name_ledger(self, ledger: Ledger) -> None:
        """Let the site's data name the ledger that pays for them; another one is refused.

        ``instead_of`` in the ledger's table names one that was replaced.
        """
        instead_of = self.ledger.get("instead_of")
        name_ledger(self.state / "ledger.json", self._ledger_file, ledger, instead_of)

    def key(self) -> bytes | None:
        """Return the site's signing key, where it has one."""
        return _key_in(self.identity)

    def people_key(self) -> bytes | None:
        """Return the secret that the sites share, where there is one."""
        return _key_in(self.people, "no key")


@dataclass(frozen=True)
class Step:
    """One computation of a coordinator's file."""

    name: str
    computation: str
    settings: Mapping[str, Any]
    privacy: Mapping[str, Any] | None
    threshold: int | None = None
    seed: int | None = None
    colluding: int = 1
    secure: bool = False

    def proposal(self, sites: tuple[str, ...], run: str, rehearsal: bool = False) -> Proposal:
        """Return it as it is proposed to sites; ``secure`` stands for the usual threshold."""
        threshold = self.threshold
        if threshold is None and self.secure:
            threshold = default_threshold(len(sites), self.colluding)
        return Proposal(
            self.computation,
            dict(self.settings),
            None if self.privacy is None else dict(self.privacy),
            sites,
            run,
            threshold,
            self.seed,
            self.colluding,
            rehearsal,
        )


@dataclass(frozen=True)
class CoordinatorConfig:
    """What the coordinator's file says.

    Attributes
    ----------
    folder, kit, admin
        Where the file lies, and the start-up kits of the server and of who submits.
    output
        Where results, checkpoints and the run record go.
    sites
        Who takes part.
    steps
        The computations, one after another.
    timeout
        Seconds after which a call to a site counts as failed.
    on_failure, minimum
        ``"stop"`` or ``"exclude"``, and how many sites must be left.
    retries
        How often a run that died is submitted again.
    plugins
        Families besides tacit's own that may be proposed.
    identity
        The file of the key that signs proposals.
    rehearsal
        Whether sites are asked to take made-up data: nothing is read and nothing charged. What
        comes of it goes to a folder ``rehearsal`` beside the file.
    partners
        The public keys of the sites' identities, for secure sums.
    """

    folder: Path
    kit: Path
    admin: Path
    output: Path
    sites: tuple[str, ...]
    steps: tuple[Step, ...]
    timeout: float = 60.0
    on_failure: str = "stop"
    minimum: int = 1
    retries: int = 2
    plugins: tuple[str, ...] = ()
    identity: Path | None = None
    rehearsal: bool = False
    partners: Mapping[str, bytes] = field(default_factory=dict)

    def key(self) -> bytes | None:
        """Return the coordinator's signing key, where it has one."""
        return _key_in(self.identity)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> CoordinatorConfig:
        """Read and check a coordinator's file."""
        file, data = _read(path, _COORDINATOR)
        sites = data.get("sites", [])
        if not sites or not data.get("computation"):
            raise ParameterError(f"{file} must name sites and at least one [[computation]]")
        rehearsal = data.get("rehearsal", False)
        steps = []
        for number, table in enumerate(data["computation"], start=1):
            entry = dict(table)
            entry.setdefault("name", f"{number}-{entry.get('computation', '')}")
            entry.setdefault("settings", {})
            entry.setdefault("privacy", None)
            try:
                steps.append(Step(**entry))
            except TypeError as error:
                raise ParameterError(f"{file}: computation {number}: {error}") from None
        folder = file.parent
        return cls(
            folder,
            folder / data.get("kit", "server"),
            folder / data.get("admin", "admin"),
            folder / ("rehearsal" if rehearsal else data.get("output", "result")),
            tuple(sites),
            tuple(steps),
            float(data.get("timeout", 60.0)),
            data.get("on_failure", "stop"),
            int(data.get("minimum", 1)),
            int(data.get("retries", 2)),
            tuple(data.get("plugins", [])),
            folder / data["identity"] if "identity" in data else None,
            rehearsal,
            _hex_keys(data.get("partners", {})),
        )
