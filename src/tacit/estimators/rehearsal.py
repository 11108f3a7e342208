"""A rehearsal: what a run needs of its machine is tried on made-up data before anybody is charged.

A module that is not installed, a kernel that does not compile, a source of noise that does not
answer: none of them depends on data, and each would end a run after its charge. So the small
examples of an agreement that go through the same steps are played first, both sides of them, on
their own made-up neighbours, with noise and a ledger that nobody keeps. No holder's data are read,
and nothing of what is drawn is used again. Once in a process is enough.
"""

from __future__ import annotations

from collections.abc import Hashable
from contextvars import Context

from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.coordinator import Asking
from tacit.estimators.gate import Gate
from tacit.estimators.steps import Step
from tacit.mechanisms.base import privatize
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.aggregate import PlainAggregator

__all__ = ["rehearse"]

_SEED = 7  # of noise on made-up data
_done: set[Hashable] = set()


def rehearse(agreement: Agreement) -> None:
    """Play what is like an agreement on made-up data, once in a process; raise what goes wrong.

    Parameters
    ----------
    agreement
        What is about to be charged; nothing is tried where nothing is.

    Examples
    --------
    >>> from tacit.summary.agreement import SummaryAgreement
    >>> rehearse(next(SummaryAgreement.examples()))
    """
    if agreement.is_free:
        return
    form, kind = _form(agreement), _source(agreement)
    if (form, kind) in _done:
        return
    known = [one for one in type(agreement).examples() if _holds(one)]
    alike = [one for one in known if _form(one) == form] or known
    # in a context of its own: whoever stands at the gate of the run sees nothing of this
    Context().run(_try, kind, alike)
    _done.add((form, kind))


def _holds(example: Agreement) -> bool:
    """Whether an example can be asked: a method of somebody's own may not take them all."""
    try:
        return bool(example.steps)
    except ParameterError:
        return False


def _form(agreement: Agreement) -> Hashable:
    """Return what decides which code a run goes through."""
    return type(agreement), tuple(_kind(step) for step in agreement.steps)


def _kind(step: Step) -> Hashable:
    inner = getattr(step.mechanism, "mechanism", None)  # of a sampled or shuffled one
    laws = type(step.mechanism), type(inner)
    return step.name, laws, tuple(step.asks), step.merge, step.open, step.view_of


def _try(kind: str, examples: list[Agreement]) -> None:
    _draw(kind)
    for example in examples:
        _play(example)


def _draw(kind: str) -> None:
    """Draw from a kind of noise source that no example may use."""
    for law in (Gaussian(2.0, 1.0, source=kind), Laplace(2.0, 1.0, source=kind)):
        paper = Ledger.memory(epsilon=10.0, delta=0.1)
        privatize(law, 0.0, ledger=paper, rng=Noise(kind, seed=_SEED), delta=0.01)


def _play(example: Agreement) -> None:
    """Run an example with its coordinator and one site, to the end of what a site does."""
    try:
        made_up = example.worst_case().data
    except NotImplementedError:  # a family of somebody's own, which states none
        return
    gate = Gate(None, Noise(_source(example), seed=_SEED))
    if (privacy := example.charged) is not None and not example.is_free:
        paper = Ledger.memory(
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            unit=privacy.unit,
            neighbours=privacy.neighbours,
        )
        gate.reservation = paper.reserve(
            example.event, purpose="rehearsal", delta=privacy.delta, asked=privacy.epsilon
        )
    holder = example.holder("made up", made_up, gate, _SEED)
    asking, round = Asking(example, _SEED), 0
    while (request := asking.request(round)) is not None:
        reply = holder.respond(request)
        asking.absorb(round, PlainAggregator().collect({"made up": reply}))
        round += 1
    holder.finish(example.shared(asking.result))


def _source(agreement: Agreement) -> str:
    """Return the kind of noise that an agreement's mechanisms draw from."""
    for step in agreement.steps:
        if (kind := getattr(step.mechanism, "source", None)) is not None:
            return str(kind)
    return agreement.source
