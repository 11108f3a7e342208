"""`LocalCounts`: every site perturbs its counts once; factors are learned from what was sent.

**Privacy.** A site's observed cells hold whole numbers, brought into public bounds one by one, and
are sent once with two-sided geometric noise (Ghosh et al. 2009), P(τ) ∝ α^|τ|, α = exp(−ε/S).
Everything after that, at the coordinator and at other sites, works on what was sent. S is the
largest L1 change of the numbers that are sent, the cells themselves being public:

- ``unit="entry"``: one value is replaced by another one within its bounds, S = max (high − low)
  over the relations. ε is *per cell*: somebody with n cells has n·ε at worst.
- ``unit="user"``: all values of one user are replaced. At most c cells of a user are sent, drawn
  without a look at the values, so S = c·max (high − low). Which cells a user has is no secret here
  either, and a user who is added or removed would show: only replace-one is offered.

**Inference.** Counts above the lower bound, x − low, are Poisson given gamma factors; the counts
behind the perturbed ones are drawn along with the factors (`tacit.inference.local`). With
``views="perturbed"`` the coordinator does this for all sites (LDP1 of Ermiş 2020), with ``"own"``
each site does it with its own counts as they are and the others' perturbed (LDP2).

**Prior.** Unless given, it follows from public facts and from what was released. With m the mean
of the perturbed numbers, F factors to a relation and R latent combinations, factor entries have
the mean B with R·B^F = m. Their shape A has ((1 + 1/A)^F − 1)/R = c²·I/(1 + I):

- c = (Δ/m − 1)/2, kept within [0.1, 3]: the prior's mean plus two standard deviations of a rate
  reaches the upper bound;
- I = n·(c·m)²/(v + m), what the n cells of one member say about such a spread through noise of
  variance v. Differences that the noise hides cannot be learned; sampling them all the same would
  only leave the sampler's own error in the predictions.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.joint import JointCoordinator, JointMethod, Problem, SitePart
from tacit.inference.engine import Expanded
from tacit.inference.local import LocalGibbsSampler
from tacit.inference.sweep import estimate_cells
from tacit.mechanisms.additive import TwoSidedGeometric
from tacit.mechanisms.base import privatize
from tacit.mechanisms.clipping import bound_contributions, clip_values
from tacit.models.structure import CoupledModel
from tacit.privacy.events import REPLACE, DpEvent
from tacit.rounds.messages import ArraySpec, Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation
    from tacit.rounds.protocol import Collected

    Arrays = dict[str, NDArray[np.float64]]

__all__ = ["LocalCounts"]

_LARGEST = 10**9  # of a perturbed count: what is beyond is cut off, far out in the tail
_MOST_MEMBERS = 10**8  # of the protected entity at one site
_SPREAD = (0.1, 3.0)  # of the prior's rate, relative to its mean


@dataclass(frozen=True)
class LocalCounts(JointMethod):
    """Learn from counts that every site perturbed once (LDP1 and LDP2).

    Parameters
    ----------
    views
        ``"perturbed"``: everybody learns from perturbed counts, also about their own users (LDP1).
        ``"own"``: each site learns from its own counts and the others' perturbed ones (LDP2); what
        it learns stays there.
    inference
        ``"exact"``: the counts are unknown, and drawn. ``"naive"``: the perturbed ones are taken
        for counts, negative ones for zero.
    cells
        For a guarantee per user: the most cells of a user that are sent. None: ε is per cell.
    shape, mean
        The gamma prior of every factor entry; None follows the rule in this module's docstring.
    burn_in, draws, thin
        Steps that are dropped first, draws that are kept, and steps from one to the next.

    Examples
    --------
    >>> import tacit as tc
    >>> counts = np.random.default_rng(0).poisson(3.0, (20, 10)).astype(float)
    >>> model = tc.CoupledFactorization(
    ...     "user:k item:k", rank=2, divergence="kl", bounds=(0, 10), random_state=0,
    ...     method=LocalCounts(burn_in=10, draws=10, thin=1),
    ...     privacy=tc.Privacy(1.0, unit="entry", trust="local"))
    >>> fitted = model.fit([tc.Site("north", counts[:12]), tc.Site("south", counts[12:])])
    >>> fitted.predict("south", [[0, 0], [7, 9]]).shape
    (2,)
    >>> round(fitted.certificate_.epsilon, 6), fitted.certificate_.unit
    (1.0, 'entry')
    """

    views: str = "perturbed"
    inference: str = "exact"
    cells: int | None = None
    shape: float | None = None
    mean: float | None = None
    burn_in: int = 100
    draws: int = 50
    thin: int = 6

    def __post_init__(self) -> None:
        check("views", self.views, OneOf("perturbed", "own"))
        check("inference", self.inference, OneOf("exact", "naive"))
        check("cells", self.cells, AnyOf(Integer(1), None))
        check("shape", self.shape, AnyOf(Real(0, open_low=True), None))
        check("mean", self.mean, AnyOf(Real(0, open_low=True), None))
        check("burn_in", self.burn_in, Integer(0))
        check("draws", self.draws, Integer(1))
        check("thin", self.thin, Integer(1))

    def check(self, problem: Problem) -> None:
        """Raise where the method cannot solve the problem as it is stated."""
        model = problem.model
        for name, (low, high) in problem.bounds.items():
            if model.powers[name] != 1.0 or model.dispersions[name] != 1.0:
                raise ParameterError(
                    f"perturbed counts need a Poisson–gamma model: pass divergence='kl' and "
                    f"dispersion 1 for relation {name!r}"
                )
            if low != math.floor(low) or high != math.floor(high):
                raise ParameterError(
                    f"bounds of {name!r} must be whole numbers: {low:g}, {high:g}"
                )
            entities = [factor for factor, _ in model.forms[name]]
            if self.cells is not None and problem.protected not in entities:
                raise ParameterError(
                    f"relation {name!r} says nothing about {problem.protected!r}, whom the budget "
                    "is split for: pass it as public, or cells=None for a guarantee per cell"
                )
        if problem.calibration != "certified":
            raise ParameterError(
                "local counts have no published calibration but the certified one"
            )
        self._check_privacy(problem)

    def _check_privacy(self, problem: Problem) -> None:
        privacy = problem.privacy
        if privacy is None:
            return
        if privacy.unit not in ("entry", "user"):
            raise ParameterError(
                f"privacy.unit must be 'entry' (ε per cell) or 'user', got {privacy.unit!r}"
            )
        if (privacy.unit == "user") != (self.cells is not None):
            raise ParameterError(
                "unit='user' and a bound on a user's cells go together: pass "
                "LocalCounts(cells=…), the most cells of a user that are sent, or unit='entry' "
                "for ε per cell"
            )
        if privacy.neighbours != REPLACE:
            raise ParameterError(
                "which cells are observed shows when counts are perturbed one by one: pass "
                "neighbours='replace-one'"
            )
        if privacy.trust not in ("local", "site"):
            raise ParameterError(f"privacy.trust must be 'local' or 'site', got {privacy.trust!r}")
        mechanism = self.mechanism(problem)
        if mechanism.sensitivity > 1e7 * mechanism.epsilon:
            raise ParameterError(
                f"ε = {mechanism.epsilon:g} for a change of {mechanism.sensitivity} needs noise "
                "of more than 1e7: nothing could be learned from it"
            )

    def mechanism(self, problem: Problem, cells: int = 0) -> TwoSidedGeometric:
        """Return the noise on a number of cells, calibrated to the request."""
        widest = max(int(high - low) for low, high in problem.bounds.values())
        epsilon = math.inf if problem.privacy is None else problem.privacy.epsilon
        return TwoSidedGeometric(epsilon, widest * (self.cells or 1), (cells,))

    def schedule(self, problem: Problem) -> DpEvent:
        """Return the one release of a site: all its cells at once, in parallel."""
        return self.mechanism(problem).event

    def coordinator(
        self, problem: Problem, public: Mapping[str, Relation], rng: np.random.Generator
    ) -> JointCoordinator:
        """Return the coordinator."""
        return _Coordinator(self, problem, public, rng)

    def part(
        self,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> SitePart:
        """Return a site's part."""
        return _Part(self, problem, name, relations, reservation, noise, rng)

    def assumptions(self, problem: Problem) -> tuple[str, ...]:
        """Return what is public, what ε means, and what stays at a site."""
        notes = ["values are rounded to whole numbers",
                 f"how many members of {problem.protected!r} a site has is public"]  # fmt: skip
        if self.cells is None:
            notes.append(
                "ε is per cell: whoever has n observed cells is protected by n·ε at worst"
            )
        else:
            notes += [
                f"which cells a member of {problem.protected!r} has is public: what is protected "
                "is all of their values",
                f"at most {self.cells} cells of a member are sent, drawn at random",
            ]
        if problem.privacy is not None and problem.privacy.trust == "local":
            notes.append("whoever runs a site is taken for the person, and sees its raw values")
        if self.views == "own":
            notes.append(
                "a site's own factors and predictions are made from its raw values: they are not "
                "covered, and stay there"
            )
        return tuple(notes)


