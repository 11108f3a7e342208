"""`LangevinAgreement`: private stochastic gradient Langevin dynamics over sites.

Source: Ermiş (2020), Algorithms 1 and 2, with the changes of PRIVACY B1.

**What leaves a site.** In every round a site draws a Poisson sample of its units from the secret
stream, adds up the clipped gradients of the sampled units
(`tacit.factorization.langevin.numerics.clipped_gradients`), and passes the sum over *all* gated
factors through the gate as one Gaussian release. Only the shared factors' part is sent; the rest
is the site's own released state. Everything the next round depends on is that release, or came
from the coordinator.

**Sensitivity.** ``unit="entry"``: all factors are gated, the protected entity's included. Given
them, one entry contributes one gradient, scaled to a norm of at most G after all its factors are
put together. ``unit="user"``: the protected entity's factor is not kept at all; a user's row is
solved anew from its own cells and the gated factors, and the user's gradient over all other
factors is scaled to G. Entries that are replaced are protected that way too, where every private
relation names the users (`Langevin.clipped`): a replaced value replaces its user's contribution by
another, as a replaced user would. Either way the sum, given earlier releases, is
Σ f(unit; released) over the sample with ‖f‖ ≤ G: adding or removing a unit moves it by at most G
(rounding included), and replacing one swaps one f for another, which the accountant treats as the
Poisson-sampled Gaussian under replacement. Every round is an adaptive Gaussian release, and rounds
compose.

**Any request.** f is scaled after it was computed, whatever the factors are that a coordinator
sends, and one whose squared norm is not below 1e300 counts as nothing. Factors are asked to lie
within ±2^100 (not below 0 for KL) all the same: products of nine of them are finite, so that no
unit is left out for another reason than its own gradient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from tacit._core.lazy import late
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.factorization.agreement import FactorizationAgreement, public_inputs
from tacit.factorization.arrays import Arrays
from tacit.factorization.draws import summarised
from tacit.factorization.langevin.method import Langevin, can_offset, sent_factors
from tacit.factorization.langevin.numerics.clipped_gradients import (
    CellTable,
    Layout,
    cell_table,
    entry_sums,
)
from tacit.factorization.langevin.numerics.steps import StepRule, Walk
from tacit.factorization.langevin.scales import (
    TYPICAL,
    factor_scales,
    fresh_values,
    relation_scale,
    relation_weight,
)
from tacit.factorization.offsets.numerics.pooling import shares_of_gradients
from tacit.factorization.together.neighbours import farthest_cells, small_problems
from tacit.factorization.together.people import PUBLIC_MEMBERS, with_public_members
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.sampled import PoissonSampled
from tacit.privacy.calibration import calibrate
from tacit.privacy.events import REPLACE, DpEvent, GaussianDpEvent, PoissonSampledDpEvent, repeat
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec, Size
from tacit.rounds.sides import Collected, Participant

__all__ = ["LangevinAgreement"]

_LARGEST = 2.0**100  # of a factor's entries in a request
_DRAWS = 50  # iterates that are kept, at most
_MOST_MEMBERS = 10**8  # of the protected entity at one site


@dataclass(frozen=True)
class LangevinAgreement(FactorizationAgreement):
    """The rounds of Langevin dynamics over sites."""

    cites = ("wang2015", "ermis2020")

    method: Langevin

    # -- what is public --------------------------------------------------------------------

    @cached_property
    def sent(self) -> tuple[str, ...]:
        """The shared factors that sites send gradients of."""
        return sent_factors(self.problem)

    @cached_property
    def kept(self) -> tuple[str, ...]:
        """The factors whose gradients are released to their site alone."""
        solved = self.problem.protected if self.by_user else None
        return tuple(n for n in self.problem.used if n not in self.sent and n != solved)

    @property
    def by_user(self) -> bool:
        """Whether all cells of a user are one contribution."""
        return self.method.by_user(self.problem)

    @property
    def has_offsets(self) -> bool:
        """Whether columns are held constant for offsets."""
        if self.method.offsets == "auto":
            return self.problem.is_matrix and can_offset(self.problem)
        return bool(self.method.offsets)

    def fixed_columns(self, factor: str) -> dict[int, float]:
        """Return the columns of a factor that are held constant, with their values.

        Column 0 of the protected entity and column 1 of every factor beside it are ones: column 0
        of the others then holds their offsets, and column 1 of the protected entity its own.
        """
        problem = self.problem
        if not self.has_offsets:
            return {}
        if factor == problem.protected:
            return {0: 1.0}
        beside = any(
            factor in problem.model.names(name) and problem.protected in problem.model.names(name)
            for name in problem.model.forms
        )
        return {1: 1.0} if beside else {}

    @cached_property
    def rule(self) -> StepRule:
        """How factors move."""
        method, scales = self.method, factor_scales(self.problem)
        return StepRule(
            real=0.0 in self.problem.model.powers.values(),
            scales=scales,
            fixed={name: self.fixed_columns(name) for name in scales},
            step_size=method.step_size,
            decay=method.decay,
            reach=method.reach,
            langevin=method.langevin,
            first=int(method.burn_in * method.rounds),
            precision=method.precision,
            shape=method.shape,
            mean=method.mean,
            every=-(-(method.rounds - int(method.burn_in * method.rounds)) // _DRAWS),
        )

    def walk(self, values: Arrays, seed: int) -> Walk:
        """Return factors that move along released gradients."""
        return Walk(self.rule, values, seed)

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def clip(self) -> float:
        """G: the method's, or an eighth of the typical gradient at the factors' public scale.

        That gradient is a residual of 0.4 (values mapped to [−1, 1]; KL: a slope of one) times the
        norm of the products of the other factors' rows, for the weight 1/φ. A user's cells add up;
        their number is private, so it is taken to be √(cells that a user can have). Most gradients
        are then clipped: steps adapt to the length of the sum, so that only directions count, and
        the noise is as small as the clip.
        """
        problem, limit = self.problem, self.method.limit
        if self.method.clip is not None:
            return self.method.clip
        norms = []
        for name, (low, high) in problem.bounds.items():
            tokens, scale = problem.model.forms[name], relation_scale(problem, name)
            combinations = problem.model.combinations(name)
            row = scale ** (len(tokens) - 1) * math.sqrt(combinations * len(tokens))
            slope = TYPICAL if problem.model.powers[name] == 0.0 else 1.0
            norm = slope * row * relation_weight(problem, name, low, high)
            if self.by_user:
                cells = math.prod(problem.sizes.get(f, 1) for f, _ in tokens)
                cells = min(cells, (limit or cells) ** 2)
                norm *= math.sqrt(math.sqrt(cells))
            norms.append(norm)
        return max(norms) / 8.0

    def multiplier(self, round: int) -> float:
        """Return the noise multiplier of a round, 0 where there is no noise."""
        privacy = self.problem.calibrated
        if not self.problem.noisy or privacy is None:
            return 0.0
        method, accountant = self.method, self.problem.accountant
        return _calibrated(privacy, method.sampling_rate, method.rounds, self.clip, accountant)

    def mechanism(self, round: int, size: int) -> PoissonSampled:
        """Return the release of one round of ``size`` numbers.

        Sites release vectors of different lengths, yet one price holds for all: scale and event
        follow from G alone, and the clip of a unit is G less what rounding to the grid may add.
        """
        inner = Gaussian.within(self.multiplier(round), self.clip, (size,))
        return PoissonSampled(inner, self.method.sampling_rate, self.problem.neighbours)

    def step_name(self, round: int) -> str:
        """Return the name of the step that a round asks for."""
        return "round"

    def _steps(self) -> tuple[Step, ...]:
        return (self._step("round", 0, self.method.rounds),)

    def _step(self, name: str, round: int, times: int) -> Step:
        problem = self.problem
        shapes = {n: (self._rows(n), problem.columns(n)) for n in (*self.sent, *self.kept)}
        mechanism = self.mechanism(round, sum(math.prod(shapes[n]) for n in self.sent))
        low = -_LARGEST if self.rule.real else 0.0
        asks = {f"factor/{n}": ArraySpec(shapes[n], low=low, high=_LARGEST) for n in self.sent}
        exponent = mechanism.mechanism.grid.exponent
        sizes = {n: Size(n, _MOST_MEMBERS) for n in self.kept if n == problem.protected}
        replies = {
            f"gradient/{n}": ArraySpec((sizes.get(n, rows), columns), exponent=exponent)
            for n, (rows, columns) in shapes.items()
        }
        reach: float | str = 1.0
        if self.by_user and problem.neighbours == REPLACE:
            reach = "a user's gradient is even in its values: two users' are rarely opposite"
        sent = tuple(f"gradient/{n}" for n in self.sent)
        return Step(name, mechanism, asks, replies, times, sent=sent, reach=reach)

    def _rows(self, factor: str) -> int:
        return self.problem.sizes.get(factor, 1)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Bounds and sizes, the clip, and what stays at a site."""
        what = "user's" if self.by_user else "entry's"
        notes = [
            f"each {what} gradient is clipped to {self.clip:g} and sampled with probability "
            f"{self.method.sampling_rate:g} in each of {self.method.rounds} rounds"
        ]
        if not self.by_user:
            notes.append(
                f"the factor of {self.problem.protected!r} follows from releases until the end; "
                "what a site then solves from its raw data for its own predictions stays there"
            )
        if self.method.start is not None:
            notes.append("the factors that it starts from were chosen without looking at the data")
        return public_inputs(self.problem, self.together) + tuple(notes)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its relations."""
        made: Participant = late(f"{__package__}.sides").LangevinSite(
            self, name, data, gate, generator(seed, f"site {name}")
        )
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Move the shared factors along the sum of all gradients; return where they were."""
        side, rate = self._public_members(start.seed), self.method.sampling_rate
        # whose sum is of all of them: sites' sums are of samples
        return with_public_members(self._coordinate(start), side, rate, apart=self.apart)

    def _public_members(self, seed: int) -> Any:
        """Return the side of members who are public, without noise; None where nobody is."""
        problem, privacy = self.problem, self.problem.privacy
        if not problem.open:
            return None
        asked = None if privacy is None else privacy.with_epsilon(math.inf)
        method = replace(self.method, sampling_rate=1.0)
        free = replace(self, method=method, problem=replace(problem, privacy=asked, table=None))
        return free.holder(PUBLIC_MEMBERS, problem.open, Gate(None, Noise("grid")), seed)

    def _coordinate(self, start: Start) -> Coordinating:
        walk, table = self._begin(generator(start.seed, "coordinator"))
        if start.state is not None:
            walk.restore(start.state)
        low = -_LARGEST if self.rule.real else 0.0
        while walk.moves < self.method.rounds:
            theta: dict[str, Any] = {
                f"factor/{n}": np.clip(walk.values[n], low, _LARGEST) for n in self.sent
            }
            found = yield Ask(self.step_name(walk.moves), keep=walk.state(), **theta)
            self._move(walk, table, found)
        average, draws = walk.average(), walk.draws()
        names = [name for name in average if name in self.problem.shared]
        return summarised({n: draws[n] for n in names}) | {n: average[n] for n in names}

    def _begin(self, rng: np.random.Generator) -> tuple[Walk, CellTable | None]:
        """Return the shared factors where they start, and the cells of public relations."""
        problem = self.problem
        shapes = {name: (self._rows(name), problem.columns(name)) for name in self.sent}
        bound = problem.bound(problem.public) if problem.public else None
        if bound is not None:
            shapes |= {n: spec.table for n, spec in bound.factors.items()}
            wrong = [n for n in self.sent if shapes[n][0] != self._rows(n)]
            if wrong:
                raise ParameterError(
                    f"public data and sites disagree about the members of {wrong[0]!r}"
                )
        values = fresh_values(problem, shapes, rng)
        for name, given in (self.method.start or {}).items():
            if name not in values or np.shape(given) != values[name].shape:
                raise ParameterError(
                    f"start names {name!r} with shape {np.shape(given)}: the shared factors are "
                    f"{ {n: v.shape for n, v in values.items()} }"
                )
            values[name] = np.array(given, np.float64)
        walk = self.walk(values, int(rng.integers(2**62)))
        if bound is None:
            return walk, None
        cells = {}
        for relation in bound.relations:
            listed = problem.public[relation.name].listed()
            cells[relation.name] = (listed.indices, listed.values, 1.0 / relation.dispersion)
        return walk, cell_table(bound, cells, Layout(shapes))

    def _move(self, walk: Walk, table: CellTable | None, found: Collected) -> None:
        rate = self.method.sampling_rate
        gradients, variances = self._gathered(walk.moves, found)
        gradients = {n: gradient / rate for n, gradient in gradients.items()}
        if table is not None:
            layout = Layout({n: theta.shape for n, theta in walk.values.items()})
            theta = layout.vector(walk.values)
            every = np.ones(table.widths.shape, bool)
            picks = np.arange(len(table.values))
            sums = entry_sums(picks, table, theta, np.ones(len(theta)), every, math.inf, 0.0)
            for name in walk.values:
                part = layout.view(sums, name)
                gradients[name] = gradients[name] + part if name in gradients else part
        most = dict.fromkeys(gradients, max(variances.values()))
        walk.move(gradients, {n: v / rate**2 for n, v in (most | variances).items()})

    def _gathered(self, round: int, found: Collected) -> tuple[Arrays, dict[str, float]]:
        """Return the gradient of every shared factor over all sites, and its noise's variance.

        Where sites have noise of their own each counts with a weight of at most one
        (`offsets.numerics.pooling`): that of its data in the likelihood, so that none counts more
        than it has.
        """
        names = [f"gradient/{n}" for n in self.sent]
        if not self.apart or found.by_site is None:
            noise = len(found.sites) * self._deviation(round) ** 2
            whole = {n: found.total[a] for n, a in zip(self.sent, names, strict=True)}
            return whole, dict.fromkeys(self.sent, noise)
        noises = np.array([self._noise_at(site, round) for site in found.sites])
        gradients, variances = {}, {}
        for name, array in zip(self.sent, names, strict=True):
            each = np.array([found.by_site[site][array] for site in found.sites])
            shares = shares_of_gradients(each, noises)
            gradients[name] = np.asarray(np.tensordot(shares, each, 1))
            variances[name] = float(shares**2 @ noises)
        return gradients, variances

    def _deviation(self, round: int) -> float:
        """Return the standard deviation of a site's noise."""
        return self.multiplier(round) * self.clip if self.problem.noisy else 0.0

    def _noise_at(self, site: str, round: int) -> float:
        """Return the variance of the noise of one site."""
        return 0.0 if site == PUBLIC_MEMBERS else self.at(site)._deviation(round) ** 2

    # -- audits and contracts --------------------------------------------------------------

    def worst_case(self) -> Neighbours:
        """One member of one site with all cells, or one cell."""
        return farthest_cells(self.problem)

    @classmethod
    def examples(cls) -> Iterator[Agreement]:
        """Every unit and relation, either divergence, one relation and several, sampled or not."""
        for problem in small_problems(trusts=("site", "central"), delta=1e-4):
            yield Langevin(rounds=2, clip=0.01, iterations=3).agree(problem)
        matrix = next(small_problems(trusts=("site",), delta=1e-4))
        yield Langevin(rounds=2, sampling_rate=0.5, limit=2).agree(matrix)
        assert matrix.privacy is not None
        own = replace(matrix, privacy=replace(matrix.privacy, by_site={"site": 0.5}))
        yield Langevin(rounds=2, clip=0.01).agree(replace(own, names=("site",)))
        yield Langevin(rounds=2, clip=0.01, rows="drawn").agree(matrix)
        for problem in small_problems(trusts=("site",), delta=1e-4):
            if problem.unit == "entry":
                yield Langevin(rounds=2, clip=0.01, clipped="entry").agree(problem)


@lru_cache(maxsize=64)
def _calibrated(privacy: Privacy, rate: float, rounds: int, clip: float, accountant: str) -> float:
    """Return the least noise whose very events meet the guarantee.

    An accountant's ε is not monotone in the last digits: it is asked about what will be charged.
    """

    def event(noise: float) -> DpEvent:  # as `Gaussian.within` has it
        multiplier = noise * clip * (1.0 + 2.0**-50) / clip
        one = PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier), str(privacy.neighbours))
        return repeat(one, rounds)

    return calibrate(event, privacy.epsilon, privacy.delta, accountant=accountant)
