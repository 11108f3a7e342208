"""The demonstration's computation: what hospitals learn alone, and together at several ε."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit.data.synthetic import LABORATORY_TESTS, HospitalResults
from tacit.estimators.site import Site
from tacit.factorization.offsets.agreement import AlternatingLeastSquares
from tacit.factorization.together.estimator import PrivateFactorization
from tacit.privacy.guarantee import Privacy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.ledger.ledger import Ledger

__all__ = ["DELTA", "EPSILONS", "Comparison", "compare", "estimator"]

EPSILONS = (0.5, 1.0, 5.0)
DELTA = 1e-6
# Many patients and few tests: the noise of a round is small, and more rounds than the default's
# two bring the factors nearer to least squares. Chosen on patients of another seed.
_ROUNDS = 8


def estimator(epsilon: float | None, *, offsets: bool = False) -> PrivateFactorization:
    """Return the estimator of the demonstration, private for each patient's whole record.

    Without ε there is no noise; ``offsets`` learns the tests' averages only: the trivial
    predictor.
    """
    privacy = None
    if epsilon is not None:
        privacy = Privacy(epsilon=epsilon, delta=DELTA, unit="user", trust="site")
    return PrivateFactorization(
        "patient:k test:k",
        rank=4,
        bounds=(0, 10),
        privacy=privacy,
        method="offsets" if offsets else AlternatingLeastSquares(rounds=_ROUNDS),
    )


@dataclass(frozen=True)
class Comparison:
    """Errors (RMSE) in tests that a hospital seldom does, by hospital.

    Guessing the middle of the reference range (``nothing``), each hospital by itself, and all
    without noise; by ε: together with noise, the private averages of tests, and the fitted
    estimator.
    """

    nothing: Mapping[str, float]
    alone: Mapping[str, float]
    together: Mapping[str, float]
    private: Mapping[float, Mapping[str, float]]
    offsets: Mapping[float, Mapping[str, float]]
    fitted: Mapping[float, PrivateFactorization]


def compare(
    results: HospitalResults,
    ledgers: Mapping[str, Ledger],
    advance: Callable[[str], None] = lambda what: None,
    epsilons: Iterable[float] = EPSILONS,
) -> Comparison:
    """Fit everything and return how far predictions are from the known truth.

    What the private factorizations release is charged to the ledgers. The comparisons (alone,
    without noise, averages only) are made in memory, which real data would not allow.
    """
    epsilons = tuple(epsilons)
    bare = [Site(name, relation) for name, relation in results.relations.items()]
    paying = [Site(site.name, site.data, ledgers[site.name]) for site in bare]
    nothing = {site.name: _error(results, site.name, None) for site in bare}
    alone = {}
    for site in bare:
        advance(f"{site.name} alone")
        alone[site.name] = _error(results, site.name, estimator(None).fit([site]))
    advance("together, without privacy")
    together = _errors(results, estimator(None).fit(bare))
    private, offsets, fitted = {}, {}, {}
    for epsilon in epsilons:
        advance(f"together at ε = {epsilon:g}")
        fitted[epsilon] = estimator(epsilon).fit(paying)
        private[epsilon] = _errors(results, fitted[epsilon])
        offsets[epsilon] = _errors(results, estimator(epsilon, offsets=True).fit(bare))
    return Comparison(nothing, alone, together, private, offsets, fitted)


def _errors(results: HospitalResults, model: PrivateFactorization) -> dict[str, float]:
    return {name: _error(results, name, model) for name in results.relations}


def _error(results: HospitalResults, name: str, model: PrivateFactorization | None) -> float:
    """Return the error in all results of the tests that a hospital does not do as a routine."""
    panel = set(results.panels[name])
    seldom = [k for k, test in enumerate(LABORATORY_TESTS) if test not in panel]
    truth: NDArray[np.float64] = results.levels[name]
    cells = np.stack(np.meshgrid(np.arange(len(truth)), seldom, indexing="ij"), -1).reshape(-1, 2)
    wanted = truth[tuple(cells.T)]
    found = 5.0 if model is None else np.asarray(model.predict(name, cells, positions=True))
    return float(np.sqrt(np.mean((found - wanted) ** 2)))
