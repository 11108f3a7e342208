"""What the training of a network releases, and why that is private.

Every step asks for the sum of clipped gradients at given weights θ. A site draws a fresh Poisson
sample of its rows, computes every example's gradient of the loss at θ, clips it, adds up and
releases the sum S with Gaussian noise. Everything else, how the weights move (`dynamics`),
averages, posterior samples and dropout rates, is post-processing by whoever coordinates.

**Sensitivity.** One example more or less changes S by its own clipped gradient, of joint norm at
most √Σ clip² over the layers with clips of their own (PRIVACY B6: one joint Gaussian). So each
step is one event, a Poisson-sampled Gaussian, whatever the network; a run is their composition,
reserved as a whole. This holds *for every θ that is accepted*, those of a hostile coordinator
included: a gradient is a function of one example (`tacit.networks.single_rows`), to the last bit
(`tacit.networks.tiles`), and is rounded to a lattice and clipped after it was computed
(`tacit.networks.exact_gradients`, `tacit.networks.sampled_gradients`). One with a number that is
not finite counts as nothing. Weights, activations and gradients are of float32, norms of float64:
squares of the smallest float32, 1.4e-45, and of the largest, 3.4e38, lie within its range, so no
norm overflows, and none is too small because a square vanished. That is why modules of float64,
whose squares can do both, are refused.

**People with several rows.** Where one person has up to k rows, people are sampled, and not rows:
a person's rows are all in a sample or all out of it, so one person more or less changes S by the
sum of k clipped gradients, of norm at most k·√Σ clip², with probability q. Each step is then the
same event with noise σ·k·√Σ clip². (Sampling rows one by one would put a person into a step with
probability up to 1 − (1 − q)^k.) Every gradient is rounded by itself, which may add half a step of
the grid in each of d coordinates, k times over: the clip of a row leaves that room
(`tacit.networks.sides`).

**Several sites.** Each draws its own secret sample, and a row is at one of them. Under trust
``site`` each adds all of the noise to its own sum. Under trust ``aggregator`` only the total is
seen, and each of at least S sites whose draws the coordinator does not know adds noise of variance
σ²·clip²/S: the total has noise σ·clip at least, and another row at one site moves it by that row's
clipped gradient with probability q, so that the event is that of one holder, whatever the other
sites' samples are. What they hold is a constant of it.

**How sure it may be.** A classifier's last step asks a Poisson sample of the rows about the
network that was learned (`tacit.networks.confidence`): any weights may be asked about, a row adds
a vector of norm at most R whatever they are, and up to k rows of one person k·R. Every row is
rounded by itself, with the room of the rows above.

**Rows that count differently.** A row's weight is cut to [0, W] and its clipped gradient times
that weight is what it adds: at most W·√Σ clip², a function of the row.

**Lost steps.** A step that was claimed by a process that died before its reply was kept is spent,
and its sum is never drawn again: a site answers it with zeros and says that nothing was drawn.
Where its noise is one of several shares it answers with its share alone, on which the other sites'
guarantee rests, and which is noise on a public number.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit._core.lazy import late
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement, Coordinating, Neighbours, Start, Step
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.sampled import PoissonSampled
from tacit.networks.architectures import Given, Perceptron
from tacit.networks.backend import nn, torch
from tacit.networks.confidence import NORM, PARTS
from tacit.networks.dynamics import Dynamics
from tacit.networks.layers import (
    check_clips,
    check_rows_independent,
    check_supported,
    is_linear_stack,
    learning_layers,
    made_up,
)
from tacit.networks.losses import CrossEntropy, SquaredError, loss_text
from tacit.networks.single_rows import RowFunction
from tacit.privacy.calibration import gaussian_event
from tacit.privacy.events import ADD_REMOVE, DpEvent
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

if TYPE_CHECKING:
    from tacit.estimators.gate import Gate

__all__ = ["CONFIDENCE", "STEP", "Examples", "NetworkAgreement", "judged_event", "run_event"]

STEP, CONFIDENCE = "step", "confidence"
_TRIED, _RUN = 1 << 14, 1 << 8  # rows that are tried at once, by a loss and by a network
_ASKED = 1 << 22  # numbers of the last question
_MOST_ROWS = 1 << 17  # of a sample: 2^44 lattice steps each, so that int64 sums have room


class Examples(NamedTuple):
    """What a site holds: one row per example, and where torch computes there.

    ``starts`` says where each person's rows begin, and last how many there are; None: every row
    is a unit of its own. ``weights`` are what rows count, cut to [0, W]; None: one each.
    """

    inputs: Any
    targets: Any
    device: str = "cpu"
    starts: Any = None
    weights: Any = None


@dataclass(frozen=True)
class NetworkAgreement(Agreement):
    """What is asked in every step, and what that costs.

    ``blueprint`` is the network, see `tacit.networks.architectures`; None where only the price is
    asked for, which does not depend on it. ``loss`` maps (outputs, targets) to one loss per
    example, each of its own output alone. ``inputs`` and ``targets`` say in words what is public
    about them, ``names`` what inputs are called, and ``outputs`` how many the network must have
    (any number unless given). ``watch`` is called with the `Progress` at
    the coordinator, ``reports`` times in a run; returning True ends the run early, which still
    costs what was reserved. ``follow`` is called there after every step, with where the run is.

    Examples
    --------
    >>> numbers = Dynamics(steps=7, sampling_rate=0.5, clips=(1.0,), rows=60.0)
    >>> agreement = NetworkAgreement(Perceptron(4, 2), CrossEntropy(), numbers, None)
    >>> [step.name for step in agreement.steps], agreement.rounds, agreement.size
    (['step'], 7, 10)
    """

    family = "networks"
    trusts = ("central", "site", "aggregator")
    cites = ("abadi2016", "ermis2020")
    stoppable = True

    blueprint: Perceptron | Given | None
    loss: Callable[[Any, Any], Any]
    dynamics: Dynamics
    privacy: Privacy | None
    sites: int = 1
    inputs: str = "inputs and targets are what the caller made of each row alone"
    targets: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    examples_in_memory: int | None = None
    watch: Callable[[Any], bool | None] | None = field(default=None, compare=False, repr=False)
    reports: int = field(default=0, compare=False)
    follow: Callable[[Any], None] | None = field(default=None, compare=False, repr=False)
    outputs: int | None = None

    # -- the network -----------------------------------------------------------------------

    def build(self, rng: Any = None) -> nn.Module:
        """Return a network; what it would learn is anything unless a generator is given."""
        if self.blueprint is None:
            raise ParameterError("there is no network yet: pass the data, or how wide they are")
        return self.blueprint.build(generator(0, "start") if rng is None else rng)

    @cached_property
    def found(self) -> dict[Any, Any]:
        """What sites in this process found out about the network on made-up rows."""
        return {}

    @cached_property
    def size(self) -> int:
        """How many weights are learned; any number where there is no network yet."""
        return 1 if self.blueprint is None else self.blueprint.size

    def check_network(self) -> None:
        """Raise unless examples have gradients of their own; made-up inputs are no secret."""
        assert self.blueprint is not None
        module, shape = self.build(), self.blueprint.shape
        dtype = getattr(torch, self.blueprint.dtype)
        check_supported(module)
        wrong = {str(p.dtype) for p in module.parameters() if p.dtype != torch.float32}
        if wrong:
            raise ParameterError(f"module must hold weights of float32, got {sorted(wrong)}")
        check_clips(self.dynamics.clips, len(learning_layers(module)))
        try:
            check_rows_independent(module, shape, dtype)
            width = tuple(self._made_up_outputs(1).shape[1:])
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(
                f"module does not take rows of shape {shape} of {self.blueprint.dtype}: {error}"
            ) from None
        if self.outputs is not None and width != (self.outputs,):
            raise ParameterError(
                f"module must have {self.outputs} outputs for a row, got shape {width}"
            )

    def _made_up_outputs(self, count: int) -> Any:
        """Return what the network makes of rows that are no secret."""
        assert self.blueprint is not None
        rows = made_up(self.blueprint.shape, getattr(torch, self.blueprint.dtype), count)
        return RowFunction(self.build())(rows)

    def check_examples(self, data: Examples) -> Examples:
        """Raise to the holder what cannot be learned from."""
        if len(data.inputs) != len(data.targets):
            raise ParameterError(
                f"targets must have {len(data.inputs)} rows, got {len(data.targets)}"
            )
        if data.weights is not None and np.shape(data.weights) != (len(data.inputs),):
            raise ParameterError(
                f"weights must be one number for each of {len(data.inputs)} rows, got shape "
                f"{np.shape(data.weights)}"
            )
        if self.dynamics.sampling_rate * len(data.inputs) > _MOST_ROWS:
            raise ParameterError(
                f"a sample may hold about {_MOST_ROWS} rows: pass a smaller sampling_rate"
            )
        if self.blueprint is not None and len(data.inputs):
            self._try(data)
        return data

    def _try(self, data: Examples) -> None:
        """Raise what a loss or a table that is looked up would raise in the midst of a run."""
        assert self.blueprint is not None
        try:
            like = torch.zeros_like(self._made_up_outputs(1))
            for part in data.targets.split(_TRIED):
                self.loss(like.expand(len(part), *like.shape[1:]), part)
            if not data.inputs.dtype.is_floating_point:
                run = RowFunction(self.build())
                for part in data.inputs.unique(dim=0).split(_RUN):
                    run(part)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            raise ParameterError(
                f"a row or its target is none that the module and the loss take: {error}"
            ) from None

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def mechanism(self) -> PoissonSampled:
        """The release of one step; its price does not depend on the size of the network."""
        numbers = self.dynamics
        inner = Gaussian.within(numbers.noise_multiplier, numbers.unit_norm, (self.size,))
        return PoissonSampled(self._shared(inner), numbers.sampling_rate, ADD_REMOVE)

    @cached_property
    def judging(self) -> PoissonSampled:
        """The release of how sure the network may be."""
        numbers = self.dynamics
        inner = _judging(numbers.judged_noise, numbers.rows_per_unit)
        return PoissonSampled(self._shared(inner), numbers.judged_rate, ADD_REMOVE)

    def _shared(self, inner: Gaussian) -> Gaussian:
        """Return noise as each site draws it: a share, where only the sum over sites is seen."""
        shares = self.dynamics.shares
        if shares == 1:
            return inner
        return GaussianShare(inner.scale, inner.sensitivity, inner.shape, shares=shares)

    @property
    def asked_about(self) -> int:
        """About how many posterior samples the last question is: those that fit 16 MB."""
        return max(1, min(self.dynamics.draws, _ASKED // self.size))

    def _steps(self) -> tuple[Step, ...]:
        training = _step(STEP, self.mechanism, (self.size,), self.size, self.dynamics.ends)
        if not self.dynamics.judged_rate:
            return (training,)
        shape = (self.asked_about, self.size)
        return training, _step(CONFIDENCE, self.judging, shape, PARTS, 1)

    @cached_property
    def digest(self) -> str:
        """A digest that two sides compare before anything is read."""
        network = "" if self.blueprint is None else self.blueprint.text
        whole = "\n".join([super().digest, network, loss_text(self.loss), repr(self.dynamics)])
        return hashlib.sha256(whole.encode()).hexdigest()

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Every public input."""
        numbers = self.dynamics
        clips = ", ".join(f"{clip:g}" for clip in numbers.clips)
        return (
            self.inputs,
            f"about {numbers.rows:g} rows, a public number",
            f"every example's gradient is clipped to {clips} and sampled with probability "
            f"{numbers.sampling_rate:g} in each of {numbers.ends} steps; which {self._unit}s "
            "were sampled stays secret",
            *self._weighted(),
            "torch computes a row of a tile by the same operations whatever the numbers in the "
            "tile are; all slots that are used gave the same bits on made-up rows",
            *self._own_code(),
            "the network, its start and all settings were chosen without looking at the data",
            *self.targets,
            *((f"the sites hold different {self._unit}s",) if self.sites > 1 else ()),
            *getattr(self.mechanism.mechanism, "assumptions", ()),
        )

    def _weighted(self) -> tuple[str, ...]:
        """Return what is public about what rows count."""
        most = self.dynamics.largest_weight
        return () if most == 1.0 else (f"a row counts {most:g} at most",)

    def _own_code(self) -> tuple[str, ...]:
        """Return what cannot be checked of a caller's own code."""
        found = []
        if isinstance(self.blueprint, Given) and not is_linear_stack(self.blueprint.module):
            found.append(
                "the module's own code computes a row's outputs from that row, its weights and "
                "its buffers, and keeps nothing of it elsewhere in Python"
            )
        if self.blueprint is not None and not hasattr(self.loss, "made_up"):
            found.append(
                "the loss is a function of one row's outputs and target, and keeps nothing"
            )
        return tuple(found)

    @property
    def _unit(self) -> str:
        return "row" if self.privacy is None else self.privacy.unit

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its examples."""
        made: Participant = late(f"{__package__}.sides").Learner(self, name, data, gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Move the weights by what was released, step by step."""
        made: Coordinating = late(f"{__package__}.loop").walk(self, start)
        return made

    def shared(self, result: Any) -> dict[str, Any]:
        """Return the weights: the last ones, their average and the posterior samples."""
        found = {"final": result.final, "average": result.average, "samples": result.samples}
        return found | {"scale": np.array([result.scale])}

    def worst_case(self) -> Neighbours:
        """One unit more, all of whose inputs are one: its gradients exceed clips below that."""
        if self.blueprint is None or not hasattr(self.loss, "made_up"):
            raise ParameterError("there is no worst case for this loss: pass data and neighbour")
        own, dtype = self.dynamics.rows_per_unit, getattr(torch, self.blueprint.dtype)
        rows = torch.zeros((3 + own, *self.blueprint.shape), dtype=dtype)
        rows[3:] = 1
        targets = self.loss.made_up(4)[[0, 1, 2, *[3] * own]]
        most = self.dynamics.largest_weight
        weights = None if most == 1.0 else np.full(3 + own, most)
        fewer = None if weights is None else weights[:3]
        if own == 1:
            return Neighbours(
                Examples(rows, targets, weights=weights),
                Examples(rows[:-1], targets[:-1], weights=fewer),
            )
        starts = np.array([0, 1, 2, 3, 3 + own])
        return Neighbours(
            Examples(rows, targets, starts=starts, weights=weights),
            Examples(rows[:3], targets[:3], starts=starts[:-1], weights=fewer),
        )

    @classmethod
    def examples(cls) -> Iterator[NetworkAgreement]:
        """Both losses; linear, deep and convolutional networks; joint clips and one a layer."""
        row = Privacy(2.0, 1e-5)
        site = Privacy(2.0, 1e-5, trust="site")
        filters = nn.Sequential(
            nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Flatten(), nn.Linear(8, 2, bias=False)
        )
        normed = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 2))
        rng = generator(0, "examples")
        for p in (*filters.parameters(), *normed.parameters()):
            p.data = torch.from_numpy(rng.standard_normal(tuple(p.shape), "float32"))
        joint = Dynamics(3, 0.5, (0.5,), rows=10.0, noise_multiplier=4.0)
        layers = Dynamics(3, 1.0, (0.01, 0.02), rows=10.0, noise_multiplier=4.0)
        yield cls(Perceptron(2, 2), CrossEntropy(), joint, row)
        yield cls(Perceptron(2, 1, (3,)), SquaredError(0.5), layers, site, 2)
        yield cls(Given(filters, (1, 3, 3)), CrossEntropy(), layers, row)
        yield cls(Given(normed, (3,)), CrossEntropy(), joint, row)
        yield cls(Perceptron(2, 2), CrossEntropy(), Dynamics(2, 1.0, (0.5,), 10.0), None)
        asked = replace(joint, judged=(0.5, 9.0), largest_weight=2.0, samples=2)
        yield cls(Perceptron(2, 2), CrossEntropy(), asked, row)
        apart = replace(layers, layer_noise=(1.0, 3.0))
        yield cls(Perceptron(2, 2, (3,)), CrossEntropy(), apart, row)
        people = Privacy(2.0, 1e-5, unit="user")
        several = replace(joint, clips=(0.1,), rows_per_unit=3)
        asked = replace(several, judged=(1.0, 9.0), samples=2)
        yield cls(Perceptron(2, 2), CrossEntropy(), asked, people)
        yield cls(Given(filters, (1, 3, 3)), CrossEntropy(), several, people)


def _step(
    name: str, mechanism: PoissonSampled, asked: tuple[int, ...], size: int, times: int
) -> Step:
    """Return a step about weights that answers with a noisy sum."""
    exponent = mechanism.mechanism.grid.exponent
    return Step(
        name,
        mechanism,
        asks={"weights": ArraySpec(asked, "float32")},
        replies={
            "sum": ArraySpec((size,), exponent=exponent),
            "drawn": ArraySpec((1,), "int64", 0, 1),
        },
        times=times,
    )


def _judging(noise: float, rows_per_unit: int) -> Gaussian:
    return Gaussian.within(noise, rows_per_unit * NORM, (PARTS,))


def judged_event(noise: float, rate: float, rows_per_unit: int) -> DpEvent:
    """Return the cost of the question how sure a network may be."""
    return gaussian_event(_judging(noise, rows_per_unit).noise_multiplier, rate=rate)


def run_event(multiplier: float, rate: float, steps: int, norm: float) -> DpEvent:
    """Return the steps of a run; the size of the network plays no part (`Gaussian.within`)."""
    inner = Gaussian.within(multiplier, norm, (1,))
    return gaussian_event(inner.noise_multiplier, rate=rate, steps=steps)
