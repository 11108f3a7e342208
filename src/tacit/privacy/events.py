"""What a release did, as frozen data that says all an accountant needs.

The names and fields are those of ``dp_accounting`` (whose import is slow, and happens only
when a privacy-loss distribution is computed), so that a reader can rebuild every event there;
`to_dp_accounting` does it. tacit adds three things: `ApproximateDpEvent` for mechanisms that are
known only by their (ε, δ), `ShuffledDpEvent`, and the neighbour relation on Poisson sampling,
because a sampled Gaussian under replacement is not a rescaled one under addition.

An unsampled event records its noise relative to the sensitivity for its *own* neighbour
relation, so it is never doubled again. A Poisson-sampled Gaussian records its noise relative
to the clip norm of one unit, and its relation.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import NotCertified, ParameterError
from tacit.privacy.amounts import as_exact

__all__ = [
    "ADD_REMOVE",
    "REPLACE",
    "ApproximateDpEvent",
    "ComposedDpEvent",
    "DiscreteGaussianDpEvent",
    "DiscreteLaplaceDpEvent",
    "DpEvent",
    "GaussianDpEvent",
    "LaplaceDpEvent",
    "NoOpDpEvent",
    "NonPrivateDpEvent",
    "PoissonSampledDpEvent",
    "RandomizedResponseDpEvent",
    "SampledWithoutReplacementDpEvent",
    "SelfComposedDpEvent",
    "ShuffledDpEvent",
    "ZCDpEvent",
    "compose",
    "event_from_json",
    "event_to_json",
    "leaves",
    "pure_epsilon",
    "repeat",
    "to_dp_accounting",
]

ADD_REMOVE = "add-remove-one"
REPLACE = "replace-one"

MOST_CATEGORIES = 10**12  # of randomized response
LEAST_DISCRETE, MOST_DISCRETE = 2.0**-4, 2.0**15  # σ of a discrete Gaussian
_MOST_MOVED = 300  # σ that a discrete Gaussian is moved; beyond, nothing is protected
_POSITIVE = Real(0, open_low=True, allow_inf=True)


@dataclass(frozen=True)
class DpEvent:
    """Base of all events."""

    kinds: ClassVar[dict[str, type[DpEvent]]] = {}

    def __init_subclass__(cls) -> None:
        DpEvent.kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        """Hold Python's own numbers: those of NumPy wrap around when counts are multiplied."""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if isinstance(value, bool | np.bool_):
                raise ParameterError(f"{field.name} must be a number, got {value!r}")
            if isinstance(value, numbers.Integral):
                value = int(value)
            if isinstance(value, numbers.Real) and field.type == "float":
                try:
                    value = float(value)
                except OverflowError:
                    raise ParameterError(f"{field.name} must be a float") from None
            object.__setattr__(self, field.name, value)


@dataclass(frozen=True)
class NoOpDpEvent(DpEvent):
    """Nothing that depends on private data was released."""


@dataclass(frozen=True)
class NonPrivateDpEvent(DpEvent):
    """Something was released without any protection."""


