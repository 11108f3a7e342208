"""Private dropout with the noise of the thesis's appendix E, to reproduce its Table 8.1.

Source: B. Ermiş (2020), chapters 5 and 8, appendix E. Both recipes count passes over the rows
where steps are taken, and compose bounds that do not compose (PRIVACY B6). Train with them by
``PrivateDropoutClassifier(training=ThesisTraining(…))``: the ledger is charged what the noise
really costs, and the certificate shows the claim beside it.

How large the noise is, the thesis says in two ways. Clipped gradients of norm G are summed, and
σ comes from a mechanism of noise scale σ: noise σ·G on the sum, for one example more or less.
Section 5.2.2 and line 7 of Algorithm 3 have N(0, 4G²σ²), noise 2G·σ, for a sensitivity of 2G where
an example is replaced. Both are here: ``reading="G"`` and ``reading="2G"``; what either costs for
one example more or less is charged (MNIST at a claimed ε of 0.5: 1.51 and 0.67).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from tacit._core.check import OneOf, check
from tacit.errors import ParameterError
from tacit.networks.agreement import NetworkAgreement
from tacit.networks.architectures import Perceptron
from tacit.networks.dynamics import Dynamics
from tacit.networks.losses import CrossEntropy
from tacit.networks.training import Training
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Privacy
from tacit.published.noise import PublishedNoise, advanced_composition_noise, zcdp_noise

__all__ = ["READINGS", "RECIPES", "ThesisAgreement", "ThesisTraining", "thesis_noise"]

RECIPES = {"zcdp": zcdp_noise, "advanced": advanced_composition_noise}
READINGS = {"G": 1.0, "2G": 2.0}  # noise on the sum, over σ·G
# the thesis leaves δ_iter open; with these shares of δ its printed 3.23 and 10.88 come out
_SHARES = {"zcdp": 7e-5, "advanced": 1.3e-5}


def thesis_noise(
    recipe: str, privacy: Privacy, sampling_rate: float, steps: int, reading: str = "G"
) -> PublishedNoise:
    """Return the thesis's noise, with T = passes as its printed values have it.

    ``reading`` says whether that is σ times the clip, ``"G"``, or 2σ times it, ``"2G"``.

    >>> found = thesis_noise("zcdp", Privacy(0.5, 1e-4), 0.01, 20_000)
    >>> round(found.noise_multiplier, 2), round(found.epsilon(), 2)
    (3.23, 1.51)
    """
    found = RECIPES[recipe](
        privacy.epsilon,
        privacy.delta,
        rate=sampling_rate,
        compositions=max(1, round(steps * sampling_rate)),
        delta_iter=_SHARES[recipe] * privacy.delta,
        steps=steps,
    )
    twice = READINGS[reading]
    return replace(found, noise_multiplier=twice * found.noise_multiplier)


@dataclass(frozen=True)
class ThesisAgreement(NetworkAgreement):
    """Training with the thesis's noise: charged what it costs, not what is claimed."""

    recipe: str = "zcdp"
    reading: str = "G"

    @cached_property
    def noise(self) -> PublishedNoise:
        """The noise with its claim."""
        assert self.privacy is not None
        numbers = self.dynamics
        run = numbers.sampling_rate, numbers.steps
        return thesis_noise(self.recipe, self.privacy, *run, self.reading)

    @property
    def claim(self) -> tuple[float, str]:
        """The ε of the thesis, and what it leaves out."""
        words = "" if self.reading == "G" else "; the noise is read as 2G·σ, for examples replaced"
        return self.noise.claimed_epsilon, self.noise.claim + words

    @property
    def charged(self) -> Privacy | None:
        """What the noise really gives."""
        assert self.privacy is not None
        return self.privacy.with_epsilon(self.noise.epsilon() * (1 + 1e-9))

    @classmethod
    def examples(cls) -> Iterator[ThesisAgreement]:
        """Each recipe with a linear network, and the other reading of one."""
        privacy = Privacy(1.0, 1e-4)
        for recipe, reading in (("zcdp", "G"), ("advanced", "G"), ("zcdp", "2G")):
            noise = thesis_noise(recipe, privacy, 0.5, 3, reading).noise_multiplier
            numbers = Dynamics(3, 0.5, (0.5,), rows=10.0, noise_multiplier=noise)
            network = Perceptron(2, 2), CrossEntropy()
            yield cls(*network, numbers, privacy, recipe=recipe, reading=reading)


@dataclass(frozen=True)
class ThesisTraining(Training):
    """`Training` with the thesis's noise.

    ``recipe`` is ``"zcdp"`` or ``"advanced"``, and ``reading`` what σ is multiplied by on the sum
    of gradients of norm G: ``"G"`` or ``"2G"``.
    """

    recipe: str = "zcdp"
    reading: str = "G"
    confidence: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check("recipe", self.recipe, OneOf(*RECIPES))
        check("reading", self.reading, OneOf(*READINGS))
        for name in ("accountant", "noise_multiplier", "layer_noise", "stop_at"):
            if getattr(self, name) is not None:
                raise ParameterError(f"{name} is not read: the recipe says what noise there is")
        if self.confidence > 0.0:
            raise ParameterError("confidence must be 0: published noise spends the whole budget")

    def agree(self, *facts: Any, **more: Any) -> ThesisAgreement:
        """Return what is public about a run, with the claim."""
        found = super().agree(*facts, **more)
        given = {part.name: getattr(found, part.name) for part in fields(found)}
        return ThesisAgreement(**given, recipe=self.recipe, reading=self.reading)

    def _noise(
        self,
        rate: float,
        steps: int,
        norm: float,
        privacy: Privacy | None,
        besides: DpEvent | None = None,
    ) -> float:
        if privacy is None or math.isinf(privacy.epsilon):
            raise ParameterError("published noise needs privacy with a finite epsilon")
        return thesis_noise(self.recipe, privacy, rate, steps, self.reading).noise_multiplier
