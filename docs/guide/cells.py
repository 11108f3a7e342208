"""What is particular about the guide's cells: tabs, commands of a shell, texts for pictures.

A cell with ``:tab: pandas`` becomes one tab, together with the cells with a tab beside it: each
tab runs and shows what came of it. A cell of lines that start with ``!`` is shown as commands, one
that starts with ``%%writefile NAME`` as that file. ``:alt:`` says in words what a picture shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from docutils import nodes
from pygments.lexers import find_lexer_class_by_name
from pygments.util import ClassNotFound
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform
from sphinx_design.shared import create_component


class Cells(SphinxTransform):
    """Rework the cells of one page."""

    default_priority = 400

    def apply(self, **kwargs: Any) -> None:
        """Describe pictures, show commands as such, and gather tabs."""
        cells = [found for found in self.document.findall(nodes.container) if _is_cell(found)]
        for cell in cells:
            _describe(cell)
            _show_commands(cell)
        gathered: set[int] = set()
        for cell in cells:
            if id(cell) not in gathered and _tab(cell):
                gathered |= _gather(cell)


def _is_cell(node: nodes.Node) -> bool:
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def _tab(node: nodes.Node) -> str:
    found = node.get("cell_metadata", {}).get("tab", "") if _is_cell(node) else ""  # type: ignore[attr-defined]
    return str(found)


def _describe(cell: nodes.container) -> None:
    words = cell.get("cell_metadata", {}).get("alt")
    if words:
        for picture in cell.findall(nodes.image):
            picture["alt"] = str(words)


def _show_commands(cell: nodes.container) -> None:
    for block in cell.findall(nodes.literal_block):
        lines = block.astext().splitlines()
        if lines and all(line.startswith("!") for line in lines):
            _say(block, "\n".join("$ " + line[1:] for line in lines), "console")
        elif lines and lines[0].startswith("%%writefile "):
            name = lines[0].split()[1]
            ending = Path(name).suffix.removeprefix(".")
            _say(block, "\n".join(lines[1:]), ending if _lexer(ending) else "text")
            title = nodes.paragraph("", "", nodes.literal(text=name), classes=["file-name"])
            block.parent.insert(0, title)
        return  # the first block is what was typed, the others are what came of it


def _lexer(name: str) -> bool:
    try:
        return bool(find_lexer_class_by_name(name))
    except ClassNotFound:
        return False


def _say(block: nodes.literal_block, text: str, language: str) -> None:
    block.children = [nodes.Text(text)]
    block.rawsource = text
    block["language"] = language


def _gather(first: nodes.container) -> set[int]:
    """Put a cell and those with a tab that follow it into one set of tabs."""
    parent = first.parent
    start = parent.index(first)
    run: list[nodes.container] = []
    for node in parent.children[start:]:
        if not _tab(node):
            break
        run.append(node)  # type: ignore[arg-type]
    tabs = create_component("tab-set", classes=["sd-tab-set"])
    for cell in run:
        label = nodes.rubric(_tab(cell), nodes.Text(_tab(cell)), classes=["sd-tab-label"])
        content = create_component("tab-content", classes=["sd-tab-content"], children=[cell])
        item = create_component("tab-item", classes=["sd-tab-item"], children=[label, content])
        label["sync_id"] = _tab(cell)
        label["sync_group"] = "input"
        tabs += item
    parent.children[start : start + len(run)] = [tabs]
    tabs.parent = parent
    return {id(cell) for cell in run}


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(Cells)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
