"""Curves ε(δ) drawn with characters, for a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tacit.privacy.curve import Curve
from tacit.privacy.guarantee import round_up

__all__ = ["draw_curves"]

_SIGNS = "●○▲△■□"
_WIDTH, _HEIGHT = 60, 12


def draw_curves(curves: Mapping[str, Curve], width: int = _WIDTH, height: int = _HEIGHT) -> str:
    """Return curves as text: δ to the right by powers of ten, ε upwards, then the numbers.

    Parameters
    ----------
    curves
        Name → curve.
    width, height
        Of the picture, in characters.

    Examples
    --------
    >>> from tacit.privacy.curve import curve_of
    >>> from tacit.privacy.events import GaussianDpEvent
    >>> print(draw_curves({"once": curve_of(GaussianDpEvent(4.0), deltas=[1e-2, 1e-6])}, 20, 3))
    ε
     1.061 ┤                   ●
    0.5304 ┤●
         0 ┤
           └────────────────────
            δ = 0.01       1e-06
    ● once: ε = 0.3599 at δ = 0.01, 1.061 at 1e-06
    """
    shown = {name: curve.finite for name, curve in curves.items()}
    points = [point for part in shown.values() for point in part if point[0] > 0.0]
    lines = ["ε"]
    if points:
        lines += _picture([part for part in shown.values()], points, width, height)
    for sign, (name, part) in zip(_SIGNS * len(shown), shown.items(), strict=False):
        lines.append(f"{sign} {name}: {_numbers(part)}")
    return "\n".join(lines)


def _picture(
    parts: list[tuple[tuple[float, float], ...]],
    points: list[tuple[float, float]],
    width: int,
    height: int,
) -> list[str]:
    largest = max(epsilon for _, epsilon in points) or 1.0
    logs = [math.log(delta) for delta, _ in points]
    first, last = max(logs), min(logs)
    cells = [[" "] * width for _ in range(height)]
    for sign, part in reversed(list(zip(_SIGNS * len(parts), parts, strict=False))):
        for delta, epsilon in part:
            if delta > 0.0:
                share = (first - math.log(delta)) / (first - last) if first > last else 0.5
                across = round(share * (width - 1))
                cells[height - 1 - round(epsilon / largest * (height - 1))][across] = sign
    marks = [round_up(largest * (height - 1 - k) / (height - 1), 4) for k in range(height)]
    labels = [f"{mark:g}" if height < 7 or not k % 3 else "" for k, mark in enumerate(marks)]
    room = max(map(len, labels))
    lines = [
        f"{label:>{room}} ┤{''.join(row)}".rstrip()
        for label, row in zip(labels, cells, strict=True)
    ]
    low, high = f"δ = {math.exp(first):.4g}", f"{math.exp(last):.4g}"
    lines.append(" " * (room + 1) + "└" + "─" * width)
    lines.append(" " * (room + 2) + low + f"{high:>{max(1, width - len(low))}}")
    return lines


def _numbers(points: tuple[tuple[float, float], ...]) -> str:
    if not points:
        return "no finite ε at any of these δ"
    (delta, epsilon), *others = points
    text = f"ε = {round_up(epsilon, 4):g} at δ = {delta:g}"
    return ", ".join([text, *(f"{round_up(e, 4):g} at {d:g}" for d, e in others)])
