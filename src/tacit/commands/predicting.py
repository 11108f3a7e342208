"""`tacit predict`: from a release to predictions, at the holder of the data."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.commands.output import Json, show

__all__ = ["predict"]


def predict(
    release: Annotated[Path, typer.Argument(help="The release folder.")],
    rows: Annotated[Path, typer.Argument(help="What to predict: a CSV or Parquet table.")],
    config: Annotated[
        Path | None, typer.Option(help="For a factorization: the configuration of the fit.")
    ] = None,
    site: Annotated[str | None, typer.Option(help="For a factorization: at which site.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write a CSV file instead of printing.")] = None,
    as_json: Json = False,
) -> None:
    """Predict from a release, which is verified first; nothing is charged.

    A regression needs the table of features. A factorization predicts at a site, from the site's
    own data and what was released: predictions are the site's own, and are no release.

    Example: tacit predict release/ cells.csv --config hospitals.toml --site North
    """
    from tacit.data.tables import read_table
    from tacit.errors import ParameterError
    from tacit.estimators.release import read_release

    found = read_release(release)
    table = read_table(rows)
    if found.estimator == "PrivateLinearRegression":
        values = _regression(found, table)
    elif found.estimator == "CoupledFactorization":
        if config is None or site is None:
            raise ParameterError("a factorization predicts at a site: pass --config and --site")
        values = _factorization(found, table, config, site)
    else:
        raise ParameterError(f"{found.estimator} predicts nothing: look at it with tacit report")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*table, "prediction"])
    writer.writerows(zip(*(c.tolist() for c in table.values()), values, strict=True))
    if out is not None:
        out.write_text(text.getvalue(), encoding="utf-8")
    words = f"{len(values)} predictions are in {out}." if out else text.getvalue().rstrip("\n")
    show({"predictions": values, "file": None if out is None else str(out)}, words, as_json)


def _regression(found: Any, table: Any) -> list[float]:
    import numpy as np

    from tacit.data.sources import numeric_columns

    names = [str(name) for name in found.manifest["settings"]["columns"]][
        : len(found.arrays["coef"])
    ]
    columns = numeric_columns(table, names)
    matrix = np.column_stack([columns[name] for name in names])
    return list((matrix @ found.arrays["coef"] + float(found.arrays["intercept"])).tolist())


def _factorization(found: Any, table: Any, path: Path, site: str) -> list[float]:
    import numpy as np

    from tacit.commands.config import read_config
    from tacit.commands.holders import estimator_of, sites_of
    from tacit.errors import ParameterError

    settings = read_config(path)
    model = estimator_of(settings)
    sites = {held.name: held for held in sites_of(settings)}
    if site not in sites:
        raise ParameterError(f"there is no site {site!r}: {path} has {', '.join(sites)}")
    model.adopt(found.arrays, [sites[site]])
    relation = sites[site].data
    cells = []
    for entity in relation.entities:
        if entity not in table:
            raise ParameterError(f"the table of cells needs a column {entity!r}")
        members = relation.labels.get(entity) or range(relation.shape[0])
        number = {_key(name): k for k, name in enumerate(members)}
        unknown = [name for name in table[entity].tolist() if _key(name) not in number]
        if unknown:
            raise ParameterError(f"{entity} {unknown[0]!r} is not known at {site}")
        cells.append([number[_key(name)] for name in table[entity].tolist()])
    return list(np.asarray(model.predict(site, np.array(cells).T)).tolist())


def _key(name: Any) -> str:
    """Return one text for a label, whether it was read as a number or as text."""
    try:
        return f"{float(name):g}" if float(name) != int(float(name)) else str(int(float(name)))
    except (TypeError, ValueError, OverflowError):
        return str(name)
