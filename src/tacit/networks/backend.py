"""Torch, or the error that says what to install."""

from tacit.errors import MissingExtra

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    raise MissingExtra("tacit.networks", "nn") from None

__all__ = ["functional", "nn", "torch"]
