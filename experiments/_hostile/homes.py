"""A site's folder, with marks planted wherever something could leak.

A mark is a text that occurs nowhere else and names its site: in values, in columns and tables that
nobody agreed on, in the names of people and files, in the folder's path.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from tacit.federation.files import SiteConfig
from tacit.privacy.ledger.ledger import Ledger

ITEMS = [f"i{k}" for k in range(6)]
SETTINGS = {
    "model": {"ratings": "user:k item:k"},
    "rank": 2,
    "bounds": [1.0, 5.0],
    "method": "sgld",
    "options": {"rounds": 3},
    "entities": {"item": ITEMS},
}
# Nobody has rated most of these: what is released about them is noise alone, and can be measured.
SHELF = [*ITEMS, *(f"unrated {k}" for k in range(200))]
RECOMMENDER = {"bounds": [1.0, 5.0], "rank": 2, "items": SHELF}
EVERYTHING = 1e6  # a budget that no attack drains, so that each one meets the check it is for
BAD = (
    "an item that nobody agreed on",
    "a rating out of bounds",
    "a missing rating",
    "a rating that is no number",
    "a row too short",
    "no rows",
    "no file",
    "another column",
)


class Home:
    """A site's folder.

    Parameters
    ----------
    place
        Where the folder with the marked name is made, or is already.
    name
        The site.
    """

    def __init__(self, place: Path, name: str) -> None:
        self.name = name
        self.number = 7000.25 + zlib.crc32(name.encode()) % 999
        self.path, self.person = f"mark-path-{name}-7319", f"mark-person-{name}-7319"
        self.value, self.column = f"mark-value-{name}-7319", f"mark_column_{name}_7319"
        self.folder = place / self.path
        self.file = self.folder / "site.toml"

    @property
    def marks(self) -> tuple[bytes, ...]:
        """What must not leave: texts, and a number in digits and in bytes."""
        texts = (self.path, self.person, self.value, self.column, str(self.number))
        return (*(text.encode() for text in texts), struct.pack("<d", self.number))

    @property
    def table(self) -> Path:
        """The file of the ratings."""
        return self.folder / f"{self.path}.csv"

    @property
    def ran(self) -> Path:
        """Where foreign code leaves a line for each time that it runs."""
        return self.folder / "ran"

    def write(self, partners: Mapping[str, str], *lines: str) -> Home:
        """Write data, a policy and a ledger; the identity is there already.

        Parameters
        ----------
        partners
            Site → public identity, in hexadecimal.
        lines
            What else stands in the file.
        """
        self.write_ratings()
        notes = [f"{self.person}-{k},{self.value},{self.number}" for k in range(40)]
        (self.folder / "notes.csv").write_text("\n".join(notes) + "\n")
        common = {"delta": 1e-6, "partners": 2}
        sums = {"colluding": 0, "threshold": 3}
        allow = [
            {"computation": "factorization", "epsilon": 1.0, "unit": "user", "rounds": 3,
             "tables": [self.column], "settings": SETTINGS, **common, **sums},
            {"computation": "recommender", "epsilon": 1.0, "unit": "entry", "rounds": 20,
             "trust": "aggregator", "tables": [self.column], "settings": RECOMMENDER, **common},
        ]  # fmt: skip
        data = {self.column: {"file": self.table.name, "value": "rating"}}
        ledger = {"file": f"{self.path}.db", "epsilon": EVERYTHING, "delta": 1e-3, "unit": "user",
                  "neighbours": "replace-one", "most": {"entry": 1}}  # fmt: skip
        entries = {"name": self.name, "identity": "identity.key", "ledger": ledger, "data": data}
        entries |= {"allow": allow, "partners": dict(partners)}
        text = "\n".join([*lines, *(f"{key} = {toml(item)}" for key, item in entries.items())])
        self.file.write_text(text + "\n")
        SiteConfig.read(self.file).create_ledger()
        return self

    def write_ratings(self, bad: str | None = None) -> None:
        """Write the ratings, with one thing wrong with them where asked for."""
        heading = f"user,{self.column},rating" if bad == BAD[7] else "user,item,rating"
        rows = [
            f"{self.person}-{u},i{(u + k) % 6},{1 + (u * k) % 5}"
            for u in range(30)
            for k in range(3)
        ]
        wrong = {
            BAD[0]: f"{self.person},{self.value},3",
            BAD[1]: f"{self.person},i1,{self.number}",
            BAD[2]: f"{self.person},i1,",
            BAD[3]: f"{self.person},i1,{self.value}",
            BAD[4]: f"{self.person},i1",
        }
        rows = [] if bad == BAD[5] else rows + [row for why, row in wrong.items() if why == bad]
        self.table.write_text("\n".join([heading, *rows]) + "\n")
        if bad == BAD[6]:
            self.table.unlink()

    def weaken(self, build: str) -> None:
        """Say which check is taken out, to a process that was started to hear it."""
        (self.folder / "build").write_text(build)

    @property
    def spent(self) -> float:
        """What the ledger has paid."""
        return Ledger.open(self.folder / f"{self.path}.db").spent.epsilon

    def facts(self, left: Iterable[bytes]) -> int:
        """Return how many of the things that left hold a mark."""
        return sum(any(mark in one for mark in self.marks) for one in left)

    def bytes_of_files(self, left: Iterable[bytes]) -> int:
        """Return how many bytes of the site's own files are in what left: whole lines of them."""
        whole = b"\n".join(left)
        names = (self.file, self.table, self.folder / "notes.csv", self.folder / "identity.key")
        own = self.folder / "state"  # where the engine's own words are written down as well
        kept = [p for p in own.rglob("*") if p.is_file() and p.name != "engine.log"]
        found = 0
        for path in (*names, *kept):
            lines = path.read_bytes().splitlines() if path.exists() else []
            found += sum(len(line) for line in lines if len(line) > 12 and line in whole)
        return found

    def lines_run(self) -> int:
        """Return how often foreign code ran where it could write into this folder."""
        return len(self.ran.read_text().splitlines()) if self.ran.exists() else 0


def toml(value: Any) -> str:
    """Return a value in TOML's inline form."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}" = {toml(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value) if isinstance(value, str | bool) else repr(value)


def files_below(folder: Path, without: Collection[Path] = ()) -> list[bytes]:
    """Return the contents and the names of all files below a folder, but for some."""
    found = []
    for path in folder.rglob("*"):
        if path.is_file() and not any(path.is_relative_to(one) for one in without):
            found += [path.read_bytes(), str(path.relative_to(folder)).encode()]
    return found
