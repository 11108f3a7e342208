"""What a federation can run: an estimator whose coordinator and sites are in different places."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from tacit.errors import ParameterError
from tacit.estimators.base import SiteSide
from tacit.federation.proposal import Proposal
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Certificate
from tacit.privacy.ledger import Ledger
from tacit.rounds.protocol import Coordinator, RunRecord

__all__ = ["Computation", "check_trust", "estimator", "the_table"]


class Computation(ABC):
    """One proposed computation, as both sides see it.

    Parameters
    ----------
    proposal
        What is proposed; raises where it makes no sense.
    """

    sums_only: ClassVar[bool] = False  # whether a secure sum is enough
    in_clear: ClassVar[str | None] = None  # what leaves a site as it is, being public
    inference_only: ClassVar[tuple[str, ...]] = ()  # settings that no release depends on

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        if proposal.threshold is not None and not self.sums_only:
            raise ParameterError(
                f"{proposal.computation!r} needs every site's own release: it has no secure sum"
            )

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How often a site is asked at most."""

    @property
    @abstractmethod
    def bounds(self) -> Any:
        """The public bounds, as a policy states them."""

    @abstractmethod
    def event(self) -> DpEvent:
        """Return everything that one site releases."""

    @abstractmethod
    def coordinator(self) -> Coordinator:
        """Return the coordinator's side."""

    @abstractmethod
    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Return a site's side; the whole schedule is reserved by then.

        Parameters
        ----------
        name
            The site.
        tables
            Name → a table of named columns, with ``"columns"`` saying what they are.
        ledger
            Who pays.
        """

    def shared(self, coordinator: Coordinator) -> dict[str, Any]:
        """Return what every site gets in the end."""
        return {}

    @abstractmethod
    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> Any:
        """Return the fitted estimator."""

    @abstractmethod
    def outcome(self) -> dict[str, Any]:
        """Return what was learned, as named arrays."""


def estimator(kind: type, settings: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
    """Build an estimator from public settings, refusing what a proposal must not set."""
    closed = {"privacy", "ledger", "random_state", "progress", "checkpoint", "noise",
              "on_failure", "calibration"}  # fmt: skip
    wrong = sorted(closed & set(settings))
    if wrong:
        raise ParameterError(f"a proposal does not set {wrong[0]!r}")
    try:
        return kind(**settings, **more)
    except TypeError as error:
        raise ParameterError(f"settings do not fit {kind.__name__}: {error}") from None


def the_table(tables: Mapping[str, Any]) -> Any:
    """Return the one table that a computation reads."""
    if len(tables) != 1:
        raise ParameterError("one table is read: name it in the permission's tables")
    (table,) = tables.values()
    return table


def check_trust(proposal: Proposal) -> None:
    """Raise unless noise comes in shares exactly where sums are all that is seen."""
    privacy = proposal.guarantee()
    shared = privacy is not None and privacy.trust == "aggregator"
    if shared != (proposal.threshold is not None):
        raise ParameterError(
            "trust = 'aggregator' goes with a threshold for secure aggregation, and only it"
        )
