"""`Findings`: everything that is wrong with what holders have, before anybody pays.

Loading is the holder's own business: what is found here is for whoever has the data, in this
process, and enters no record, certificate or message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from tacit._core.answers import Answer, Answering, Table
from tacit._core.pictures import Bars
from tacit.data.problems import BadTable, Problem
from tacit.errors import ParameterError, TacitError
from tacit.estimators.agreement import Agreement
from tacit.estimators.loading import held_by
from tacit.estimators.site import ALONE, Site
from tacit.rounds.sides import Failure

__all__ = ["Findings", "examined", "loaded_by", "problems_of", "tried"]


class Findings(Answering, dict[str, tuple[Problem, ...]]):
    """Holder → what is wrong with its data; empty where all is well.

    Examples
    --------
    >>> print(Findings({"North": (Problem("missing", "age", (("a.csv", 3, ""),), 1, "fill in"),)}))
    North: column 'age', missing: a.csv, row 3: ''. Fill in
    """

    def _answer(self, level: float) -> Answer:
        found = [(name, one) for name, problems in self.items() for one in problems]
        counts = {name: sum(one.count for one in problems) for name, problems in self.items()}
        table = Table(
            "problems",
            "What is wrong, for whoever holds the data",
            {
                "holder": [name for name, _ in found],
                "column": [one.column for _, one in found],
                "problem": [str(one) for _, one in found],
            },
        )
        bars = Bars("Problems", "places", list(counts), list(counts.values()))
        head = f"{len(found)} problem{'s' * (len(found) != 1)} to mend before anything is paid."
        return Answer(
            "A look at the data",
            head if found else "Nothing is wrong.",
            (table,),
            pictures={"problems": bars} if counts else {},
        )

    def __str__(self) -> str:
        lines = [f"{name}: {problem}" for name, found in self.items() for problem in found]
        return "\n".join(lines) or "nothing is wrong"

    def __repr__(self) -> str:
        return f"<Findings\n{self}>" if self else "<Findings: nothing is wrong>"


def problems_of(error: Exception) -> tuple[Problem, ...]:
    """Return what an error says as problems, for the holder alone."""
    if isinstance(error, BadTable):
        return error.problems
    text = str(error) if isinstance(error, TacitError) else f"{type(error).__name__}: {error}"
    return (Problem("it cannot be used", "", (), 1, text),)


def tried(readings: Mapping[str, Callable[[], Any]]) -> Findings:
    """Return what goes wrong with some readings, by holder."""
    found = Findings()
    for name, reading in readings.items():
        try:
            reading()
        except Exception as error:  # whatever it is, its holder hears of it
            found[name] = problems_of(error)
    return found


def examined(model: Any, sites: Sequence[Site]) -> Findings:
    """Return what is wrong with the data of sites; nothing is kept, and nothing is paid.

    Parameters
    ----------
    model
        A private estimator, whose parameters were checked.
    sites
        Who holds what.
    """
    found = tried({site.name: partial(model._facts_held, site.data) for site in sites})
    ready = [site for site in sites if site.name not in found]
    if not ready:
        return found
    try:
        agreement = model._agreed(ready)
    except TacitError as error:  # what is public does not fit together
        name = ready[0].name if len(ready) == 1 else "the sites together"
        return Findings({**found, name: problems_of(error)})
    loaded: dict[str, Any] = {}

    def read(site: Site) -> None:
        loaded[site.name] = held_by(model, site, agreement)

    found.update(tried({site.name: partial(read, site) for site in ready}))
    if len(loaded) == len(ready):
        name = ready[0].name if len(ready) == 1 else "the sites together"
        found.update(tried({name: lambda: model._look_over(ready, loaded, agreement)}))
    return found


def loaded_by(
    model: Any,
    sites: Sequence[Site],
    agreement: Agreement,
    exclude: bool,
) -> tuple[dict[str, Any], list[Failure]]:
    """Read what every site holds: the holder's own business, before anything is paid for.

    Parameters
    ----------
    model
        A private estimator, whose reader it is.
    sites, agreement
        Who reads what.
    exclude
        Whether sites that cannot are left out. Why is not said then, whatever was raised: a
        record may be seen by others, and a reason is about the data.
    """
    loaded: dict[str, Any] = {}
    failures: list[Failure] = []
    for site in sites:
        try:
            loaded[site.name] = held_by(model, site, agreement)
        except Exception as error:
            if exclude:
                failures.append(Failure(0, site.name, BadTable.said))
            elif isinstance(error, BadTable) and site.name != ALONE:
                raise BadTable(error.problems, site.name) from None
            elif isinstance(error, ParameterError) and site.name != ALONE:
                raise ParameterError(f"site {site.name!r}: {error}") from None
            else:
                raise
    return loaded, failures
