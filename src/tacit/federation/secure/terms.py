"""`Terms`: everything that the parties of one secure sum have to agree on, bound into every key.

Nothing here is taken from a message: a site makes its terms from the proposal that its policy
accepted, from the step that is due and from what it is asked. Whoever has other terms has other
signatures, seals and masks, and learns nothing.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError, RequestRefused, SiteFailure
from tacit.federation.secure import keys
from tacit.federation.secure.threshold import check_threshold

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Terms"]


@dataclass(frozen=True)
class Terms:
    """What all parties of one aggregation know.

    Parameters
    ----------
    run
        A digest of what was agreed on before; no other run of these sites has it.
    sites
        The names of all sites of the proposal, in order: whoever is lost, the points of Shamir's
        shares stay.
    threshold
        t: how many sites must see the aggregation through.
    colluding
        c: how many of them may be on the coordinator's side.
    bits
        The ring: numbers are added modulo 2^bits, 32 or 64.
    step, attempt
        Which sum of the run it is, and the how-manieth try.
    asked
        A digest of what all sites are asked for.

    Examples
    --------
    >>> Terms(b"1", ("A", "B", "C", "D"), 3).drop_outs
    1
    """

    run: bytes
    sites: tuple[str, ...]
    threshold: int
    colluding: int = 1
    bits: int = 64
    step: int = 0
    attempt: int = 0
    asked: bytes = b""

    def __post_init__(self) -> None:
        check("bits", self.bits, OneOf(*keys.RINGS))
        check("step", self.step, Integer(0))
        check("attempt", self.attempt, Integer(0))
        if tuple(sorted(set(self.sites))) != self.sites:
            raise ParameterError("sites must be distinct names in order")
        check_threshold(len(self.sites), self.threshold, self.colluding)

    def at(self, step: int, attempt: int, asked: bytes) -> Terms:
        """Return the terms of one sum of the run."""
        return dataclasses.replace(self, step=step, attempt=attempt, asked=asked)

    @cached_property
    def digest(self) -> bytes:
        """A digest of all of it."""
        numbers = (self.threshold, self.colluding, self.bits, self.step, self.attempt)
        return _digest(b"tacit 1 terms", self.run, self.asked, *map(_number, numbers),
                       *(site.encode() for site in self.sites))  # fmt: skip

    @property
    def drop_outs(self) -> int:
        """How many sites may fail."""
        return len(self.sites) - self.threshold

    def point(self, site: str) -> int:
        """Return where a site's share is taken."""
        return self.sites.index(site) + 1

    def about(self, what: str, *parts: bytes | str) -> bytes:
        """Return bytes that bind a key or a signature to its use, the terms and more."""
        more = (part.encode() if isinstance(part, str) else part for part in parts)
        return _digest(self.digest, what.encode(), *more)

    # -- lists of sites ----------------------------------------------------------------------

    def marks(self, group: Collection[str]) -> NDArray[np.bool_]:
        """Return a group as one truth value for each site."""
        return np.array([site in group for site in self.sites], bool)

    def marked(self, marks: NDArray[Any]) -> tuple[str, ...]:
        """Read a group, in order; `RequestRefused` where it is none."""
        if marks.dtype != np.bool_ or marks.shape != (len(self.sites),):
            raise RequestRefused("a list of sites does not fit what was agreed on")
        return tuple(site for site, here in zip(self.sites, marks, strict=True) if here)

    def enough(self, group: Collection[str], exchange: str) -> tuple[str, ...]:
        """Return a group in order, or raise where it is too small or unknown."""
        unknown = sorted(set(group) - set(self.sites))
        if unknown:
            raise SiteFailure(f"{unknown[0]!r} takes no part in this aggregation")
        if len(group) < self.threshold:
            raise SiteFailure(
                f"only {len(group)} sites are left when asked to {exchange}, and nothing is "
                f"revealed from fewer than {self.threshold} of {len(self.sites)}"
            )
        return tuple(site for site in self.sites if site in group)


def _number(number: int) -> bytes:
    return int(number).to_bytes(8, "little")


def _digest(*parts: bytes) -> bytes:
    """Return a digest of parts, none of which can pass for a piece of another."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()
