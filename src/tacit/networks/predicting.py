"""Predictions of a fitted network: its outputs at posterior samples, and noise put on these."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.networks.backend import nn, torch
from tacit.networks.dropout import weight_sds, weight_units
from tacit.networks.dynamics import Dynamics
from tacit.networks.frozen import called
from tacit.networks.rows import PIECE
from tacit.networks.weights import with_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["noise_sds", "outputs_of", "samples_by_name"]


def outputs_of(module: nn.Module, draws: Any, inputs: Any) -> NDArray[np.float64]:
    """Return the outputs of rows at several weights, (draws, rows, outputs)."""
    found = []
    for flat in draws:
        with with_weights(module, flat) as network, torch.no_grad():
            network.eval()
            parts = [called(network, part) for part in inputs.split(PIECE)]
            found.append(torch.cat(parts).numpy().astype(np.float64))
    return np.array(found)


def noise_sds(module: nn.Module, numbers: Dynamics, of_run: bool) -> Any:
    """Return the standard deviation of the noise on a weight, one for all or for each.

    That of a step in the middle of the part that is averaged, or what the whole run's adds to the
    averaged weights.
    """
    middle = int((1.0 + numbers.burn_in) / 2.0 * numbers.ends)

    def sd(unit: float) -> float:
        if of_run:
            return numbers.run_sd(unit)
        return math.hypot(numbers.privacy_sd(middle, unit), numbers.langevin_sd(middle, unit))

    return weight_sds(numbers, weight_units(module, numbers.units), sd)


def samples_by_name(module: nn.Module, samples: Any) -> dict[str, Any]:
    """Return posterior samples as (chains, draws, …) of every learned array of weights."""
    values, start = {}, 0
    for name, p in module.named_parameters():
        if p.requires_grad:
            part = samples[:, start : start + p.numel()]
            values[name] = part.reshape(1, len(part), *p.shape)
            start += p.numel()
    return values