# --- what is sent ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _ViewSpec(ArraySpec):
    """Cells with their perturbed counts: one column per mode, the last one for the count."""

    sizes: tuple[int, ...] = ()

    def problem(self, array: NDArray[Any]) -> str | None:
        """Return what is wrong with an array, or None."""
        found = super().problem(array)
        if found is not None or not len(array):
            return found
        cells = array[:, :-1]
        if (cells.min(axis=0) < 0).any() or (cells.max(axis=0) >= self.sizes).any():
            return f"names cells outside of {self.sizes}"
        ordered = cells[np.lexsort(cells.T)]
        if (ordered[1:] == ordered[:-1]).all(axis=1).any():
            return "names a cell twice"
        return None


def _modes(problem: Problem, relation: str) -> list[str]:
    """Return the entities of a relation in the order of its form; the others are cores."""
    return [
        factor for factor, _ in problem.model.forms[relation]
        if factor == problem.protected or factor in problem.sizes
    ]  # fmt: skip


def _own_counts(problem: Problem, relations: Mapping[str, Relation]) -> dict[str, Relation]:
    """Return a site's relations as counts above the lower bound, every observed cell listed."""
    found = {}
    for name, relation in relations.items():
        listed, modes = relation.listed(), _modes(problem, name)
        if sorted(modes) != sorted(listed.entities):
            raise ParameterError(f"relation {name!r} must be over {modes}: {listed.entities}")
        columns = [listed.entities.index(entity) for entity in modes]
        low, high = problem.bounds[name]
        found[name] = Relation(
            tuple(modes), tuple(listed.shape[c] for c in columns),
            np.ascontiguousarray(listed.indices[:, columns]),
            np.floor(clip_values(listed.values, low, high) - low + 0.5),
        )  # fmt: skip
    return found


