"""`tacit predict`: from a release to predictions, at the holder of the data."""

from __future__ import annotations

import csv
import io
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
    out: Annotated[Path | None, typer.Option(help="Write a CSV file instead of printing.")] = None,
    as_json: Json = False,
) -> None:
    """Predict from a release, which is verified first; nothing is charged.

    Where predictions are made at a site, from the site's own data and what was released, they are
    the site's own and no release: pass --config and --site.

    Example: tacit predict release/ cells.csv --config hospitals.toml --site North
    """
    import numpy as np

    from tacit.data.tables import read_table
    from tacit.data.values import texts
    from tacit.estimators.families import estimator_called
    from tacit.estimators.release import read_release

    kind = estimator_called(read_release(release).estimator, plugins or ())
    model = kind.from_release(release)
    table = read_table(rows)
    data = None if config is None else _site_data(config, site)
    values = np.asarray(model._predict_table(table, data)).tolist()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*table, "prediction"])
    own = [texts(table.column(name)).to_list() for name in table]  # as they were written: 0012
    writer.writerows(zip(*own, values, strict=True))
    if out is not None:
        out.write_text(text.getvalue(), encoding="utf-8")
    words = f"{len(values)} predictions are in {out}." if out else text.getvalue().rstrip("\n")
    show({"predictions": values, "file": None if out is None else str(out)}, words, as_json)


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
