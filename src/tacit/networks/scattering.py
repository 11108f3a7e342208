"""`Scattering`: fixed, public filters before a layer that learns.

A convolutional network with two layers of fixed, oriented filters (Bruna & Mallat 2013; for
private learning Tramèr & Boneh 2021). It learns nothing, sees one image at a time, and what it
returns has norm one; only what comes after it costs privacy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.errors import ParameterError
from tacit.networks.backend import functional, nn, torch

__all__ = ["Scattering"]


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
