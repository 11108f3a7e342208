"""Networks whose noise does not grow with their size, and fixed filters.

`perceptron` keeps every input of a layer at a norm of order one (the "neural tangent" scaling):
with x of norm 1 and h = tanh(a·W₁x), the output is g·W₂h/√width. Noise of standard deviation s on
every weight then moves an output by about g·s·(‖h‖/√width + a·|tanh′|), however wide the network
is, so one learning rate serves all widths. a = 0.3 makes hidden layers learn, and suffer from
noise, less than the last one; their weights start at N(0, (3/a)²), so that units see different
things from the start. Both, and g = 1.5, were chosen on 1,439 of MNIST's training images in 8 × 8
pixels (three splits, judged on 3,000 others): 0.58 / 0.71 / 0.81 at ε = 0.5 / 1 / 10, against
0.51 / 0.67 / 0.76 with a = g = 1 and N(0, 1), and 0.59 / 0.71 / 0.79 without a hidden layer.

`Scattering` is a convolutional network with two layers of fixed, oriented filters (Bruna & Mallat
2013; for private learning Tramèr & Boneh 2021). It learns nothing, sees one image at a time, and
what it returns has norm one; only what comes after it costs privacy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError

__all__ = ["ACTIVATIONS", "Scale", "Scattering", "convolutional", "perceptron"]

_SLOW, _SPREAD, _GAIN = 0.3, 3.0, 1.5  # of a perceptron's hidden layers: a, of a·W₁, and g
ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "sigmoid": nn.Sigmoid, "softsign": nn.Softsign}


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


def perceptron(
    inputs: int,
    outputs: int,
    hidden: Sequence[int] = (),
    *,
    activation: str = "tanh",
    rng: np.random.Generator,
) -> nn.Sequential:
    """Return a multi-layer perceptron; without hidden layers, a linear model.

    Weights of the last layer are zero: the first prediction is that of knowing nothing.

    >>> perceptron(4, 3, (8,), rng=np.random.default_rng(0))(torch.zeros(2, 4)).shape
    torch.Size([2, 3])
    """
    check("activation", activation, OneOf(*ACTIVATIONS))
    layers: list[nn.Module] = [nn.Flatten()]
    width = inputs
    for size in hidden:
        check("hidden", size, Integer(1))
        layer = nn.Linear(width, size)
        with torch.no_grad():
            drawn = rng.standard_normal((size, width), dtype=np.float32)
            layer.weight.copy_(torch.from_numpy(drawn) * (_SPREAD / _SLOW))
            layer.bias.zero_()
        out = Scale(_GAIN / math.sqrt(size))
        layers += [Scale(_SLOW), layer, ACTIVATIONS[activation](), out]
        width = size
    last = nn.Linear(width, outputs)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.zero_()
    return nn.Sequential(*layers, last)


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

    Every stage is a convolution of 3 × 3, an activation and a mean over 2 × 2.

    >>> convolutional(1, 8, 3, rng=np.random.default_rng(0))(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 3])
    """
    check("activation", activation, OneOf(*ACTIVATIONS))
    layers: list[nn.Module] = []
    for size in filters:
        layer = nn.Conv2d(channels, size, 3, padding=1)
        with torch.no_grad():
            drawn = rng.standard_normal(tuple(layer.weight.shape), dtype=np.float32)
            layer.weight.copy_(torch.from_numpy(drawn) / math.sqrt(9 * channels))
            layer.bias.zero_()
        layers += [layer, ACTIVATIONS[activation](), nn.AvgPool2d(2)]
        channels, side = size, side // 2
    last = nn.Linear(channels * side * side, outputs)
    with torch.no_grad():
        last.weight.zero_()
        last.bias.zero_()
    return nn.Sequential(*layers, nn.Flatten(), last)


