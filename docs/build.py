"""Build the guide: one HTML page for every Markdown page, and an API reference from docstrings.

    python docs/build.py build/docs

Plain files without scripts, readable without a network. The Markdown parser comes with rich. A link
to a page or heading that does not exist is an error. Examples are run by the test command, which
takes every ``>>>`` of the guide and of the docstrings as a test.
"""

from __future__ import annotations

import ast
import html
import re
import sys
from pathlib import Path

from markdown_it import MarkdownIt

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src" / "tacit"
STYLE = """
body{font:16px/1.55 system-ui,sans-serif;max-width:52rem;margin:0 auto;padding:1rem;color:#1b1f24}
nav{margin-bottom:1.5rem}a{color:#0b57d0}code{font-size:.92em}h2{margin-top:2.2rem}
pre{background:#f5f6f8;padding:.8rem;overflow:auto;border-radius:6px}
table{border-collapse:collapse;display:block;overflow:auto}td,th{border:1px solid #d5d9df;
padding:.3rem .6rem;text-align:left;vertical-align:top}img{max-width:100%}
@media(prefers-color-scheme:dark){body{background:#15181c;color:#e6e8eb}a{color:#8ab4f8}
pre{background:#1f2328}td,th{border-color:#3a4048}}
"""


def slug(heading: str) -> str:
    """Return the anchor of a heading, as GitHub makes it.

    >>> slug("Published: what is claimed, and `what` is given")
    'published-what-is-claimed-and-what-is-given'
    """
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def headings(text: str) -> set[str]:
    """Return the anchors of a page."""
    plain = re.sub(r"```.*?```", "", text, flags=re.S)
    return {slug(found) for found in re.findall(r"^#+ (.+)$", plain, flags=re.M)}


def links(text: str) -> list[str]:
    """Return the targets of a page's links and pictures."""
    plain = re.sub(r"```.*?```", "", text, flags=re.S)
    return re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", plain)


def broken_links(pages: dict[Path, str]) -> list[str]:
    """Return every link to a file or heading that is not there."""
    found = []
    for page, text in pages.items():
        for target in links(text):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists():
                found.append(f"{page.name}: there is no {target}")
            elif anchor and anchor not in headings(file.read_text(encoding="utf-8")):
                found.append(f"{page.name}: {name or page.name} has no heading #{anchor}")
    return found


def pages() -> dict[Path, str]:
    """Return the guide's pages."""
    return {file: file.read_text(encoding="utf-8") for file in sorted(HERE.glob("*.md"))}


def page_html(title: str, body: str) -> str:
    """Return one page."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}'
        '</title><meta name="viewport" content="width=device-width"><style>'
        f'{STYLE}</style></head><body><nav><a href="index.html">tacit</a> · '
        f'<a href="api.html">API</a></nav><main>{body}</main></body></html>'
    )


def rendered(text: str) -> str:
    """Return Markdown as HTML, with anchors, and links to pages turned into links to HTML."""
    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(text)
    for number, token in enumerate(tokens):
        if token.type == "heading_open":
            token.attrSet("id", slug(tokens[number + 1].content))
        for child in token.children or []:
            target = child.attrGet("href")
            if child.type == "link_open" and isinstance(target, str) and "://" not in target:
                child.attrSet("href", re.sub(r"\.md(#|$)", r".html\1", target))
    return parser.renderer.render(tokens, parser.options, {})


# -- the API reference ----------------------------------------------------------------------


def public_names(file: Path) -> list[tuple[str, str, str]]:
    """Return (name, signature, docstring) of what a module lists in ``__all__``."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    listed: list[str] = []
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
        ):
            listed = [str(item) for item in ast.literal_eval(node.value)]
    found = []
    for node in tree.body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name not in listed:
            continue
        head = f"class {node.name}" if isinstance(node, ast.ClassDef) else _signature(node)
        text = ast.get_docstring(node) or ""
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
                    doc = (ast.get_docstring(part) or "").split("\n\n")[0]
                    text += f"\n\n{_signature(part)}\n    {doc}"
        found.append((node.name, head, text))
    return found


def _signature(node: ast.FunctionDef) -> str:
    return f"{node.name}({ast.unparse(node.args)})"


def api_html() -> str:
    """Return the reference: every module with public names, its purpose and its docstrings."""
    parts = ["<h1>API reference</h1>"]
    for file in sorted(SOURCE.rglob("*.py")):
        names = public_names(file)
        module = ".".join(("tacit", *file.relative_to(SOURCE).with_suffix("").parts))
        module = module.removesuffix(".__init__")
        if not names or any(part.startswith("_") for part in module.split(".")[1:]):
            continue
        about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
        parts.append(f'<h2 id="{module}">{module}</h2><p>{html.escape(about.splitlines()[0])}</p>')
        for name, head, text in names:
            parts.append(
                f'<details id="{module}.{name}"><summary><code>{html.escape(head)}</code>'
                f"</summary><pre>{html.escape(text)}</pre></details>"
            )
    return page_html("API reference", "".join(parts))


def build(target: Path) -> list[Path]:
    """Write the site, and return its files; a broken link raises."""
    found = pages()
    wrong = broken_links(found)
    if wrong:
        raise SystemExit("broken links:\n" + "\n".join(wrong))
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for file, text in found.items():
        title = text.splitlines()[0].lstrip("# ")
        out = target / f"{file.stem}.html"
        out.write_text(page_html(title, rendered(text)), encoding="utf-8")
        written.append(out)
    (target / "api.html").write_text(api_html(), encoding="utf-8")
    images = target / "images"
    images.mkdir(exist_ok=True)
    for picture in (HERE / "images").glob("*.png"):
        (images / picture.name).write_bytes(picture.read_bytes())
    return [*written, target / "api.html"]


if __name__ == "__main__":
    for path in build(Path(sys.argv[1] if len(sys.argv) > 1 else "build/docs")):
        print(path)
