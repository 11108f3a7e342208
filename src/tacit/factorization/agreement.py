"""`FactorizationAgreement`: what every agreement about a factorization over sites has in common.

A method (`tacit.factorization.langevin`, `tacit.factorization.counts`,
`tacit.factorization.offsets`) makes an agreement of a `Problem`: which relations there are, over
which entities of which sizes, within which bounds. All of that is public, and every certificate
lists it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tacit.data.duplicates import duplicates_note
from tacit.estimators.agreement import Agreement
from tacit.factorization.arrays import Arrays
from tacit.factorization.together.problem import Problem
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import DpEvent, repeat
from tacit.privacy.guarantee import Privacy, shown

__all__ = ["FactorizationAgreement", "public_inputs"]


def public_inputs(problem: Problem, event: DpEvent | None = None) -> tuple[str, ...]:
    """Return what a certificate lists about a problem: bounds, sizes, and whose cells are seen.

    Parameters
    ----------
    problem
        What is public.
    event
        Everything that one site releases, for people who are at several of them.

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
    return (*notes, *_at_several_sites(problem, event), *duplicates_note(problem.duplicates))


def _at_several_sites(problem: Problem, event: DpEvent | None) -> list[str]:
    """Return what holds for a person whom several sites know: no site can tell who that is.

    Each site's releases are about its own people, and are charged there. Somebody at m sites has
    m of them together, and they compose; no method here hides a site in a sum of all.
    """
    most, privacy = min(problem.sites_per_person or problem.sites, problem.sites), problem.privacy
    if problem.sites == 1:
        return []
    different = f"the sites hold different members of {problem.protected!r}"
    if problem.sites_per_person is not None:
        different += f", each at {problem.sites_per_person} of them at most, as was stated"
    if most == 1 or event is None or privacy is None or not problem.noisy:
        return [different]
    together = shown(_together(event, most, privacy.delta))
    return [
        f"{different}: ε is that of one site, and whoever is at {most} has {together} at δ = "
        f"{shown(privacy.delta)} together"
    ]


@lru_cache(maxsize=64)
def _together(event: DpEvent, sites: int, delta: float) -> float:
    """Return the ε of the same releases by several sites."""
    return epsilon_of(repeat(event, sites), delta)


@dataclass(frozen=True)
class FactorizationAgreement(Agreement):
    """An agreement about a `Problem`; what is learned is the shared factors, by name."""

    family = "factorization"

    problem: Problem

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
