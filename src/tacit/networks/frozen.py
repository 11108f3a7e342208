"""What stands beside a module's weights: hooks are refused, and buffers stay as they were."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from torch.nn.utils import parametrize

from tacit.errors import ParameterError
from tacit.networks.backend import nn, torch

__all__ = ["called", "check_frozen", "copied", "fixed_parts", "restore_fixed"]

_TENSORS = (torch.Tensor, nn.Parameter)
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_EVERYWHERE = (
    "_global_forward_hooks", "_global_forward_pre_hooks", "_global_backward_hooks",
    "_global_backward_pre_hooks",
)  # fmt: skip


def check_frozen(module: nn.Module, what: str = "module") -> None:
    """Raise where code beside a module may see what it computes."""
    for name, layer in module.named_modules():
        if any(getattr(layer, kind, None) for kind in _HOOKS):
            raise ParameterError(
                f"{what} has a hook at layer {name!r} ({type(layer).__name__}), which may see and "
                "keep what rows make of it: remove it (hook.remove()); weight norm is that of "
                "torch.nn.utils.parametrizations"
            )
        if vars(layer).keys() & {"forward", "__call__", "_call_impl"}:
            raise ParameterError(
                f"{what} has a function in place of the forward of layer {name!r} "
                f"({type(layer).__name__}): write a class with that forward"
            )
    for name, p in (*module.named_parameters(), *module.named_buffers()):
        if type(p) not in _TENSORS:
            raise ParameterError(
                f"{what} must hold tensors of torch's own, got {type(p).__name__} as {name!r}: "
                "code of another class may see and keep what rows make of it"
            )
        if p._backward_hooks or getattr(p, "_post_accumulate_grad_hooks", None):
            raise ParameterError(f"{what} has a hook at a tensor: remove it (hook.remove())")
    if parametrize._cache_enabled:
        raise ParameterError(
            f"parametrizations of {what} are kept from one call to the next: leave "
            "torch.nn.utils.parametrize.cached() before the fit"
        )
    if any(getattr(nn.modules.module, kind, None) for kind in _EVERYWHERE):
        raise ParameterError(
            f"a hook for all modules is registered, which may see and keep what rows make of "
            f"{what}: remove it"
        )


def fixed_parts(module: nn.Module) -> dict[str, Any]:
    """Return buffers, and parameters that are not learned."""
    frozen = {name: p for name, p in module.named_parameters() if not p.requires_grad}
    return dict(module.named_buffers()) | frozen


def restore_fixed(module: nn.Module, kept: Mapping[str, Any]) -> None:
    """Write what was kept of `fixed_parts` back, and take away buffers that came after it."""
    own = fixed_parts(module)
    for name in own.keys() - kept.keys():
        parent, _, last = name.rpartition(".")
        module.get_submodule(parent)._buffers.pop(last, None)
    with torch.no_grad():
        for name, part in kept.items():
            own[name].copy_(part)


def called(module: nn.Module, rows: Any) -> Any:
    """Return the outputs of a batch; what it does to it and to buffers is done to copies."""
    buffers = {name: b.clone() for name, b in module.named_buffers()}
    return torch.func.functional_call(module, buffers, (rows.clone(),))


def copied(module: nn.Module) -> nn.Module:
    """Return a copy that has nothing in common with a module."""
    made = copy.deepcopy(module)
    before = {id(one) for one in (module, *module.modules(), *fixed_parts(module).values())}
    before |= {id(p) for p in module.parameters()}
    parts = (*made.modules(), *made.parameters(), *made.buffers())
    if any(id(one) in before for one in parts):
        raise ParameterError(
            "a copy of the module shares layers or weights with it: leave __deepcopy__ to torch"
        )
    return made
