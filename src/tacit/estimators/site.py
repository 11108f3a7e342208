"""A site: a party that holds data and its own ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tacit._core.check import AnyOf, InstanceOf, check
from tacit.errors import NotCertified, ParameterError
from tacit.estimators.release.plain import check_text
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["ALONE", "Site", "check_sites"]

ALONE = "the data"  # what a table that was passed by itself is called in prices and certificates


@dataclass(frozen=True)
class Site:
    """A party that holds data.

    Parameters
    ----------
    name
        Its name, distinct among the sites of a run.
    data
        What it holds; never leaves it.
    ledger
        Its privacy budget.

    Examples
    --------
    >>> Site("North", {"age": [40, 50]}).name
    'North'
    """

    name: str
    data: Any = field(repr=False)
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        check("name", self.name, InstanceOf(str))
        check("ledger", self.ledger, AnyOf(InstanceOf(Ledger), None))


def check_sites(sites: list[Site]) -> None:
    """Raise unless the sites have distinct names and ledgers of their own."""
    names = [site.name for site in sites]
    if len(set(names)) != len(names):
        raise ParameterError(f"sites must have distinct names, got {names}")
    for name in names:
        try:  # a release carries it, and is refused too late
            check_text("a site's name", name)
        except NotCertified as error:
            raise ParameterError(str(error)) from None
    ledgers = [site.ledger.id for site in sites if site.ledger is not None]
    if len(set(ledgers)) != len(ledgers):
        raise ParameterError(
            "every site needs a ledger of its own, which counts what is learned about the people "
            "of that site"
        )
