"""What fails after the charge loses nothing: what was released stays, with its certificates.

A fit that has paid may still fail: a site is lost, a network ends, or numerics of a library raise
on numbers that nobody foresaw. The budget is spent then and noise was drawn. So what left the
gates is kept on the estimator as ``paid_``, as the coordinator heard it, and whatever was raised
says so. Nothing else of a failure is kept: its words may be about somebody's data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tacit.privacy.certificate import Certificate

__all__ = ["Paid", "concluded", "keeping", "kept_by"]

_SAID = (
    "The budget is spent, and what was released until then is kept: paid_.heard has the numbers "
    "of every round, paid_.certificates what they promise."
)


@dataclass(frozen=True)
class Paid:
    """What was released before something failed.

    Attributes
    ----------
    certificates
        Holder → its certificate, of those that released something.
    heard
        Of every round that was heard, the arrays that all sites gave together.
    """

    certificates: Mapping[str, Certificate]
    heard: tuple[Mapping[str, Any], ...]


@contextmanager
def keeping(released: Callable[[], Paid]) -> Iterator[None]:
    """Have whatever is raised carry what was released before, if anything was.

    Parameters
    ----------
    released
        Returns it.

    Examples
    --------
    >>> try:
    ...     with keeping(lambda: Paid({}, ())):
    ...         raise ValueError("nothing was paid")
    ... except ValueError as error:
    ...     hasattr(error, "paid")
    False
    """
    try:
        yield
    except Exception as error:
        found = released()
        if found.certificates:
            error.paid = found  # type: ignore[attr-defined]
        raise


@contextmanager
def kept_by(model: Any) -> Iterator[None]:
    """Keep on an estimator what whatever is raised carries of its fit; an earlier fit stays.

    Parameters
    ----------
    model
        A private estimator.
    """
    try:
        yield
    except Exception as error:
        if (paid := getattr(error, "paid", None)) is not None:
            model.paid_ = paid
            error.add_note(_SAID)
        raise


def concluded(model: Any, outcome: Any) -> None:
    """Keep what a fit gave; nothing of an earlier fit stays.

    What was paid for has its certificate, and its numbers, also where nothing could be made of it.

    Parameters
    ----------
    model
        A private estimator.
    outcome
        What its fit gave.
    """
    for name in [name for name in vars(model) if name.endswith("_") and name[0] != "_"]:
        delattr(model, name)
    model._upstream = {}
    model.record_, model.failures_ = outcome.record, outcome.record.failures
    model.certificates_ = dict(outcome.certificates)
    model.cites_ = outcome.agreement.cites
    try:
        with kept_by(model), keeping(lambda: Paid(dict(outcome.certificates), outcome.heard)):
            model._conclude(outcome)
    finally:
        model._rest_on(model.certificates_)
