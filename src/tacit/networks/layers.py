"""Which networks have per-example gradients, and which are refused.

A gradient per example exists only where an example's output depends on that example alone. So a
module is looked at twice: every layer that learns must be one whose per-example gradient is known
(`tacit.networks.exact_gradients` for stacks of linear layers, Opacus for convolutions, recurrent,
attention, embedding and normalisation layers), and a probe of made-up inputs, which are no secret,
must give the same outputs in one batch as one by one. The probe catches what no list can: a
``forward`` that looks at the whole batch.
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
from tacit.networks.traced_gradients import stands_once, trace

__all__ = [
    "check_clips",
    "check_flat",
    "check_rows_independent",
    "check_supported",
    "is_linear_stack",
    "learning_layers",
    "made_up",
    "padded",
    "quiet_dropout",
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


def is_linear_stack(module: nn.Module) -> bool:
    """Whether a module is a sequence of linear layers and elementwise functions.

    >>> is_linear_stack(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))
    True
    """
    if not isinstance(module, nn.Sequential):
        return type(module) is nn.Linear
    layers = [part for part in module.modules() if not isinstance(part, nn.Sequential)]
    kinds = all(type(part) is nn.Linear or type(part) in _ELEMENTWISE for part in layers)
    return kinds and stands_once(module) and all(p.requires_grad for p in module.parameters())


def check_supported(module: nn.Module) -> None:
    """Raise where a layer has no known per-example gradient."""
    layers = learning_layers(module)
    if not layers:
        raise ParameterError("module must hold at least one parameter that requires a gradient")
    if is_linear_stack(module):
        return
    from opacus.grad_sample import GradSampleModule

    remedies = {
        nn.modules.batchnorm._BatchNorm: "it mixes the examples of a batch: use GroupNorm",
        nn.RNNBase: "use opacus.layers.DPLSTM, DPGRU or DPRNN",
        nn.MultiheadAttention: "use opacus.layers.DPMultiheadAttention",
    }
    for name, layer in module.named_modules():
        for kind, remedy in remedies.items():
            if isinstance(layer, kind):
                raise ParameterError(
                    f"layer {name!r} ({type(layer).__name__}) has no per-example gradient: "
                    f"{remedy}"
                )
    known = GradSampleModule.GRAD_SAMPLERS
    for name, layer in layers.items():
        if getattr(layer, "max_norm", None) is not None:
            raise ParameterError(
                f"layer {name!r} ({type(layer).__name__}) changes its weights while it looks them "
                "up, so examples would see each other: leave max_norm out"
            )
        if type(layer) not in known:
            raise ParameterError(
                f"layer {name!r} ({type(layer).__name__}) has no known per-example gradient: "
                "build the module of torch's linear, convolution, embedding and normalisation "
                "layers, or of opacus.layers"
            )


def check_rows_independent(
    module: nn.Module, shape: Sequence[int], dtype: torch.dtype = torch.float32
) -> None:
    """Raise if the output of one example depends on another one, on made-up inputs.

    ``shape`` and ``dtype`` are those of one example; whole numbers are drawn from {0, 1}.
    """
    probe = made_up(shape, dtype, 4)
    with quiet_dropout(module), torch.no_grad():
        together = module(probe)
        halves = torch.cat([module(probe[:3]), module(torch.cat([probe[3:]] * 3))[:1]])
    if len(together) != 4 or not torch.allclose(together, halves, rtol=1e-3, atol=1e-4):
        raise ParameterError(
            "the output of one example depends on the other examples of its batch: there is no "
            "per-example gradient. Remove what looks across the batch, such as BatchNorm"
        )


def check_flat(module: nn.Module, shape: Sequence[int], dtype: torch.dtype) -> None:
    """Raise unless every layer of a stack of linear ones gets one vector per example."""
    layers = list(learning_layers(module).values())
    probe = made_up(shape, dtype, 2)
    trace(module, layers, lambda outputs, _: outputs.flatten(1).sum(1), probe, probe, flat=True)


def made_up(shape: Sequence[int], dtype: torch.dtype, count: int) -> Any:
    """Return examples that are no secret."""
    made = generator(0, "probe").standard_normal((count, *shape))
    if not dtype.is_floating_point:
        made = (made > 0).astype(np.float64)
    return torch.as_tensor(made).to(dtype)


@contextmanager
def quiet_dropout(module: nn.Module) -> Iterator[None]:
    """Turn dropout layers off for a while."""
    layers = [part for part in module.modules() if isinstance(part, nn.modules.dropout._DropoutNd)]
    modes = [part.training for part in layers]
    for part in layers:
        part.eval()
    try:
        yield
    finally:
        for part, mode in zip(layers, modes, strict=True):
            part.train(mode)


def padded(inputs: Any, targets: Any, size: int) -> tuple[Any, Any]:
    """Return a batch filled up to a fixed size with zeros.

    Torch may add up in another order for another size of the batch, so that one example more
    would move the last bits of all others' gradients. All batches are of one size instead.
    """
    missing = size - len(inputs)
    if not missing:
        return inputs, targets
    blank = inputs.new_zeros((missing, *inputs.shape[1:]))
    return torch.cat([inputs, blank]), torch.cat(
        [targets, targets.new_zeros((missing, *targets.shape[1:]))]
    )


def check_clips(clips: Sequence[float], layers: int) -> None:
    """Raise unless there is one clip, or one for each layer that learns."""
    if len(clips) not in (1, layers):
        raise ParameterError(
            f"clip must be one number or one for each of {layers} layers, got {len(clips)}"
        )
