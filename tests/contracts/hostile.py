"""Attacks on any agreement: what a hostile coordinator may send, and how far neighbours move.

`Witness` stands at a site's gate: it sees every value before noise, draws nothing secret from
samples (all units are taken, the largest sample there is) and can repeat another run's releases,
so that two neighbouring sites go through the same transcript.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tacit
from tacit.errors import BudgetExceeded, RequestRefused
from tacit.estimators.agreement import Agreement, Step
from tacit.estimators.coordinator import Asking
from tacit.estimators.families import family_packages
from tacit.estimators.fit import reserve
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.estimators.site import Site
from tacit.mechanisms.noise import Noise
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.aggregate import PlainAggregator
from tacit.rounds.messages import ArraySpec, Message, Size

SEED = 7


def agreements() -> list[type[Agreement]]:
    """Return every kind of agreement that exists, published ones included."""
    packages = [*family_packages(), "tacit.published"]
    for package in packages:
        home = importlib.import_module(package)
        for found in pkgutil.walk_packages(home.__path__, f"{package}."):
            if found.name.endswith("agreement") or package == "tacit.published":
                importlib.import_module(found.name)
    assert tacit.__path__
    return sorted(_concrete(Agreement), key=lambda kind: (kind.__module__, kind.__name__))


def _concrete(kind: type[Agreement]) -> set[type[Agreement]]:
    found = (
        {kind} if not kind.__abstractmethods__ and kind.__module__.startswith("tacit.") else set()
    )
    return found.union(*(_concrete(child) for child in kind.__subclasses__()))


def examples() -> Iterator[tuple[str, Agreement]]:
    """Yield every example of every agreement, with a name."""
    for kind in agreements():
        for number, example in enumerate(kind.examples()):
            yield f"{kind.__name__}-{number}", example


class Witness(Gate):
    """A gate that keeps every value that comes to it, and may repeat another one's releases."""

    def __init__(self, agreement: Agreement, told: list[Any] | None = None) -> None:
        whole, agreement = agreement, agreement.at("site")
        privacy = agreement.charged
        self.ledger = None
        if privacy is not None and not agreement.is_free:
            self.ledger = Ledger.memory(
                unit=privacy.unit,
                neighbours=privacy.neighbours,
                epsilon=privacy.epsilon,
                delta=privacy.delta,
            )
        held = reserve(whole, [Site("site", None, self.ledger)], "attack")["site"]
        super().__init__(held, Noise(_source(agreement), seed=SEED))
        self.values: list[tuple[str, Any, Any]] = []
        self.told: list[Any] = []
        self._told = None if told is None else list(told)

    def sample(self, step: Step, units: int) -> Any:
        return np.arange(units, dtype=np.int64)

    def release(self, step: Step, value: Any, position: int = 0, mechanism: Any = None) -> Any:
        self.values.append((step.name, mechanism or step.mechanism, value))
        released = super().release(step, value, position, mechanism)
        if self._told is not None:
            released = self._told.pop(0)
        self.told.append(released)
        return released

    @property
    def rows(self) -> int:
        """How many rows the ledger has: charges and claims."""
        return 0 if self.ledger is None else self.ledger.counter


def _source(agreement: Agreement) -> str:
    for step in agreement.steps:
        kind = getattr(step.mechanism, "source", None)
        if kind is not None:
            return str(kind)
    return agreement.source


@dataclass
class Played:
    """One honest run at one site."""

    requests: list[Message] = field(default_factory=list)
    replies: list[Message] = field(default_factory=list)
    holder: Holder | None = None
    gate: Witness | None = None


class Wild(Witness):
    """A gate whose noise is thousands of times what was agreed on."""

    def release(self, step: Step, value: Any, position: int = 0, mechanism: Any = None) -> Any:
        released = super().release(step, value, position, mechanism)
        real = isinstance(released, np.ndarray) and released.dtype.kind == "f"
        return np.ldexp(released, 12) if real else released


def play(agreement: Agreement, data: Any, gate: Witness | None = None) -> Played:
    """Run an agreement with its honest coordinator and one site."""
    gate = Witness(agreement) if gate is None else gate
    holder = agreement.at("site").holder("site", data, gate, SEED)
    asking, run, number = Asking(agreement, SEED), Played(holder=holder, gate=gate), 0
    while (request := asking.request(number)) is not None:
        reply = holder.respond(request)
        run.requests.append(request)
        run.replies.append(reply)
        asking.absorb(number, PlainAggregator().collect({"site": reply}))
        number += 1
    return run


