"""What must fit before anybody pays: names, columns, designs and relations of sites that join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tacit.data.columns import column_names
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.site import Site, check_curated, check_sites
from tacit.privacy.guarantee import Privacy
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.design import Design
from tacit.regression.methods import SQUARE_METHODS
from tacit.regression.summary import SiteSummary
from tacit.rounds.sides import Failure

__all__ = [
    "check_complete",
    "check_loss",
    "check_names",
    "check_together",
    "common_labels",
    "sorted_parts",
]


def sorted_parts(data: Any) -> tuple[list[SiteSummary], Any]:
    """Return what was released before, and what is still raw; None where nothing is."""
    if isinstance(data, SiteSummary):
        return [data], None
    parts = list(data) if isinstance(data, list | tuple) else []
    if not parts or not all(isinstance(part, Site | SiteSummary) for part in parts):
        return [], data
    summaries = [part for part in parts if isinstance(part, SiteSummary)]
    return summaries, [part for part in parts if isinstance(part, Site)] or None


def check_loss(privacy: Privacy | None, on_failure: str) -> None:
    """Raise where a sum would go on without a site's share of the noise."""
    if privacy is not None and privacy.trust == "aggregator" and on_failure == "exclude":
        raise ParameterError(
            "on_failure must be 'stop' with trust='aggregator': the share of the noise of a site "
            "that is lost would be missing from the sum"
        )


def check_names(known: Sequence[str], sites: Sequence[Site], privacy: Privacy | None) -> None:
    """Raise unless every site counts once, and several do not share a curator."""
    names = [*known, *(site.name for site in sites)]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise ParameterError(
            f"{sorted(twice)} would count twice: give every site a name of its own"
        )
    check_sites(list(sites))
    if sites:
        check_curated(len(names), privacy)


def check_together(
    agreement: RegressionAgreement, known: Sequence[SiteSummary], method: str, noisy: bool
) -> None:
    """Raise where summaries do not fit what is asked of further sites, a method or one another.

    ``noisy`` says whether further sites release with noise.
    """
    for summary in known:
        _check_belongs(summary, agreement.design, agreement.columns)
        _check_belongs(summary, known[0].design, known[0].columns)
        if method in SQUARE_METHODS and summary.moments.square is None:
            raise ParameterError(
                f"method {method!r} needs the sum of squares of the response, and "
                f"{summary.site!r} did not release it: use method='auto'"
            )
    relations = {s.certificate.neighbours for s in known if s.certificate.is_private}
    if noisy:
        relations.add(agreement.design.neighbours)
    if len(relations) > 1:
        raise ParameterError(
            "guarantees under add-remove-one and under replace-one cannot be compared: ask every "
            "site for the same neighbours"
        )


def _check_belongs(summary: SiteSummary, design: Design, names: tuple[str, ...]) -> None:
    """Raise unless a summary was made for a design and for these columns, in this order."""
    if type(design) is not type(summary.design):
        raise ParameterError(
            f"the summary of {summary.site!r} is that of another kind of release, and cannot be "
            "joined"
        )
    for part in design.common:
        if getattr(design, part) != getattr(summary.design, part):
            raise ParameterError(
                f"the summary of {summary.site!r} has another {part}: it was made with other "
                "bounds or another model, and cannot be joined"
            )
    unnamed = (*(f"x{k}" for k in range(design.features)), "y")  # bounds in a list
    found = summary.columns
    for ours, theirs, positional in (
        (names[:-1], found[:-1], unnamed[:-1]),
        (names[-1:], found[-1:], unnamed[-1:]),
    ):
        if ours != theirs and positional not in (ours, theirs):
            raise ParameterError(
                f"the summary of {summary.site!r} has the columns {found}, not {names}: it cannot "
                "be joined"
            )


def check_complete(lost: Sequence[Failure]) -> None:
    """Raise where sites were lost, saying what can be done with what the others released."""
    if lost:
        reasons = "; ".join(f"{failure.site}: {failure.reason}" for failure in lost)
        raise SiteFailure(
            f"{reasons}. What the other sites released is kept in summaries_: pass the rest to "
            "add_sites, or those summaries to fit"
        )


def common_labels(sites: Sequence[Site], known: list[Any]) -> list[Any]:
    """Return how the columns of X are called where bounds go by their order."""
    for site in sites:
        pair = isinstance(site.data, tuple) and len(site.data) == 2
        labels = column_names(site.data[0]) if pair else []
        known = known or labels
        if labels and labels != known:
            raise ParameterError(
                f"site {site.name!r} has the columns {labels[:20]}, not {known[:20]}: bounds in a "
                "list go by their order, pass bounds={feature: (low, high)}"
            )
    return known
