"""The weights of a network as one flat vector, in the order of the module's parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.networks.backend import nn, torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "as_tensor",
    "flat_weights",
    "learned",
    "named_weights",
    "random_weights",
    "take_up",
    "with_weights",
    "write_weights",
]


def learned(module: nn.Module) -> list[Any]:
    """Return the parameters that are learned."""
    return [p for p in module.parameters() if p.requires_grad]


def as_tensor(array: NDArray[Any]) -> Any:
    """Return an array as a tensor; one that came in a message is copied."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def flat_weights(parameters: Sequence[Any]) -> Any:
    """Return parameters as one flat vector of its own."""
    return torch.cat([p.detach().reshape(-1) for p in parameters]).clone()


def named_weights(parameters: Mapping[str, Any], flat: Any) -> dict[str, Any]:
    """Return a flat vector as the parameters of these names and shapes."""
    found, start = {}, 0
    for name, p in parameters.items():
        found[name] = flat[start : start + p.numel()].view_as(p)
        start += p.numel()
    return found


def write_weights(parameters: Sequence[Any], flat: NDArray[Any]) -> None:
    """Write a flat vector back into parameters."""
    vector, start = as_tensor(flat), 0
    with torch.no_grad():
        for p in parameters:
            p.copy_(vector[start : start + p.numel()].view_as(p))
            start += p.numel()


def take_up(module: nn.Module, arrays: Mapping[str, Any]) -> None:
    """Write released weights into a module, ``weights/…`` by the names of its parameters."""
    own = dict(module.named_parameters())
    weights = {name: arrays.get(f"weights/{name}") for name in own}
    if any(a is None or a.shape != tuple(own[name].shape) for name, a in weights.items()):
        raise ParameterError("module must have the weights of the network that was released")
    with torch.no_grad():
        for name, p in own.items():
            p.copy_(torch.from_numpy(np.array(weights[name])))


@contextmanager
def with_weights(module: nn.Module, flat: NDArray[Any]) -> Iterator[nn.Module]:
    """Give a module other weights for a while."""
    parameters = learned(module)
    before = flat_weights(parameters)
    write_weights(parameters, flat)
    try:
        yield module
    finally:
        write_weights(parameters, before.numpy())


@contextmanager
def random_weights(module: nn.Module) -> Iterator[None]:
    """Give a module made-up weights for a while, with which no gradient vanishes."""
    parameters = learned(module)
    rng, parts = generator(0, "probe weights"), []
    for p in parameters:
        spread = (len(p) / p.numel()) ** 0.5 if p.dim() > 1 else 0.5
        parts.append((spread * rng.standard_normal(p.numel())).astype(np.float32))
    before = flat_weights(parameters)
    write_weights(parameters, np.concatenate(parts))
    try:
        yield
    finally:
        write_weights(parameters, before.cpu().numpy())
