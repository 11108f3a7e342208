"""Networks whose noise does not grow with their size.

Every layer computes W·(c·x) + β·b with a constant c that keeps c·x at a norm of order one (the
"neural tangent" scaling), and β = 0.2: noise of standard deviation s on every weight then moves an
output by about s·‖c·x‖, however wide the network is, so one learning rate serves all widths. β
keeps a bias from taking half of the clip (‖(x, 1)‖² = 2 where ‖x‖ = 1) for the one number that it
adds: with β = 0.2 it takes a twenty-fifth. The last layer starts at zero, so the first prediction
is that of knowing nothing.

The constants were chosen on MNIST's *training* images; `docs/nn.md` says how.

`Perceptron` and `Given` are blueprints: what both sides of a run know of a network, from which
each builds its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError
from tacit.networks.backend import nn, torch
from tacit.networks.frozen import check_frozen, copied, fixed_parts, restore_fixed
from tacit.networks.weights import learned

__all__ = ["ACTIVATIONS", "Centred", "Given", "Perceptron", "Scale", "convolutional", "perceptron"]

ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "softsign": nn.Softsign}
_BIAS = 0.2  # β
_GAIN = 1.4  # of a perceptron: ‖c·x‖ of a layer over that of saturated units before it


class Scale(nn.Module):  # type: ignore[misc]
    """Multiply by a constant.

    >>> Scale(0.5)(torch.ones(2)).tolist()
    [0.5, 0.5]
    """

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = float(factor)

    def forward(self, x: Any) -> Any:
        """Return factor·x."""
        return x * self.factor


class Centred(nn.Module):  # type: ignore[misc]
    """Remove every example's own mean and give it a mean square of one.

    >>> Centred()(torch.tensor([[1.0, 3.0]])).round().tolist()
    [[-1.0, 1.0]]
    """

    def forward(self, x: Any) -> Any:
        """Return the examples, each centred and scaled by itself."""
        flat = x.flatten(1)
        flat = flat - flat.mean(1, keepdim=True)
        size = flat.shape[1] ** 0.5
        return (flat * (size / (flat.norm(dim=1, keepdim=True) + 1e-6))).view_as(x)


def _scaled(layer: nn.Module, factor: float) -> list[nn.Module]:
    """Return modules that compute W·(factor·x) + β·b."""
    return [Scale(factor / _BIAS), layer, Scale(_BIAS)]


def _start(layer: nn.Module, spread: float, rng: np.random.Generator) -> nn.Module:
    """Draw the weights of a layer from N(0, spread²); biases are zero."""
    with torch.no_grad():
        drawn = rng.standard_normal(tuple(layer.weight.shape), dtype=np.float32)
        layer.weight.copy_(torch.from_numpy(drawn) * spread)
        layer.bias.zero_()
    return layer


def perceptron(
    inputs: int,
    outputs: int,
    hidden: Sequence[int] = (),
    *,
    activation: str = "tanh",
    rng: np.random.Generator,
) -> nn.Sequential:
    """Return a multi-layer perceptron for inputs of norm one; without hidden layers, linear.

    >>> perceptron(4, 3, (8,), rng=np.random.default_rng(0))(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    check("activation", activation, OneOf(*ACTIVATIONS))
    layers: list[nn.Module] = [nn.Flatten()]
    width, norm = inputs, 1.0
    for size in hidden:
        check("hidden", size, Integer(1))
        layer = _start(nn.Linear(width, size), 1.0, rng)
        layers += [*_scaled(layer, norm), ACTIVATIONS[activation]()]
        width, norm = size, _GAIN / math.sqrt(size)
    return nn.Sequential(*layers, *_scaled(_start(nn.Linear(width, outputs), 0.0, rng), norm))


# of a convolutional network: c of a layer's inputs times √(numbers under a filter), the spread of
# c·W at the start, and ‖c·x‖ of the last layer over that of saturated units
_FILTER_SLOW, _FILTER_SPREAD, _FILTER_GAIN = 2.0, 1.0, 3.0


def convolutional(
    channels: int,
    side: int,
    outputs: int,
    *,
    filters: Sequence[int] = (16, 32),
    activation: str = "tanh",
    rng: np.random.Generator,
) -> nn.Sequential:
    """Return a small convolutional network with bounded activations, for square images.

    Images are centred one by one. Every stage is a convolution (8 × 8 first, then 4 × 4, every
    second pixel), an activation, and a mean over 2 × 2; small images get smaller filters.

    >>> convolutional(1, 8, 3, rng=np.random.default_rng(0))(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 3])
    """
    check("activation", activation, OneOf(*ACTIVATIONS))
    layers: list[nn.Module] = [Centred()]
    for stage, size in enumerate(filters):
        check("filters", size, Integer(1))
        reach = min(8 if stage == 0 else 4, max(2, side // 2))
        pad = (reach - 1) // 2 if stage == 0 else 0
        layer = _start(
            nn.Conv2d(channels, size, reach, stride=2, padding=pad),
            _FILTER_SPREAD / _FILTER_SLOW,
            rng,
        )
        fan = channels * reach * reach
        layers += [*_scaled(layer, _FILTER_SLOW / math.sqrt(fan)), ACTIVATIONS[activation]()]
        channels, side = size, (side + 2 * pad - reach) // 2 + 1
        if side > 2:
            layers.append(nn.AvgPool2d(2, 1))
            side -= 1
        if side < 1:
            raise ParameterError(f"filters must be fewer: stage {stage + 1} has no pixel left")
    width = channels * side * side
    last = _start(nn.Linear(width, outputs), 0.0, rng)
    return nn.Sequential(*layers, nn.Flatten(), *_scaled(last, _FILTER_GAIN / math.sqrt(width)))


@dataclass(frozen=True)
class Perceptron:
    """A blueprint of `perceptron`; its start is drawn by whoever coordinates.

    Examples
    --------
    >>> Perceptron(4, 3).shape, Perceptron(4, 3).size
    ((4,), 15)
    """

    inputs: int
    outputs: int
    hidden: tuple[int, ...] = ()
    activation: str = "tanh"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the inputs of one example."""
        return (self.inputs,)

    @property
    def dtype(self) -> str:
        """Of the inputs."""
        return "float32"

    @property
    def size(self) -> int:
        """How many weights are learned; nothing is built for that."""
        widths = (self.inputs, *self.hidden, self.outputs)
        return sum((before + 1) * after for before, after in pairwise(widths))

    @property
    def text(self) -> str:
        """The network in words that are the same in every process."""
        return repr(self)

    def build(self, rng: np.random.Generator) -> nn.Module:
        """Return a network at a start of its own."""
        return perceptron(
            self.inputs, self.outputs, self.hidden, activation=self.activation, rng=rng
        )


@dataclass(frozen=True, eq=False)
class Given:
    """A blueprint that is a module, whose weights are the start.

    The module is copied, never changed; ``shape`` and ``dtype`` are those of one example's inputs.
    What it holds besides its learned weights is kept as it is now, and is the same in every copy.
    """

    module: nn.Module
    shape: tuple[int, ...]
    dtype: str = "float32"
    _fixed: dict[str, Any] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_frozen(self.module)
        kept = {name: part.detach().clone() for name, part in fixed_parts(self.module).items()}
        object.__setattr__(self, "_fixed", kept)

    @property
    def size(self) -> int:
        """How many weights are learned."""
        return sum(p.numel() for p in learned(self.module))

    @property
    def text(self) -> str:
        """Layers and everything that is not learned; the start is not part of it."""
        digest = hashlib.sha256(str(self.module).encode())
        for name, part in [*self.module.named_parameters(), *self.module.named_buffers()]:
            digest.update(f"{name} {tuple(part.shape)} {part.dtype}".encode())
            if not part.requires_grad:
                digest.update(part.detach().cpu().numpy().tobytes())
        return f"module {digest.hexdigest()} of {self.dtype} {self.shape}"

    def build(self, rng: np.random.Generator) -> nn.Module:
        """Return a copy."""
        made = copied(self.module).cpu()
        restore_fixed(made, self._fixed)
        return made