def _view_relation(problem: Problem, name: str, view: NDArray[np.int64], members: int) -> Relation:
    """Return a perturbed view as a relation."""
    modes = _modes(problem, name)
    cells = view[:, :-1].astype(np.int32)
    shape = [max(members, 1) if e == problem.protected else problem.sizes[e] for e in modes]
    if problem.protected in modes and len(cells):
        at = modes.index(problem.protected)
        shape[at] = max(shape[at], int(cells[:, at].max()) + 1)
    return Relation(tuple(modes), tuple(shape), cells, view[:, -1].astype(np.float64))


def _text(names: Sequence[str]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(list(names)).encode(), np.uint8)


def _names(text: NDArray[np.uint8]) -> list[str]:
    return [str(name) for name in json.loads(text.tobytes())]


# --- inference ---------------------------------------------------------------------------------


class _Learned(NamedTuple):
    """Draws of every factor, (draws, rows, columns), and the shapes of factors for people."""

    draws: Arrays
    shapes: dict[str, tuple[int, ...]]


class _Layout:
    """How the sites' relations become one coupled model.

    Where sites share all factors but that of the protected entity, their relations are stacked:
    one relation, in which each site has its own rows of the protected entity. Otherwise every
    site's relations stand side by side, with names of their own for what is not shared.
    """

    def __init__(self, problem: Problem, members: Sequence[int]) -> None:
        self.problem = problem
        self.starts = np.concatenate([[0], np.cumsum(members)]).astype(np.int64)
        private = {f for name in problem.bounds for f, _ in problem.model.forms[name]}
        self.stacked = private - {problem.protected} <= set(problem.shared)

    def factor(self, name: str, site: int) -> str:
        """Return the name of a site's factor in the joint model."""
        common = name in self.problem.shared or (self.stacked and name == self.problem.protected)
        return name if common else f"{name}@{site}"

    def rows(self, name: str, site: int) -> slice:
        """Return which rows of a factor of the joint model are a site's."""
        if not self.stacked or name != self.problem.protected:
            return slice(None)
        return slice(int(self.starts[site]), int(self.starts[site + 1]))

    def parts(
        self, sites: Sequence[Mapping[str, Relation]]
    ) -> list[tuple[str, list[tuple[int, Relation]]]]:
        """Return the relations of the joint model, each with the sites' parts that it holds."""
        found: list[tuple[str, list[tuple[int, Relation]]]] = []
        for name in self.problem.bounds:
            held = [(k, part[name]) for k, part in enumerate(sites) if name in part]
            if self.stacked and self.problem.protected in _modes(self.problem, name):
                found += [(name, held)] if held else []
            else:
                found += [(name, [entry]) for entry in held]
        # the first relation fixes the size of the factors that a chain starts from
        return sorted(found, key=lambda entry: -sum(part.cells for _, part in entry[1]))

    def joined(self, name: str, held: Sequence[tuple[int, Relation]]) -> Relation:
        """Return the sites' parts as one relation of the joint model."""
        first, part = held[0]
        entities = tuple(self.factor(entity, first) for entity in part.entities)
        values = np.concatenate([part.values for _, part in held])
        cells = np.concatenate([part.indices for _, part in held])
        shape = list(part.shape)
        if self.stacked and self.problem.protected in part.entities:
            at = part.entities.index(self.problem.protected)
            cells[:, at] += np.repeat(
                [self.starts[k] for k, _ in held], [part.cells for _, part in held]
            ).astype(np.int32)
            shape[at] = int(self.starts[-1])
        return Relation(entities, tuple(shape), cells, values)