class Scattering(nn.Module):  # type: ignore[misc]
    """Fixed features of grey images: oriented edges, and edges among their strengths.

    First layer: eight orientations of Gabor filters at two scales, the modulus of the complex
    response. Second layer: the same filters at half resolution on the strengths of the finer
    scale. Both are smoothed and kept at every fourth pixel. Each part is taken to the power ½, has
    its mean over orientations removed (what all strokes have in common says nothing about which
    they are) and norm ½, so that the whole has norm one.

    Parameters
    ----------
    orientations
        How many.

    Examples
    --------
    >>> features = Scattering()(torch.rand(2, 1, 28, 28))
    >>> features.shape, bool((features.norm(dim=1) <= 1.0 + 1e-4).all())
    (torch.Size([2, 3969]), True)
    """

    def __init__(self, orientations: int = 8) -> None:
        super().__init__()
        check("orientations", orientations, Integer(2))
        self.orientations = orientations
        self.register_buffer("fine", _bank(0, orientations))
        self.register_buffer("coarse", _bank(1, orientations))
        self.register_buffer("wide", _lowpass(2.4))
        self.register_buffer("narrow", _lowpass(1.2))

    def forward(self, images: Any) -> Any:
        """Return the features of images (batch, 1, height, width), (batch, features)."""
        if images.dim() != 4 or images.shape[1] != 1:
            raise ParameterError(
                f"images must have shape (batch, 1, height, width), got {tuple(images.shape)}"
            )
        plain = _filtered(images, self.wide, 4)[:, 0]
        fine = _modulus(_filtered(images, self.fine, 1))[:, 0]
        coarse = _modulus(_filtered(images, self.coarse, 1))[:, 0]
        second = _modulus(_filtered(functional.avg_pool2d(fine, 2), self.fine, 1))
        pairs = _filtered(second.flatten(1, 2), self.narrow, 2)[:, :, 0]
        pairs = pairs.unflatten(1, (self.orientations, self.orientations))
        parts = [_centred(_filtered(p, self.wide, 4)[:, :, 0], 1) for p in (fine, coarse)]
        parts += [_centred(pairs, 1), _centred(plain.flatten(1)[:, :, None], 1)]
        return torch.cat(parts, dim=1)


def _centred(part: Any, axis: int) -> Any:
    """Return the root of a part without its mean along an axis, flat and of norm ½."""
    root = part.clamp(min=0.0).sqrt()
    flat = (root - root.mean(axis, keepdim=True)).flatten(1)
    return 0.5 * flat / (flat.norm(dim=1, keepdim=True) + 1e-6)


def _filtered(images: Any, filters: Any, stride: int) -> Any:
    """Apply every filter to every channel: (batch, channels, filters, height, width)."""
    batch, channels, height, width = images.shape
    alone = images.reshape(batch * channels, 1, height, width)
    out = functional.conv2d(alone, filters, padding=filters.shape[-1] // 2, stride=stride)
    return out.reshape(batch, channels, -1, out.shape[-2], out.shape[-1])


def _modulus(responses: Any) -> Any:
    """Return the modulus of pairs of real and imaginary responses."""
    paired = responses.unflatten(2, (-1, 2))
    return (paired.square().sum(3) + 1e-12).sqrt()


def _bank(scale: int, orientations: int) -> Any:
    """Return Gabor filters, real and imaginary parts in turn, (2·orientations, 1, size, size)."""
    spread, frequency = 0.8 * 2.0**scale, 0.75 * math.pi / 2.0**scale
    reach = 3 if scale == 0 else math.ceil(3.0 * spread)
    line = np.arange(-reach, reach + 1, dtype=np.float64)
    y, x = np.meshgrid(line, line, indexing="ij")
    parts = []
    for k in range(orientations):
        angle = math.pi * k / orientations
        along = x * math.cos(angle) + y * math.sin(angle)
        across = y * math.cos(angle) - x * math.sin(angle)
        envelope = np.exp(-(along**2 + 0.25 * across**2) / (2.0 * spread**2))
        real = envelope * np.cos(frequency * along)
        real -= envelope * (real.sum() / envelope.sum())  # no response to a constant
        parts += [real / envelope.sum(), envelope * np.sin(frequency * along) / envelope.sum()]
    return torch.from_numpy(np.array(parts)[:, None]).to(torch.float32)


def _lowpass(spread: float) -> Any:
    """Return a Gaussian window of sum one, (1, 1, size, size)."""
    reach = math.ceil(2.5 * spread)
    bell = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * spread**2))
    window = np.outer(bell, bell) / bell.sum() ** 2
    return torch.from_numpy(window[None, None]).to(torch.float32)
