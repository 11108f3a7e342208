"""The demonstration: three hospitals learn together what each knows too little about alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.synthetic import LABORATORY_TESTS, hospital_results
from tacit.demo.folder import PURPOSE, make_room
from tacit.demo.hospitals import EPSILONS, Comparison, compare, estimator
from tacit.estimators.site import Site
from tacit.privacy.guarantee import shown_left
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.promises import promise
from tacit.report.accuracy import Accuracy
from tacit.report.page import write_report

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["run_demo"]

_SIZES = {"North": 4000, "South": 1200, "West": 9000}
_CEILING, _CEILING_DELTA = 8.0, 1e-5  # of each ledger: enough for one run
_SEED = 11
_SHOWN = 1.0  # whose release and certificates the report shows


def run_demo(
    folder: Path,
    *,
    fresh: bool = False,
    sizes: Mapping[str, int] | None = None,
    quiet: bool = False,
) -> dict[str, Any]:
    """Run the demonstration, print what happens, write ledgers, releases and the report.

    A second run in a folder finds the budget spent, and is refused; ``fresh`` removes an earlier
    demonstration's result first. ``sizes`` maps hospitals to numbers of patients.
    """
    from rich.console import Console

    console = Console(quiet=quiet)
    make_room(folder, "North.db", fresh)
    results = hospital_results(sizes or _SIZES, seed=_SEED)
    ledgers = {
        name: Ledger.open(
            folder / f"{name}.db", unit="user", epsilon=_CEILING, delta=_CEILING_DELTA
        )
        for name in results.relations
    }
    _introduce(console, results)
    sites = [Site(name, data, ledgers[name]) for name, data in results.relations.items()]
    if not _prices(console, sites):
        console.print(
            f"\nThe budget is spent: every run charges the ledgers in {folder}, as it would in "
            "earnest. Run tacit demo --fresh to start anew.",
            soft_wrap=True,
        )
        return {"refused": True}
    found = _compared(console, results, ledgers)
    _print_errors(console, found)
    console.print(f"[bold]What is promised of the release at ε = {_SHOWN:g}[/bold]")
    model = found.fitted[_SHOWN]
    for name, certificate in model.certificates_.items():
        certificate.verify(ledgers[name])
    console.print(promise(model.certificates_), soft_wrap=True, highlight=False)
    console.print("[bold]What is left in each ledger[/bold]")
    left = {name: ledger.remaining.epsilon for name, ledger in ledgers.items()}
    for name, epsilon in left.items():
        console.print(f"• {name}: ε = {shown_left(epsilon, 4)} of {_CEILING:g}")
    for epsilon, fitted in found.fitted.items():
        fitted.release(folder / f"release-{epsilon:g}", purpose=PURPOSE)
    report = write_report(
        model,
        folder / "report.html",
        ledgers=ledgers,
        accuracy=_accuracy(found),
        title="Three hospitals, one model, no shared records",
        summary=_summary(found, results),
        purpose=PURPOSE,
    )
    console.print(
        f"\nThe report is in {report}: open it in a browser.\nThe releases are beside it; check "
        f"one, with its certificates in full: tacit verify {folder / f'release-{_SHOWN:g}'}",
        soft_wrap=True,
    )
    return {
        "refused": False,
        "report": str(report),
        "remaining": left,
        "releases": [str(folder / f"release-{epsilon:g}") for epsilon in found.fitted],
        "error": {
            "nothing": found.nothing,
            "alone": found.alone,
            "together": found.together,
            "private": {f"{e:g}": v for e, v in found.private.items()},
            "private averages": {f"{e:g}": v for e, v in found.offsets.items()},
        },
    }


def _introduce(console: Console, results: Any) -> None:
    from rich.table import Table

    table = Table(title="Three hospitals: other patients, overlapping tests (simulated)")
    for heading in ("hospital", "patients", "results", "routine tests", "seldom done"):
        table.add_column(heading, justify="left" if heading == "hospital" else "right")
    for name, relation in results.relations.items():
        routine = len(results.panels[name])
        table.add_row(
            name,
            f"{relation.shape[0]:,}",
            f"{relation.cells:,}",
            str(routine),
            str(len(LABORATORY_TESTS) - routine),
        )
    console.print(table)


def _prices(console: Console, sites: list[Site]) -> bool:
    """Print what the private fits will cost; return whether every ledger can pay all of them."""
    console.print("[bold]What it will cost each hospital, before any result is read[/bold]")
    ledgers = [site.ledger for site in sites if site.ledger is not None]
    total = 0.0
    for epsilon in EPSILONS:
        price = estimator(epsilon).price(sites)
        total += max(site.epsilon for site in price.sites)
        console.print(str(price), soft_wrap=True)
    return all(total <= ledger.remaining.epsilon for ledger in ledgers)


def _compared(console: Console, results: Any, ledgers: Mapping[str, Ledger]) -> Comparison:
    """Fit everything under a progress bar."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("learning", total=len(ledgers) + 1 + len(EPSILONS))
        begun = False

        def advance(what: str) -> None:
            nonlocal begun
            bar.update(task, description=f"{what:<26}", advance=1 if begun else 0)
            begun = True

        found = compare(results, ledgers, advance)
        bar.update(task, description=f"{'done':<26}", advance=1)
    return found


