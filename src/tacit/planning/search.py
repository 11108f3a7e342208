"""The search of a plan: the least ε, rows or sites whose simulated error is small enough."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from tacit._core.answers import Answer, Answering, Table
from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.estimates import HIGH, estimates
from tacit._core.pictures import Lines
from tacit.planning.simulations import Facts, error_of, kinds

__all__ = ["Plan", "plan"]

_LIMITS = {"epsilon": (0.01, 100.0), "rows": (32, 1 << 20), "sites": (1, 256)}
_CLOSE = 1.1  # the answer is within this factor


@dataclass(frozen=True)
class Plan(Answering):
    """What a plan found.

    Parameters
    ----------
    kind, find, want
        The task, what was searched for, and the wanted error.
    value
        The least that reaches it; None where nothing within reach does.
    table
        Everything that was tried: value, mean error, standard error.
    facts
        What was given.
    """

    kind: str
    find: str
    want: float
    value: float | None
    table: tuple[tuple[float, float, float], ...]
    facts: Facts

    def _answer(self, level: float) -> Answer:
        tried = [value for value, _, _ in self.table]
        errors = [error for _, error, _ in self.table]
        known = [sd for _, _, sd in self.table]
        columns = estimates(
            {self.find: [f"{value:.4g}" for value in tried]},
            "error",
            errors,
            known,
            level,
            (0.0, math.inf),
        )
        caption = f"Simulated errors, {100 * level:g} % intervals"
        note = "errors are of simulated data of this size: no private row was read"
        reached = {
            "error": list(zip(tried, errors, strict=True)),
            "upper end": list(zip(tried, columns[HIGH], strict=True)),
        }
        return Answer(
            f"A plan for {self.kind}",
            f"{self._head[0].upper()}{self._head[1:]} (simulated).",
            (Table("tried", caption, columns, (note,)),),
            ("nothing within reach is enough.",) if self.value is None else (),
            pictures={
                "plan": Lines(
                    f"Accuracy against {self.find}",
                    self.find,
                    "error",
                    reached,
                    {"wanted": self.want},
                    logarithmic=True,
                )
            },
        )

    @property
    def _head(self) -> str:
        """What was found, in a sentence."""
        if self.value is None:
            low, high = _LIMITS[self.find]
            return f"no {self.find} between {low:g} and {high:g} reaches an error of {self.want:g}"
        return f"an error of {self.want:g} needs {self.find} of about {self.value:.3g}"

    def __str__(self) -> str:
        rows = [f"  {self.find} = {v:.4g}: error {e:.4g} ± {s:.2g}" for v, e, s in self.table]
        return "\n".join([f"{self.kind}: {self._head} (simulated)", *rows])


def plan(
    kind: str,
    find: str,
    want: float,
    facts: Facts | None = None,
    *,
    repeats: int = 5,
    seed: int = 0,
    plugins: Sequence[str] = (),
) -> Plan:
    """Find the least ε, rows or sites that reach a wanted error.

    Parameters
    ----------
    kind
        The short name of an estimator, such as ``"summary"`` or ``"regression"``; `kinds` has all.
    find
        ``"epsilon"``, ``"rows"`` or ``"sites"``: with more sites there are more rows, each site
        with as many as the facts give one site now.
    want
        The wanted error; see `tacit.planning` for its meaning.
    facts
        What is public; what is searched for is ignored there.
    repeats, seed
        Simulations for each value, and their seed.
    plugins
        Packages with families besides tacit's own.

    Examples
    --------
    >>> found = plan("summary", "epsilon", 0.01, Facts(rows=1000), repeats=3)
    >>> 0.05 < found.value < 1.0
    True
    """
    check("kind", kind, OneOf(*kinds(plugins)))
    check("find", find, OneOf(*_LIMITS))
    check("want", want, Real(0, open_low=True))
    check("repeats", repeats, Integer(2))
    facts = facts or Facts()
    tried: dict[float, tuple[float, float]] = {}

    def enough(value: float) -> bool:
        if value not in tried:
            tried[value] = error_of(kind, _with(facts, find, value), repeats, seed, plugins)
        return tried[value][0] <= want

    low, high = _LIMITS[find]
    value = _search(enough, float(low), float(high), whole=find != "epsilon")
    table = tuple((v, *tried[v]) for v in sorted(tried))
    return Plan(kind, find, want, value, table, facts)


def _with(facts: Facts, find: str, value: float) -> Facts:
    if find == "epsilon":
        return replace(facts, epsilon=value)
    if find == "rows":
        return replace(facts, rows=max(int(value), facts.sites))
    per_site = max(1, facts.rows // facts.sites)
    return replace(facts, sites=int(value), rows=per_site * int(value))


def _search(enough: Callable[[float], bool], low: float, high: float, whole: bool) -> float | None:
    """Return the least value that is enough, on a logarithmic scale; None where none is."""
    start = min(max(1.0 if not whole else low, low), high)
    good = start
    while not enough(good):
        if good >= high:
            return None
        low, good = good, min(good * 4.0, high)
    while good > low and enough(max(good / 4.0, low)):
        good = max(good / 4.0, low)
        if good <= low:
            return good
    low = max(good / 4.0, low)
    while good / low > _CLOSE and (not whole or good - low > 1):
        middle = math.sqrt(low * good)
        middle = float(round(middle)) if whole else middle
        if middle in (low, good):
            break
        low, good = (low, middle) if enough(middle) else (middle, good)
    return good
