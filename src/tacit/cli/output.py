"""Options that commands share, and how they print."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Annotated, Any

import typer

__all__ = ["ConfigFile", "Json", "show"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
ConfigFile = Annotated[Path, typer.Argument(help="The configuration, a TOML file.")]


def show(data: dict[str, Any], text: str, as_json: bool) -> None:
    """Print text, or the same as one JSON object."""
    typer.echo(json.dumps(_finite(data), ensure_ascii=False) if as_json else text)


def _finite(value: Any) -> Any:
    """Return data without infinities, which JSON does not know."""
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
