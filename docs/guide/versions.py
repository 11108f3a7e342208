"""One folder per version, an address that stays, and notebooks to take along.

``build/docs/0.1.0/`` is a version; ``build/docs/stable/PAGE.html`` leads to the same page of the
newest one, and ``build/docs/index.html`` to its first page, with a list of the versions there are.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
from myst_nb.core.config import NbParserConfig
from myst_nb.core.read import create_nb_reader
from myst_parser.config.main import MdParserConfig
from sphinx.application import Sphinx

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="0; url={target}"><link rel="canonical" href="{target}"></head>
<body><main><h1>{title}</h1><p>The guide is at <a href="{target}">{target}</a>.</p>{more}</main>
</body></html>
"""


def versions(folder: Path) -> list[str]:
    """Return the versions that were built into a folder, the newest first."""
    found = [
        path.parent.name for path in folder.glob("*/index.html") if path.parent.name[0].isdigit()
    ]
    return sorted(found, key=_order, reverse=True)


def _order(version: str) -> tuple[tuple[int, int | str], ...]:
    parts = re.findall(r"\d+|[a-z]+", version)
    return tuple((1, int(part)) if part.isdigit() else (0, part) for part in parts)


def _redirect(app: Sphinx, problem: Exception | None) -> None:
    folder = Path(app.outdir).parent
    if problem or app.builder.name != "html" or Path(app.outdir).name != app.config.release:
        return
    known = versions(folder)
    newest = known[0]
    listed = "".join(f'<li><a href="{name}/index.html">{name}</a></li>' for name in known)
    folder.joinpath("index.html").write_text(
        PAGE.format(title="tacit", target=f"{newest}/index.html", more=f"<ul>{listed}</ul>"),
        encoding="utf-8",
    )
    if newest != app.config.release:
        return
    for page in app.env.found_docs:
        path = folder / "stable" / f"{page}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        target = "../" * (page.count("/") + 1) + f"{newest}/{page}.html"
        path.write_text(PAGE.format(title="tacit", target=target, more=""), encoding="utf-8")


def is_notebook(path: Path) -> bool:
    """Return whether a page has cells."""
    return path.suffix == ".md" and "file_format: mystnb" in path.read_text(encoding="utf-8")[:200]


def _notebooks(app: Sphinx, problem: Exception | None) -> None:
    """Write every page with cells as a notebook without outputs."""
    if problem or app.builder.name != "html":
        return
    for page in sorted(app.env.found_docs):
        source = Path(app.env.doc2path(page))
        if not is_notebook(source):
            continue
        text = source.read_text(encoding="utf-8")
        reader = create_nb_reader(str(source), MdParserConfig(), NbParserConfig(), text)
        path = Path(app.outdir) / "notebooks" / f"{page}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(nbformat.writes(reader.read(text)), encoding="utf-8")


def _tidy(app: Sphinx, problem: Exception | None) -> None:
    """Remove the copies of executed notebooks that MyST-NB leaves beside the versions."""
    shutil.rmtree(Path(app.outdir).parent / "jupyter_execute", ignore_errors=True)


def _context(app: Sphinx, page: str, _: str, context: dict[str, Any], __: Any) -> None:
    up = "../" * page.count("/")
    context["versions_page"] = f"{up}../index.html"
    if page in app.env.found_docs and is_notebook(Path(app.env.doc2path(page))):
        link = f'<a href="{up}notebooks/{page}.ipynb" download>as a notebook</a>'
        context["body"] += f'<p class="notebook-link">Take this page along {link}.</p>'


def setup(app: Sphinx) -> dict[str, bool]:
    """Write redirections and notebooks when a build is done."""
    app.connect("html-page-context", _context)
    app.connect("build-finished", _notebooks)
    app.connect("build-finished", _tidy)
    app.connect("build-finished", _redirect)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
