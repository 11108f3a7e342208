"""What a configuration file says, checked; an error names the line and the fix.

estimator = "PrivateFactorization"   # any private estimator, by its class or its short name
value = "result"                     # the column of values, for a factorization
plugins = []                         # packages with families besides tacit's own

[parameters]                         # of the estimator, as in Python
model = "patient:k test:k"
bounds = [0, 10]

[privacy]                            # as in tacit.Privacy; without it no noise is added
epsilon = 1.0

[columns]                            # entity → the column that names it; of a table all that is
patient = "patient_id"               # public about its columns, as in tacit.Columns

[labels]                             # the public members of an entity: a list, or a text file
test = "tests.txt"

[[site]]                             # one for each holder
name = "North"
data = "north.csv"                   # or {file = "north.csv", separator = ";", decimal = ","}
                                     # or {shards = "north/*.parquet", executor = "dask://…"}
ledger = "north.db"                  # made with the next two if it does not exist
ledger_epsilon = 8.0
ledger_delta = 1e-5

[output]
release = "release"
report = "report.html"
"""

from __future__ import annotations

import difflib
import inspect
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tacit.data.problems import BadTable
from tacit.errors import ParameterError, TacitError
from tacit.estimators.blanks import BLANK, has_blank
from tacit.estimators.families import estimator_called

__all__ = ["BlankLine", "Config", "blank_lines", "read_config"]

_TOP = (
    "estimator",
    "value",
    "plugins",
    "parameters",
    "privacy",
    "columns",
    "labels",
    "site",
    "output",
)
_SITE = (
    "name",
    "data",
    "ledger",
    "ledger_epsilon",
    "ledger_delta",
    "ledger_unit",
    "ledger_neighbours",
    "ledger_instead_of",
)
_OUTPUT = ("release", "report", "purpose", "contact")
_PRIVACY = ("epsilon", "delta", "unit", "neighbours", "trust", "against", "by_site")
_UNQUOTED_HASH = re.compile(r"""^((?:[^#"']|"(?:[^"\\]|\\.)*"|'[^']*')*)#""")


@dataclass(frozen=True)
class Config:
    """A configuration that was read; ``folder`` is where its paths start."""

    path: Path
    text: str
    data: Mapping[str, Any]

    @property
    def folder(self) -> Path:
        """Where the file's own paths start."""
        return self.path.parent

    @property
    def plugins(self) -> tuple[str, ...]:
        """Families besides tacit's own."""
        return tuple(self.data.get("plugins", ()))

    def section(self, name: str) -> dict[str, Any]:
        """Return a table of the file, empty if it is not there."""
        return dict(self.data.get(name, {}))

    def line(self, section: str, key: str | None = None, number: int = 0) -> int:
        """Return the line of a key, or else that of its section.

        An empty section is the top of the file; ``number`` says which one, of tables that occur
        several times.
        """
        here, seen, heading = "", -1, 1
        for count, line in enumerate(self.text.splitlines(), 1):
            found = re.match(r"\s*\[\[?\s*([\w.-]+)\s*\]\]?", line)
            if found:
                here = found[1]
                if not section and here == key:  # the top of the file names its tables
                    return count
                seen += here == section
                if here == section and seen == number:
                    heading = count
            inside = here == section and (not section or seen == number)
            if key and inside and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
                return count
        return heading

    def fail(
        self, message: str, section: str = "", key: str | None = None, number: int = 0
    ) -> NoReturn:
        """Raise an error that names the line."""
        where = self.line(section, key, number)
        raise ParameterError(f"{self.path}, line {where}: {message}")

    def explain(self, error: TacitError) -> NoReturn:
        """Raise an error of the library again, with the line of the setting that it names."""
        if isinstance(error, BadTable):  # it names its own files
            raise error from None
        words = re.findall(r"\w+", str(error))
        for section in ("parameters", "privacy"):
            for key in self.section(section):
                if key in words[:3]:
                    raise type(error)(f"{self.path}, line {self.line(section, key)}: {error}")
        raise type(error)(f"{self.path}: {error}")