def _members(problem: Problem, sites: Sequence[Mapping[str, Relation]]) -> list[int]:
    """Return how many members of the protected entity each site has, at least one."""
    return [
        max([1, *(n for found in held.values()
                  for e, n in zip(found.entities, found.shape, strict=True)
                  if e == problem.protected)])
        for held in sites
    ]  # fmt: skip


def _learn(
    method: LocalCounts,
    problem: Problem,
    sites: Sequence[Mapping[str, Relation]],
    raw: int | None,
    public: Mapping[str, Relation],
    level: Mapping[str, tuple[float, int]],
    rng: np.random.Generator,
) -> _Learned:
    """Sample the factors of all sites together.

    Parameters
    ----------
    sites
        Each site's relations: perturbed views, and raw counts for the site number ``raw``, of
        which alone the rows of the protected entity are kept then.
    public
        Relations that are no secret.
    level
        Relation → mean of all perturbed counts and their number, for the prior.
    """
    layout = _Layout(problem, _members(problem, sites))
    forms: dict[str, str] = {}
    data: dict[str, Relation] = {}
    alpha: dict[str, NDArray[np.float64]] = {}
    ratio = method.mechanism(problem).alpha
    for name, held in layout.parts(sites):
        k, joint = held[0][0], f"{name}@{held[0][0]}"
        forms[joint] = " ".join(
            f"{layout.factor(f, k)}:{ks}" for f, ks in problem.model.forms[name]
        )
        data[joint] = layout.joined(name, held)
        alpha[joint] = np.concatenate(
            [np.full(part.cells, 0.0 if site == raw else ratio) for site, part in held]
        )
    for name, found in public.items():
        forms[name] = " ".join(f"{f}:{ks}" for f, ks in problem.model.forms[name])
        data[name] = found
    bound = CoupledModel(forms, problem.model.ranks).bind(data)
    shape, mean = _prior(method, problem, level, sites, raw)
    sampler = LocalGibbsSampler(bound, data, alpha, shape, mean, mode=method.inference)
    kept = {name: slice(None) if raw is None else layout.rows(name, raw) for name in bound.factors}
    draws: Arrays = {
        name: np.empty((method.draws, len(range(spec.rows)[kept[name]]), spec.columns))
        for name, spec in bound.factors.items()
    }
    state = sampler.init(rng)
    for _ in range(method.burn_in):
        state, _info = sampler.step(rng, state)
    for number in range(method.draws):
        for _ in range(method.thin):
            state, _info = sampler.step(rng, state)
        for name, values in state.factors.items():
            draws[name][number] = values[kept[name]]
    return _Learned(draws, {name: spec.shape for name, spec in bound.factors.items()})


