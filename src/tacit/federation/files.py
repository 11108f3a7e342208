"""The files of a federation: a site's and the coordinator's, in TOML, checked when read."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tacit._core.check import InstanceOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.federation.engine.wall import ENTRIES, Wall
from tacit.federation.policy import Permission, Policy
from tacit.federation.proposal import Proposal
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["CoordinatorConfig", "SiteConfig", "Step"]


def _read(path: str | os.PathLike[str], known: set[str]) -> tuple[Path, dict[str, Any]]:
    file = Path(path).resolve()
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{file} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ParameterError(f"{file} is no TOML: {error}") from None
    unknown = sorted(set(data) - known)
    if unknown:
        raise ParameterError(
            f"{file} has the unknown entry {unknown[0]!r}: known are {sorted(known)}"
        )
    return file, data


def _plugins(file: Path, data: Mapping[str, Any]) -> tuple[str, ...]:
    found = data.get("plugins", [])
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise ParameterError(f"{file}: plugins must be a list of packages")
    return tuple(found)


def _hex_keys(table: Mapping[str, str]) -> dict[str, bytes]:
    try:
        return {name: bytes.fromhex(key) for name, key in table.items()}
    except (ValueError, TypeError):
        raise ParameterError("identities must be public keys in hexadecimal") from None


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
        ``file``, ``epsilon`` and ``delta`` of the ledger.
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
    wall
        What stands between the data and the network.
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
    wall: Wall = field(default_factory=Wall)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> SiteConfig:
        """Read and check a site's file."""
        file, data = _read(
            path,
            {
                "name",
                "kit",
                "state",
                "ledger",
                "data",
                "allow",
                "identity",
                "partners",
                "largest_message",
                "plugins",
                *ENTRIES,
            },
        )
        for needed in ("name", "ledger"):
            if needed not in data:
                raise ParameterError(f"{file} lacks {needed!r}")
        check("name", data["name"], InstanceOf(str))
        for key in ("file", "epsilon", "delta"):
            if key not in data["ledger"]:
                raise ParameterError(f"{file}: [ledger] lacks {key!r}")
        folder = file.parent
        identity = data.get("identity")
        return cls(
            data["name"],
            folder,
            folder / data.get("kit", "kit"),
            folder / data.get("state", "state"),
            data["ledger"],
            data.get("data", {}),
            Policy(tuple(Permission.from_table(table) for table in data.get("allow", []))),
            None if identity is None else folder / identity,
            _hex_keys(data.get("partners", {})),
            int(data.get("largest_message", 1 << 30)),
            _plugins(file, data),
            Wall.from_table(data, folder),
        )

    def page(self) -> str:
        """Return what the site consents to and what stands around it, to read and sign."""
        return f"{self.policy.page(self.name, self.plugins)}\n\n{self.wall.page()}"

    def open_ledger(self) -> Ledger:
        """Open the site's ledger, or create it with its ceiling."""
        path = self.folder / str(self.ledger["file"])
        path.parent.mkdir(parents=True, exist_ok=True)
        return Ledger.open(
            path, epsilon=float(self.ledger["epsilon"]), delta=float(self.ledger["delta"])
        )

    def key(self) -> bytes | None:
        """Return the site's signing key, where it has one."""
        return None if self.identity is None else bytes.fromhex(self.identity.read_text().strip())


@dataclass(frozen=True)
class Step:
    """One computation of a coordinator's file."""

    name: str
    computation: str
    settings: Mapping[str, Any]
    privacy: Mapping[str, Any] | None
    threshold: int | None = None
    seed: int | None = None

    def proposal(self, sites: tuple[str, ...], run: str) -> Proposal:
        """Return it as it is proposed to sites."""
        return Proposal(
            self.computation,
            dict(self.settings),
            None if self.privacy is None else dict(self.privacy),
            sites,
            run,
            self.threshold,
            self.seed,
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

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> CoordinatorConfig:
        """Read and check a coordinator's file."""
        file, data = _read(
            path,
            {
                "kit",
                "admin",
                "output",
                "sites",
                "computation",
                "timeout",
                "on_failure",
                "minimum",
                "retries",
                "plugins",
            },
        )
        sites = data.get("sites", [])
        if not sites or not data.get("computation"):
            raise ParameterError(f"{file} must name sites and at least one [[computation]]")
        check("timeout", data.get("timeout", 60.0), Real(0, open_low=True))
        check("on_failure", data.get("on_failure", "stop"), OneOf("stop", "exclude"))
        check("minimum", data.get("minimum", 1), Integer(1))
        check("retries", data.get("retries", 2), Integer(0))
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
            folder / data.get("output", "result"),
            tuple(sites),
            tuple(steps),
            float(data.get("timeout", 60.0)),
            data.get("on_failure", "stop"),
            int(data.get("minimum", 1)),
            int(data.get("retries", 2)),
            _plugins(file, data),
        )