@dataclass(frozen=True)
class BlankLine:
    """A line of a configuration with something that is still to be filled in."""

    number: int
    code: str
    words: str

    def __str__(self) -> str:
        about = f": {self.words}" if self.words else ""
        return f"line {self.number}: {self.code} is to be filled in{about}"


def blank_lines(text: str) -> list[BlankLine]:
    """Return the lines of a configuration that hold a blank, with their comments.

    >>> print(blank_lines('epsilon = "…"  # a number, such as 1.0')[0])
    line 1: epsilon = "…" is to be filled in: a number, such as 1.0
    """
    if not has_blank(tomllib.loads(text)):
        return []
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        code, _, words = _UNQUOTED_HASH.sub(r"\1\n", line, count=1).partition("\n")
        if re.search(f"[\"']{BLANK}[\"']", code):
            found.append(BlankLine(number, code.strip(), words.strip()))
    return found


def read_config(path: str | Path) -> Config:
    """Read and check a configuration file; no data is read.

    Raises
    ------
    ParameterError
        That names the line, and what to write instead.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
        config = Config(file, text, tomllib.loads(text))
    except (OSError, UnicodeDecodeError) as error:
        raise ParameterError(f"{file} cannot be read: {error}") from None
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"\(at line (\d+), column \d+\)", str(error))
        where = f"line {place[1]}" if place else "the last line"
        reason = re.sub(r" \(at .*\)", "", str(error))
        raise ParameterError(
            f"{file}, {where}: {reason}; write settings as key = value, and text in quotes"
        ) from None
    _check_blanks(config)
    _check_tables(config)
    _check_keys(config, "", config.data, _TOP)
    _check_estimator(config)
    _check_keys(config, "privacy", config.section("privacy"), _PRIVACY)
    _check_keys(config, "output", config.section("output"), _OUTPUT)
    sites = config.data.get("site", [])
    if not sites:
        config.fail('add a [[site]] table with name = "…" and data = "….csv"')
    for number, site in enumerate(sites):
        _check_keys(config, "site", site, _SITE, number)
        for key, kinds in (("name", str), ("data", str | dict)):
            if not isinstance(site.get(key), kinds):
                config.fail(f'a site needs {key} = "…"', "site", key, number)
    return config


def _check_blanks(config: Config) -> None:
    open_lines = blank_lines(config.text)
    if open_lines:
        more = len(open_lines) - 1
        about = f" ({more} more: tacit check {config.path} lists them)" if more else ""
        raise ParameterError(f"{config.path}, {open_lines[0]}{about}")


def _check_tables(config: Config) -> None:
    for name in ("parameters", "privacy", "columns", "labels", "output"):
        if not isinstance(config.data.get(name, {}), dict):
            config.fail(f"{name} must be a table: write [{name}] on a line of its own", "", name)
    sites = config.data.get("site", [])
    if not isinstance(sites, list) or not all(isinstance(site, dict) for site in sites):
        config.fail("write [[site]], in double brackets, for every site", "site")


def _check_keys(
    config: Config, section: str, found: Mapping[str, Any], known: Any, number: int = 0
) -> None:
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(key, known, 1)
            fix = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(known)}"
            config.fail(f"{key!r} is unknown here: {fix}", section, key, number)


def _check_estimator(config: Config) -> None:
    plugins = config.data.get("plugins", [])
    if not isinstance(plugins, list) or not all(isinstance(name, str) for name in plugins):
        config.fail('plugins must be a list of packages, such as ["my_family"]', "", "plugins")
    try:
        kind = estimator_called(str(config.data.get("estimator", "")), config.plugins)
    except ParameterError as error:
        config.fail(f'write estimator = "…": {error}', "", "estimator")
    accepted = inspect.signature(kind).parameters
    own = [key for key in accepted if key not in ("privacy", "ledger")] + list(kind._stated_facts)
    _check_keys(config, "parameters", config.section("parameters"), own)