def _levels(
    problem: Problem, noise: TwoSidedGeometric, sites: Sequence[Mapping[str, Relation]]
) -> dict[str, tuple[float, int]]:
    """Return the mean of the perturbed counts of every relation, and their number.

    A mean within its own standard error of zero says no more than that.
    """
    found = {}
    for name, (low, high) in problem.bounds.items():
        parts = [relations[name].values for relations in sites if name in relations]
        count = sum(len(values) for values in parts)
        mean = sum(float(values.sum()) for values in parts) / max(count, 1)
        least = max(math.sqrt(noise.variance() / max(count, 1)), 1e-6 * (high - low))
        found[name] = (min(max(mean, least), high - low), count)
    return found


def _prior(
    method: LocalCounts,
    problem: Problem,
    level: Mapping[str, tuple[float, int]],
    sites: Sequence[Mapping[str, Relation]],
    raw: int | None,
) -> tuple[float, float]:
    """Return shape and mean of the prior; several relations are averaged on a log scale."""
    noise = method.mechanism(problem).variance()
    weights, shapes, means = [], [], []
    for name, (mean, count) in level.items():
        tokens = problem.model.forms[name]
        combinations = math.prod(
            problem.model.ranks[k] for k in dict.fromkeys("".join(ks for _, ks in tokens))
        )
        low, high = problem.bounds[name]
        spread = min(max(0.5 * ((high - low) / mean - 1.0), _SPREAD[0]), _SPREAD[1])
        members, precision = 0, 0.0
        for k, relations in enumerate(sites):
            if name in relations:
                found = relations[name]
                precision += found.cells / (mean + (0.0 if k == raw else noise))
                members += sum(
                    n for e, n in zip(found.entities, found.shape, strict=True)
                    if not (members and e in problem.shared)  # counted once
                )  # fmt: skip
        each = precision * len(tokens) / max(members, 1)
        information = each * (spread * mean) ** 2
        variance = spread**2 * max(information / (1.0 + information), 1e-6)
        weights.append(count + 1.0)
        means.append(math.log(mean / combinations) / len(tokens))
        shapes.append(-math.log((1.0 + combinations * variance) ** (1.0 / len(tokens)) - 1.0))
    shape = math.exp(float(np.average(shapes, weights=weights)))
    mean = math.exp(float(np.average(means, weights=weights)))
    return method.shape or shape, method.mean or mean


# --- the two sides ------------------------------------------------------------------------------


