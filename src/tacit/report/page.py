"""The report: one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import os
import re
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit._core.answers import LEVEL
from tacit._core.html import Html, tag
from tacit._version import __version__
from tacit.errors import ParameterError
from tacit.report import making
from tacit.report.accuracy import Accuracy, accuracy_section
from tacit.report.budgets import budget_section
from tacit.report.contents import Contents, gather
from tacit.report.drawing import short
from tacit.report.headline import headline_box
from tacit.report.promise import assumption_section, promise_section
from tacit.report.results import results_section
from tacit.report.run_record import run_section
from tacit.report.style import CSS
from tacit.report.trust import trust_section

if TYPE_CHECKING:
    from tacit.privacy.ledger.ledger import Ledger

__all__ = ["check_free", "render_report", "write_report"]

# Control characters, and those that turn the direction of what follows: a name must not rearrange
# the sentence that it stands in.
_TURNING = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_UNSEEN = {code: "\ufffd" for code in [*range(9), *range(11, 32), *range(127, 160), *_TURNING]}
_OWN = (
    "The holder's own page: it shows numbers that were computed on the data without noise. Do not "
    "send it to anybody."
)


def write_report(
    source: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    summary: Sequence[str] = (),
    purpose: str = "",
    contact: str = "",
    date: str = "",
    ledgers: Mapping[str, Ledger] | None = None,
    accuracy: Accuracy | None = None,
    record: dict[str, Any] | None = None,
    level: float = LEVEL,
    own: bool = False,
    replace: bool = False,
) -> Path:
    """Write the report of a release or of a fitted estimator, and return where.

    Parameters
    ----------
    source
        The folder of a release, what `tacit.read_release` returned, or a fitted estimator. Of an
        estimator only released values are shown.
    path
        The HTML file to write.
    title
        Of the page.
    summary
        Sentences for its top, below the one that says what was learned.
    purpose, contact, date
        What it is for, whom to ask, and its day; those of the release, and today, unless given.
    ledgers
        Holder → ledger, to show what was spent over time.
    accuracy
        How good results are at several ε; see `Accuracy` and `simulated_accuracy`.
    record
        The run record of a federation (`tacit.report.run_record.read_record`).
    level
        The probability that intervals are made for.
    own
        Whether this is the holder's own page: only that one may show scores and training curves
        of private data, and it says so at its top. What was fitted without a guarantee has no
        other page.
    replace
        Whether a file that exists may be written over.

    Examples
    --------
    >>> import tempfile, tacit as tc
    >>> summary = tc.PrivateSummary({"age": (0, 110)}, privacy=tc.Privacy(1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(summary.fit({"age": [40, 50]}), f"{folder}/report.html")
    ...     "right at most 73.2 times in 100" in page.read_text(encoding="utf-8")
    True
    """
    target = check_free(path, replace)
    text = render_report(
        gather(source, level),
        title=title,
        summary=summary,
        facts={"Purpose": purpose, "Contact": contact, "Date": date},
        ledgers=ledgers,
        accuracy=accuracy,
        record=record,
        own=own,
    )
    target.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode("utf-8", "replace")
    if not replace:
        try:
            with open(target, "xb") as file:
                file.write(content)
        except FileExistsError:
            check_free(path, replace)
            raise
        return target
    with tempfile.NamedTemporaryFile(dir=target.parent, delete=False) as draft:
        draft.write(content)
    os.replace(draft.name, target)
    return target


def check_free(path: str | os.PathLike[str], replace: bool = False) -> Path:
    """Return where a report goes; raise where a file is in its way.

    Parameters
    ----------
    path
        The HTML file to write.
    replace
        Whether a file that exists may be written over.
    """
    target = Path(path)
    if target.is_dir():
        raise ParameterError(
            f"{target} is a folder: name an HTML file, such as {target / 'report.html'}"
        )
    if os.path.lexists(target) and not replace:
        raise ParameterError(
            f"{target} exists: choose another name, or pass replace=True to write over it"
        )
    return target


def render_report(
    contents: Contents,
    *,
    title: str | None = None,
    summary: Sequence[str] = (),
    facts: Mapping[str, str] | None = None,
    ledgers: Mapping[str, Ledger] | None = None,
    accuracy: Accuracy | None = None,
    record: dict[str, Any] | None = None,
    own: bool = False,
) -> str:
    """Return the report as HTML.

    Parameters
    ----------
    contents
        What it is about.
    facts
        Purpose, contact and date; what is empty is taken from ``contents``.
    title, summary, ledgers, accuracy, record, own
        As in `write_report`.
    """
    if accuracy is not None and accuracy.source == "own" and not own:
        raise ParameterError(
            "accuracy was measured on private data, and a score on private data is data: measure "
            "it on simulated or public data (simulated_accuracy), or pass own=True for a page "
            "that stays with the holder"
        )
    certificates = contents.certificates
    own = own or not certificates or not all(one.is_private for one in certificates.values())
    parts: list[tuple[str, Html]] = [
        ("What was learned", results_section(contents.answer)),
        ("The promise", promise_section(certificates)),
        ("Who saw what", trust_section(certificates)),
        ("What is taken as given", assumption_section(certificates)),
        ("Accuracy and privacy", accuracy_section(accuracy)),
        ("Budgets", budget_section(ledgers or {})),
        ("The run", run_section(record)),
        ("Convergence", making.convergence_section(contents)),
        ("Training", making.training_section(contents) if own else Html()),
        ("What to cite", making.citation_section(contents)),
        ("To run it again", making.rerun_section(contents)),
        ("What the words mean", making.glossary_section()),
    ]
    name = short(title or contents.answer.title or contents.estimator, 160)
    head = [tag("h1", name)]
    if own:
        head.insert(0, tag("p", _OWN, class_="own", role="note"))
    head.append(headline_box(contents, _facts(contents, facts or {}), summary))
    return _page(f"Own page: {name}" if own else name, head, parts)


def _facts(contents: Contents, given: Mapping[str, str]) -> dict[str, str]:
    today = f"{datetime.now(UTC):%Y-%m-%d}"
    found = {"Purpose": contents.purpose, "Contact": contents.contact, "Date": contents.date}
    found = {name: given.get(name) or text for name, text in found.items()}
    return {**found, "Date": found["Date"] or today}


def _page(title: str, head: Sequence[Html], parts: Sequence[tuple[str, Html]]) -> str:
    shown = [(name, name.lower().replace(" ", "-"), body) for name, body in parts if body]
    links = [tag("li", tag("a", name, href=f"#{key}")) for name, key, _ in shown]
    about = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("title", title),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        # nothing may be loaded from anywhere, and nothing may run
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content="default-src 'none'; style-src 'unsafe-inline'",
        ),
        tag("style", Html(CSS)),
    )
    sections = (
        tag("section", tag("h2", name, id=key), body, aria_labelledby=key)
        for name, key, body in shown
    )
    nav = tag("nav", tag("ul", *links), aria_label="Sections")
    body = tag(
        "body",
        tag("header", *head),
        tag("div", nav, tag("main", *sections), class_="page"),
        tag("footer", tag("p", f"Written by tacit {__version__}.", class_="soft")),
    )
    text = "<!DOCTYPE html>\n" + tag("html", about, body, lang="en") + "\n"
    return _told_apart(text).translate(_UNSEEN)


def _told_apart(text: str) -> str:
    """Return a page on which no two tables are announced by the same name."""
    seen: Counter[str] = Counter()

    def numbered(match: re.Match[str]) -> str:
        seen[match[1]] += 1
        again = f" ({seen[match[1]]})" if seen[match[1]] > 1 else ""
        return f'aria-label="{match[1]}{again}"'

    return re.sub(r'aria-label="(Table: [^"]*)"', numbered, text)