@dataclass(frozen=True)
class GaussianDpEvent(DpEvent):
    """Gaussian noise with standard deviation ``noise_multiplier`` × L2 sensitivity."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check("noise_multiplier", self.noise_multiplier, _POSITIVE)


@dataclass(frozen=True)
class LaplaceDpEvent(DpEvent):
    """Laplace noise with scale ``noise_multiplier`` × L1 sensitivity, per coordinate."""

    noise_multiplier: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check("noise_multiplier", self.noise_multiplier, _POSITIVE)


@dataclass(frozen=True)
class DiscreteLaplaceDpEvent(DpEvent):
    """Two-sided geometric noise, P(k) ∝ exp(−noise_parameter·|k|), on integers."""

    noise_parameter: float
    sensitivity: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check("noise_parameter", self.noise_parameter, Real(0, open_low=True))
        check("sensitivity", self.sensitivity, Integer(1))


@dataclass(frozen=True)
class DiscreteGaussianDpEvent(DpEvent):
    """Noise P(k) ∝ exp(−k²/(2·sigma²)) on whole numbers, one of which moves by ``sensitivity``."""

    sigma: float
    sensitivity: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check("sigma", self.sigma, Real(LEAST_DISCRETE, MOST_DISCRETE))
        check("sensitivity", self.sensitivity, Integer(1, int(_MOST_MOVED * self.sigma)))


@dataclass(frozen=True)
class RandomizedResponseDpEvent(DpEvent):
    """With probability ``noise_parameter`` the answer is uniform over ``num_buckets``."""

    noise_parameter: float
    num_buckets: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check("noise_parameter", self.noise_parameter, Real(0, 1, open_low=True))
        check("num_buckets", self.num_buckets, Integer(2, MOST_CATEGORIES))


@dataclass(frozen=True)
class ApproximateDpEvent(DpEvent):
    """A mechanism known only by its (ε, δ); δ = 0 for pure mechanisms such as K-norm noise."""

    epsilon: float
    delta: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("epsilon", self.epsilon, Real(0))
        check("delta", self.delta, Real(0, 1, open_high=True))


@dataclass(frozen=True)
class ZCDpEvent(DpEvent):
    """A mechanism that is ρ-zero-concentrated private."""

    rho: float

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rho", self.rho, Real(0))


@dataclass(frozen=True)
class PoissonSampledDpEvent(DpEvent):
    """``event`` on a sample that holds each unit independently with the given probability."""

    sampling_probability: float
    event: DpEvent
    neighbours: str = ADD_REMOVE

    def __post_init__(self) -> None:
        super().__post_init__()
        check("sampling_probability", self.sampling_probability, Real(0, 1))
        check("neighbours", self.neighbours, OneOf(ADD_REMOVE, REPLACE))
        if self.neighbours == REPLACE and not isinstance(self.event, GaussianDpEvent):
            raise NotCertified(
                f"Poisson sampling of {type(self.event).__name__} cannot be accounted for under "
                "replace-one: use Gaussian noise, or the add-remove-one relation"
            )
        if not isinstance(self.event, GaussianDpEvent | LaplaceDpEvent):
            raise NotCertified(
                f"Poisson sampling of {type(self.event).__name__} cannot be accounted for: "
                "sample Gaussian or Laplace noise"
            )


@dataclass(frozen=True)
class SampledWithoutReplacementDpEvent(DpEvent):
    """``event`` on a uniform sample of fixed size; one unit of the data is replaced.

    The inner event's noise is relative to the sensitivity where a unit of the sample is replaced.
    """

    source_dataset_size: int
    sample_size: int
    event: DpEvent

    def __post_init__(self) -> None:
        super().__post_init__()
        check("source_dataset_size", self.source_dataset_size, Integer(1, 10**15))
        check("sample_size", self.sample_size, Integer(1, self.source_dataset_size))
        if not isinstance(self.event, GaussianDpEvent | LaplaceDpEvent):
            raise NotCertified(
                f"sampling {type(self.event).__name__} without replacement cannot be accounted "
                "for: sample Gaussian or Laplace noise"
            )

    @property
    def neighbours(self) -> str:
        """The only relation for which it holds."""
        return REPLACE

    @property
    def upper(self) -> PoissonSampledDpEvent:
        """The event whose δ(ε), of an added unit and ε ≥ 0, is the curve of this one."""
        rate = self.sample_size / self.source_dataset_size
        return PoissonSampledDpEvent(min(1.0, rate * (1.0 + 2.0**-52)), self.event)


@dataclass(frozen=True)
class ShuffledDpEvent(DpEvent):
    """Messages of ``people`` persons, each ``local_epsilon``-private, seen in random order.

    One person's data is replaced. See `tacit.privacy.accounting.shuffled`.
    """

    neighbours: ClassVar[str] = REPLACE  # the only relation for which it holds
    local_epsilon: float
    people: int

    def __post_init__(self) -> None:
        super().__post_init__()
        check("local_epsilon", self.local_epsilon, Real(0, 30, open_low=True))
        check("people", self.people, Integer(1))


@dataclass(frozen=True)
class SelfComposedDpEvent(DpEvent):
    """``event``, ``count`` times."""

    event: DpEvent
    count: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.event, DpEvent):
            raise ParameterError(f"event must be an event, got {self.event!r}")
        check("count", self.count, Integer(0))


@dataclass(frozen=True)
class ComposedDpEvent(DpEvent):
    """Several events, one after the other, each possibly chosen after the last."""

    events: tuple[DpEvent, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        known = isinstance(self.events, tuple)
        if not known or not all(isinstance(event, DpEvent) for event in self.events):
            raise ParameterError("events must be a tuple of events")


def compose(events: Iterable[DpEvent]) -> DpEvent:
    """Return the composition of events, flat and without no-ops.

    >>> compose([GaussianDpEvent(1.0), NoOpDpEvent()])
    GaussianDpEvent(noise_multiplier=1.0)
    """
    parts = [
        SelfComposedDpEvent(event, count) if count > 1 else event
        for event, count in leaves(ComposedDpEvent(tuple(events))).items()
    ]
    if not parts:
        return NoOpDpEvent()
    return parts[0] if len(parts) == 1 else ComposedDpEvent(tuple(parts))


def repeat(event: DpEvent, count: int) -> DpEvent:
    """Return ``event`` composed with itself ``count`` times."""
    return compose([SelfComposedDpEvent(event, count)])


def leaves(event: DpEvent) -> dict[DpEvent, int]:
    """Return the elementary events with their counts: the walker multiplies, nobody else.

    >>> leaves(repeat(compose([GaussianDpEvent(1.0), LaplaceDpEvent(2.0)]), 3))
    {GaussianDpEvent(noise_multiplier=1.0): 3, LaplaceDpEvent(noise_multiplier=2.0): 3}
    """
    found: dict[DpEvent, int] = {}

    def walk(node: DpEvent, times: int) -> None:
        match node:
            case NoOpDpEvent():
                return
            case ComposedDpEvent(events):
                for child in events:
                    walk(child, times)
            case SelfComposedDpEvent(child, count):
                if count:
                    walk(child, times * count)
            case PoissonSampledDpEvent(sampling_probability=0.0):
                return
            case PoissonSampledDpEvent(sampling_probability=1.0, event=child, neighbours=how):
                walk(_unsampled(child, how), times)
            case SampledWithoutReplacementDpEvent(units, size, child) if units == size:
                walk(child, times)
            case _:
                found[node] = found.get(node, 0) + times

    walk(event, 1)
    return found


def _unsampled(event: DpEvent, neighbours: str) -> DpEvent:
    """Return a sampled event's noise as an unsampled event: replacement moves it twice as far."""
    if neighbours == REPLACE and isinstance(event, GaussianDpEvent):
        return GaussianDpEvent(event.noise_multiplier / 2)
    return event


