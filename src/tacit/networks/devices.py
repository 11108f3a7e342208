"""Where torch computes: by each holder's own choice, on one of its devices."""

from __future__ import annotations

import re
from typing import Any

from tacit._core.check import Constraint
from tacit.networks.backend import torch

__all__ = ["Device", "chosen_device"]

_KNOWN = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


class Device(Constraint):
    """The name of a device, as torch has it, or ``"auto"``."""

    def accepts(self, value: Any) -> bool:
        """Whether a value is one."""
        return isinstance(value, str) and _KNOWN.fullmatch(value) is not None

    def describe(self) -> str:
        """Say what is accepted."""
        return "'auto', 'cpu', 'mps', 'cuda' or 'cuda:0', 'cuda:1', …"

    def bad_values(self) -> list[Any]:
        """Names that torch does not know."""
        return ["gpu", "cuda:", 0]


def chosen_device(name: str) -> str:
    """Return the device of this machine that a name means.

    >>> chosen_device("cpu")
    'cpu'
    """
    if name != "auto":
        return name
    return "cuda" if torch.cuda.is_available() else "cpu"
