"""How it was made: convergence, what to cite, how to run it again, what the words mean."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit._core.html import Html, join, table, tag
from tacit._core.pictures import Lines
from tacit.report.citations import citation_keys, citations
from tacit.report.contents import Contents
from tacit.report.drawing import short
from tacit.report.figures import figure
from tacit.report.results import parts_section
from tacit.report.words import GLOSSARY

__all__ = [
    "citation_section",
    "convergence_section",
    "glossary_section",
    "rerun_section",
    "training_section",
]


def convergence_section(contents: Contents) -> Html:
    """Return how well chains met, as pictures."""
    return parts_section(contents.diagnostics)


def training_section(contents: Contents) -> Html:
    """Return the objective on raw data over iterations: for the holder's own page."""
    if len(contents.training) < 2:
        return Html()
    points = [(float(k), value) for k, value in enumerate(contents.training, 1)]
    picture = Lines(
        "Objective", "look, every few iterations", "objective on the data", {"objective": points}
    )
    return figure(picture, "Computed on the holder's own data: not for others.")


def citation_section(contents: Contents) -> Html:
    """Return BibTeX of the methods used."""
    keys = citation_keys(contents.certificates, contents.cites)
    return tag("pre", citations(keys), tabindex=0, role="region", aria_label="BibTeX entries")


def rerun_section(contents: Contents) -> Html:
    """Return the commands, versions and settings that it takes to check it or run it again."""
    lines = [f"pip install tacit=={contents.versions.get('tacit', '')}".removesuffix("==")]
    if contents.certificates:
        lines += [
            "tacit verify release/          # every byte, and ε from the recorded events",
            "tacit report release/          # this page",
        ]
    code = tag("pre", "\n".join(lines), tabindex=0, role="region", aria_label="Commands")
    words = tag(
        "p",
        "Made by ",
        tag("code", contents.estimator),
        ". Whoever has the release folder can check it and make this page again; whoever has the "
        "data can run it again with the settings below. The noise will be another one, and "
        "another charge.",
    )
    versions = table("Versions", ["package", "version"], sorted(contents.versions.items()))
    rows = [(name, _text(value)) for name, value in contents.settings.items()]
    settings = table("Settings", ["setting", "value"], rows) if rows else Html()
    return join(
        [words, code, tag("div", tag("div", settings, class_="broad"), versions, class_="grid")]
    )


def glossary_section() -> Html:
    """Return what the words mean."""
    pairs = [tag("div", tag("dt", word), tag("dd", text)) for word, text in GLOSSARY.items()]
    return tag("dl", *pairs, class_="words")


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(_plain(value), ensure_ascii=False)
    return short(text, 400)


def _plain(value: Any) -> Any:
    """Return a setting as JSON takes it; an object is named by its kind, and never printed."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, Mapping):
        return {str(name): _plain(inner) for name, inner in list(value.items())[:200]}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value[:200]]
    return f"({type(value).__name__})"
