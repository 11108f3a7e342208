"""Compiled kernels; `tests/oracles/kernels.py` has a NumPy twin of each.

Kernels are compiled on first use and cached on disk where that can be done: an installation that
may not be written, a user without a home or a full disk cost time, and nothing else.
`tacit._core.threads` runs them on several cores.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numpy as np

from tacit._core import threads
from tacit._core.waiting import EVERY_TIME, ONCE, compiling

__all__ = [
    "NO_HINT",
    "compiled",
    "invert_words",
    "round_directions",
    "square_norms",
    "sum_on_grid",
]

NO_HINT = -(1 << 62)  # marks a draw of which nothing is known yet

_MANY_WORDS = 1 << 15  # below, threads cost more than they bring
_MANY_NUMBERS = 1 << 18


@cache
def _compile(
    function: Callable[..., Any], reassociate: bool, unchecked: bool
) -> Callable[..., Any]:
    import numba

    # sums may be reordered; nothing is assumed about NaN or infinities
    fastmath = {"reassoc", "contract"} if reassociate else False
    options = {
        "nogil": True,
        "no_cfunc_wrapper": True,  # only Python and other kernels call it
        "fastmath": fastmath,
        "error_model": "numpy" if unchecked else "python",
    }
    # Numba's cache on disk knows a function by its name, not by these options: one name each
    form = FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    form.__qualname__ = f"{function.__qualname__}_r{reassociate:d}u{unchecked:d}"
    form.__module__ = function.__module__
    kernel = numba.njit(**options)(form)
    # without a home Numba would make a folder called "~" wherever the process happens to be
    homeless = os.path.expanduser("~").startswith("~")
    beside = Path(function.__code__.co_filename).parent
    said = EVERY_TIME
    if not homeless or os.access(beside, os.W_OK):
        with suppress(Exception):  # there is no folder for it: compiled in every process
            kernel.enable_caching()
            kernel._cache = _Spare(kernel._cache)
            said = ONCE
    kernel.__tacit_said__ = said
    _listen()
    return cast("Callable[..., Any]", kernel)


@cache
def _listen() -> None:
    """Have Numba say when it compiles one of our kernels, so that who waits can be told."""
    from numba.core import event

    class Compiling(event.Listener):  # type: ignore[misc]
        """Numba calls it under its lock: one kernel at a time, also where one needs another."""

        def on_start(self, event: Any) -> None:
            said = getattr(event.data["dispatcher"], "__tacit_said__", None)
            if said is not None:
                compiling.begin(said)

        def on_end(self, event: Any) -> None:
            if hasattr(event.data["dispatcher"], "__tacit_said__"):
                compiling.end()

    event.register("numba:compile", Compiling())


class _Spare:
    """Numba's cache on disk, where what cannot be read or kept is compiled instead.

    A file that another process is writing, a damaged one or a disk that is full must not end a
    fit that is under way, and perhaps paid for.
    """

    def __init__(self, cache: Any) -> None:
        self._cache = cache

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)

    def load_overload(self, *given: Any) -> Any:
        """Return a compiled form, or None where there is none that can be used."""
        try:
            return self._cache.load_overload(*given)
        except Exception:
            return None

    def save_overload(self, *given: Any) -> None:
        """Keep a compiled form, if that can be done."""
        with suppress(Exception):
            self._cache.save_overload(*given)


def compiled(
    function: Callable[..., Any], *, reassociate: bool = False, unchecked: bool = False
) -> Callable[..., Any]:
    """Return the compiled form of a kernel, which does not hold the interpreter's lock.

    ``reassociate`` says that sums may be reordered, so that they vectorise; ``unchecked`` that a
    division by zero gives infinity, as in NumPy: a checked one is an error and does not vectorise.
    """
    return _compile(function, reassociate, unchecked)


# --- exact inverse-CDF draws -------------------------------------------------------------


def _invert_words(
    words: Any,
    high: Any,
    tilt0: float,
    tilt1: float,
    curvature: float,
    width: float,
    guide: Any,
    scale: float,
    offset: float,
    signed: bool,
    out: Any,
    unsure: Any,
) -> int:
    """Map 64-bit words to integers floor(±scale·Z + offset); see `tacit._core.exact`.

    Returns how many draws need exact arithmetic; their positions are in ``unsure``, and ``out``
    holds a first guess of them, or `NO_HINT`.
    """
    shift = np.uint64(64 - 13)
    one = np.uint64(1)
    unresolved = 0
    # |error of x| ≤ 5e-11 (series 3e-11, rounding) plus 3 units of the bin's 63-bit mass: half a
    # unit of the word and the floors of the edges; 1e-9 and 8 units are generous
    slack = scale * width * 1e-9 + 1e-9
    b = curvature
    for i in range(words.shape[0]):
        word = words[i]
        u = word >> one
        k = guide[word >> shift]
        while high[k + 1] <= u:
            k += 1
        mass = high[k + 1] - high[k]
        if mass < np.uint64(1 << 20) or u == high[k]:
            out[i] = -(1 << 62)
            unsure[unresolved] = i
            unresolved += 1
            continue
        a = tilt0 + tilt1 * k
        r = (float(u - high[k]) + 0.5) / float(mass)
        c2 = -0.5 * a
        c3 = a * a / 6.0 - b / 3.0
        c4 = a * b / 4.0 - a * a * a / 24.0
        c5 = a * a * a * a / 120.0
        total = 1.0 + (c2 + (c3 + (c4 + c5)))
        # first two terms of the inverse series, then one Newton step
        x = r * (1.0 + c2 * (1.0 - r))
        integral = x * (1.0 + x * (c2 + x * (c3 + x * (c4 + x * c5))))
        v = x * (a + b * x)
        x -= (integral - r * total) * (1.0 + v + 0.5 * v * v)
        t = scale * width * (k + x)
        if signed and (word & one):
            t = -t
        t += offset
        n = np.floor(t)
        fraction = t - n
        margin = slack + abs(t) * 1e-15 + 8.0 * scale * width / float(mass)
        out[i] = np.int64(n)
        if fraction < margin or fraction > 1.0 - margin:
            unsure[unresolved] = i
            unresolved += 1
    return unresolved


def invert_words(*args: Any) -> int:
    """Run the compiled `_invert_words`, on all cores where there are many words."""
    words, tables, out, unsure = args[0], args[1:-2], args[-2], args[-1]
    kernel = compiled(_invert_words)
    workers = threads.threads() if len(words) >= _MANY_WORDS else 1
    if workers == 1:
        return int(kernel(*args))
    cuts = np.arange(workers + 1) * len(words) // workers
    counts = np.zeros(workers, np.int64)

    def block(first: int, last: int) -> None:
        for k in range(first, last):
            part = slice(cuts[k], cuts[k + 1])
            counts[k] = kernel(words[part], *tables, out[part], unsure[part])

    threads.over_range(block, workers)
    found = np.concatenate([unsure[a : a + n] + a for a, n in zip(cuts, counts, strict=False)])
    unsure[: len(found)] = found
    return len(found)


# --- sums of contributions on a grid ---------------------------------------------------------


def _sum_on_grid(rows: Any, scales: Any, inverse_grid: float, out: Any) -> None:
    """Add floor(scales[i]·rows[i, j]·inverse_grid + ½) over i into ``out``.

    What is no number, or too large for 64 bits, counts as 0.
    """
    for i in range(rows.shape[0]):
        factor = scales[i] * inverse_grid
        for j in range(rows.shape[1]):
            value = rows[i, j] * factor + 0.5
            if abs(value) < 4.0e18:  # neither NaN nor beyond 64 bits
                out[j] += np.int64(np.floor(value))


def sum_on_grid(rows: Any, scales: Any, inverse_grid: float, out: Any) -> None:
    """Run the compiled `_sum_on_grid`, on all cores where there are many numbers.

    Whole numbers are added up, so the sum is the same in any order.
    """
    kernel = compiled(_sum_on_grid)
    workers = min(threads.threads(), len(rows)) if rows.size >= _MANY_NUMBERS else 1
    if workers <= 1:
        kernel(rows, scales, inverse_grid, out)
        return
    cuts = np.arange(workers + 1) * len(rows) // workers
    parts = np.zeros((workers, rows.shape[1]), np.int64)

    def block(first: int, last: int) -> None:
        for k in range(first, last):
            part = slice(cuts[k], cuts[k + 1])
            kernel(rows[part], scales[part], inverse_grid, parts[k])

    threads.over_range(block, workers)
    out += parts.sum(axis=0)


# --- norms -------------------------------------------------------------------------------------


def _square_norms(first: int, last: int, rows: Any, out: Any) -> None:
    """Add the sum of squares of rows first … last, in float64, to ``out``."""
    for i in range(first, last):
        total = 0.0
        for j in range(rows.shape[1]):
            value = np.float64(rows[i, j])
            total += value * value
        out[i] += total


def square_norms(rows: Any, out: Any) -> None:
    """Run the compiled `_square_norms` over all rows, of float32 or float64."""
    kernel = compiled(_square_norms, reassociate=True)
    threads.over_range(kernel, len(rows), rows, out)


# --- rows as directions in whole numbers -------------------------------------------------------


def _round_directions(
    first: int, last: int, rows: Any, one: bool, steps: float, out: Any, lengths: Any
) -> None:
    """Write rows (x, 1), or x, as whole numbers of 1/steps of their norm, and the norms.

    A row whose norm is zero or not finite becomes zero.
    """
    size = rows.shape[1]
    for i in range(first, last):
        total = 1.0 if one else 0.0
        for j in range(size):
            value = np.float64(rows[i, j])
            total += value * value
        length = np.sqrt(total)
        lengths[i] = length
        if not (0.0 < length < np.inf):
            out[i] = 0.0
            continue
        factor = steps / length
        for j in range(size):
            out[i, j] = np.rint(np.float64(rows[i, j]) * factor)
        if one:
            out[i, size] = np.rint(factor)


def round_directions(rows: Any, one: bool, steps: float, out: Any, lengths: Any) -> None:
    """Run the compiled `_round_directions` over all rows, of float32 or float64."""
    kernel = compiled(_round_directions, reassociate=True)
    threads.over_range(kernel, len(rows), rows, one, steps, out, lengths)


def _round_scaled(first: int, last: int, rows: Any, factors: Any, out: Any) -> None:
    """Write rows times their factors as whole numbers; with a factor of zero, zeros."""
    for i in range(first, last):
        factor = factors[i]
        if factor == 0.0:
            out[i] = 0.0
            continue
        for j in range(rows.shape[1]):
            out[i, j] = np.rint(np.float64(rows[i, j]) * factor)


def round_scaled(rows: Any, factors: Any, out: Any) -> None:
    """Run the compiled `_round_scaled` over all rows, of float32 or float64."""
    threads.over_range(compiled(_round_scaled), len(rows), rows, factors, out)
