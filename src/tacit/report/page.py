"""The report: one HTML file that needs no network, no script and no other file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit._core.html import Html, tag
from tacit._version import __version__
from tacit.report import sections
from tacit.report.contents import Accuracy, Contents, gather
from tacit.report.run_record import run_section
from tacit.report.style import CSS

if TYPE_CHECKING:
    from tacit.privacy.ledger.ledger import Ledger

__all__ = ["render_report", "write_report"]


def write_report(
    source: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    summary: Sequence[str] = (),
    ledgers: Mapping[str, Ledger] | None = None,
    accuracy: Accuracy | None = None,
    record: dict[str, Any] | None = None,
) -> Path:
    """Write the report of a release or of a fitted estimator, and return where.

    Parameters
    ----------
    source
        What `tacit.read_release` returned, or a fitted estimator. Of an estimator only released
        values are shown.
    path
        The HTML file to write.
    title
        Of the page.
    summary
        Sentences for its top.
    ledgers
        Holder → ledger, to show what was spent over time.
    accuracy
        How good results are at several ε; see `Accuracy`.
    record
        The run record of a federation (`tacit.report.run_record.read_record`).

    Examples
    --------
    >>> import tempfile, tacit as tc
    >>> summary = tc.PrivateSummary({"age": (0, 110)}, privacy=tc.Privacy(1.0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_report(summary.fit({"age": [40, 50]}), f"{folder}/report.html")
    ...     "differentially private" in page.read_text(encoding="utf-8")
    True
    """
    text = render_report(
        gather(source),
        title=title,
        summary=summary,
        ledgers=ledgers,
        accuracy=accuracy,
        record=record,
    )
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    return target


def render_report(
    contents: Contents,
    *,
    title: str | None = None,
    summary: Sequence[str] = (),
    ledgers: Mapping[str, Ledger] | None = None,
    accuracy: Accuracy | None = None,
    record: dict[str, Any] | None = None,
) -> str:
    """Return the report as HTML; parameters as in `write_report`."""
    parts: list[tuple[str, Html]] = [
        ("The certificate", sections.certificate_section(contents)),
        ("Who saw what", sections.trust_section(contents)),
        ("Accuracy and privacy", sections.accuracy_section(accuracy)),
        ("The run", run_section(record)),
        ("Budget over time", sections.budget_section(ledgers or {})),
        ("What was learned", sections.factor_section(contents)),
        ("Posterior", sections.posterior_section(contents)),
        ("Convergence", sections.convergence_section(contents)),
        ("What to cite", sections.citation_section(contents)),
        ("To run it again", sections.rerun_section(contents)),
    ]
    shown = [(name, name.lower().replace(" ", "-"), body) for name, body in parts if body]
    links = [tag("li", tag("a", name, href=f"#{key}")) for name, key, _ in shown]
    title = title or f"Report of {contents.estimator}"
    head = tag(
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
    header = tag(
        "header",
        tag("h1", title),
        *(tag("p", line, class_="lead") for line in summary),
        tag("nav", tag("ul", *links), aria_label="Sections"),
    )
    main = tag(
        "main",
        *(
            tag("section", tag("h2", name, id=key), body, aria_labelledby=key)
            for name, key, body in shown
        ),
    )
    made = f"Written by tacit {__version__} at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    body = tag("body", header, main, tag("footer", tag("p", made, class_="soft")))
    return "<!DOCTYPE html>\n" + tag("html", head, body, lang="en") + "\n"
