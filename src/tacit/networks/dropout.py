"""The dropout that the noise of a step amounts to, and Monte-Carlo dropout at prediction.

Noise of standard deviation s on a weight θ is Gaussian dropout θ·(1 + √α·z) with α = s²/θ²
(thesis 5.2.2; PRIVACY B6: with noise 2·G·σ on the gradient and a step of η/2, α = η²G²σ²/θ²). In
a layer of weights the energies compare: α = size·s²/‖θ‖². The dropout rate p follows from
α = p/(1 − p).
α is reported; the noise is never chosen by it, because multiplicative noise vanishes with the
weight and protects nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Real, check
from tacit.networks.backend import nn
from tacit.networks.layers import learning_layers
from tacit.networks.weights import learned

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LayerDropout", "layer_dropout", "weight_alpha", "weight_sds", "weight_units"]


@dataclass(frozen=True)
class LayerDropout:
    """The equivalent dropout of one array of weights.

    Attributes
    ----------
    name
        Of the parameter.
    alpha, rate
        α of the whole array and the dropout rate α/(1 + α).
    median_alpha
        The median of the weights' own α.
    """

    name: str
    alpha: float
    rate: float
    median_alpha: float


def weight_alpha(weights: Any, sd: float) -> NDArray[np.float64]:
    """Return every weight's α = sd²/θ²; a weight of zero has an infinite one.

    >>> weight_alpha([1.0, -2.0], 0.5).tolist()
    [0.25, 0.0625]
    """
    check("sd", sd, Real(0))
    squares = np.square(np.asarray(weights, np.float64))
    if sd == 0.0:
        return np.zeros_like(squares)
    with np.errstate(divide="ignore"):
        return np.asarray(sd * sd / squares)


def weight_units(module: nn.Module, units: Sequence[float]) -> NDArray[np.float32] | None:
    """Return the unit of every learned weight, of layers with noise of their own; None: of all."""
    if len(set(units)) == 1:
        return None
    place: dict[int, float] = {}
    for layer, unit in zip(learning_layers(module).values(), units, strict=True):
        for p in layer.parameters(False):
            place.setdefault(id(p), unit)
    own = [np.full(p.numel(), place[id(p)], np.float32) for p in learned(module)]
    return np.concatenate(own)


def weight_sds(numbers: Any, units: Any, sd_of: Callable[[float], float]) -> Any:
    """Return a standard deviation for every weight, or one for all, given that of a unit.

    Parameters
    ----------
    numbers
        The `Dynamics`, with the units of its layers.
    units
        Of the weights, as `weight_units` returns them.
    sd_of
        Unit → standard deviation.
    """
    if units is None:
        return np.float64(sd_of(numbers.units[0]))
    known = {np.float32(unit): sd_of(unit) for unit in numbers.units}
    return np.select([units == unit for unit in known], list(known.values()))


def layer_dropout(module: nn.Module, sd: Any) -> tuple[LayerDropout, ...]:
    """Return the equivalent dropout of every array of weights of a module.

    ``sd`` is the standard deviation of the noise on a weight, one for all or for each.

    >>> layer = nn.Linear(2, 1, bias=False)
    >>> _ = layer.weight.data.fill_(1.0)
    >>> layer_dropout(layer, 1.0)[0].rate
    0.5
    """
    found, start = [], 0
    for name, p in module.named_parameters():
        if not p.requires_grad:
            continue
        weights = p.detach().cpu().numpy().astype(np.float64)
        # one layer has one noise
        own = float(sd if np.ndim(sd) == 0 else sd[start])
        start += weights.size
        energy = float(np.square(weights).sum())
        noise = own * own * weights.size
        alpha = noise / energy if energy else (np.inf if noise else 0.0)
        rate = noise / (noise + energy) if noise else 0.0
        median = float(np.median(weight_alpha(weights, own)))
        found.append(LayerDropout(name, float(alpha), float(rate), median))
    return tuple(found)
