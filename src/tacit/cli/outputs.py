"""Where the result of `tacit fit` goes: tried before anything is charged."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tacit._core.folders import check_writable
from tacit.cli.config import Config
from tacit.errors import NotCertified, ParameterError, TacitError
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.release.plain import check_text

__all__ = ["ABOUT", "keep", "outputs_of", "written_beside"]

ABOUT = ("purpose", "contact")  # words that a release carries


def outputs_of(config: Config, model: PrivateEstimator) -> dict[str, Path]:
    """Return what is written and where to; raise what would be noticed only after the charge.

    Parameters
    ----------
    config, model
        What the file says, and the estimator that it describes.
    """
    stated = config.section("output")
    if not stated:
        config.fail(
            'add [output] with release = "…", a new folder, or report = "….html": without it the '
            "result would be thrown away"
        )
    for key, value in stated.items():
        if not isinstance(value, str) or not value:
            what = "text" if key in ABOUT else "a path"
            config.fail(f'{key} must be {what} in quotes: write {key} = "…"', "output", key)
        if key in ABOUT:
            try:
                check_text(key, value)
            except NotCertified as error:
                config.fail(str(error), "output", key)
    places = {key: config.folder / path for key, path in stated.items() if key not in ABOUT}
    if not places:
        config.fail('add release = "…" or report = "….html"', "output")
    try:
        if "release" in places:
            _check_release(config, model, places["release"])
        if "report" in places:
            _check_report(config, places["report"], places.get("release"))
    except ParameterError as error:
        if str(error).startswith(str(config.path)):
            raise
        config.fail(str(error), "output", "report" if "report" in str(error) else "release")
    return places


def _check_release(config: Config, model: PrivateEstimator, folder: Path) -> None:
    privacy = model._given("privacy")
    if privacy is None or math.isinf(privacy.epsilon):
        config.fail(
            "a release needs a finite guarantee: add [privacy] with epsilon = …, or write report "
            "= … instead",
            "output",
            "release",
        )
    if model._given("random_state") is not None:
        config.fail(
            "seeded noise is not for release: take out random_state",
            "parameters",
            "random_state",
        )
    if (folder / "manifest.json").exists():
        raise NotCertified(
            f"{config.path}, line {config.line('output', 'release')}: {folder} holds a release "
            "already: choose another folder"
        )
    if folder.is_dir() and any(folder.iterdir()):
        config.fail(
            f"{folder} holds other files: a release is a folder of its own", "output", "release"
        )
    check_writable(folder, "the release")


def _check_report(config: Config, file: Path, release: Path | None) -> None:
    if file.is_dir():
        config.fail(f"{file} is a folder: write report = …/report.html", "output", "report")
    if release is not None and release.resolve() in file.resolve().parents:
        config.fail("the report must not lie in the release", "output", "report")
    if os.path.lexists(file):
        config.fail(
            f"{file} exists, and may hold all that is left of an earlier fit: choose another name",
            "output",
            "report",
        )
    check_writable(file.parent, "the report")


def written_beside(place: Path, write: Callable[[Path], object]) -> Path:
    """Write to a place that was free before the fit, or beside it, and return where.

    What was paid for is not lost to a file that appeared in the meantime.

    Parameters
    ----------
    place
        Where it should go.
    write
        What writes, and raises where something is there already.
    """
    for number in itertools.count(2):
        target = place if number == 2 else place.with_stem(f"{place.stem}-{number - 1}")
        try:
            write(target)
        except TacitError:
            if not os.path.lexists(target):
                raise
        else:
            return target
    raise AssertionError("there is always another number")


def keep(model: Any, places: dict[str, Path]) -> Path | None:
    """Write the release of a fit that failed after it was paid for, if there is anything to keep.

    Parameters
    ----------
    model
        The estimator.
    places
        As `outputs_of` returned them.
    """
    if "release" not in places:
        return None
    target = places["release"]
    if getattr(model, "shared_", None):
        kept: Path = model.release(target)
        return kept
    summaries = list(getattr(model, "summaries_", {}).values())  # of sites, before inference
    folder = target.with_name(f"{target.name}.summaries")
    for number, summary in enumerate(summaries):
        folder.mkdir(exist_ok=True)
        summary.save(folder / f"{number}.summary")
    return folder if summaries else None
