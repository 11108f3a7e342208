"""A site's policy: what it consents to, checked inside the site before any data is read.

A policy is a list of permissions. A proposal is accepted if one of them covers all of it; the
refusal says what the closest one does not cover. `Policy.page` is the text to sign.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from tacit._core.check import AnyOf, InstanceOf, Integer, OneOf, Real, Text, check
from tacit.errors import ParameterError, PolicyRefused, TacitError
from tacit.estimators.families import estimator_of
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.federation.secure.threshold import default_threshold
from tacit.privacy.guarantee import NEIGHBOURS, TRUSTS, UNITS, Privacy, shown

__all__ = ["Limits", "Objection", "Permission", "Policy"]


class Objection(NamedTuple):
    """What a permission does not cover: the sentence that may be said, and why, for the holder."""

    about: str
    text: str


@dataclass(frozen=True)
class Permission:
    """One computation that a site consents to, with everything that it fixes.

    Parameters
    ----------
    computation
        Its name.
    epsilon, delta
        The largest guarantee that may be asked for, per run: of this site, where a proposal names
        an ε for each. ``inf`` allows what is for public data only: nothing is protected.
    unit, neighbours, trust
        What the guarantee must protect. Unless given, neighbours are those of `Privacy` for the
        unit, and trust is ``"site"``: every site sees its own data.
    rounds
        How often the site may be asked.
    partners
        The fewest sites that take part, this one included.
    settings
        The public settings (bounds, model, entities, …); a proposal must state exactly these.
    tables
        Which of the site's tables are read; all unless given.
    sites
        If given, nobody else may take part.
    secure
        Whether sums must be aggregated securely; then ``partners`` is also the fewest sites whose
        sum may be revealed.
    threshold, colluding
        The fewest sites that see a secure sum through (⌈2n/3⌉, raised until 2t > n + c, unless
        given), and c, how many other sites on the coordinator's side it must hold against.
    seeded
        Whether predictable noise is accepted: for tests only.

    Examples
    --------
    >>> Permission("regression", 1.0, 1e-6, "row", {"target": "y"}).rounds
    1
    """

    computation: str
    epsilon: float
    delta: float
    unit: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    rounds: int = 1
    partners: int = 2
    neighbours: str | None = None
    trust: str = "site"
    tables: tuple[str, ...] | None = None
    sites: tuple[str, ...] | None = None
    secure: bool = False
    seeded: bool = False
    threshold: int | None = None
    colluding: int = 1

    def __post_init__(self) -> None:
        check("computation", self.computation, Text())
        check("epsilon", self.epsilon, Real(0, open_low=True, allow_inf=True))
        check("delta", self.delta, Real(0, 1, open_high=True))
        check("unit", self.unit, OneOf(*UNITS))
        check("settings", self.settings, InstanceOf(dict))
        check("rounds", self.rounds, Integer(1))
        check("partners", self.partners, Integer(1))
        check("trust", self.trust, OneOf(*TRUSTS))
        if self.neighbours is None:
            given = Privacy(self.epsilon, self.delta, unit=self.unit).neighbours
            object.__setattr__(self, "neighbours", given)
        check("neighbours", self.neighbours, OneOf(*NEIGHBOURS))
        check("secure", self.secure, OneOf(True, False))
        check("seeded", self.seeded, OneOf(True, False))
        check("threshold", self.threshold, AnyOf(Integer(2), None))
        check("colluding", self.colluding, Integer(0))

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Permission:
        """Read it from a configuration file's table."""
        data = dict(table)
        for name in ("sites", "tables"):
            if data.get(name) is not None:
                data[name] = tuple(data[name])
        try:
            return cls(**data)
        except TypeError as error:
            raise ParameterError(f"a permission cannot be read: {error}") from None

    def objections(
        self, proposal: Proposal, plugins: Sequence[str] = (), site: str | None = None
    ) -> list[Objection]:
        """Return everything about a proposal that this permission does not cover.

        Texts and numbers are compared; nothing is computed from a proposal before that. A site
        looks at its own ε; without ``site`` it is the largest that any of them is asked for.
        """
        found: list[Objection] = []

        def object_to(about: str, text: str) -> None:
            found.append(Objection(about, text))

        try:
            privacy = proposal.guarantee()
        except TacitError as error:
            return [Objection("guarantee", str(error))]
        if privacy is None:
            object_to("guarantee", "no guarantee is asked for at all")
        else:
            epsilon = proposal.epsilon_of(site)
            if epsilon > self.epsilon:
                object_to("epsilon", f"ε = {epsilon:g} is more than {self.epsilon:g}")
            if privacy.delta > self.delta:
                object_to("delta", f"δ = {privacy.delta:g} is more than {self.delta:g}")
            for name in ("unit", "neighbours", "trust"):
                wanted, asked = getattr(self, name), getattr(privacy, name)
                if wanted != asked:
                    object_to(name, f"{name} is {asked!r}, not {wanted!r}")
        if len(proposal.sites) < self.partners:
            object_to(
                "partners", f"{len(proposal.sites)} sites take part, fewer than {self.partners}"
            )
        if self.sites is not None and (strangers := set(proposal.sites) - set(self.sites)):
            object_to("sites", f"{sorted(strangers)[0]!r} takes part, who was not agreed on")
        if self.secure and (proposal.threshold or 0) < self.partners:
            object_to("threshold", f"sums over fewer than {self.partners} sites could be seen")
        if proposal.threshold is not None:
            found += self._secure_objections(proposal.threshold, proposal)
        if proposal.seed is not None and not self.seeded:
            object_to("seed", "the noise would be seeded, and so predictable")
        free = estimator_of(self.computation, plugins)._inference_only
        for key in sorted(set(self.settings) | set(proposal.settings)):
            if key in free:
                continue
            asked, agreed = proposal.settings.get(key), self.settings.get(key)
            if _canonical(asked) != _canonical(agreed):
                object_to("settings", f"{key} is {_short(asked)}, not {_short(agreed)}")
        return found

    def _secure_objections(self, threshold: int, proposal: Proposal) -> list[Objection]:
        """Return what is missing where sums are secure."""
        found, asked = [], proposal.colluding
        if asked < self.colluding:
            text = f"{asked} colluding sites are assumed, fewer than {self.colluding}"
            found.append(Objection("colluding", text))
        fewest = self.threshold
        if fewest is None:
            fewest = default_threshold(len(proposal.sites), asked)
        if threshold < fewest:
            text = f"{threshold} sites see a sum through, fewer than {fewest}"
            found.append(Objection("threshold", text))
        return found

    def proposal(self) -> Proposal:
        """Return the most that may be proposed under it, over as few sites as it allows."""
        names = ("epsilon", "delta", "unit", "neighbours", "trust")
        privacy = {name: getattr(self, name) for name in names}
        fewest = max(self.partners, self.colluding + 1) if self.is_secure else self.partners
        sites = self.sites or tuple(f"site {k}" for k in range(fewest))
        threshold = None
        if self.is_secure:
            threshold = self.threshold or default_threshold(len(sites), self.colluding)
        return Proposal(
            self.computation,
            dict(self.settings),
            privacy,
            sites,
            "policy",
            threshold,
            colluding=self.colluding,
        )

    @property
    def is_secure(self) -> bool:
        """Whether only secure sums are allowed."""
        return self.secure or self.trust == "aggregator"

    def opened(self, plugins: Sequence[str] = ()) -> str | None:
        """Return what leaves the site as it is, as the agreement that is allowed has it."""
        try:
            return Computation(self.proposal(), plugins).in_clear
        except TacitError as error:
            return f"UNKNOWN, as this cannot be run: {error}"

    def sentence(self, plugins: Sequence[str] = ()) -> str:
        """Return it in words."""
        who = "any sites" if self.sites is None else ", ".join(self.sites)
        lines = [
            f"The computation {self.computation!r} may be run with {who}, {self.partners} or more "
            "taking part.",
            f"  It may cost ε = {self.epsilon:g} and δ = {self.delta:g} per run, for one "
            f"{self.unit} under {self.neighbours}, trust {self.trust!r}, in at most {self.rounds} "
            "rounds.",
            *(["  NOTHING IS PROTECTED: ε may be infinite."] if math.isinf(self.epsilon) else []),
        ]
        if self.tables is not None:
            lines.append(f"  It reads {', '.join(self.tables)} and nothing else.")
        if self.secure:
            lines.append(f"  Nobody sees less than a sum over {self.partners} sites.")
        if self.is_secure:
            lines += self._said(plugins)
        if self.seeded:
            lines.append("  TESTS ONLY: predictable noise is accepted.")
        public = self.opened(plugins)
        if public is not None:
            lines.append(f"  LEAVES AS IT IS, without noise: {public}.")
        lines.append("  Fixed beforehand:")
        lines += [f"    {key} = {_canonical(value)}" for key, value in self.settings.items()]
        return "\n".join(lines)

    def _said(self, plugins: Sequence[str]) -> list[str]:
        """Return what secure sums hold against, in words."""
        try:
            said = Computation(self.proposal(), plugins).said()
        except TacitError as error:
            said = (f"UNKNOWN, as this cannot be run: {error}",)
        return [f"  {line if line[0] == 'ε' else line[0].upper() + line[1:]}." for line in said]


