"""Link the first use of each term of the glossary on a page to its definition.

The glossary is one definition list, ``docs/glossary.md``: ``term; other form`` and, below it, a
sentence. No page has to mark a term: the first place on a page where one stands in running text
becomes a link, with the definition where a reader points at it. A form that is an everyday word
too (``~open``) is listed and not linked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

PAGE = "glossary"
SKIP = (nodes.literal, nodes.literal_block, nodes.reference, nodes.title, nodes.rubric, nodes.math,
        nodes.math_block, nodes.term, nodes.raw, nodes.image, nodes.caption, addnodes.pending_xref,
        addnodes.download_reference)  # fmt: skip


def entries(text: str) -> dict[str, tuple[tuple[str, ...], str]]:
    r"""Return anchor → (forms of the term, definition) of a glossary.

    >>> entries("ε; epsilon\n: How much odds may change.\n")
    {'term-epsilon': (('ε', 'epsilon'), 'How much odds may change.')}
    """
    found = {}
    for term, words in re.findall(r"^(\S[^\n]*)\n: (.+?)(?=\n\n|\n?\Z)", text, flags=re.M | re.S):
        forms = tuple(form.strip() for form in term.split(";"))
        found[anchor(forms)] = (forms, re.sub(r"\s+", " ", words).strip())
    return found


def anchor(forms: tuple[str, ...]) -> str:
    """Return the anchor of a term: of the first form that has letters of an address."""
    return "term-" + next(filter(None, (nodes.make_id(form) for form in forms)))


def plain(words: str) -> str:
    """Return a definition without its marks."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words).replace("`", "").replace("*", "")


class Links(SphinxTransform):
    """Link terms on one page."""

    default_priority = 880

    def apply(self, **kwargs: Any) -> None:
        """Walk through running text once for each term that is still without a link."""
        here = self.env.docname
        path = Path(self.env.doc2path(PAGE))
        if here.startswith("api/") or here == "changelog" or not path.exists():
            return
        known = entries(path.read_text(encoding="utf-8"))
        if here == PAGE:
            _mark(self.document, known)
            return
        self.env.note_dependency(str(path))
        page = "../" * here.count("/") + f"{PAGE}.html"
        left = {name: _pattern(forms) for name, (forms, _) in known.items()}
        for text in list(self.document.findall(nodes.Text)):
            if _in_running_text(text):
                _link(text, left, known, page)


def _pattern(forms: tuple[str, ...]) -> re.Pattern[str]:
    meant = [re.escape(form) for form in forms if not form.startswith("~")]
    ends = "|".join(sorted(meant, key=len, reverse=True)) or r"(?!)"
    return re.compile(rf"(?<![\w-])(?:{ends})(?![\w-])", 0 if len(forms[0]) < 3 else re.I)


def _in_running_text(text: nodes.Text) -> bool:
    above: Any = text.parent
    paragraph = False
    while above is not None:
        if isinstance(above, SKIP):
            return False
        paragraph = paragraph or isinstance(above, nodes.paragraph)
        above = above.parent
    return paragraph


def _link(
    text: nodes.Text, left: dict[str, re.Pattern[str]], known: dict[str, Any], page: str
) -> None:
    """Replace terms within one text, the leftmost first."""
    words, parts = text.astext(), []
    while left:
        hits = [(hit.start(), -len(hit.group()), name, hit) for name, pattern in left.items()
                if (hit := pattern.search(words))]  # fmt: skip
        if not hits:
            break
        *_, name, hit = min(hits, key=lambda found: found[:2])
        del left[name]
        link = nodes.reference("", hit.group(), internal=True, refuri=f"{page}#{name}")
        link["classes"].append("term")
        link["reftitle"] = plain(known[name][1])
        parts += [nodes.Text(words[: hit.start()]), link]
        words = words[hit.end() :]
    if parts:
        text.parent.replace(text, [part for part in [*parts, nodes.Text(words)] if part.astext()])


def _mark(document: nodes.document, known: dict[str, Any]) -> None:
    """Give the terms of the glossary their anchors, and show their first form first."""
    for term in document.findall(nodes.term):
        forms = tuple(form.strip() for form in term.astext().split(";"))
        name = anchor(forms)
        if name not in known:
            raise ValueError(f"the glossary's {forms[0]!r} has no definition in the expected form")
        term["ids"].append(name)
        document.ids[name] = term
        term.children = [nodes.Text(", ".join(form.removeprefix("~") for form in forms))]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the transform."""
    app.add_transform(Links)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
