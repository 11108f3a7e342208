"""The OpenAPI document of a served model: its own columns, its own routes."""

from __future__ import annotations

from typing import Any

from tacit._version import __version__
from tacit.serve.answers import MOST_ROWS, Served

__all__ = ["described"]

_ERROR = {"$ref": "#/components/schemas/Error"}
_ANSWER = {"$ref": "#/components/schemas/Answer"}


def described(served: Served) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document.

    Parameters
    ----------
    served
        The model.
    """
    manifest = served.release.manifest
    paths: dict[str, Any] = {
        "/v1/about": {"get": _read("What this is, what it promises, what a row holds")},
        "/v1/certificates": {"get": _read("Every certificate that the numbers rest on")},
        "/v1/tables/{name}": {
            "get": {
                **_read("A table of the release, column by column", _ANSWER),
                "parameters": [_parameter("name", "path", {"type": "string"})],
            }
        },
    }
    if served.schema:
        paths["/v1/predict"] = {"post": _send("Predictions for rows", "Rows")}
    if served.recommends:
        paths["/v1/recommend"] = {"post": _send("Items for own ratings", "Ratings")}
    if served.draws:
        level = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1, "default": 0.9}
        paths["/v1/posterior"] = {
            "get": {
                **_read("Means, standard deviations and intervals of the parameters", _ANSWER),
                "parameters": [_parameter("level", "query", level, needed=False)],
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": f"A release of {manifest['estimator']}",
            "version": __version__,
            "description": manifest["learned"],
        },
        "paths": paths,
        "components": {"schemas": _schemas(served)},
    }


def _schemas(served: Served) -> dict[str, Any]:
    columns = {"type": "object", "additionalProperties": {"type": "array"}}
    found: dict[str, Any] = {
        "Answer": {"type": "object", "properties": {"columns": columns}},
        "Error": {
            "type": "object",
            "properties": {
                "error": {
                    "type": "object",
                    "properties": {"status": {"type": "integer"}, "message": {"type": "string"}},
                }
            },
        },
    }
    if served.schema:
        row = {"type": "object", "properties": served.schema, "additionalProperties": True}
        found["Rows"] = {
            "type": "object",
            "required": ["rows"],
            "additionalProperties": False,
            "properties": {
                "rows": {"type": "array", "items": row, "minItems": 1, "maxItems": MOST_ROWS},
                "interval": {
                    "type": "number",
                    "description": "a probability: also return low and high, where there are",
                },
            },
        }
    if served.recommends:
        ratings = {"type": "object", "additionalProperties": {"type": "number"}}
        found["Ratings"] = {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                "ratings": ratings,
                "n": {"type": "integer", "minimum": 1, "maximum": 1000, "default": 10},
            },
        }
    return found


def _parameter(name: str, place: str, schema: Any, needed: bool = True) -> dict[str, Any]:
    return {"name": name, "in": place, "required": needed, "schema": schema}


def _content(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _replies(schema: Any) -> dict[str, Any]:
    return {
        "200": {"description": "the answer", "content": _content(schema)},
        "4XX": {"description": "what was wrong, in words", "content": _content(_ERROR)},
    }


def _read(summary: str, schema: Any = None) -> dict[str, Any]:
    return {"summary": summary, "responses": _replies(schema or {"type": "object"})}


def _send(summary: str, body: str) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{body}"}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": _content(schema)},
        "responses": _replies(_ANSWER),
    }
