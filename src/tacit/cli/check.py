"""`tacit check` and `tacit federation rehearse`: trying things out before anybody pays."""

from __future__ import annotations

from typing import Any

import typer

from tacit.cli.output import ConfigFile, Json, show

__all__ = ["check", "rehearse"]


def check(config: ConfigFile, as_json: Json = False) -> None:
    """Read a site's data for everything that its policy allows, at home; nothing is paid.

    In a run a coordinator hears one sentence whatever is wrong with the data. Here the holder
    hears all of it.

    Example: tacit check site.toml
    """
    from tacit.federation.files import SiteConfig
    from tacit.federation.service import SiteService

    settings = SiteConfig.read(config)
    allowed = len(settings.policy.permissions)
    problems = SiteService(settings).problems()
    lines = [f"{name}: {text}" for name, text in problems.items()]
    well = f"{settings.name} can take part in all {allowed} computations that it allows."
    show({"site": settings.name, "problems": problems}, "\n".join(lines) or well, as_json)
    if problems:
        raise typer.Exit(1)


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
