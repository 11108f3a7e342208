"""Per-example gradients of stacks of linear and convolutional layers, from one backward pass.

With a layer's inputs a and the gradients b of the losses with respect to its outputs, both of one
example, the gradient of the weights is Σ_p b_p·a_pᵀ over its positions p (one for a linear layer
after `nn.Flatten`; of a convolution the patches under its filters) and that of the bias Σ_p b_p:
one batched matrix product for all examples. Autograd is asked for b alone, so the gradient of the
sum, which nobody needs, is not computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tacit.errors import ParameterError
from tacit.networks.backend import functional, nn, torch

__all__ = ["is_traceable", "layer_gradients", "stands_once", "trace"]


def stands_once(module: nn.Module) -> bool:
    """Whether a module is a sequence in which every part stands once and works on a copy.

    A layer that stands twice has two inputs; one that works in place hides its input's gradient.
    """
    parts = list(module.modules())
    sequence = [part for part in parts if isinstance(part, nn.Sequential)]
    nested = all(isinstance(part, nn.Sequential) or not list(part.children()) for part in parts)
    once = len(list(module.named_modules(remove_duplicate=False))) == len(parts)
    return (
        bool(sequence)
        and nested
        and once
        and not any(getattr(part, "inplace", False) for part in parts)
    )


def is_traceable(module: nn.Module) -> bool:
    """Whether all layers of a sequence that learn are plain linear or convolutional ones.

    >>> is_traceable(nn.Sequential(nn.Conv2d(1, 2, 3), nn.Tanh(), nn.Flatten(), nn.Linear(8, 3)))
    True
    >>> is_traceable(nn.Sequential(nn.Conv2d(2, 2, 3, groups=2)))
    False
    """
    learning = [p for p in module.modules() if list(p.parameters(recurse=False))]
    return stands_once(module) and all(_is_plain(layer) for layer in learning)


def _is_plain(layer: nn.Module) -> bool:
    if not all(p.requires_grad for p in layer.parameters()):
        return False
    if type(layer) is not nn.Conv2d:
        return type(layer) is nn.Linear
    simple = layer.groups == 1 and tuple(layer.dilation) == (1, 1)
    return simple and layer.padding_mode == "zeros" and not isinstance(layer.padding, str)


def trace(
    module: nn.Module,
    layers: Sequence[nn.Module],
    loss: Callable[[Any, Any], Any],
    inputs: Any,
    targets: Any,
    *,
    flat: bool = False,
) -> tuple[list[Any], list[Any]]:
    """Return the inputs of some layers and the gradients of the losses by their outputs.

    Each layer is called once; with ``flat`` it must get one vector per example.
    """
    seen: list[Any] = []
    outputs: list[Any] = []

    def record(_: Any, given: Any, output: Any) -> None:
        if flat and given[0].dim() != 2:
            raise ParameterError(
                f"a linear layer got inputs of shape {tuple(given[0].shape)}: put nn.Flatten() "
                "before it"
            )
        seen.append(given[0].detach())
        outputs.append(output)

    hooks = [layer.register_forward_hook(record) for layer in layers]
    try:
        losses = loss(module(inputs), targets)
        gradients = torch.autograd.grad(losses.sum(), outputs)
    finally:
        for hook in hooks:
            hook.remove()
    return seen, list(gradients)


def layer_gradients(layer: nn.Module, given: Any, slope: Any) -> dict[str, Any]:
    """Return every example's gradient of a layer's weight and bias, name → (batch, numbers).

    ``given`` and ``slope`` are its inputs, and the gradients of the losses by its outputs.
    """
    if isinstance(layer, nn.Conv2d):
        patches, slopes = _patches(layer, given), slope.flatten(2)
    else:
        patches = given.reshape(len(given), -1, given.shape[-1])
        slopes = slope.reshape(len(slope), -1, slope.shape[-1]).transpose(1, 2)
    found = {"weight": torch.bmm(slopes, patches).flatten(1)}
    if layer.bias is not None:
        found["bias"] = slopes.sum(2)
    return found


def _patches(layer: nn.Conv2d, given: Any) -> Any:
    """Return what lies under a filter at its positions, (batch, positions, numbers)."""
    (high, wide), (down, right) = layer.kernel_size, layer.stride
    top, left = layer.padding
    images = functional.pad(given, (left, left, top, top))
    windows = images.unfold(2, high, down).unfold(3, wide, right)
    return windows.permute(0, 2, 3, 1, 4, 5).reshape(len(given), -1, given.shape[1] * high * wide)