def _rows(found: Comparison) -> list[tuple[str, Mapping[str, float]]]:
    rows = [
        ("knowing nothing: the middle of each range", found.nothing),
        ("each alone, no noise", found.alone),
        ("together, without privacy", found.together),
    ]
    for epsilon in found.private:
        rows.append((f"together at ε = {epsilon:g}", found.private[epsilon]))
        rows.append((f"  private averages at ε = {epsilon:g}", found.offsets[epsilon]))
    return rows


def _print_errors(console: Console, found: Comparison) -> None:
    from rich.table import Table

    table = Table(title="Error (RMSE, scale 0–10) in tests that a hospital seldom does")
    table.add_column("what is known")
    for name in found.nothing:
        table.add_column(name, justify="right")
    for words, errors in _rows(found):
        table.add_row(words, *(f"{errors[name]:.3f}" for name in found.nothing))
    console.print(table)


def _mean(errors: Mapping[str, float]) -> float:
    return float(np.mean(list(errors.values())))


def _accuracy(found: Comparison) -> Accuracy:
    """Return the comparison, averaged over hospitals, with a verdict."""
    wins = [e for e in found.private if _mean(found.private[e]) < _mean(found.offsets[e])]
    helps = [e for e in found.private if _mean(found.private[e]) < _mean(found.alone)]
    verdicts = [
        _verdict("the private averages of tests, the best trivial predictor,", wins, found),
        _verdict("what hospitals reach alone", helps, found),
        *_better_alone(found),
    ]
    return Accuracy(
        "RMSE, tests seldom done",
        {
            "together, private": [(e, _mean(v)) for e, v in found.private.items()],
            "private averages of tests (trivial)": [
                (e, _mean(v)) for e, v in found.offsets.items()
            ],
        },
        {
            "middle of the range (trivial)": _mean(found.nothing),
            "each alone, no noise": _mean(found.alone),
            "together, no noise": _mean(found.together),
        },
        "Predictions of tests that a hospital seldom does, against the simulation's truth; mean "
        "over the hospitals, lower is better. " + " ".join(verdicts),
        source="simulated",
    )


def _better_alone(found: Comparison) -> list[str]:
    """Return one sentence for each hospital that does better by itself at some ε."""
    sentences = []
    for name, alone in found.alone.items():
        at = [f"{e:g}" for e, errors in found.private.items() if errors[name] >= alone]
        if at:
            sentences.append(f"{name} does better alone at ε = {', '.join(at)}.")
    return sentences


def _verdict(what: str, wins: list[float], found: Comparison) -> str:
    if not wins:
        return f"The private model does not beat {what} at any ε."
    if len(wins) == len(found.private):
        return f"The private model beats {what} at every ε."
    shown = ", ".join(f"{e:g}" for e in wins)
    return f"The private model beats {what} at ε = {shown} only."


def _summary(found: Comparison, results: Any) -> list[str]:
    count = sum(relation.shape[0] for relation in results.relations.values())
    return [
        f"{len(results.relations)} hospitals with {count:,} patients in all learn how "
        f"{len(LABORATORY_TESTS)} laboratory tests go together. No record leaves its hospital. "
        "The data are simulated, so that the truth is known.",
        f"In tests that a hospital seldom does, the error is {_mean(found.alone):.2f} alone, "
        f"{_mean(found.together):.2f} together without privacy, and "
        + ", ".join(f"{_mean(v):.2f} at ε = {e:g}" for e, v in found.private.items())
        + f". The certificates and factors below are those at ε = {_SHOWN:g}.",
    ]
