"""`tacit predict`: from a release to predictions, at the holder of the data."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.output import Json, show

__all__ = ["predict"]


def predict(
    release: Annotated[Path, typer.Argument(help="The release folder.")],
    rows: Annotated[Path, typer.Argument(help="What to predict: a CSV or Parquet table.")],
    config: Annotated[
        Path | None, typer.Option(help="For a factorization: the configuration of the fit.")
    ] = None,
    site: Annotated[str | None, typer.Option(help="For a factorization: at which site.")] = None,
    plugins: Annotated[
        list[str] | None, typer.Option("--plugin", help="A package with a family of its own.")
    ] = None,
    interval: Annotated[
        float | None,
        typer.Option(help="Also print bounds that hold a new value with this probability."),
    ] = None,
    top: Annotated[
        int | None, typer.Option(help="For a recommender: the best items of every user.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write a CSV or JSON file instead of printing.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Predict from a release, which is verified first; nothing is charged.

    Where predictions are made from somebody's own values (a recommender, a factorization), rows
    with a value are those, and rows without one are predicted: the predictions are that person's
    or site's own, and no release. A site's own data may also come from --config and --site.

    Example: tacit predict release/ cells.csv --config hospitals.toml --site North
    """
    from tacit.data.tables import read_table
    from tacit.estimators.released_models import opened

    _, model = opened(release, plugins or ())
    table = read_table(rows)
    data = None if config is None else _site_data(config, site)
    if top is None:
        found = model._predict_table(table, data, interval)
    else:
        found = _best(model, table, top)
    text = _as_csv(found)
    if out is not None:
        shown = json.dumps(found, ensure_ascii=False) if out.suffix == ".json" else text
        out.write_text(shown, encoding="utf-8")
    values = found["prediction"]
    words = f"{len(values)} predictions are in {out}." if out else text.rstrip("\n")
    file = None if out is None else str(out)
    show({"predictions": values, "columns": found, "file": file}, words, as_json)


def _as_csv(found: Mapping[str, Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(found)
    writer.writerows(zip(*found.values(), strict=True))
    return text.getvalue()


def _best(model: Any, table: Any, top: int) -> dict[str, list[Any]]:
    from tacit.errors import ParameterError

    if not hasattr(model, "recommend"):
        raise ParameterError(f"--top is for a recommender, and this is a {type(model).__name__}")
    from tacit.recommender.predicting import best

    return best(model, table, top)


def _site_data(path: Path, site: str | None) -> Any:
    """Return what a site of a configuration holds."""
    from tacit.cli.build import estimator_of, sites_of
    from tacit.cli.config import read_config
    from tacit.errors import ParameterError

    if site is None:
        raise ParameterError("predictions are made at a site: pass --config and --site")
    settings = read_config(path)
    model, facts = estimator_of(settings)
    sites = {held.name: held for held in sites_of(settings, model, facts)}
    if site not in sites:
        raise ParameterError(f"there is no site {site!r}: {path} has {', '.join(sites)}")
    return sites[site].data