class _Part(SitePart):
    """A site: sends its perturbed counts once, then hears what came of them."""

    def __init__(
        self,
        method: LocalCounts,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        self.name, self.method, self.problem = name, method, problem
        self.counts = _own_counts(problem, relations)
        self.members = max(
            (n for r in self.counts.values() for e, n in zip(r.entities, r.shape, strict=True)
             if e == problem.protected), default=0,
        )  # fmt: skip
        self._reservation, self._noise, self._rng = reservation, noise, rng
        self.draws: Arrays | None = None

    def respond(self, request: Message) -> Message:
        """Send the perturbed counts, or learn from what everybody sent."""
        if not request.arrays:
            return Message(request.round, self._perturbed())
        self._take(request)
        return Message(request.round, {"done": np.ones(1, np.int64)})

    def _perturbed(self) -> dict[str, NDArray[np.int64]]:
        """Return the perturbed cells of every relation; the only release there is."""
        sent = {name: self._sent(name) for name in self.counts}
        if self.method.cells is not None:
            self._bound_members(sent, self.method.cells)
        counts = [found.values.astype(np.int64) for found in sent.values()]
        together = np.concatenate([*counts, np.empty(0, np.int64)])
        noisy = privatize(
            self.method.mechanism(self.problem, len(together)), together,
            ledger=self._reservation, rng=self._noise, purpose="perturbed counts",
        )  # fmt: skip
        noisy = np.clip(noisy, -_LARGEST, _LARGEST)
        reply = {"members": np.array([self.members])}
        start = 0
        for name in self.problem.bounds:
            if name not in sent:
                reply[name] = np.empty((0, len(_modes(self.problem, name)) + 1), np.int64)
                continue
            found = sent[name]
            part = noisy[start : start + found.cells]
            reply[name] = np.column_stack([found.indices.astype(np.int64), part])
            start += found.cells
        return reply

    def _sent(self, name: str) -> Relation:
        """Return the cells in their own order: how they are listed says nothing."""
        found = self.counts[name]
        return found.subset(np.lexsort(found.indices.T[::-1]))

    def _bound_members(self, sent: dict[str, Relation], limit: int) -> None:
        """Keep at most ``limit`` cells of each member, over all relations."""
        at = {name: found.entities.index(self.problem.protected) for name, found in sent.items()}
        units = np.concatenate([found.indices[:, at[name]] for name, found in sent.items()])
        kept = bound_contributions(units, limit, self._rng)
        start = 0
        for name, found in sent.items():
            sent[name] = found.subset(np.flatnonzero(kept[start : start + found.cells]))
            start += found.cells

    def _take(self, request: Message) -> None:
        names = _names(request["sites"])
        if self.name not in names:
            raise SiteFailure("the coordinator did not use what was sent")
        me = names.index(self.name)
        if self.method.views == "perturbed":
            layout = _Layout(self.problem, request["members"].tolist())
            found = {n: request[f"draws/{layout.factor(n, me)}"] for n in self._factors()}
            self.draws = {n: draws[:, layout.rows(n, me)] for n, draws in found.items()}
            return
        sites, public = _unpack(self.problem, request)
        level = _levels(self.problem, self.method.mechanism(self.problem), sites)
        sites[me] = self.counts
        learned = _learn(self.method, self.problem, sites, me, public, level, self._rng)
        layout = _Layout(self.problem, _members(self.problem, sites))
        self.draws = {n: learned.draws[layout.factor(n, me)] for n in self._factors()}

    def _factors(self) -> list[str]:
        """Return the factors of the site's relations."""
        forms = self.problem.model.forms
        return list(dict.fromkeys(factor for name in self.counts for factor, _ in forms[name]))

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the draws of the factors that the site predicts with."""
        return dict(self.draws or {})

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up the draws."""
        self.draws = dict(state) or None

    def finish(self, shared: Mapping[str, NDArray[np.float64]]) -> None:
        """All that a site needs came with the last request."""

    def predict(self, relation: str, cells: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the posterior mean of the rate at cells, within the bounds."""
        if relation not in self.counts or self.draws is None:
            raise ParameterError(f"site {self.name!r} has no relation {relation!r}")
        found = self.counts[relation]
        if cells.shape[1] != found.modes:
            raise ParameterError(f"cells must have {found.modes} columns, got {cells.shape[1]}")
        if cells.size and ((cells < 0) | (cells >= found.shape)).any():
            raise ParameterError(f"cells must lie within {found.shape}")
        form = " ".join(f"{f}:{ks}" for f, ks in self.problem.model.forms[relation])
        empty = {relation: found.subset(slice(0, 0))}
        bound = CoupledModel({relation: form}, self.problem.model.ranks).bind(empty)
        total = np.zeros(len(cells))
        for k in range(self.method.draws):
            factors = {name: self.draws[name][k] for name in bound.factors}
            bank = Expanded(bound, factors).banks[relation]
            total += estimate_cells(cells, bank)
        low, high = self.problem.bounds[relation]
        return np.clip(low + total / self.method.draws, low, high)


def _unpack(
    problem: Problem, request: Message
) -> tuple[list[Mapping[str, Relation]], dict[str, Relation]]:
    """Return all sites' perturbed views and the public relations."""
    sites: list[Mapping[str, Relation]] = []
    for k in range(len(_names(request["sites"]))):
        views = {name: request[f"view/{k}/{name}"] for name in problem.bounds}
        members = int(request[f"members/{k}"][0])
        sites.append({
            name: _view_relation(problem, name, view, members) for name, view in views.items()
        })  # fmt: skip
    public = {}
    for name in _names(request["public"]):
        entities, zeros = (
            _names(request[f"public/{name}/entities"]),
            request[f"public/{name}/zeros"],
        )
        public[name] = Relation(
            tuple(entities), tuple(int(n) for n in request[f"public/{name}/shape"]),
            request[f"public/{name}/cells"], request[f"public/{name}/values"],
            "observed" if zeros[0] else "missing", request[f"public/{name}/held_out"],
        )  # fmt: skip
    return sites, public


class _Coordinator(JointCoordinator):
    """Collects the perturbed views once and tells every site what it needs to predict.

    What it tells is kept in its state, so that a resumed run says the same again; whether it was
    told is not: after a restart the sites have to hear it once more.
    """

    def __init__(
        self,
        method: LocalCounts,
        problem: Problem,
        public: Mapping[str, Relation],
        rng: np.random.Generator,
    ) -> None:
        self.method, self.problem, self.public, self._rng = method, problem, dict(public), rng
        self._tell: dict[str, NDArray[Any]] = {}
        self._told = False

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """A perturbed view of every relation at first, then a mere nod."""
        if self._tell:
            return {"done": ArraySpec((1,), "int64", 1, 1)}
        specs: dict[str, ArraySpec] = {"members": ArraySpec((1,), "int64", 0, _MOST_MEMBERS)}
        for name in self.problem.bounds:
            sizes = tuple(
                self.problem.sizes.get(entity, _MOST_MEMBERS)
                for entity in _modes(self.problem, name)
            )
            specs[name] = _ViewSpec(
                (None, len(sizes) + 1), "int64", -_LARGEST, _LARGEST, sizes=sizes
            )
        return specs

    def request(self, round: int) -> Message | None:
        """Ask for views; then tell what came of them, once."""
        return None if self._told else Message(round, self._tell)

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in the views, or note that all sites have heard."""
        if self._tell:
            self._told = True
            return
        assert collected.by_site is not None
        tell: dict[str, NDArray[Any]] = {"sites": _text(collected.sites)}
        for k, site in enumerate(collected.sites):
            reply = collected.by_site[site]
            tell[f"members/{k}"] = reply["members"]
            for name in self.problem.bounds:
                tell[f"view/{k}/{name}"] = reply[name]
        tell["public"] = _text(list(self.public))
        for name, found in self.public.items():
            tell |= {
                f"public/{name}/entities": _text(found.entities),
                f"public/{name}/shape": np.array(found.shape),
                f"public/{name}/cells": found.indices,
                f"public/{name}/values": found.values,
                f"public/{name}/zeros": np.array([found.zeros == "observed"]),
                f"public/{name}/held_out": found.held_out,
            }
        self._tell = tell
        if self.method.views == "perturbed":  # the sites need what was learned
            learned, members = self._learned()
            self._tell = {"sites": tell["sites"], "members": np.array(members)}
            self._tell |= {f"draws/{name}": draws for name, draws in learned.draws.items()}
            self._tell |= {f"shared/{name}": mean for name, mean in self._means(learned).items()}

    def _learned(self) -> tuple[_Learned, list[int]]:
        """Learn from the perturbed views alone; also return each site's members."""
        sites, public = _unpack(self.problem, Message(0, self._tell))
        level = _levels(self.problem, self.method.mechanism(self.problem), sites)
        learned = _learn(self.method, self.problem, sites, None, public, level, self._rng)
        return learned, _members(self.problem, sites)

    def _means(self, learned: _Learned) -> Arrays:
        return {
            name: learned.draws[name].mean(axis=0).reshape(learned.shapes[name])
            for name in self.problem.shared if name in learned.draws
        }  # fmt: skip

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what is told."""
        return self._tell

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on with telling."""
        self._tell, self._told = dict(state), False

    def shared(self) -> Arrays:
        """Return the posterior means of the shared factors, given the perturbed views."""
        if self.method.views == "own":  # nobody else needs them
            return self._means(self._learned()[0])
        return {
            name.removeprefix("shared/"): array
            for name, array in self._tell.items() if name.startswith("shared/")
        }  # fmt: skip
