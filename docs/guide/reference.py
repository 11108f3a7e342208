"""Write the pages of the reference, one for each public name, before Sphinx reads its sources.

What is public: ``tacit.__all__``, the names of the packages in `PACKAGES`, and the modules in
`MODULES`, which experts import from, with what each lists in ``__all__``. Nothing else of tacit
has a page. Pages lie under ``docs/api``, which is not under version control.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sphinx.application import Sphinx

PACKAGES = {
    "tacit": "What `import tacit as tc` gives",
    "tacit.regression": "Regressions over sites",
    "tacit.factorization": "Factorizations: settings of the methods",
    "tacit.recommender": "Recommenders: settings of the methods",
    "tacit.moments": "Topics, mixtures and tensors",
    "tacit.posterior": "Populations, priors and statistics",
    "tacit.networks": "Networks (extra nn)",
    "tacit.audit": "Audits",
    "tacit.planning": "Planning",
    "tacit.report": "The report",
}
MODULES = {
    "Errors": ("tacit.errors", "tacit.data.problems"),
    "Accounting": (
        "tacit.privacy.events", "tacit.privacy.accounting.accountants",
        "tacit.privacy.accounting.gaussian", "tacit.privacy.calibration", "tacit.privacy.curve",
        "tacit.privacy.claims", "tacit.privacy.ledger.terms",
    ),
    "Mechanisms": ("tacit.mechanisms.*",),
    "Rounds": (
        "tacit.estimators.agreement", "tacit.summary.agreement",
        "tacit.rounds.messages", "tacit.rounds.sides", "tacit.rounds.run",
        "tacit.rounds.aggregate", "tacit.rounds.checkpoint",
    ),
    "Counts that were perturbed": ("tacit.factorization.counts.numerics.gibbs",),
    "How good factorizations are": ("tacit.factorization.metrics",),
    "Simulated data and splits": ("tacit.data.synthetic", "tacit.data.split"),
    "Papers' own noise": ("tacit.published.*",),
}  # fmt: skip

BACK = ":doc:`all public names <index>`"


@dataclass(frozen=True)
class Name:
    """One public name: where a reader imports it from, and what it is."""

    module: str
    name: str
    value: Any

    @property
    def full(self) -> str:
        """Return the dotted name, which is also that of its page."""
        return f"{self.module}.{self.name}"


def names_of(module: ModuleType) -> list[str]:
    """Return the public names of a module: its ``__all__``, else what its lazy ``dir`` gives."""
    listed = getattr(module, "__all__", None)
    found = listed if listed is not None else module.__dir__()
    return sorted(name for name in found if not name.startswith("_") and name != "ESTIMATORS")


def public_names() -> dict[str, list[Name]]:
    """Return package → its names; what the top of tacit gives is not repeated below it."""
    found: dict[str, list[Name]] = {}
    seen: set[int] = set()
    for package in PACKAGES:
        home = importlib.import_module(package)
        names = [Name(package, name, getattr(home, name)) for name in names_of(home)]
        names = [name for name in names if not inspect.ismodule(name.value)]
        found[package] = [name for name in names if id(name.value) not in seen]
        seen |= {id(name.value) for name in names}
    return found


def modules(patterns: tuple[str, ...]) -> list[str]:
    """Return the modules that a list means; ``package.*`` is those with an ``__all__``."""
    found = []
    for pattern in patterns:
        if not pattern.endswith(".*"):
            found.append(pattern)
            continue
        package = importlib.import_module(pattern[:-2])
        inside = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
        for name in inside:
            full = f"{package.__name__}.{name}"
            if not name.startswith("_") and getattr(
                importlib.import_module(full), "__all__", None
            ):
                found.append(full)
    return found


def methods(kind: type) -> list[str]:
    """Return the public methods and properties of a class that tacit wrote."""
    found: dict[str, None] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith("tacit"):
            continue
        for name, value in vars(base).items():
            written = isinstance(value, property) or inspect.isfunction(
                getattr(value, "__func__", value)
            )
            if written and not name.startswith("_") and inspect.getdoc(getattr(kind, name)):
                found[name] = None
    return list(found)


def _head(title: str) -> str:
    """Return the beginning of a page, which is found from the index and not from the sidebar."""
    return f":orphan:\n\n{title}\n{'=' * len(title)}\n\n"


def page(name: Name) -> str:
    """Return the page of one name."""
    where = f"``{'tc' if name.module == 'tacit' else name.module}.{name.name}``"
    return _head(name.name) + f"{where} · {BACK}\n\n" + entry(name)


def entry(name: Name, indent: str = "") -> str:
    """Return what autodoc is asked for."""
    if inspect.isclass(name.value):
        members = ", ".join(methods(name.value))
        more = f"\n{indent}   :members: {members}" if members else ""
        return f"{indent}.. autoclass:: {name.full}{more}\n\n"
    if callable(name.value):
        return f"{indent}.. autofunction:: {name.full}\n\n"
    return f"{indent}.. py:data:: {name.full}\n\n{indent}   A constant.\n\n"


def module_page(module: str) -> str:
    """Return the page of a module that experts import from."""
    home = importlib.import_module(module)
    listed = [name for name in names_of(home)]
    head = _head(module) + f"{BACK}\n\n.. automodule:: {module}\n   :no-members:\n\n"
    return head + "".join(entry(Name(module, name, getattr(home, name))) for name in listed)


def index() -> str:
    """Return the page that lists everything."""
    text = "API reference\n=============\n\n"
    text += "Public names only, from their docstrings. What stands in no list here may change.\n\n"
    for package, names in public_names().items():
        text += _section(PACKAGES[package], f"``{package}``", [name.full for name in names])
    for title, patterns in MODULES.items():
        text += _section(title, "", modules(patterns))
    return text


def _section(title: str, about: str, pages: list[str]) -> str:
    listed = "".join(f"* :doc:`{name} <{name}>`\n" for name in pages)
    return f"{title}\n{'-' * len(title)}\n\n{about}\n\n{listed}\n"


def pages() -> dict[str, str]:
    """Return file → text of the whole reference."""
    found = {"index": index()}
    for names in public_names().values():
        found |= {name.full: page(name) for name in names}
    for patterns in MODULES.values():
        found |= {module: module_page(module) for module in modules(patterns)}
    return found


def _write(app: Sphinx) -> None:
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    wanted = {f"{name}.rst": text for name, text in pages().items()}
    for path in folder.glob("*.rst"):
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _bars(_: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Keep the bars of |x| as they are: reStructuredText would look for a substitution."""
    for number, line in enumerate(lines):
        if "|" in line and not line.lstrip().startswith((">>>", "...")):
            parts = re.split(r"(`+[^`]*`+)", line)
            lines[number] = "".join(
                part if part.startswith("`") else part.replace("|", r"\|") for part in parts
            )


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the reference before sources are looked for."""
    app.connect("builder-inited", _write)
    app.connect("autodoc-process-docstring", _bars)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