@dataclass(frozen=True)
class Limits:
    """How much one coordinator may start within a period, so that nobody drains a ledger.

    Parameters
    ----------
    epsilon, runs
        The most that its runs may cost together, and their number; no limit unless given.
    days
        The period.

    Examples
    --------
    >>> Limits(epsilon=2.0, runs=10).objection([(0.0, 1.5)], 1.0)
    'ε = 2.5 within 30 days is more than 2'
    """

    epsilon: float | None = None
    runs: int | None = None
    days: float = 30.0

    def __post_init__(self) -> None:
        check("limits.epsilon", self.epsilon, AnyOf(Real(0, open_low=True), None))
        check("limits.runs", self.runs, AnyOf(Integer(1), None))
        check("limits.days", self.days, Real(0, open_low=True))

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> Limits:
        """Read it from a configuration file's table."""
        try:
            return cls(**table)
        except TypeError as error:
            raise ParameterError(f"[limits] cannot be read: {error}") from None

    def objection(self, earlier: Sequence[tuple[float, float]], epsilon: float) -> str | None:
        """Return why one more run is too much, or None.

        Parameters
        ----------
        earlier
            How many days ago each run of the coordinator began, and its ε.
        epsilon
            Of the run that is proposed.
        """
        within = [cost for age, cost in earlier if age < self.days]
        if self.runs is not None and len(within) >= self.runs:
            return f"{len(within)} runs began within {self.days:g} days"
        total = sum(within) + epsilon
        if self.epsilon is not None and total > self.epsilon:
            return f"ε = {shown(total)} within {self.days:g} days is more than {self.epsilon:g}"
        return None

    @property
    def sentence(self) -> str | None:
        """It in words, or None where nothing is limited."""
        parts = []
        if self.runs is not None:
            parts.append(f"{self.runs} runs")
        if self.epsilon is not None:
            parts.append(f"ε = {self.epsilon:g}")
        if not parts:
            return None
        return f"Within {self.days:g} days one coordinator may start {' and spend '.join(parts)}."


