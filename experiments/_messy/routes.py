"""Ways in: by file, by frame, by command line; and what came of each."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import tacit as tc
from experiments._messy.cases import Case
from experiments._messy.subjects import DELTA, EPSILON, Subject, alike, numbers
from tacit.errors import TacitError

FRAMES = ("pandas", "Polars", "Arrow")


@dataclass(frozen=True)
class Result:
    """What came of one try: numbers, or a refusal; and what it cost."""

    found: dict[str, Any] | None
    said: str = ""
    bare: str = ""
    spent: float = 0.0


def frames(case: Case, *, only: tuple[str, ...] = FRAMES) -> Iterator[tuple[str, Any]]:
    """Yield a case as frames: cells as text, and typed ones of pandas where it has any."""
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    makers = {"pandas": pd.DataFrame, "Polars": pl.DataFrame, "Arrow": pa.table}
    for name in only:
        yield name, makers[name](case.cells)
    if case.typed_frames:
        rows = len(case.typed["age"])
        yield "pandas, typed", pd.DataFrame(case.typed, index=range(rows, 0, -1))


def by_python(subject: Subject, case: Case, data: Any) -> Result:
    """Fit to whatever a table is kept in."""
    ledger = tc.Ledger.memory(epsilon=100.0, delta=1e-2, **_for_whom(subject))
    try:
        model, facts = subject.made(case.policy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit([tc.Site("North", subject.given(model, facts, data), ledger)])
    except TacitError as error:
        return Result(None, str(error), spent=_spent(ledger))
    except Exception as error:
        return Result(None, str(error), f"{type(error).__name__}: {error}", _spent(ledger))
    return Result(numbers(model), spent=_spent(ledger))


def _for_whom(subject: Subject) -> dict[str, Any]:
    unit = "row" if subject.columns and not subject.person else "user"
    own = {"topics": "document", "recommender": "entry"}
    replaced = subject.name in ("posterior", "recommender")
    relation = "replace-one" if replaced else "add-remove-one"
    return {"unit": own.get(subject.name, unit), "neighbours": relation}


def _spent(ledger: Any) -> float:
    return float(ledger.spent.epsilon)


def by_command(subject: Subject, case: Case, place: Path) -> tuple[Result, Result]:
    """Run `tacit check` and `tacit fit` on a file of settings; return what came of both.

    Noise is seeded, which is not for release: the model is looked at where it would be released.
    """
    from tacit.cli import build, outputs

    folder = place.parent
    config = folder / f"{subject.name}.toml"
    config.write_text(settings(subject, case, place), encoding="utf-8")
    looked = _run("check", config)
    made, kept = build.estimator_of, []

    def seeded(*args: Any) -> Any:
        model, facts = made(*args)
        return subject.light(model), facts

    kind = type(subject.made(case.policy)[0])
    with (
        mock.patch.object(build, "estimator_of", seeded),
        mock.patch.object(outputs, "_check_release", return_value=None),  # as said
        mock.patch.object(kind, "release", lambda model, *_, **__: kept.append(numbers(model))),
    ):
        fitted = _run("fit", config)
    ledger = folder / f"{subject.name}.db"
    spent = _spent(tc.Ledger.open(ledger)) if ledger.exists() else 0.0
    if not kept and not fitted.said and not fitted.bare:
        fitted = Result(None, "", "it said nothing and wrote nothing")
    return looked, Result(kept[0] if kept else None, fitted.said, fitted.bare, spent)


def settings(subject: Subject, case: Case, place: Path) -> str:
    """Return a file of settings for the command line."""
    lines = [f'estimator = "{subject.estimator}"']
    if subject.value:
        lines.append(f'value = "{subject.value}"')
    lines += ["[parameters]"]
    lines += [f"{key} = {_toml(value)}" for key, value in subject.parameters.items()]
    lines += ["[privacy]", f"epsilon = {EPSILON}", f"delta = {DELTA}", "[columns]"]
    lines += [f"{key} = {_toml(value)}" for key, value in subject.stated(case.policy).items()]
    if subject.labels:
        from experiments._messy.visits import TESTS

        lines += ["[labels]", f"{subject.labels[0]} = {_toml(list(TESTS))}"]
    data = {"file": place.name, **case.source}
    whom = _for_whom(subject)
    lines += ["[[site]]", 'name = "North"', f"data = {_toml(data)}",
              f'ledger = "{subject.name}.db"',
              "ledger_epsilon = 100.0", "ledger_delta = 1e-2", f'ledger_unit = "{whom["unit"]}"',
              f'ledger_neighbours = "{whom["neighbours"]}"',
              "[output]", f'release = "{subject.name}-release"']  # fmt: skip
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(own)}" for key, own in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _run(command: str, config: Path) -> Result:
    """Run a command of ours as the shell would; an exit status of 0 says nothing."""
    from tacit.cli.main import main

    out, err = io.StringIO(), io.StringIO()
    status: Any = 0
    with (
        mock.patch.object(sys, "argv", ["tacit", command, str(config)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        try:
            main()
        except SystemExit as stop:
            status = stop.code
        except BaseException as error:
            return Result(None, str(error), f"{type(error).__name__}: {error}")
    return Result(None, (err.getvalue() + out.getvalue()) if status else "")


def place_of(case: Case, folder: Path) -> tuple[Path, Any]:
    """Write a case; return where it is, and what a caller passes."""
    place = case.file(folder)
    return place, (tc.source(place, **case.source) if case.source else place)


def new_folder() -> Any:
    """Return a folder that goes away."""
    return tempfile.TemporaryDirectory()


def judged(result: Result, case: Case, subject: Subject, right: Any, where: str) -> str:
    """Return what is to be said of a result: a word of `VERDICTS`."""
    if result.bare:
        return "bare exception"
    truth = case.truth(subject.used)
    if result.found is not None:
        return "right" if right is not None and alike(result.found, right) else "silently wrong"
    if result.spent > 0.0:
        return "ε spent on a failure"
    wanted = expected(case, subject, where)
    if "drop" in case.policy.values() and not subject.drops:  # its number of rows is public
        return "refused in full" if "nobody may be left out" in result.said else "without a place"
    if wanted:
        absent = [word for word in wanted if word not in result.said]
        if not absent:
            return "refused in full"
        return "without a place" if len(absent) == len(wanted) else "not in one pass"
    if case.either and truth is not None:
        return "refused in full"
    if truth is not None and case.effect == "error":
        return "refused for nothing"
    return "refused in full"


def expected(case: Case, subject: Subject, where: str) -> list[str]:
    """Return what a refusal has to name: every bad cell that the subject looks at."""
    if case.refused and where in ("file", "command"):
        return list(case.refused)
    mine = [(row, name) for row, name in case.faults if name in subject.used]
    words: list[str] = []
    if not case.distinct and subject.entities and not mine:  # a cell that is listed twice
        return [", row "]
    for row, name in mine:
        words.append(f"'{name}'")
        if row >= 0 and not case.shown:
            words.append(f", row {row + 1}:")
    return list(dict.fromkeys([*words, *(case.shown if words else ())]))
