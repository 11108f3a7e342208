"""What a site publishes to the engine: an object that passes bytes on to a local socket.

It runs in the engine's own processes, which know nothing of the site but that socket.
"""

from __future__ import annotations

import os
import socket
from typing import Any

import numpy as np
from nvflare.collab import collab

from tacit.errors import SiteFailure
from tacit.federation.engine import frames
from tacit.federation.engine.relay import SOCKET

__all__ = ["CollabSite", "carried", "carry"]

# Longer messages travel as an array of bytes, which the engine moves faster, in pieces.
_LONG = 1 << 18


def carry(data: bytes | memoryview) -> Any:
    """Return bytes in the form that the engine moves fastest."""
    return bytes(data) if len(data) < _LONG else np.frombuffer(data, np.uint8)


def carried(value: Any) -> bytes | memoryview | None:
    """Return the bytes that were carried, or None for anything else."""
    if isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1:
        return value.data
    return value if isinstance(value, bytes) else None


class CollabSite:
    """The object that a site publishes: hands bytes to its data process."""

    @collab.publish  # type: ignore[untyped-decorator]
    def call(self, method: str, data: Any) -> Any:
        """Answer one call."""
        if method not in frames.CALLS:
            raise SiteFailure("there is no such call")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(os.environ[SOCKET])
            return carry(frames.ask(connection, frames.CALLS.index(method), carried(data) or b""))
