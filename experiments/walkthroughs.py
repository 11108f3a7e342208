"""The stories of the gallery and every page of the guide, run as a reader would.

Each page runs in a process and a folder of its own, compiling included; ``processor`` is the
processor time, which a busy machine does not stretch. Of a story, the release
that it leaves is copied to where nothing else is: it must verify there, load in a process without
the data, and answer (`experiments._walkthroughs`).
"""

from __future__ import annotations

from experiments import _pages
from experiments._walkthroughs import walked
from experiments.runner import Outcome

_STORIES, _SECONDS, _LINES = 10, 60.0, 40
_CHEAP = ("02-table", "04-topics")  # of the quick form


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    for page in _pages.pages():
        if not quick or page.stem in _CHEAP:
            outcome.add(walked(page))
    rows = outcome.rows
    stories = [row for row in rows if row["story"]]
    failed = [row["page"] for row in rows if row["why"]]
    outcome.check("pages and stories that fail", ", ".join(failed) or "none", "none", not failed)
    wanted = len(_CHEAP) if quick else _STORIES
    outcome.check("stories", len(stories), f"{wanted}", len(stories) == wanted)
    slowest = max(rows, key=lambda row: row["seconds"])
    outcome.check(
        f"seconds of the slowest, {slowest['page']}",
        slowest["seconds"],
        f"below {_SECONDS:g}",
        slowest["seconds"] < _SECONDS,
    )
    longest = max(stories, key=lambda row: row["lines"])
    outcome.check(
        f"lines of the longest story, {longest['page']}",
        longest["lines"],
        f"at most {_LINES}",
        longest["lines"] <= _LINES,
    )
    bare = [row["page"] for row in stories if not row["pictures"]]
    outcome.check("stories without a picture", ", ".join(bare) or "none", "none", not bare)
    for what, words in (
        ("verifies", "stories whose release does not verify"),
        ("answers", "stories whose release does not answer without the data"),
    ):
        bad = [row["page"] for row in stories if not row[what]]
        outcome.check(words, ", ".join(bad) or "none", "none", not bad)
    return outcome
