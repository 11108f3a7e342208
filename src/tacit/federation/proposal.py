"""What a coordinator proposes: a computation, its settings, a guarantee, who takes part."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tacit._core.check import AnyOf, InstanceOf, Integer, OneOf, Text, check
from tacit.errors import ParameterError, TacitError
from tacit.estimators.site import check_named
from tacit.federation.secure.threshold import check_threshold, default_threshold
from tacit.privacy.guarantee import Privacy

__all__ = ["Proposal", "opening_text"]

_GUARANTEE = ("epsilon", "delta", "unit", "neighbours", "trust", "by_site")


@dataclass(frozen=True)
class Proposal:
    """One computation that a coordinator proposes; everything in it is public.

    Parameters
    ----------
    computation
        The short name of an estimator (`tacit.estimators.families`).
    settings
        Its public settings: model, bounds, entities, …
    privacy
        The fields of `Privacy` that every site is asked to give; ``by_site`` is the public table
        of those that are asked for an ε of their own.
    sites
        Everybody who takes part.
    run
        A name of its own; a run that is resumed keeps it.
    threshold
        With secure aggregation: how many sites must see each sum through. The same number stands
        for the exchange, the noise and the policy; with ``trust = "aggregator"`` it is
        ⌈2n/3⌉, raised until 2t > n + c, unless given.
    seed
        For tests: predictable noise, which a site refuses unless its policy allows it.
    colluding
        c: how many sites on the coordinator's side secure sums and their noise hold against.
    rehearsal
        Whether sites take made-up data in place of theirs: nothing is read and nothing charged.

    Examples
    --------
    >>> one = Proposal("regression", {"y_bounds": [0, 1]}, {"epsilon": 1.0}, ("A", "B"), "run 1")
    >>> Proposal.from_json(one.to_json()) == one
    True
    """

    computation: str
    settings: Mapping[str, Any]
    privacy: Mapping[str, Any] | None
    sites: tuple[str, ...]
    run: str
    threshold: int | None = None
    seed: int | None = None
    colluding: int = 1
    rehearsal: bool = False

    def __post_init__(self) -> None:
        check("computation", self.computation, InstanceOf(str))
        check("settings", self.settings, InstanceOf(dict))
        check("privacy", self.privacy, AnyOf(InstanceOf(dict), None))
        check("run", self.run, Text())
        check("threshold", self.threshold, AnyOf(Integer(2), None))
        check("seed", self.seed, AnyOf(Integer(0), None))
        check("rehearsal", self.rehearsal, OneOf(True, False))
        names = self.sites
        if not names or not all(isinstance(n, str) for n in names) or len(set(names)) < len(names):
            raise ParameterError(f"sites must be different names, got {list(names)}")
        check("colluding", self.colluding, Integer(0))
        if self.threshold is None and (self.privacy or {}).get("trust") == "aggregator":
            found = default_threshold(len(names), self.colluding)
            object.__setattr__(self, "threshold", found)
        if self.threshold is not None:
            check_threshold(len(names), self.threshold, self.colluding)

    def guarantee(self) -> Privacy | None:
        """Return the guarantee that is asked for.

        Against whom it holds follows from the trust: no text of a proposal gets onto a
        certificate.
        """
        if self.privacy is None:
            return None
        unknown = sorted(set(self.privacy) - set(_GUARANTEE))
        if unknown:
            raise ParameterError(f"privacy has the unknown field {unknown[0]!r}: {_GUARANTEE}")
        try:
            found = Privacy(**self.privacy).fixed()
        except TypeError as error:
            raise ParameterError(f"privacy cannot be read: {error}") from None
        check_named(self.sites, found)
        return found

    def epsilon_of(self, site: str | None = None) -> float:
        """Return the ε that a site is asked for, or the largest; infinite without a guarantee."""
        privacy = self.guarantee()
        if privacy is None:
            return math.inf
        return max(privacy.at(name).epsilon for name in (self.sites if site is None else [site]))

    def to_json(self) -> str:
        """Return it as text; the order of settings is kept, as that of features matters."""
        return json.dumps(asdict(self) | {"sites": list(self.sites)})

    @classmethod
    def from_json(cls, text: str | bytes) -> Proposal:
        """Read it; whatever is no proposal is refused."""
        try:
            data = json.loads(text)
            return cls(**(data | {"sites": tuple(data["sites"])}))
        except TacitError:
            raise
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise ParameterError(f"a proposal cannot be read: {error}") from None


def opening_text(proposal: bytes, digest: bytes) -> bytes:
    """Return what a coordinator signs when it opens a run: the proposal, and what it stands for.

    >>> len(opening_text(b"{}", b"0"))
    46
    """
    whole = hashlib.sha256(len(proposal).to_bytes(8, "little") + proposal + digest)
    return b"tacit proposal" + whole.digest()