@dataclass(frozen=True)
class Policy:
    """All permissions of a site; what none of them covers is refused."""

    permissions: tuple[Permission, ...] = ()
    limits: Limits = Limits()

    def check(
        self, proposal: Proposal, plugins: Sequence[str] = (), site: str | None = None
    ) -> Permission:
        """Return the permission that covers a proposal; `PolicyRefused` says what none covers.

        Parameters
        ----------
        proposal
            What is proposed; only its text is looked at.
        plugins
            The families that the site's own file enables.
        site
            Whose policy it is: what it is asked for itself is what counts.
        """
        same = [p for p in self.permissions if p.computation == proposal.computation]
        if not same:
            raise PolicyRefused(
                f"{_short(proposal.computation)} is not allowed, but "
                f"{sorted({p.computation for p in self.permissions})}",
                "computation",
            )
        objections = [permission.objections(proposal, plugins, site) for permission in same]
        for permission, found in zip(same, objections, strict=True):
            if not found:
                return permission
        closest = min(objections, key=len)
        raise PolicyRefused("; ".join(one.text for one in closest), closest[0].about)

    @cached_property
    def length(self) -> int:
        """The characters of all settings: a proposal that is covered repeats those of one."""
        return sum(len(_canonical(permission.settings)) for permission in self.permissions)

    def page(self, site: str, plugins: Sequence[str] = ()) -> str:
        """Return the policy as a page to read and sign.

        Parameters
        ----------
        site
            Whose it is.
        plugins
            The families that the site's own file enables.
        """
        said = [permission.sentence(plugins) for permission in self.permissions]
        body = "\n\n".join(said) or "Nothing may be run."
        limits = self.limits.sentence or (
            "NO LIMIT stands on how many runs a coordinator may start: [limits] sets one."
        )
        return (
            f"What {site} consents to\n\n{body}\n\n{limits}\n\n"
            "Everything else is refused before any data is read. What is released is counted in "
            "the site's ledger, whose ceiling no permission can exceed."
        )


def _canonical(value: Any) -> str:
    """Return settings as text, where 1 and 1.0 are one number."""

    def plain(item: Any) -> Any:
        if isinstance(item, Mapping):
            return {str(k): plain(v) for k, v in item.items()}
        if isinstance(item, list | tuple):
            return [plain(v) for v in item]
        if isinstance(item, int | float) and not isinstance(item, bool):
            return float(item)
        return item

    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False)


def _short(value: Any) -> str:
    text = "not stated" if value is None else _canonical(value)
    return text if len(text) <= 120 else text[:117] + "…"
