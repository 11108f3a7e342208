"""Mend what the theme leaves open for people who use a keyboard or a screen reader.

Captions of the navigation get a level, the two sidebars their names, what scrolls can be reached
by the keyboard, corners of tables are no headings, and the page of search results has one.
"""

from __future__ import annotations

from pathlib import Path

from sphinx.application import Sphinx

MENDED = (
    ('<p class="caption" role="heading">', '<p class="caption" role="heading" aria-level="2">'),
    ('<aside class="sidebar-drawer">', '<aside class="sidebar-drawer" aria-label="All pages">'),
    ('<aside class="toc-drawer', '<aside aria-label="This page" class="toc-drawer'),
    ("<pre>", '<pre tabindex="0">'),
    ('<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'),
    ('<table border="1" class="dataframe">', '<table tabindex="0" class="dataframe">'),
    ("<table>", '<table tabindex="0">'),
    ('<th class="head"><p></p></th>', "<td></td>"),
    ("<th></th>", "<td></td>"),
    ('<summary aria-label="Toggle hidden content">', "<summary>"),
    ('<div id="search-results">', '<h1>Search</h1>\n<div id="search-results">'),
)


def mended(text: str) -> str:
    """Return a page with everything mended; one that was mended before stays as it is.

    >>> mended(mended("<pre>x</pre>"))
    '<pre tabindex="0">x</pre>'
    """
    for found, better in MENDED:
        if found not in better or better not in text:
            text = text.replace(found, better)
    return text


def _mend(app: Sphinx, problem: Exception | None) -> None:
    if problem or app.builder.name != "html":
        return
    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        better = mended(text)
        if better != text:
            page.write_text(better, encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Mend pages when a build is done."""
    app.connect("build-finished", _mend)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
