"""A site's side of `CountsAgreement`: sends its counts once, then hears what came of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.relations import Relation
from tacit.errors import ParameterError, RequestRefused
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.gate import Gate
from tacit.factorization.alone.numerics.sums import estimates_at, estimates_of_draws
from tacit.factorization.arrays import Arrays, Factors, Floats, Integers
from tacit.factorization.counts.agreement import LARGEST, CountsAgreement
from tacit.factorization.counts.learn import (
    SiteLayout,
    learn,
    learn_rows,
    levels_of,
    members_of_sites,
)
from tacit.factorization.counts.views import from_text, own_counts
from tacit.factorization.draws import PRIOR, draws_of
from tacit.factorization.offsets.numerics.own_model import OwnRatesModel, Seen, leverage_of
from tacit.factorization.together.people import Counted, counting
from tacit.factorization.together.problem import members_in
from tacit.factorization.together.shape import (
    SiteFactors,
    bounded_cells,
    check_cells,
    not_about,
    stayed,
)
from tacit.mechanisms.geometric import TwoSidedGeometric

__all__ = ["CountingSite"]


class CountingSite(SiteFactors):
    """A site with its counts."""

    agreement: CountsAgreement

    def __init__(
        self,
        agreement: CountsAgreement,
        name: str,
        relations: Mapping[str, Relation],
        gate: Gate,
        rng: np.random.Generator,
    ) -> None:
        self.problem, self._rng = agreement.problem, rng
        self.counts = own_counts(self.problem, relations)
        self.members = members_in(self.counts, self.problem.protected)
        self._own: OwnRatesModel | None = None  # made where it is asked for
        # in their own order: how cells are listed says nothing
        here = self.counts
        if isinstance(relations, Counted):
            here = own_counts(self.problem, counting(relations, self.problem.protected))
        sent = {n: found.subset(np.lexsort(found.indices.T[::-1])) for n, found in here.items()}
        if agreement.method.cells is not None:
            self._bound_members(sent, agreement.method.cells)
        super().__init__(agreement, name, [sent], gate)

    def _bound_members(self, sent: dict[str, Relation], limit: int) -> None:
        """Keep at most ``limit`` cells of each member, over all relations."""
        at = {name: found.entities.index(self.problem.protected) for name, found in sent.items()}
        whose = [found.indices[:, at[name]] for name, found in sent.items()]
        for name, mask in zip(sent, bounded_cells(whose, limit, self._rng), strict=True):
            sent[name] = sent[name].subset(np.flatnonzero(mask))

    # -- rounds ----------------------------------------------------------------------------

    def contribute(
        self,
        step: Step,
        asked: Asked,
        kept: Mapping[str, Any],
        shard: Mapping[str, Relation],
        picks: Integers,
    ) -> Integers:
        """Return the counts of all cells that are sent; of the second request, a mere nod."""
        if step.name == "learned":
            self._place(asked)
            return np.ones(1, np.int64)
        counts = [found.values.astype(np.int64) for found in shard.values()]
        return np.concatenate([*counts, np.empty(0, np.int64)])

    def mechanism(self, step: Step, value: Any) -> TwoSidedGeometric:
        """Return the noise on this site's cells; the price is that of the step."""
        return self.agreement.mechanism(len(value))

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the perturbed cells of every relation, or that what came was taken in."""
        if step.name == "learned":
            return {"done": released}
        noisy, (sent,) = np.clip(released, -LARGEST, LARGEST), self.shards
        reply: dict[str, Any] = {"members": np.array([self.members])}
        start = 0
        for name in self.problem.bounds:
            if name not in sent:
                reply[name] = np.empty((0, len(self.problem.modes(name)) + 1), np.int64)
                continue
            part = noisy[start : start + sent[name].cells]
            reply[name] = np.column_stack([sent[name].indices.astype(np.int64), part])
            start += sent[name].cells
        return reply

    def settle(self, step: Step, asked: Asked, released: Any, kept: dict[str, Any]) -> None:
        """Keep draws of the factors that this site predicts with; they stay here."""
        if step.name != "learned":
            return
        me, agreement = self._place(asked), self.agreement
        if agreement.method.views == "perturbed":
            layout = SiteLayout(self.problem, asked.arrays["members"].tolist())
            found = {n: asked.arrays[f"draws/{layout.factor(n, me)}"] for n in self._factors()}
            draws = {n: array[:, layout.rows(n, me)] for n, array in found.items()}
        else:
            views = [
                {n: asked.arrays[f"view/{k}/{n}"] for n in self.problem.bounds}
                for k in range(len(from_text(asked.arrays["sites"])))
            ]
            members = asked.arrays["members"][: len(views)].tolist()
            others: list[Mapping[str, Relation]] = [*agreement.relations(views, members)]
            others += agreement.opened_members()
            noises = agreement.noises(from_text(asked.arrays["sites"]))
            level = levels_of(self.problem, noises, others)
            others[me] = self.counts
            learned = learn(agreement.method, self.problem, noises, others, me, level, self._rng)
            layout = SiteLayout(self.problem, members_of_sites(self.problem, others))
            draws = {n: learned.draws[layout.factor(n, me)] for n in self._factors()}
        kept.update({f"draws/{name}": array for name, array in draws.items()})

    def _place(self, asked: Asked) -> int:
        """Return which of the sites this one is."""
        names = from_text(asked.arrays["sites"])
        if self.name not in names or len(names) > self.problem.sites:
            raise RequestRefused("the coordinator did not use what was sent")
        return names.index(self.name)

    def _factors(self) -> list[str]:
        """Return the factors of the site's relations."""
        model = self.problem.model
        return list(dict.fromkeys(f for name in self.counts for f in model.names(name)))

    def _rows(self, factor: str) -> int:
        own = max(self.members, 1) if factor == self.problem.protected else 1
        return self.problem.sizes.get(factor, own)

    def own(self) -> Arrays:
        """Return the draws that the site predicts with."""
        return {f"draws/{name}": draws for name, draws in self._draws().items()}

    def _draws(self) -> Arrays:
        """Return the draws that were kept, unless they are not about this site's members."""
        nothing = np.empty((0, 0, 0))
        draws = {n: self.kept.get(f"draws/{n}", nothing) for n in self._factors()}
        if any(found.shape[1] != self._rows(n) for n, found in draws.items()):
            raise ParameterError("nothing was learned that this site could predict with")
        return draws

    # -- afterwards ------------------------------------------------------------------------

    def resume(self, own: Factors, shared: Factors) -> None:
        """Go on with draws that were kept; rows of new members are drawn from their counts."""
        owner, kept = self.problem.protected, {n: np.asarray(draws) for n, draws in own.items()}
        known = kept.get(f"draws/{owner}")
        if known is not None and known.shape[1] < self._rows(owner):
            others = {n: kept[f"draws/{n}"] for n in self._factors() if n != owner}
            rows = self._learned_rows(others, shared)
            kept[f"draws/{owner}"] = np.concatenate([known, rows[:, known.shape[1] :]], axis=1)
        self.kept.update(kept)
        self._draws()

    def adopt(self, shared: Factors) -> None:
        """Take in draws of the shared factors, and draw members' rows from their raw counts."""
        draws, owner = draws_of(shared), self.problem.protected
        if PRIOR not in shared:
            raise ParameterError("perturbed counts are adopted with their draws: pass shared_")
        others = {}
        for name in self._factors():
            if name == owner:
                continue
            if name not in draws:
                raise stayed(name)
            rows, columns = self._rows(name), self.problem.columns(name)
            if draws[name][:1].size != rows * columns or len(draws[name].shape) < 3:
                raise not_about(name, rows)
            others[name] = draws[name].reshape(-1, rows, columns)
        self.kept.update({f"draws/{name}": found for name, found in others.items()})
        if owner in self._factors():
            self.kept[f"draws/{owner}"] = self._learned_rows(others, shared)

    def _learned_rows(self, others: Factors, shared: Factors) -> Floats:
        """Return rows of all members, given draws of the other factors."""
        shape, mean = (float(number) for number in shared[PRIOR])
        return learn_rows(self.problem, self.counts, others, (shape, mean), self._rng)

    def rows(self) -> Floats:
        """Return the posterior mean of every member's row."""
        draws = self._draws()
        if self.problem.protected not in draws:
            raise ParameterError(f"site {self.name!r} has no members of its own")
        return np.asarray(draws[self.problem.protected].mean(axis=0))

    def modes(self, relation: str) -> tuple[str, ...] | None:
        """Return the entities of a relation in the order of its form, in which counts are kept."""
        return self.counts[relation].entities if relation in self.counts else None

    def predict(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the expected values of cells, within the bounds."""
        if self._rests_on_own(relation):
            self._check(relation, cells)
            expected = self.problem.bounds[relation][0] + self._by_own_rates(relation, cells)
        else:
            expected = self._drawn_at(relation, cells).mean(axis=0)
        return np.asarray(np.clip(expected, *self.problem.bounds[relation]))

    # -- own cells first -------------------------------------------------------------------

    def _rests_on_own(self, relation: str) -> bool:
        """Whether predictions of a relation rest on what members' own counts say."""
        own = self.agreement.method.own_effects and relation in self.counts
        return own and self.problem.protected in self.counts[relation].entities

    def _by_own_rates(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return rates from the site's own counts, beside what draws of the factors say."""
        means = {n: found.mean(axis=0) for n, found in self._draws().items()}
        if self._own is None:
            self._own = OwnRatesModel(
                {n: self._seen(n, means) for n in self.counts if self._rests_on_own(n)}
            )
        return self._own.predict(relation, cells, self._told(relation, means, cells))

    def _told(self, relation: str, means: Factors, cells: NDArray[np.int32]) -> Floats:
        """Return what the other factors say of cells, by column of a member's row."""
        owner, bound = self.problem.protected, self.problem.bound(self.counts)
        found = []
        for k in range(means[owner].shape[1]):
            rows = np.zeros_like(means[owner])
            rows[:, k] = 1.0
            found.append(estimates_at(bound, relation, {**means, owner: rows}, cells))
        return np.column_stack(found)

    def _seen(self, relation: str, means: Factors) -> Seen:
        """Return a relation's counts beside what the other factors say of them."""
        counts, model = self.counts[relation], self.problem.model
        sites = self._sites_like_this(float(counts.values.mean()) if counts.cells else 0.0)
        per_site = {f: means[f].shape[1] / sites for f in model.names(relation)}
        modes, cells = counts.entities, counts.indices
        leverage = leverage_of(
            cells,
            {m: per_site[f] for m, f in enumerate(modes) if f != self.problem.protected},
            sum(n for f, n in per_site.items() if f not in modes),
        )
        told = self._told(relation, means, cells)
        owner = modes.index(self.problem.protected)
        nothing = np.zeros(len(cells))
        return Seen(cells, counts.shape, owner, counts.values, nothing, told, 1.0, leverage)

    def _sites_like_this(self, mean: float) -> float:
        """Return how many sites' cells factors were learned from, each as good as those here.

        One that learned from its own counts had noise on all others': a count of variance λ tells
        λ/(λ + noise) as much then.
        """
        sites, share = max(1, self.problem.sites), 1.0
        if self.agreement.method.views == "own" and self.problem.noisy:
            share = mean / max(mean + self.agreement.mechanism(0).variance(), 1e-300)
        return 1.0 + (sites - 1) * share

    def _check(self, relation: str, cells: NDArray[np.int32]) -> None:
        """Raise unless cells are of a relation of this site."""
        if relation not in self.counts:
            raise ParameterError(f"site {self.name!r} has no relation {relation!r}")
        check_cells(relation, cells, self.counts[relation].shape)

    def own_draws(self) -> Arrays:
        """Return the draws that the site predicts with."""
        return self._draws()

    def draws_at(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the rate at cells by draw; they spread about what is expected."""
        drawn = self._drawn_at(relation, cells)
        if not self._rests_on_own(relation):
            return drawn
        low, _ = self.problem.bounds[relation]
        mean = np.maximum(drawn.mean(axis=0) - low, 1e-300)
        return np.asarray(low + (drawn - low) * (self._by_own_rates(relation, cells) / mean))

    def _drawn_at(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the rate at cells by draw, of what was learned together."""
        self._check(relation, cells)
        draws, found = self._draws(), self.counts[relation]
        low, _ = self.problem.bounds[relation]
        rates = estimates_of_draws(self.problem.bound({relation: found}), relation, draws, cells)
        return low + rates
