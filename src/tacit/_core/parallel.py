"""Parallel forms of kernels whose serial ones must not import Numba early."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numba import prange
from numba.extending import register_jitable

from tacit._core import kernels

__all__ = ["invert_words_parallel"]

_invert = register_jitable(kernels._invert_words)


def _invert_blocks(
    words: Any,
    high: Any,
    tilt0: float,
    tilt1: float,
    curvature: float,
    width: float,
    guide: Any,
    scale: float,
    offset: float,
    signed: bool,
    out: Any,
    unsure: Any,
    cuts: Any,
    counts: Any,
) -> None:
    for block in prange(counts.shape[0]):
        part = slice(cuts[block], cuts[block + 1])
        counts[block] = _invert(
            words[part], high, tilt0, tilt1, curvature, width, guide, scale, offset, signed,
            out[part], unsure[part],
        )  # fmt: skip


def invert_words_parallel(*args: Any) -> int:
    """Do what `kernels.invert_words` does, one block of words for each core."""
    words, unsure = args[0], args[-1]
    blocks = numba.get_num_threads()
    cuts, counts = np.arange(blocks + 1) * len(words) // blocks, np.zeros(blocks, np.int64)
    kernels.compiled(_invert_blocks, parallel=True)(*args, cuts, counts)
    found = np.concatenate([unsure[a : a + n] + a for a, n in zip(cuts, counts, strict=False)])
    unsure[: len(found)] = found
    return len(found)