def pure_epsilon(event: DpEvent) -> Fraction | None:
    """Return ε of an elementary event that is purely ε-private, else None.

    Exact where ε is rational in the parameters, else one unit in the last place above.
    """
    match event:
        case LaplaceDpEvent(multiplier):
            return Fraction(0) if math.isinf(multiplier) else 1 / as_exact(multiplier)
        case DiscreteLaplaceDpEvent(parameter, sensitivity):
            return as_exact(parameter) * sensitivity
        case RandomizedResponseDpEvent(p, k):
            return _just_above(response_epsilon(p, k)) if p < 1.0 else Fraction(0)
        case ApproximateDpEvent(epsilon, 0.0):
            return as_exact(epsilon)
        case PoissonSampledDpEvent(rate, LaplaceDpEvent(multiplier), _):
            grown = 1.0 / multiplier
            if grown > 700.0:  # ln(1 − q + q·e^ε) < ln(1 + q·e^ε)
                return _just_above(float(np.logaddexp(0.0, math.log(rate) + grown)))
            return _just_above(math.log1p(rate * math.expm1(grown)))
        case SampledWithoutReplacementDpEvent():
            return pure_epsilon(event.upper)
        case _:
            return None


def response_epsilon(lie: float, buckets: int) -> float:
    """Return ε of randomized response: P(truth)/P(another) = (1 − p + p/k) / (p/k)."""
    odds = buckets * (1.0 - lie) / lie
    if math.isfinite(odds):
        return math.log1p(odds)
    return math.log(buckets) + math.log1p(-lie) - math.log(lie)


