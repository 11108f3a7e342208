"""`tacit check` and `tacit federation rehearse`: trying things out before anybody pays."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.output import ConfigFile, Json, show

if TYPE_CHECKING:
    from tacit.estimators.checking import Findings

__all__ = ["check", "rehearse", "schema"]


def check(
    configs: Annotated[list[Path], typer.Argument(help="Configurations, TOML files.")],
    as_json: Json = False,
) -> None:
    """Read the data that files name, at home, and say all that is wrong; nothing is paid.

    For the file of a site (everything that its policy allows is tried) and for those of
    `tacit fit`. Of a file of `tacit new` it lists what is still to be filled in. In a run a
    coordinator hears one sentence whatever is wrong with the data. Here the holder hears all
    of it.

    Example: tacit check site.toml
    """
    told, lines, wrong = {}, [], False
    for config in configs:
        name, found, well = _found(config)
        problems = {about: "\n".join(map(str, listed)) for about, listed in found.items()}
        details = {about: [one.described() for one in listed] for about, listed in found.items()}
        told[config.name] = {"site": name, "problems": problems, "details": details}
        several = len(configs) > 1 and config.name not in found
        about = f"{config.name}{', ' if found else ': '}" if several else ""
        lines += [f"{about}{line}" for line in (str(found) if found else well).split("\n")]
        wrong = wrong or bool(found)
    show(told[config.name] if len(configs) == 1 else {"files": told}, "\n".join(lines), as_json)
    if wrong:
        raise typer.Exit(1)


def _found(config: Path) -> tuple[str, Findings, str]:
    """Return what a file is about, what is wrong with its data, and good news."""
    import tomllib

    from tacit.errors import ParameterError
    from tacit.estimators.blanks import has_blank

    try:
        stated = tomllib.loads(config.read_text(encoding="utf-8"))
    except OSError as error:
        raise ParameterError(f"{config} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ParameterError(f"{config} is no TOML: {error}") from None
    if has_blank(stated):
        return config.name, _still_open(config), ""
    return _of_fit(config) if "estimator" in stated else _of_site(config)


def _still_open(config: Path) -> Findings:
    """Return the lines of a file that are still to be filled in."""
    from tacit.cli.config import blank_lines
    from tacit.data.problems import Problem
    from tacit.estimators.checking import Findings

    return Findings(
        {
            config.name: tuple(
                Problem(f"line {line.number}: {line.code} is to be filled in", "", (), 1, words)
                for line in blank_lines(config.read_text(encoding="utf-8"))
                for words in [line.words or "write it in place of the dots"]
            )
        }
    )


def _of_site(config: Path) -> tuple[str, Findings, str]:
    """Return a site's name, what is wrong with its data by computation, and good news."""
    from tacit.federation.files import SiteConfig
    from tacit.federation.service import SiteService

    settings = SiteConfig.read(config)
    allowed = len(settings.policy.permissions)
    well = f"{settings.name} can take part in all {allowed} computations that it allows."
    return settings.name, SiteService(settings).problems(), well


def _of_fit(config: Path) -> tuple[str, Findings, str]:
    """Return what is wrong with the data of a file of `tacit fit`, site by site, and good news."""
    from tacit.cli.build import data_of, estimator_of
    from tacit.cli.config import read_config
    from tacit.estimators.checking import examined, tried
    from tacit.estimators.site import Site

    settings = read_config(config)
    model, facts = estimator_of(settings)
    model._check_parameters()
    sites: list[Site] = []

    def read(entry: dict[str, Any]) -> None:
        sites.append(Site(entry["name"], data_of(settings, model, facts, entry)))

    found = tried({e["name"]: partial(read, e) for e in settings.data["site"]})
    if sites:
        found.update(examined(model, model._as_sites(sites)))
    one = len(sites) == 1
    whose = f"The data of {sites[0].name}" if one else f"All {len(sites)} sites"
    well = f"{whose} can be read. Nothing was paid: run tacit fit {config}."
    return str(settings.data["estimator"]), found, well


def schema(
    file: Annotated[Path, typer.Argument(help="A table: CSV, TSV, Parquet or Feather.")],
    encoding: Annotated[str, typer.Option(help="How its text is encoded.")] = "utf-8",
    as_json: Json = False,
) -> None:
    """Draft the [columns] part of a file from names and types; ranges are for you to fill in.

    No value is looked at: what is public about a column is stated by people who know.

    Example: tacit schema north.csv
    """
    from tacit.data.dictionary import draft, written
    from tacit.data.files import source

    found = draft(source(file, encoding=encoding))
    show({"columns": found}, written(found), as_json)


def rehearse(config: ConfigFile, wait: float = 300.0, as_json: Json = False) -> None:
    """Run a coordinator's file on made-up data: nothing is read and nothing is charged.

    Sites check their policies, budgets and versions as in the real run.

    Example: tacit federation rehearse coordinator.toml
    """
    import shutil

    from tacit.errors import ParameterError
    from tacit.federation.files import CoordinatorConfig
    from tacit.report.live import run_with_view

    if CoordinatorConfig.read(config).rehearsal:
        raise ParameterError(f"{config} is one of a rehearsal: take out rehearsal = true")
    shutil.rmtree(config.parent / "rehearsal", ignore_errors=True)  # of an earlier one
    draft = config.with_name(f"{config.stem}.rehearsal.toml")
    text = config.read_text(encoding="utf-8")
    draft.write_text(f"rehearsal = true\n{text}", encoding="utf-8")
    try:
        records: list[dict[str, Any]] = run_with_view(draft, wait=wait, quiet=as_json)
    finally:
        draft.unlink()
    show({"records": records}, "Nothing was read and nothing was charged.", as_json)
