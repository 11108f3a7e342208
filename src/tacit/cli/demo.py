"""`tacit demo`: stories on simulated data, each with a result to look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.output import Json, show

__all__ = ["demo"]

_HOSPITALS = "hospitals"


def _stories() -> dict[str, str]:
    from tacit.demo.stories import STORIES

    told = "three hospitals learn together what each knows too little about alone"
    return {_HOSPITALS: told, **{name: story.about for name, story in STORIES.items()}}


def demo(
    story: Annotated[
        str,
        typer.Argument(help="Which story; see --list.", autocompletion=lambda: list(_stories())),
    ] = _HOSPITALS,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the result goes; demo-result, or demo- and the story's name."),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="Say which stories there are.")] = False,
    federated: Annotated[
        bool, typer.Option("--federated", help="The hospitals, as processes on this machine.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove an earlier result.")] = False,
    as_json: Json = False,
) -> None:
    """Tell a story on simulated data and leave a ledger, a release and a report to look at.

    Example: tacit demo table --fresh
    """
    from tacit.errors import ParameterError

    if listed:
        told = _stories()
        lines = [f"{name:14}{about}" for name, about in told.items()]
        show({"stories": told}, "\n".join(lines), as_json)
        return
    if federated and story != _HOSPITALS:
        raise ParameterError(f"--federated is for the hospitals, not for {story!r}: leave it out")
    found = _told(story, folder, federated, fresh, as_json)
    if as_json:
        show(found, "", as_json)


def _told(
    story: str, folder: Path | None, federated: bool, fresh: bool, quiet: bool
) -> dict[str, Any]:
    if story != _HOSPITALS:
        from tacit.demo.stories import run_story

        return run_story(story, folder or Path(f"demo-{story}"), fresh=fresh, quiet=quiet)
    place = folder or Path("demo-result")
    if federated:
        from tacit.demo.federated import run_federated_demo

        return run_federated_demo(place, fresh=fresh, quiet=quiet)
    from tacit.demo.run import run_demo

    return run_demo(place, fresh=fresh, quiet=quiet)
