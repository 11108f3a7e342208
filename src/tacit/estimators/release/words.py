"""The README of a release: what it is, what was learned, the promise, how to load it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.estimators.release.plain import shown_text
from tacit.estimators.release.promise import promises
from tacit.privacy.certificate import Certificate

__all__ = ["readme"]


def readme(manifest: Mapping[str, Any], certificates: Mapping[str, Certificate]) -> bytes:
    """Return the README, a function of the manifest and the certificates alone.

    Parameters
    ----------
    manifest
        Everything that is said about the release.
    certificates
        What its numbers rest on.
    """
    lines = [
        f"# A release of {manifest['estimator']}",
        "",
        manifest["learned"]
        or "What was learned stands in the tables and arrays beside this file.",
        "",
        *_facts(manifest),
        "## The promise",
        "",
        *(f"- {_escaped(str(promise))}" for promise in promises(certificates)),
        "",
        *_together(certificates),
        *(f"{_escaped(str(c))}\n" for c in certificates.values()),
        "## What is here",
        "",
        "| file | what it holds |",
        "|---|---|",
        "| `manifest.json` | settings, and the dimensions and names of every array |",
        "| `arrays.npz` | the arrays, for NumPy |",
        "| `tables/*.csv` | the same numbers beside their names |",
        "| `certificates.json` | the certificates, which can be recomputed |",
        "| `SHA256SUMS` | a digest of every file: `sha256sum -c SHA256SUMS` |",
    ]
    if manifest["signers"]:
        lines.append("| `SHA256SUMS.sig` | who signed that list: public key and signature |")
    kept = next(iter(manifest["arrays"]), "name")
    lines += [
        "",
        "Whether it is the release that it says it is: `tacit verify .`",
        "",
        "## Load it without tacit",
        "",
        "```python",
        "import json, numpy as np",
        'about = json.load(open("manifest.json", encoding="utf-8"))',
        'arrays = np.load("arrays.npz", allow_pickle=False)',
        f'arrays["{kept}"], about["arrays"]["{kept}"]["dims"]',
        "```",
        "",
        "## Load it with tacit",
        "",
        "```python",
        f"from {manifest['module']} import {manifest['estimator']}",
        f'model = {manifest["estimator"]}.from_release("this folder")',
        "```",
        "",
        "`tacit predict`, `tacit serve` and `tacit report` take this folder too.",
        "",
    ]
    return "\n".join(lines).encode()


def _facts(manifest: Mapping[str, Any]) -> list[str]:
    rows = [("date", manifest["date"])]
    rows += [(name, manifest[name]) for name in ("purpose", "contact") if manifest[name]]
    rows.append(("made by", ", ".join(f"{k} {v}" for k, v in manifest["versions"].items())))
    signers = [
        f"ledger {one['ledger'][:8]}, key {one['fingerprint']}" for one in manifest["signers"]
    ]
    rows.append(("signed by", "; ".join(signers) or "nobody"))
    return [f"- **{name}**: {_escaped(str(value))}" for name, value in rows] + [""]


def _together(certificates: Mapping[str, Certificate]) -> list[str]:
    if len(certificates) == 1:
        return []
    return [
        "The numbers rest on all of these certificates. Those of one ledger, or of one holder, "
        "are taken to protect the same people, and hold together as stated above; those of "
        "different holders stand side by side, and add up for a person whose data several hold.",
        "",
    ]


def _escaped(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in "\\`*_[]<>#|" else c for c in shown_text(text))