def _just_above(value: float) -> Fraction:
    return Fraction(value * (1.0 + 1e-15)) if math.isfinite(value) else Fraction(10) ** 400


def event_to_json(event: DpEvent) -> dict[str, Any]:
    """Return an event as plain JSON data."""
    data: dict[str, Any] = {"type": type(event).__name__}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if isinstance(value, DpEvent):
            value = event_to_json(value)
        elif isinstance(value, tuple):
            value = [event_to_json(one) if isinstance(one, DpEvent) else one for one in value]
        elif isinstance(value, numbers.Integral):
            value = int(value)
        elif isinstance(value, numbers.Real):  # NumPy's numbers become plain ones
            value = "inf" if math.isinf(value) else float(value)
        data[field.name] = value
    return data


def event_from_json(data: Mapping[str, Any]) -> DpEvent:
    """Rebuild an event; unknown kinds and fields are refused by name."""
    if not isinstance(data, Mapping):
        raise NotCertified(f"an event must be a table with its type, got {data!r:.60}")
    fields = dict(data)
    name = fields.pop("type", None)
    kind = DpEvent.kinds.get(str(name))
    if kind is None:
        raise NotCertified(f"unknown event {name!r}: it may come from a newer tacit")
    known = {field.name for field in dataclasses.fields(kind)}
    if set(fields) != known:
        raise NotCertified(f"{name} needs the fields {sorted(known)}, got {sorted(fields)}")
    for key, value in fields.items():
        if isinstance(value, Mapping):
            fields[key] = event_from_json(value)
        elif isinstance(value, list):
            inner = kind is ComposedDpEvent  # other lists hold numbers, which the event checks
            fields[key] = tuple(event_from_json(one) if inner else one for one in value)
        elif value == "inf":
            fields[key] = math.inf
    return kind(**fields)


def to_dp_accounting(event: DpEvent) -> Any:
    """Return the same event as an object of ``dp_accounting``, to check with its accountants."""
    from dp_accounting import dp_event

    match event:
        case ApproximateDpEvent():
            raise NotCertified("dp_accounting has no event for a mechanism known by (ε, δ) only")
        case ShuffledDpEvent():
            raise NotCertified("dp_accounting has no event for shuffled messages")
        case SampledWithoutReplacementDpEvent(units, size, child):
            inner = to_dp_accounting(child)
            return dp_event.SampledWithoutReplacementDpEvent(units, size, inner)
        case ComposedDpEvent(events):
            return dp_event.ComposedDpEvent([to_dp_accounting(child) for child in events])
        case SelfComposedDpEvent(child, count):
            return dp_event.SelfComposedDpEvent(to_dp_accounting(child), count)
        case PoissonSampledDpEvent(neighbours=relation) if relation != ADD_REMOVE:
            raise NotCertified(
                "dp_accounting's events do not say that a unit is replaced: its accountants would "
                "count one that is added or removed"
            )
        case PoissonSampledDpEvent(rate, child, _):
            return dp_event.PoissonSampledDpEvent(rate, to_dp_accounting(child))
        case _:
            kind = getattr(dp_event, type(event).__name__, None)
            if kind is None:
                raise NotCertified(f"dp_accounting has no event for {type(event).__name__}")
            return kind(**dataclasses.asdict(event))
