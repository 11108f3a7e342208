"""Charging comes after everything that can fail publicly, for every estimator and method."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from experiments._audit_subjects import SUBJECTS
from tacit._core import kernels, lazy
from tacit.errors import BudgetExceeded, MissingExtra
from tacit.estimators import rehearsal
from tacit.estimators.fit import Outcome, Place, fit
from tacit.estimators.site import Site
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.noise import Noise
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.store import MemoryStore
from tests._core.test_cache import in_a_read_only_process

# every estimator under every kind of setting; levels of ε make no difference here
SETTINGS = [
    pytest.param(replace(subject, settings=[subject.settings[k]]), id=f"{subject.name} {k}")
    for subject in SUBJECTS
    for k in (0, 5)
]


class Planted(Exception):
    """A failure that has nothing to do with anybody's data."""


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rehearsal, "_done", set())  # as in a fresh process


def paid(subject: Any, ledger: Ledger, **place: Any) -> Outcome:
    """Run a subject as its `fit` does, on made-up data."""
    model = subject.build(**subject.settings[0])
    model._check_parameters()
    if subject.rows is None:
        agreement = model._agree([model._imagined()])
        data = agreement.worst_case().data
    else:
        rows = tuple(map(np.array, subject.rows))
        agreement = model._agree([model._facts(rows)])
        data = model._read(rows, agreement)
    site = Site("the data", None, ledger)
    given = {site.name: data}
    return fit(agreement, [site], given, Place("contract", seed=0, **place))


def ledger_for(subject: Any, epsilon: float = 1e6) -> Ledger:
    privacy = subject.build(**subject.settings[0]).privacy
    return Ledger.memory(
        epsilon=epsilon, delta=0.9, unit=privacy.unit, neighbours=privacy.neighbours
    )


def broken(*given: Any, **more: Any) -> Any:
    raise Planted


def no_kernels(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kernels, "_compile", broken)


def no_module(patch: pytest.MonkeyPatch) -> None:
    found = lazy.importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.startswith("tacit."):
            raise MissingExtra(name, "nn")
        return found(name, package)

    patch.setattr(lazy.importlib, "import_module", missing)


def no_noise(patch: pytest.MonkeyPatch) -> None:
    for law in ("gaussian", "laplace", "discrete_gaussian", "geometric", "sample"):
        patch.setattr(Noise, law, broken)
    patch.setattr(Noise, "__init__", _without_words(Noise.__init__))


def _without_words(init: Any) -> Any:
    class Silent:
        def __getattr__(self, name: str) -> Any:
            raise Planted

    def made(self: Noise, *given: Any, **more: Any) -> None:
        init(self, *given, **more)
        self.stream = Silent()  # type: ignore[assignment]

    return made


def no_ledger(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MemoryStore, "ready", broken)


