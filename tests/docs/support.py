"""Where the guide is, and a way of building it without running its cells."""

import io
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
sys.path.insert(0, str(DOCS))  # the guide's own extensions: `guide.records` and others


def pages():
    """Return the sources of the guide."""
    return sorted({*DOCS.glob("*.md"), *DOCS.glob("gallery/*.md")})


def prose(text):
    """Return a page without its fences and its front matter, but with directives' names."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    return re.sub(r"^(`{3,}|:{3,}).*?^\1\s*$", "", text, flags=re.M | re.S)


def build(folder, **settings):
    """Build the site into a folder, and return it; every warning of Sphinx is an error."""
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    said = io.StringIO()
    with patch_docutils(str(DOCS)), docutils_namespace():
        app = Sphinx(
            DOCS, DOCS, folder, folder.parent / "doctrees", "html", settings,
            status=None, warning=said,
        )  # fmt: skip
        app.build(force_all=True)
    complaints = said.getvalue().strip()
    assert app.statuscode == 0, complaints
    assert complaints == ""
    return folder


LOADS = re.compile(
    r"""<(?:script|img|iframe|source|video|audio|embed|object|link)\b[^>]*?\b(?:src|data|href)=["']([^"']+)""",
    flags=re.I,
)


def loaded(page):
    """Return what a browser fetches for a page: scripts, styles, pictures; links are not."""
    text = page.read_text(encoding="utf-8")
    kept = re.sub(r'<link[^>]+rel="(?:index|search|next|prev|canonical)"[^>]*>', "", text)
    return [target for target in LOADS.findall(kept) if not target.startswith("data:")]


def broken(site):
    """Return every link of a built site that leads nowhere, and every malformed address."""
    anchors = {}

    def ids(page):
        if page not in anchors:
            text = page.read_text(encoding="utf-8")
            anchors[page] = set(re.findall(r'\bid="([^"]+)"', text))
        return anchors[page]

    found = []
    for page in site.rglob("*.html"):
        for target in set(re.findall(r'\bhref="([^"]+)"', page.read_text(encoding="utf-8"))):
            parts = urlsplit(target)
            if parts.scheme:
                if parts.scheme not in ("https", "http", "mailto") or not (
                    parts.netloc or parts.path
                ):
                    found.append(f"{page.name}: {target} is no address")
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            if path == site.parent / "index.html":
                continue  # the list of versions, which lies above a version
            if not path.exists():
                found.append(f"{page.name}: there is no {target}")
            elif parts.fragment and path.suffix == ".html":
                name = unquote(parts.fragment)
                if name not in ids(path) and name != "":
                    found.append(f"{page.name}: {path.name} has no #{name}")
    return found
