"""A site: a party that holds data and its own ledger."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tacit._core.check import AnyOf, InstanceOf, check
from tacit.errors import NotCertified, ParameterError
from tacit.estimators.release.plain import check_text
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

__all__ = [
    "ALONE",
    "Site",
    "check_curated",
    "check_named",
    "check_own_epsilons",
    "check_sites",
]

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
    key
        A secret that the sites share and nobody else has: for estimators that let it decide at
        which of them somebody counts whom several know.
    executor
        Where its `Shards` are worked on: a client of ``dask.distributed``, or an address such as
        ``"dask://scheduler:8786"``; in this process unless given.

    Examples
    --------
    >>> Site("North", {"age": [40, 50]}).name
    'North'
    """

    name: str
    data: Any = field(repr=False)
    ledger: Ledger | None = None
    key: bytes | None = field(default=None, repr=False)
    executor: Any = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check("name", self.name, InstanceOf(str))
        check("key", self.key, AnyOf(InstanceOf(bytes), None))
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


def check_curated(sites: int, privacy: Privacy | None) -> None:
    """Raise where several sites would share a curator, who sees all rows."""
    if sites > 1 and privacy is not None and privacy.is_curated:
        raise ParameterError(
            "several sites have nobody who sees all rows, as trust='central' would mean: pass "
            "Privacy(…, trust='site')"
        )


def check_own_epsilons(sites: list[Site], privacy: Privacy | None) -> None:
    """Raise unless a request that names sites names those of this run, and protects somebody."""
    if privacy is not None and privacy.by_site:
        check_named(tuple(site.name for site in sites), privacy)


def check_named(names: tuple[str, ...], privacy: Privacy) -> None:
    """Raise unless the sites that have an ε of their own take part, and one of all is private."""
    strange = sorted(set(privacy.by_site) - set(names))
    if strange:
        raise ParameterError(f"privacy.by_site names {strange[0]!r}: the sites are {list(names)}")
    if set(privacy.public_sites) >= set(names):
        raise ParameterError("privacy.by_site says that the data of all sites are public")
