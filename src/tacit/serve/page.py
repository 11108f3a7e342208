"""The page to try a served model: one HTML file, no network, a script of its own.

The script is small, stands in a file of its own and is all that the page's policy allows.
"""

from __future__ import annotations

import json
from typing import Any

from tacit._core.html import Html, join, tag
from tacit.estimators.release.promise import promises
from tacit.serve.answers import Served

__all__ = ["SCRIPT", "STYLE", "page"]

_DAY = "2026-01-31"

STYLE = """
:root { color-scheme: light dark; --line: #8884; --accent: #0b6e99; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.promise { border-left: 4px solid var(--accent); padding: .25rem 1rem; }
label { display: block; margin: .5rem 0 .1rem; } small { display: block; opacity: .8; }
input, select, textarea { font: inherit; width: 100%; box-sizing: border-box; padding: .3rem; }
textarea { font: 14px/1.4 ui-monospace, monospace; min-height: 9rem; }
button { font: inherit; margin-top: .75rem; padding: .4rem 1.2rem; }
table { border-collapse: collapse; margin-top: 1rem; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .2rem .6rem; text-align: left; }
.error { color: #b00020; } @media (prefers-color-scheme: dark) { .error { color: #ff8a80; } }
"""

SCRIPT = """
"use strict";
function cell(kind, text) {
  const found = document.createElement(kind);
  found.textContent = typeof text === "number" ? +text.toPrecision(6) : text ?? "";
  return found;
}
function shown(place, columns) {
  const table = document.createElement("table"), head = table.insertRow();
  const names = Object.keys(columns), rows = names.length ? columns[names[0]].length : 0;
  names.forEach((name) => head.append(cell("th", name)));
  for (let k = 0; k < rows; k++) {
    const row = table.insertRow();
    names.forEach((name) => row.append(cell("td", columns[name][k])));
  }
  place.replaceChildren(table);
}
document.querySelectorAll("form").forEach((form) => form.addEventListener("submit", async (e) => {
  e.preventDefault();
  const place = form.parentElement.querySelector("output");
  try {
    const reply = await fetch(form.dataset.route, {
      method: "POST", headers: {"Content-Type": "application/json"},
      body: form.querySelector("textarea").value,
    });
    const found = await reply.json();
    if (!reply.ok) throw new Error(found.error.message);
    shown(place, found.columns);
  } catch (error) {
    const told = cell("p", error.message);
    told.className = "error";
    place.replaceChildren(told);
  }
}));
"""


def page(served: Served) -> str:
    """Return the page.

    Parameters
    ----------
    served
        The model.
    """
    manifest, title = served.release.manifest, f"A release of {served.release.estimator}"
    parts = [
        tag("h1", title),
        tag("p", manifest["learned"]),
        tag("h2", "The promise"),
        tag(
            "div",
            *(tag("p", str(one)) for one in promises(served.release.certificates)),
            class_="promise",
        ),
        _facts(manifest),
        *_forms(served),
        tag("h2", "What else there is"),
        _links(served),
        tag("p", served.about()["note"]),
    ]
    head = tag("head", *_head(title))
    body = tag("body", tag("main", *parts), _script())
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}"


def _head(title: str) -> list[Html]:
    return [
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", title),
        Html('<link rel="stylesheet" href="/style.css">'),
    ]


def _script() -> Html:
    return Html('<script src="/script.js"></script>')


def _facts(manifest: Any) -> Html:
    said = [f"{name}: {manifest[name]}" for name in ("date", "purpose", "contact")]
    return tag("p", " · ".join(line for line in said if not line.endswith(": ")))


def _forms(served: Served) -> list[Html]:
    found = []
    if served.schema:
        rows = {"rows": [_example(served)]}
        found.append(_form("Predict", "/v1/predict", rows, _columns(served)))
    if served.recommends:
        items = served.coordinates(3).get("item", [])
        ratings = {"ratings": dict.fromkeys(items[:2], _rating(served)), "n": 5}
        found.append(_form("Recommend", "/v1/recommend", ratings, Html("")))
    return found


def _rating(served: Served) -> float:
    low, high = served.release.settings["bounds"]
    return float((low + high) / 2)


def _form(title: str, route: str, example: Any, about: Html) -> Html:
    text = json.dumps(example, ensure_ascii=False, indent=1)
    name = f"text{route.replace('/', '-')}"
    return tag(
        "section",
        tag("h2", title),
        about,
        tag(
            "form",
            tag("label", f"What is sent to {route}", for_=name),
            tag("textarea", text, id=name, spellcheck="false"),
            tag("button", title, type="submit"),
            data_route=route,
        ),
        tag("output", aria_live="polite"),
    )


def _columns(served: Served) -> Html:
    rows = []
    for name, schema in served.schema.items():
        kinds = schema["type"]
        kind = " or ".join(kinds) if isinstance(kinds, list) else kinds
        more = ", ".join(map(str, schema["enum"][:20])) if "enum" in schema else ""
        rows.append(tag("li", f"{name}: {kind}. {schema.get('description', more)}"))
    return tag("ul", *rows)


def _example(served: Served) -> dict[str, Any]:
    """Return a row to begin with."""
    found: dict[str, Any] = {}
    coords = served.coordinates(1)
    for name, schema in served.schema.items():
        kinds = schema["type"]
        if "enum" in schema:
            found[name] = schema["enum"][0]
        elif isinstance(kinds, list):
            found[name] = None
        elif kinds == "boolean":
            found[name] = True
        elif kinds == "string":
            found[name] = next(iter(coords.get(name, [])), _DAY if "date" in str(schema) else "")
        else:
            found[name] = 1
    return found


def _links(served: Served) -> Html:
    tables = served.about()["tables"]
    routes = ["/openapi.json", "/v1/about", "/v1/certificates"]
    routes += [f"/v1/tables/{name}" for name in tables]
    routes += ["/v1/posterior"] if served.draws else []
    return tag("ul", join([tag("li", tag("a", route, href=route)) for route in routes]))