def replayed(
    agreement: Agreement, data: Any, requests: list[Message], told: list[Any] | None = None
) -> tuple[Holder, Witness]:
    """Return a fresh site that was asked the given requests, in order."""
    gate = Witness(agreement, told)
    holder = agreement.at("site").holder("site", data, gate, SEED)
    for request in requests:
        holder.respond(request)
    return holder, gate


def malformed(step: Step, request: Message) -> Iterator[tuple[str, Message]]:
    """Yield requests that a step must refuse, each made from an honest one by one change."""
    arrays = dict(request.arrays)

    def changed(more: dict[str, Any], round: int = request.round, name: str = request.step) -> Any:
        return Message(round, {n: a for n, a in (arrays | more).items() if a is not None}, name)

    yield "unknown array", changed({"surprise": np.zeros(1)})
    yield "unknown step", changed({}, name="surprise")
    yield "a later round", changed({}, round=request.round + 1)
    yield "a negative round", changed({}, round=-1)
    for name, array in arrays.items():
        spec = _spec(step, request, name)
        yield f"without {name}", changed({name: None})
        yield f"{name} with another axis", changed({name: array[None]})
        yield (
            f"{name} longer",
            changed({name: np.concatenate([array, array[:1]])})
            if (array.ndim and len(array) and not isinstance(spec.shape[0], Size))
            else changed({name: array[None]}),
        )
        other = np.float32 if array.dtype != np.float32 else np.float64
        yield f"{name} of another type", changed({name: array.astype(other)})
        if array.size and array.dtype.kind == "f":
            for bad in (np.nan, np.inf, -np.inf):
                spoiled = array.copy()
                spoiled.reshape(-1)[-1] = bad
                yield f"{name} with {bad}", changed({name: spoiled})
        if array.size and np.isfinite(spec.high):
            outside = array.copy()
            outside.reshape(-1)[0] = (
                spec.high + 1 if array.dtype.kind == "i" else np.nextafter(spec.high, np.inf)
            )
            yield f"{name} above its range", changed({name: outside})
        if array.size and np.isfinite(spec.low):
            outside = array.copy()
            outside.reshape(-1)[0] = (
                spec.low - 1 if array.dtype.kind == "i" else np.nextafter(spec.low, -np.inf)
            )
            yield f"{name} below its range", changed({name: outside})
        for axis, size in enumerate(spec.shape):
            if isinstance(size, Size) and size.largest < 1 << 16:
                shape = list(array.shape)
                shape[axis] = size.largest + 1
                yield f"{name} too large", changed({name: np.zeros(shape, array.dtype)})


def _spec(step: Step, request: Message, name: str) -> ArraySpec:
    if name == "kind" and step.kinds:
        return ArraySpec((1,), "int64", 0, len(step.kinds) - 1)
    asks = step.asks
    if step.kinds:
        asks = list(step.kinds.values())[int(request["kind"][0])].asks
    return asks[name]


def apart(agreement: Agreement, ours: Witness, theirs: Witness) -> dict[str, float]:
    """Return, by step, how far two neighbours' values are apart, as a share of the bound."""
    found: dict[str, float] = {}
    for (name, mechanism, value), (_, _, other) in zip(ours.values, theirs.values, strict=True):
        found[name] = max(found.get(name, 0.0), mechanism.distance(value, other))
    return found


def mutated(
    agreement: Agreement, request: Message, rng: np.random.Generator, size: float
) -> Message | None:
    """Return an accepted request near an honest one, or None where nothing can be changed."""
    step = agreement.step(request.step)
    arrays = dict(request.arrays)
    names = [name for name, array in arrays.items() if array.size]
    if not names:
        return None
    name = names[rng.integers(len(names))]
    spec, array = _spec(step, request, name), arrays[name].copy()
    flat = array.reshape(-1)
    picked = rng.random(flat.size) < rng.choice([0.02, 0.3, 1.0])
    if array.dtype.kind == "f":
        scale = size * max(1e-3, float(np.abs(flat).max()))
        flat[picked] = flat[picked] + scale * rng.standard_normal(int(picked.sum()))
        if np.isfinite(spec.high) and rng.random() < 0.3:
            flat[picked] = rng.choice([spec.low, spec.high], int(picked.sum()))
        array = np.clip(array, spec.low, spec.high)
    elif np.isfinite(spec.high):
        flat[picked] = rng.integers(int(spec.low), int(spec.high) + 1, int(picked.sum()))
    changed = Message(request.round, arrays | {name: array}, request.step)
    try:
        step.read(changed)
    except RequestRefused:
        return None
    return changed


