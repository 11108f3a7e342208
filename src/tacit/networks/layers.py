"""Which networks have per-example gradients, and which are refused.

A gradient per example exists for every function of one row (`tacit.networks.single_rows`), so any
module can be trained that is one. Refused by name, before anybody pays, is what is not: layers
that mix a batch or keep running statistics of it, embeddings that change their own weights, and
hooks, which are code beside a module that may see what it computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.networks.architectures import Scale
from tacit.networks.backend import nn, torch
from tacit.networks.frozen import called, check_frozen

__all__ = [
    "check_clips",
    "check_rows_independent",
    "check_supported",
    "has_dropout",
    "is_flat",
    "is_linear_stack",
    "learning_layers",
    "made_up",
    "quiet_dropout",
    "stack_of",
]

_NAMES = "ReLU Tanh Sigmoid SiLU GELU ELU CELU SELU Softplus LeakyReLU Hardtanh Softsign"
_ELEMENTWISE = {getattr(nn, name) for name in f"{_NAMES} Identity Flatten".split()} | {Scale}


def learning_layers(module: nn.Module) -> dict[str, nn.Module]:
    """Return name → layer of the layers that hold parameters to be learned themselves.

    >>> list(learning_layers(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))))
    ['0', '2']
    """
    return {
        name: layer
        for name, layer in module.named_modules()
        if any(p.requires_grad for p in layer.parameters(recurse=False))
    }


def stack_of(module: nn.Module) -> list[nn.Module]:
    """Return the layers of a plain sequence of plain sequences, one after the other.

    Empty where a module is anything else: of a class of its own, or with a ``forward`` of its own.
    """
    if "forward" in vars(module):
        return []
    if type(module) is not nn.Sequential:
        return [module]
    parts = [stack_of(part) for part in module]
    return [layer for part in parts for layer in part] if all(parts) else []


def is_linear_stack(module: nn.Module) -> bool:
    """Whether a module is a plain sequence of linear layers and elementwise functions.

    Plain: of torch's own classes and no children of them, each layer once, nothing in place.

    >>> is_linear_stack(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))
    True
    """
    layers = stack_of(module)
    linear = [layer for layer in layers if type(layer) is nn.Linear]
    parameters = [p for layer in linear for p in layer.parameters()]
    return (
        bool(linear)
        and len({id(layer) for layer in layers}) == len(layers)
        and len({id(p) for p in parameters}) == len(parameters)
        and all(_is_plain(layer) for layer in layers)
        and all(p.requires_grad for p in parameters)
    )


def _is_plain(layer: nn.Module) -> bool:
    if type(layer) is nn.Flatten:
        return (layer.start_dim, layer.end_dim) == (1, -1)
    known = type(layer) is nn.Linear or type(layer) in _ELEMENTWISE
    own = set(layer._buffers) or (type(layer) is not nn.Linear and layer._parameters)
    return known and not own and not getattr(layer, "inplace", False)


def is_flat(module: nn.Module, shape: Sequence[int]) -> bool:
    """Whether the layers of a stack get one vector for each row of a shape.

    >>> is_flat(nn.Linear(4, 2), (4,)), is_flat(nn.Linear(4, 2), (3, 4))
    (True, False)
    """
    return len(shape) == 1 or type(stack_of(module)[0]) is nn.Flatten


def check_supported(module: nn.Module) -> None:
    """Raise where a module is no function of one row, as far as its layers tell."""
    if not learning_layers(module):
        raise ParameterError("module must hold at least one parameter that requires a gradient")
    for name, layer in module.named_modules():
        own = (*layer.parameters(False), *layer.buffers(False))
        if any(isinstance(p, nn.parameter.UninitializedTensorMixin) for p in own):
            raise ParameterError(
                f"layer {name!r} ({type(layer).__name__}) takes its size from the first rows it "
                "sees: state it, or run the module on made-up rows first"
            )
    check_frozen(module)
    for name, layer in module.named_modules():
        mixes = isinstance(layer, nn.modules.batchnorm._BatchNorm)
        if mixes and (layer.training or not layer.track_running_stats):
            raise ParameterError(
                f"layer {name!r} ({type(layer).__name__}) has no per-example gradient: it mixes "
                "the examples of a batch: use GroupNorm"
            )
        if isinstance(layer, nn.modules.instancenorm._InstanceNorm) and (
            layer.training and layer.track_running_stats
        ):
            raise ParameterError(
                f"layer {name!r} ({type(layer).__name__}) keeps running statistics of the rows it "
                "sees, which would leave with the network: pass track_running_stats=False"
            )
        if getattr(layer, "max_norm", None) is not None:
            raise ParameterError(
                f"layer {name!r} ({type(layer).__name__}) changes its weights while it looks them "
                "up, so examples would see each other: leave max_norm out"
            )


def check_rows_independent(
    module: nn.Module, shape: Sequence[int], dtype: torch.dtype = torch.float32
) -> None:
    """Raise if a batch of made-up rows has other outputs than the rows one by one.

    Training calls rows one by one, predicting takes batches. ``shape`` and ``dtype`` are those of
    one example; whole numbers are drawn from {0, 1}.
    """
    probe = made_up(shape, dtype, 4)
    with quiet_dropout(module), torch.no_grad():
        together = called(module, probe)
        last = called(module, torch.cat([probe[3:]] * 3))[:1]
        halves = torch.cat([called(module, probe[:3]), last])
        alone = torch.cat([called(module, probe[k : k + 1]) for k in range(4)])
    for other in (halves, alone):
        if len(together) != 4 or not torch.allclose(together, other, rtol=1e-3, atol=1e-4):
            raise ParameterError(
                "the output of one example depends on the other examples of its batch: there is "
                "no per-example gradient. Remove what looks across the batch, such as BatchNorm"
            )


def made_up(shape: Sequence[int], dtype: torch.dtype, count: int) -> Any:
    """Return examples that are no secret."""
    made = generator(0, "probe").standard_normal((count, *shape))
    if not dtype.is_floating_point:
        made = (made > 0).astype(np.float64)
    return torch.as_tensor(made).to(dtype)


def has_dropout(module: nn.Module) -> bool:
    """Whether a module has layers that drop out, recurrent and attention layers among them.

    >>> has_dropout(nn.Linear(2, 2)), has_dropout(nn.GRU(2, 2, num_layers=2, dropout=0.5))
    (False, True)
    """
    parts = list(module.modules())
    inner = (getattr(part, "dropout", None) for part in parts)
    layers = any(isinstance(part, nn.modules.dropout._DropoutNd) for part in parts)
    return layers or any(isinstance(rate, float) and rate > 0.0 for rate in inner)


@contextmanager
def quiet_dropout(module: nn.Module) -> Iterator[None]:
    """Turn dropout off for a while, that between recurrent layers and of attention too."""
    parts = [m for m in module.modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    others = [m for m in module.modules() if isinstance(getattr(m, "dropout", None), float)]
    modes, rates = [part.training for part in parts], [part.dropout for part in others]
    for part in parts:
        part.eval()
    for part in others:
        part.dropout = 0.0
    try:
        yield
    finally:
        for part, mode in zip(parts, modes, strict=True):
            part.train(mode)
        for part, rate in zip(others, rates, strict=True):
            part.dropout = rate


def check_clips(clips: Sequence[float], layers: int) -> None:
    """Raise unless there is one clip, or one for each layer that learns."""
    if len(clips) not in (1, layers):
        raise ParameterError(
            f"clip must be one number or one for each of {layers} layers, got {len(clips)}"
        )