def no_screen(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(sys.modules, "rich.progress", None)


STAGES: dict[str, tuple[Any, dict[str, Any]]] = {
    "kernels that do not compile": (no_kernels, {}),
    "a module that is missing": (no_module, {}),
    "noise that does not come": (no_noise, {}),
    "a ledger that cannot be written": (no_ledger, {}),
    "no progress bar": (no_screen, {"progress": True}),
    "a checkpoint that cannot be kept": (lambda patch: None, {"checkpoint": "/proc/nobody"}),
}
# what some estimators do without
SPARED = {"kernels that do not compile", "a module that is missing"}


@pytest.mark.parametrize("subject", SETTINGS[::2])
@pytest.mark.parametrize("stage", STAGES)
def test_what_fails_publicly_costs_nothing(
    stage: str, subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, place = STAGES[stage]
    ledger = ledger_for(subject)
    with monkeypatch.context() as patch:
        plant(patch)
        try:
            paid(subject, ledger, **place)
        except Exception:
            assert ledger.counter == 0, f"charged, and then failed: {stage}"
        else:
            assert stage in SPARED


@pytest.mark.parametrize("subject", SETTINGS[::2])
def test_a_budget_that_is_too_small_costs_nothing(subject: Any) -> None:
    ledger = ledger_for(subject, 1e-9)
    with pytest.raises(BudgetExceeded):
        paid(subject, ledger)
    assert ledger.counter == 0


WHEREVER = """
sys.path[:0] = sys.argv[2].split(os.pathsep)
from experiments._audit_subjects import SUBJECTS
from tests.contracts.test_charge_last import ledger_for, paid
for subject in SUBJECTS:
    if subject.name in sys.argv[3:] or not sys.argv[3:]:
        paid(subject, ledger_for(subject))
        print(subject.name)
"""


def _read_only(*names: str) -> list[str]:
    """Fit where nothing can be written at all, without a home; return who could."""
    found = in_a_read_only_process(
        WHEREVER, None, os.pathsep.join(sys.path), *names, HOME=None, XDG_CACHE_HOME=None
    )
    return found.splitlines()


def test_fits_need_no_folder_at_all() -> None:
    some = ["linear regression, moments", "dropout classifier"]
    assert _read_only(*some) == some


@pytest.mark.slow
def test_no_estimator_needs_a_folder_at_all() -> None:
    assert _read_only() == [subject.name for subject in SUBJECTS]


# -- between the charge and the first release ---------------------------------------------------


class Window:
    """What happens after the charge and before the first draw."""

    open = False
    seen: ClassVar[list[str]] = []

    @classmethod
    def note(cls, what: str) -> None:
        if cls.open:
            cls.seen.append(what)


def hook(event: str, given: tuple[Any, ...]) -> None:
    if not Window.open:
        return
    if event in ("import", "os.mkdir", "os.rename", "subprocess.Popen", "socket.connect"):
        Window.note(f"{event} {given[0]}")
    if event == "open":
        Window.note(f"open {given[0]}")


sys.addaudithook(hook)


@contextmanager
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield what is imported, opened, made or compiled between a charge and the first draw."""
    Window.seen = []
    reserve, compiling = Ledger.reserve, Dispatcher.compile

    def charged(self: Ledger, *given: Any, **more: Any) -> Any:
        found = reserve(self, *given, **more)
        Window.open = more.get("purpose") == "contract"
        return found

    def compiled(self: Any, *given: Any) -> Any:
        Window.note(f"compile {self.py_func.__qualname__}")
        return compiling(self, *given)

    kinds = {kind for kind in _children(Mechanism) if "draw" in vars(kind)}
    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "reserve", charged)
        patch.setattr(Dispatcher, "compile", compiled)
        for kind in kinds:
            patch.setattr(kind, "draw", _closing(kind.draw))
        try:
            yield Window.seen
        finally:
            Window.open = False


def _closing(draw: Any) -> Any:
    def closing(self: Any, value: Any, noise: Any) -> Any:
        found = draw(self, value, noise)
        Window.open = False
        return found

    return closing


def _children(kind: type) -> set[type]:
    return {kind}.union(*(_children(child) for child in kind.__subclasses__()))


@pytest.mark.parametrize("subject", SETTINGS)
def test_nothing_is_imported_opened_or_compiled_between_charge_and_first_release(
    subject: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels._compile.cache_clear()  # a fresh process has compiled nothing
    ledger = ledger_for(subject)
    with watched(monkeypatch) as seen:
        paid(subject, ledger)
    assert ledger.counter > 1
    assert seen == []


def test_the_window_sees_what_it_should(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rehearsal, "rehearse", lambda agreement: None)
    monkeypatch.setattr("tacit.estimators.fit.rehearse", lambda agreement: None)
    kernels._compile.cache_clear()
    least = next(s for s in SUBJECTS if s.name == "least squares over sites, users")
    with watched(monkeypatch) as seen:
        paid(least, ledger_for(least), checkpoint=tmp_path)
    assert any(word.startswith("compile") for word in seen)
    assert any(word.startswith("open") for word in seen)
