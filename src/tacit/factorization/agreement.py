"""`FactorizationAgreement`: what every agreement about a factorization over sites has in common.

A method (`tacit.factorization.langevin`, `tacit.factorization.counts`,
`tacit.factorization.offsets`) makes an agreement of a `Problem`: which relations there are, over
which entities of which sizes, within which bounds. All of that is public, and every certificate
lists it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Self

from tacit.data.duplicates import duplicates_note
from tacit.estimators.agreement import Agreement
from tacit.estimators.site import Site
from tacit.factorization.arrays import Arrays
from tacit.factorization.together.people import about_people, counted_at
from tacit.factorization.together.problem import Problem
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import DpEvent, compose, repeat
from tacit.privacy.guarantee import Privacy, shown

__all__ = ["FactorizationAgreement", "dearest_of", "public_inputs"]


def public_inputs(
    problem: Problem, together: Callable[[int], DpEvent] | None = None
) -> tuple[str, ...]:
    """Return what a certificate lists about a problem: bounds, sizes, and whose cells are seen.

    Parameters
    ----------
    problem
        What is public.
    together
        How many sites → everything that so many of them release, at most.

    Examples
    --------
    >>> from tacit.factorization.language.structure import CoupledModel
    >>> model = CoupledModel("user:k item:k", 2, "euclidean")
    >>> asked = Privacy(1.0, 1e-6, unit="user", trust="site")
    >>> public_inputs(Problem(model, "user", ("item",), {"item": 5}, {"data": (1, 5)}, asked))
    ('public bounds: data in [1, 5] (values outside are clipped)', 'public sizes: 5 of item')
    """
    ranges = ", ".join(f"{n} in [{low:g}, {high:g}]" for n, (low, high) in problem.bounds.items())
    sizes = ", ".join(f"{size} of {entity}" for entity, size in problem.sizes.items())
    notes = [f"public bounds: {ranges} (values outside are clipped)", f"public sizes: {sizes}"]
    if problem.public:
        notes.append(f"public, and not protected: {', '.join(problem.public)}")
    if problem.unit == "entry":
        notes.append("which cells are observed is public")
    notes += [*_at_several_sites(problem, together), *about_people(problem)]
    return (*notes, *duplicates_note(problem.duplicates))


def _at_several_sites(problem: Problem, together: Callable[[int], DpEvent] | None) -> list[str]:
    """Return what holds for a person whom several sites know: no site can tell who that is.

    Each site's releases are about its own people, and are charged there. Somebody at m sites has
    m of them together, and they compose; hidden in one sum, what m sites contribute adds up.
    """
    stated, privacy = problem.sites_per_person, problem.privacy
    if problem.sites == 1 or problem.is_assigned:
        return []
    most = min(stated, problem.sites) if isinstance(stated, int) else problem.sites
    different = f"the sites hold different members of {problem.protected!r}"
    if stated is not None:
        different += f", each at {stated} of them at most, as was stated"
    if most == 1 or together is None or privacy is None or not problem.noisy:
        return [different]
    epsilon = shown(_epsilon(together(most), privacy.delta))
    return [
        f"{different}: ε is that of one site, and whoever is at {most} has {epsilon} at δ = "
        f"{shown(privacy.delta)} together"
    ]


@lru_cache(maxsize=64)
def _epsilon(event: DpEvent, delta: float) -> float:
    return epsilon_of(event, delta)


def dearest_of(problem: Problem, sites: int, event: Callable[[float], DpEvent]) -> DpEvent:
    """Return what the sites with the largest ε release, so many of them; ``event`` is by ε."""
    protected = sorted((e for e in problem.epsilons if math.isfinite(e)), reverse=True)
    counted = Counter(protected[:sites])
    return compose(repeat(event(epsilon), times) for epsilon, times in counted.items())


@dataclass(frozen=True)
class FactorizationAgreement(Agreement):
    """An agreement about a `Problem`; what is learned is the shared factors, by name."""

    family = "factorization"

    differs = True

    problem: Problem

    def at(self, site: str) -> Self:
        """Return what one site is bound by: its own noise, where it has an ε of its own."""
        problem = self.problem.at(site)
        if problem is self.problem:
            return self
        if site not in self._own:
            self._own[site] = replace(self, problem=problem)
        return self._own[site]

    @cached_property
    def _own(self) -> dict[str, Self]:
        """What sites are bound by, made once."""
        return {}

    def among(self, sites: Sequence[str]) -> Self:
        """Return it with the names of the sites."""
        return replace(self, problem=replace(self.problem, names=tuple(sites)))

    def own_part(self, site: Site, data: Any) -> Any:
        """Return a site's relations, with who counts there (`together.people`)."""
        return counted_at(self.problem, site, data)

    def together(self, sites: int) -> DpEvent:
        """Return what so many sites release about somebody whom all of them know, at most."""
        return dearest_of(self.problem, sites, self._asked)

    def _asked(self, epsilon: float) -> DpEvent:
        """Return everything that a site releases that is asked for some ε."""
        asked = self.problem.privacy
        if asked is None or (epsilon == asked.epsilon and not asked.by_site):
            return self.event
        problem = replace(self.problem, privacy=asked.with_epsilon(epsilon), table=None)
        return replace(self, problem=problem).event

    @property
    def privacy(self) -> Privacy | None:  # type: ignore[override]
        """What every site is asked to give."""
        return self.problem.privacy

    @property
    def sites(self) -> int:  # type: ignore[override]
        """How many there are."""
        return self.problem.sites

    def shared(self, result: Any) -> Arrays:
        """Return the shared factors: all of it was released, or derived from releases."""
        return dict(result)
