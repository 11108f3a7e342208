"""`Trainer`: a run that a person drives step by step, and `train`, which takes all its steps.

A trainer is the `fit` of every other estimator (`tacit.estimators.fit.fitting`), of which each
round is taken when the next step is wanted: what is checked, charged, drawn and kept, and the bits
that are learned, are those of `fit`. The whole run is charged before its first step, because what
a person sees of a step may decide whether there is another one (PRIVACY A4): stopping early gives
nothing back, and a run that is to cost less says so beforehand (`Training.stop_at`). What a step
shows was released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tacit.errors import ParameterError
from tacit.estimators.fit import Fitting, Outcome, Place, fitting
from tacit.estimators.site import ALONE, Site
from tacit.networks.agreement import Examples, NetworkAgreement
from tacit.networks.architectures import Given
from tacit.networks.backend import nn
from tacit.networks.loop import Progress, State, Trained
from tacit.networks.training import Training
from tacit.networks.weights import learned, write_weights
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Stage", "Trainer", "train"]


@dataclass(frozen=True)
class Stage:
    """Where a run is after a step.

    Attributes
    ----------
    step, steps
        How many steps are done, and how many there are.
    weights, gradient
        The weights after the step, and the mean gradient that was released in it; flat, in the
        order of the module's parameters.
    """

    step: int
    steps: int
    weights: NDArray[Any]
    gradient: NDArray[Any]
    _progress: Callable[[], Progress]

    @cached_property
    def progress(self) -> Progress:
        """The `Progress`, computed when it is asked for: while this is the latest step."""
        return self._progress()

    @property
    def epsilon(self) -> float:
        """What the steps so far cost; the run is charged as a whole."""
        return self.progress.epsilon

    @property
    def signal(self) -> float:
        """The norm of the released mean gradient over that of its noise."""
        return self.progress.signal


class Trainer:
    """A run that is taken step by step, with `for stage in trainer`.

    Parameters
    ----------
    module
        The network; its parameters hold the start and, in the end, the averaged weights.
    inputs, targets
        Tensors with one row per example.
    loss
        (outputs, targets) → one loss per example, each of its own output alone.
    training
        The public settings.
    rows
        The public, approximate number of rows.
    weights, largest_weight
        What each row counts, and the public number that none exceeds; all the same unless given.
    privacy, ledger
        The guarantee and who pays; without privacy there is no noise.
    checkpoint
        A folder: a run that was interrupted goes on from there, with the same ledger.
    device
        Where torch computes.
    random_state
        A seed for noise, samples and start, for tests only: the certificate then says so.

    Examples
    --------
    >>> import torch
    >>> rows, labels = torch.randn(200, 3), torch.zeros(200, dtype=torch.int64)
    >>> network, loss = nn.Linear(3, 2), nn.CrossEntropyLoss(reduction="none")
    >>> trainer = Trainer(
    ...     network, rows, labels, loss, Training(steps=9), rows=200, privacy=Privacy(1.0, 1e-5))
    >>> for stage in trainer:
    ...     if stage.step == 3 and stage.epsilon < 1.0:
    ...         trainer.stop()
    >>> trainer.finish().steps
    3
    """

    def __init__(
        self,
        module: nn.Module,
        inputs: Any,
        targets: Any,
        loss: Callable[[Any, Any], Any],
        training: Training,
        *,
        rows: float,
        weights: Any = None,
        largest_weight: float = 1.0,
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        checkpoint: Any = None,
        device: str = "cpu",
        random_state: int | None = None,
        watch: Callable[[Progress], bool | None] | None = None,
        reports: int = 0,
    ) -> None:
        kind = str(inputs.dtype).removeprefix("torch.")
        agreement = training.agree(
            Given(module, tuple(inputs.shape[1:]), kind),
            loss,
            rows,
            privacy,
            largest_weight=largest_weight,
            watch=watch,
            reports=reports,
        )
        agreement.check_network()
        data = agreement.check_examples(Examples(inputs, targets, device, weights=weights))
        site = Site(ALONE, None, ledger)
        place = Place("private network", random_state, checkpoint=checkpoint)
        self._start(agreement, lambda own: fitting(own, [site], {site.name: data}, place), module)

    @classmethod
    def of(
        cls,
        agreement: NetworkAgreement,
        begin: Callable[[NetworkAgreement], Fitting],
        conclude: Callable[[Outcome], None],
    ) -> Trainer:
        """Return a trainer of a run that ``begin`` begins; what it gave goes to ``conclude``."""
        made = cls.__new__(cls)
        made._start(agreement, begin)
        made._conclude = conclude
        return made

    def _start(
        self,
        agreement: NetworkAgreement,
        begin: Callable[[NetworkAgreement], Fitting],
        module: nn.Module | None = None,
    ) -> None:
        self.agreement = replace(agreement, follow=self._take)
        self._running = begin(self.agreement)
        self._state: State | None = None
        self._begun = self._stopping = False
        self._module = module
        self._conclude: Callable[[Outcome], None] | None = None
        self.outcome: Outcome | None = None

    def _take(self, state: State) -> None:
        self._state = state

    def __iter__(self) -> Iterator[Stage]:
        """Yield every step that is taken; the run is over when there is no other."""
        while (found := self.take()) is not None:
            yield found

    def take(self) -> Stage | None:
        """Take one step and return where the run is then; None: it is over.

        A step that a crash lost shows nothing, and the next one is taken.
        """
        while self.outcome is None:
            before = 0 if self._state is None else self._state.step
            ended, self._begun = (self._stopping and self._begun) or None, True
            try:
                self._running.send(ended)
            except StopIteration as end:
                self.outcome = end.value
                if self._conclude is not None:
                    self._conclude(end.value)
                return None
            if self._state is not None and self._state.step > before:
                return self._stage(self._state)
        return None

    def _stage(self, state: State) -> Stage:
        step = state.step

        def progress() -> Progress:
            if state.step != step:
                raise ParameterError(f"the run went on after step {step}: ask before the next one")
            return state.progress()

        ends = self.agreement.dynamics.ends
        return Stage(step, ends, state.theta.numpy(), state.gradient, progress)

    def stop(self) -> None:
        """Take no further step; what the run was to cost stays charged."""
        self._stopping = True

    def finish(self) -> Trained:
        """End the run and return what it gave; the module then holds the averaged weights.

        A run that has not come to its end is stopped.
        """
        if not self._begun:
            raise ParameterError("no step was taken: take one before finish()")
        self.stop()
        while self.take() is not None:
            pass
        assert self.outcome is not None
        found: Trained = self.outcome.result
        if self._module is not None:
            write_weights(learned(self._module), found.average)
        return replace(found, certificate=next(iter(self.outcome.certificates.values()), None))


def train(
    module: nn.Module,
    inputs: Any,
    targets: Any,
    loss: Callable[[Any, Any], Any],
    training: Training,
    *,
    watch: Callable[[Progress], bool | None] | None = None,
    reports: int = 10,
    **more: Any,
) -> Trained:
    """Train any module whose layers have per-example gradients.

    Parameters
    ----------
    module, inputs, targets, loss, training
        As of a `Trainer`.
    watch, reports
        Called with the `Progress` a few times in a run; returning True ends the run early, which
        still costs what was reserved.
    more
        ``rows``, which must be given, and further parameters of a `Trainer`.
    """
    trainer = Trainer(
        module,
        inputs,
        targets,
        loss,
        training,
        watch=watch,
        reports=0 if watch is None else reports,
        **more,
    )
    for _ in trainer:
        pass
    return trainer.finish()