# -- the attacks ------------------------------------------------------------------------------

ROOM = 1e-9  # on shares of a bound: sums of squares in floating point


def attack_requests(agreement: Agreement) -> None:
    """What is not agreed on is refused before anything is computed, drawn or charged."""
    data = agreement.worst_case().data
    honest = play(agreement, data)
    holder, gate = replayed(agreement, data, [])
    for number, request in enumerate(honest.requests):
        step = agreement.step(request.step)
        for what, bad in malformed(step, request):
            before = gate.rows, len(gate.values)
            assert _refused(holder, bad), f"{step.name}: {what} was accepted"
            assert (gate.rows, len(gate.values)) == before, what
        reply = holder.respond(request)
        assert set(reply.arrays) == set(step.leaving), step.name
        assert holder.respond(request).to_bytes() == reply.to_bytes(), step.name
        other = Message(request.round, dict(request.arrays) | {"more": np.zeros(1)}, request.step)
        assert _refused(holder, other), f"{step.name} answered twice"
        if number:
            assert _refused(holder, honest.requests[number - 1]), f"{step.name} went back"
    last = honest.requests[-1]
    again = Message(last.round + 1, dict(last.arrays), last.step)
    used = sum(request.step == last.step for request in honest.requests)
    if used >= agreement.step(last.step).times:
        assert _refused(holder, again), f"{last.step} can be asked more often than agreed"


def _refused(holder: Holder, request: Message) -> bool:
    try:
        holder.respond(request)
    except RequestRefused:
        return True
    return False


def attack_restart(agreement: Agreement) -> None:
    """A site that forgot where it was cannot pay for what it has drawn."""
    data = agreement.worst_case().data
    honest = play(agreement, data)
    _, gate = replayed(agreement, data, honest.requests)
    if gate.ledger is None:
        return
    private = [r for r in honest.requests if agreement.step(r.step).mechanism is not None]
    fresh = agreement.at("site").holder("site", data, gate, SEED)
    for request in honest.requests[: honest.requests.index(private[0])]:
        fresh.respond(request)
    try:
        fresh.respond(private[0])
    except BudgetExceeded:
        return
    raise AssertionError(f"{private[0].step} was drawn twice")


def attack_neighbours(agreement: Agreement, searches: int) -> dict[str, float]:
    """No accepted request lets neighbours move a release further than was agreed.

    The search begins at the agreement's worst case and its honest requests, changes one array of
    one request at random, and goes on from whatever moved further. Returns the share of its bound
    that each step reached.
    """
    case = agreement.worst_case()
    honest = play(agreement, case.data)
    assert honest.gate is not None
    _, theirs = replayed(agreement, case.neighbour, honest.requests, honest.gate.told)
    best = apart(agreement, honest.gate, theirs)
    _bounded(best)
    rng = np.random.default_rng(0)
    chosen = [*honest.requests]
    for _ in range(searches):
        at = int(rng.integers(len(chosen)))
        changed = mutated(agreement, chosen[at], rng, float(rng.choice([0.1, 1.0, 10.0])))
        if changed is None:
            continue
        tried = [*chosen]
        tried[at] = changed
        _, ours = replayed(agreement, case.data, tried)
        _, theirs = replayed(agreement, case.neighbour, tried, ours.told)
        found = apart(agreement, ours, theirs)
        _bounded(found)
        if any(share > best[name] for name, share in found.items()):
            chosen = tried
            best = {name: max(share, best[name]) for name, share in found.items()}
    return best


def _bounded(shares: dict[str, float]) -> None:
    too_far = {name: share for name, share in shares.items() if share > 1.0 + ROOM}
    assert not too_far, f"neighbours are {too_far} of the stated sensitivity apart"


def check_reach(agreement: Agreement, reached: dict[str, float]) -> None:
    """Every step's worst case reaches its bound, or the step says why not."""
    for name, share in reached.items():
        stated = agreement.step(name).reach
        assert isinstance(stated, str) or share >= 0.99 * stated, (name, share, stated)
