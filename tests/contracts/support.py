"""What the contract tests share: discovery, counted noise, generous ledgers, statistics."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import stats

import tacit.mechanisms
from tacit._core.rng import WordStream
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy.groups import stated_relation
from tacit.privacy.ledger.ledger import Ledger

# --- discovery ------------------------------------------------------------------------------


def concrete_mechanisms() -> list[type[Mechanism]]:
    """Return every concrete mechanism that tacit defines."""
    for module in pkgutil.iter_modules(tacit.mechanisms.__path__, "tacit.mechanisms."):
        importlib.import_module(module.name)

    def walk(parent: type) -> Iterator[type]:
        for child in parent.__subclasses__():
            yield child
            yield from walk(child)

    found = {
        kind
        for kind in walk(Mechanism)
        if kind.__module__.startswith("tacit.") and not inspect.isabstract(kind)
    }
    return sorted(found, key=lambda kind: kind.__name__)


# --- counted randomness -----------------------------------------------------------------------


class CountedWords(WordStream):
    """A word stream that counts how often it was asked."""

    asked = 0

    def words(self, count: int) -> Any:
        """Count, then draw."""
        self.asked += 1
        return super().words(count)

    def word(self) -> int:
        """Count, then draw."""
        self.asked += 1
        return super().word()


class CountedNoise(Noise):
    """A source of noise that counts every request, of words and of OpenDP's samplers."""

    def __init__(self, kind: str = "grid", *, seed: int | None = None) -> None:
        super().__init__(kind, seed=seed)
        self.stream = CountedWords(seed)
        self._laws = 0

    @property
    def asked(self) -> int:
        """How often randomness was asked for."""
        return self._laws + self.stream.asked

    def gaussian(self, count: int, scale: float) -> Any:
        """Count, then draw."""
        self._laws += 1
        return super().gaussian(count, scale)

    def laplace(self, count: int, scale: float) -> Any:
        """Count, then draw."""
        self._laws += 1
        return super().laplace(count, scale)

    def discrete_gaussian(self, count: int, scale: float) -> Any:
        """Count, then draw."""
        self._laws += 1
        return super().discrete_gaussian(count, scale)

    def geometric(self, count: int, scale: float) -> Any:
        """Count, then draw."""
        self._laws += 1
        return super().geometric(count, scale)


# --- ledgers ------------------------------------------------------------------------------------


def rich_ledger(mechanism: Mechanism) -> Ledger:
    """Return a ledger that admits a mechanism: it is for the same relation."""
    return Ledger.memory(epsilon=1e6, delta=0.9, neighbours=relation(mechanism))


def empty_ledger(mechanism: Mechanism) -> Ledger:
    """Return a ledger that has too little for it."""
    return Ledger.memory(epsilon=1e-9, delta=1e-12, neighbours=relation(mechanism))


def relation(mechanism: Mechanism) -> str:
    """Return the relation that a mechanism holds for."""
    own = getattr(mechanism, "neighbours", None)
    return own or stated_relation(mechanism.event) or "add-remove-one"


# --- statistics ---------------------------------------------------------------------------------


def chi_square_p(drawn: Any, pmf: Any, least: float = 20.0) -> float:
    """Return the p-value of outcomes against exact probabilities; rare ones are pooled."""
    outcomes = np.array(sorted(pmf), dtype=float)
    probability = np.array([pmf[k] for k in sorted(pmf)], dtype=float)
    drawn = np.asarray(drawn, dtype=float)
    position = np.searchsorted((outcomes[1:] + outcomes[:-1]) / 2, drawn)
    np.testing.assert_allclose(drawn, outcomes[position], rtol=1e-9)
    observed = np.bincount(position, minlength=outcomes.size).astype(float)
    expected = probability * drawn.size
    common = expected >= least
    observed = np.r_[observed[common], observed[~common].sum()]
    expected = np.r_[expected[common], drawn.size - expected[common].sum()]
    counted = expected > 1.0
    assert observed[~counted].sum() < 30
    statistic = np.square(observed - expected)[counted] / expected[counted]
    return float(stats.chi2.sf(statistic.sum(), counted.sum() - 1))


def goodness_of_fit(example: Any, value: Any, first: Any) -> float:
    """Return the p-value of the first numbers of many releases against the exact law."""
    if example.pmf is not None:
        return chi_square_p(first, example.pmf(value))
    return float(stats.kstest(first, lambda x: example.cdf(value, x)).pvalue)
