"""`OrthogonalDecomposition`: eigenvectors of a symmetric tensor, with or without privacy."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from tacit._core.answers import Answer
from tacit._core.arrays import Array
from tacit._core.check import SIZE, AnyOf, Constraint, Integer, Real
from tacit._core.rng import generator
from tacit.data.matrices import real_array
from tacit.errors import NotCertified, ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID, PrivateEstimator
from tacit.estimators.checking import Findings, tried
from tacit.estimators.features import check_fitted
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.estimators.site import ALONE
from tacit.moments.answers import decomposition_answer
from tacit.moments.numerics.likelihood import symmetric
from tacit.moments.numerics.power import Decomposition, Factored, power_method, symmetrise
from tacit.moments.numerics.sums import entry_weights
from tacit.moments.numerics.whitening import Whitening, spread, whiten
from tacit.moments.tensor.agreement import ROOT, TensorAgreement
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.promises import promise

__all__ = ["OrthogonalDecomposition"]

_NOISE = "noise_sd"  # of a release: along every direction of the symmetric tensors
_SAME = 1e-8  # relative asymmetry that counts as rounding


class OrthogonalDecomposition(PrivateEstimator):
    """Decompose a symmetric third-order tensor, T = Σ λ_k v_k⊗v_k⊗v_k with orthonormal v_k.

    With a second moment beside it, T = Σ w_k a_k⊗a_k⊗a_k and M₂ = Σ w_k a_k⊗a_k, the a_k need not
    be orthogonal: T is whitened first.

    **Privacy.** A tensor of private data is symmetrised, and isotropic noise on its symmetric
    entries is added once: K-norm noise for δ = 0, which is purely ε-private, and Gaussian noise
    otherwise. Its sensitivity is the caller's to state. A second moment beside it is released
    first, with a sensitivity of its own, and the noisy one whitens the noisy tensor; both are as
    private as the stated sensitivities are true.

    Parameters
    ----------
    rank
        How many components.
    restarts, iterations
        Of the power method: random starts for each component (10 + 2·rank unless given), and
        the most steps from each.
    sensitivity
        How far, in Frobenius norm, one unit can move the tensor; public.
    second_sensitivity
        The same of the second moment, where there is one.
    share
        The second moment's share of the budget.
    largest
        The largest Frobenius norm that the second moment can have, by what is public. Needed for
        δ = 0: where the noise would be longer than that, the fit is refused before it is paid for.
    dimension
        D, if the price is to be known before fitting.
    privacy
        The guarantee asked for; None adds no noise.
    ledger
        Who pays.
    random_state
        A seed for noise and starts.

    Attributes
    ----------
    eigenvalues_
        λ_k of the (whitened) tensor, as found.
    components_
        v_k as rows, or a_k where the tensor was whitened.
    weights_
        λ_k, or w_k where the tensor was whitened.
    certificate_
        What was given.

    Examples
    --------
    >>> model = OrthogonalDecomposition(2, random_state=0)
    >>> model = model.fit((np.array([3.0, 2.0]), np.eye(4)[:2]))
    >>> model.eigenvalues_.round(6).tolist()
    [3.0, 2.0]
    """

    _purpose = "an orthogonal decomposition"
    _told = ("rank", "sensitivity")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "rank": Integer(1),
        "restarts": AnyOf(Integer(1), None),
        "iterations": Integer(1),
        "sensitivity": AnyOf(SIZE, None),
        "second_sensitivity": AnyOf(SIZE, None),
        "share": Real(0, 1, open_low=True, open_high=True),
        "largest": AnyOf(SIZE, None),
        "dimension": AnyOf(Integer(1), None),
        **PAID,
    }

    def __init__(
        self,
        rank: int = 2,
        *,
        restarts: int | None = None,
        iterations: int = 100,
        sensitivity: float | None = None,
        second_sensitivity: float | None = None,
        share: float = 0.5,
        largest: float | None = None,
        dimension: int | None = None,
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.rank = rank
        self.restarts = restarts
        self.iterations = iterations
        self.sensitivity = sensitivity
        self.second_sensitivity = second_sensitivity
        self.share = share
        self.largest = largest
        self.dimension = dimension
        self.privacy = privacy
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.privacy is not None and self.sensitivity is None:
            raise UnboundedData(
                "sensitivity must be given: pass sensitivity=…, how far one unit can move the "
                "tensor in Frobenius norm"
            )

    # -- what every family says ------------------------------------------------------------

    def _facts(self, data: Any) -> int:
        """Return D."""
        return int(_as_array(data[0] if isinstance(data, tuple) else data).shape[0])

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        sizes = {size for size in (self.dimension, *facts) if size is not None}
        if not sizes or self.privacy is None:
            raise NotCertified("pass dimension=… and privacy=…: the price depends on them")
        if len(sizes) > 1:
            raise ParameterError(f"the tensor's dimension and the stated one differ: {sizes}")
        (size,) = sizes
        if self.rank > size:
            raise ParameterError(f"rank must be at most the dimension {size}, got {self.rank}")
        assert self.sensitivity is not None
        return TensorAgreement(
            size,
            float(self.sensitivity),
            self.privacy,
            len(facts),
            self.second_sensitivity,
            self.share,
            self.largest,
        )

    def _read(self, data: Any, agreement: Agreement) -> Any:
        if not isinstance(data, tuple):
            return _as_array(data)
        tensor, second = data
        matrix = real_array(second, "second")
        if matrix.shape != (len(tensor),) * 2:
            raise ParameterError(
                f"second must be a matrix of {len(tensor)} rows and columns, got {matrix.shape}"
            )
        return _as_array(tensor), matrix

    def _conclude(self, outcome: Outcome) -> None:
        assert isinstance(outcome.agreement, TensorAgreement)
        size = outcome.agreement.size
        second, coordinates = outcome.result
        tensor, white = spread(coordinates / entry_weights(size), size), None
        if second is not None:
            white = self._white(second, outcome.agreement)
            w = white.basis * white.levels**-0.5
            tensor = np.einsum("abc,ai,bj,ck->ijk", tensor, w, w, w, optimize=True)
        found = self._power_method(tensor, self.dimension if white is None else None)
        self.eigenvalues_, self.components_ = found.values, found.vectors
        self.weights_ = found.values
        if white is not None:
            self.components_, self.weights_ = white.heaviest_first(found.values, found.vectors)
        noise = math.sqrt(float(np.mean(outcome.agreement.mechanism.variance())))
        self.shared_ = {
            "components": self.components_,
            "eigenvalues": self.eigenvalues_,
            "weights": self.weights_,
        }
        if white is None:  # what whitened noise does to components is not known to first order
            self.shared_[_NOISE] = np.array(noise)

    def _white(self, second: Array, public: TensorAgreement) -> Whitening:
        """Return the whitening by a noisy second moment."""
        size = public.size
        off = np.where(np.eye(size, dtype=bool), 1.0, ROOT)
        values, vectors = np.linalg.eigh(symmetric(second, size) / off)
        edge, rank = public.edge(), self.rank
        leading = values[::-1][:rank]
        white = whiten(leading, vectors[:, ::-1][:, :rank], max(edge, 1e-12 * abs(values[-1])))
        if white.hidden:
            warnings.warn(
                f"{white.hidden} of {rank} components cannot be told from the noise, and are "
                f"guesses: the noise reaches {edge:.3g}, the weakest component {leading[-1]:.3g}",
                UserWarning,
                stacklevel=6,
            )
        return white

    def _found(self, level: float) -> Answer:
        check_fitted(self, "components_")
        noise = vars(self).get("shared_", {}).get(_NOISE)
        known = None if noise is None else float(noise)
        return decomposition_answer(self.eigenvalues_, self.components_, known, level)

    def _answer(self, level: float) -> Answer:
        if hasattr(self, "certificates_"):
            return super()._answer(level)
        return replace(self._found(level), promise=promise({}))

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        dims = {"components": ("component", "coordinate"), "eigenvalues": ("component",)}
        return dims, {"component": [f"component {k}" for k in range(len(self.eigenvalues_))]}

    def _adopt(self, release: Release) -> None:
        OrthogonalDecomposition.__init__(self, **release.settings)
        self.components_ = release.arrays["components"]
        self.eigenvalues_ = release.arrays["eigenvalues"]
        self.weights_ = release.arrays["weights"]

    # -- fitting ---------------------------------------------------------------------------

    def fit(self, tensor: Any, second: Any = None) -> OrthogonalDecomposition:
        """Decompose a tensor.

        Parameters
        ----------
        tensor
            An array (D, D, D); a pair (weights, vectors as rows); or a function that maps rows u
            to rows T(I, u, u), with ``dimension`` given. With privacy an array.
        second
            The second moment M₂, D × D, where the tensor has to be whitened; with privacy as
            private as the tensor, with a sensitivity of its own.
        """
        if self.privacy is None:
            self._check_parameters()
            self._fit_open(_as_tensor(tensor), second)
            return self
        if isinstance(tensor, tuple) or callable(tensor):
            raise ParameterError("with privacy the tensor must be an array")
        if second is not None and self.second_sensitivity is None:
            raise UnboundedData(
                "second_sensitivity must be given: pass second_sensitivity=…, how far one unit "
                "can move the second moment, which whitening needs, in Frobenius norm"
            )
        if second is None and self.second_sensitivity is not None:
            raise ParameterError("second_sensitivity is of a second moment: pass fit(T, M₂)")
        return super().fit(tensor if second is None else (tensor, second))

    def check(self, data: Any, y: Any = None) -> Findings:
        """Return what is wrong with a tensor; nothing is paid.

        Parameters
        ----------
        data, y
            The tensor; ``y`` is ignored.
        """
        if self.privacy is not None:
            return super().check(data)
        self._check_parameters()
        return tried({ALONE: lambda: _as_tensor(data)})

    def _power_method(self, tensor: Any, size: int | None) -> Decomposition:
        return power_method(
            tensor,
            self.rank,
            generator(self.random_state, "power"),
            size=size,
            restarts=self.restarts,
            iterations=self.iterations,
        )

    def _fit_open(self, tensor: Any, second: Any) -> None:
        """Decompose what is no secret: nothing is released, and there is no certificate."""
        for name in ("certificates_", "certificate_", "shared_", "record_", "failures_"):
            self.__dict__.pop(name, None)
        if not callable(tensor) and not _is_symmetric(tensor):
            raise ParameterError("the tensor is not symmetric: pass power.symmetrise(tensor)")
        white = None
        if second is not None:
            tensor, white = self._whitened(tensor, second)
        found = self._power_method(tensor, self.dimension if white is None else self.rank)
        largest = float(np.abs(found.values).max())
        rank = int((found.values > 1e-9 * largest).sum())
        if not rank:
            raise ParameterError("the tensor is zero: it has no components")
        if rank < self.rank:
            raise ParameterError(
                f"{self.rank} components were asked for, but the tensor has rank {rank}: pass at "
                f"most {rank}"
            )
        self.eigenvalues_, self.components_ = found.values, found.vectors
        self.weights_ = found.values
        if white is not None:
            self.weights_ = found.values**-2.0
            self.components_ = white.components(found.values, found.vectors)

    def _whitened(self, tensor: Any, second: Any) -> tuple[Any, Any]:
        """Return the tensor in the whitened basis, K × K × K, and the whitening."""
        matrix = real_array(second, "second")
        if (
            matrix.ndim != 2
            or matrix.shape[0] != matrix.shape[1]
            or not np.allclose(
                matrix, matrix.T, atol=_SAME * max(1.0, float(np.abs(matrix).max()))
            )
        ):
            raise ParameterError(f"second must be a symmetric matrix, got shape {matrix.shape}")
        size = matrix.shape[0]
        if self.rank > size:
            raise ParameterError(f"rank must be at most the dimension {size}, got {self.rank}")
        values, vectors = np.linalg.eigh(matrix)
        values, vectors = values[::-1], vectors[:, ::-1]
        rank = int((values > 1e-10 * max(float(values[0]), 1e-300)).sum())
        if rank < self.rank:
            raise ParameterError(
                f"{self.rank} components were asked for, but the second moment has rank {rank}: "
                f"pass at most {rank}"
            )
        white = whiten(values[: self.rank], vectors[:, : self.rank], 0.0)
        w = white.basis * white.levels**-0.5
        if callable(tensor):
            return (lambda batch: tensor(batch @ w.T) @ w), white
        return np.einsum("abc,ai,bj,ck->ijk", tensor, w, w, w, optimize=True), white


def _as_tensor(tensor: Any) -> Any:
    """Return an array, or a function of rows."""
    if isinstance(tensor, tuple) and len(tensor) == 2:
        weights, vectors = np.asarray(tensor[0], float), np.asarray(tensor[1], float)
        if vectors.ndim != 2 or weights.shape != (len(vectors),):
            raise ParameterError("factors must be (weights, vectors), one vector per row")
        if not (np.isfinite(weights).all() and np.isfinite(vectors).all()):
            raise ParameterError("factors must be finite")
        return Factored(weights, vectors)
    return tensor if callable(tensor) else _as_array(tensor)


def _as_array(tensor: Any) -> Array:
    """Return a tensor as an array of three equal sides."""
    array = real_array(tensor, "tensor")
    if array.ndim != 3 or len(set(array.shape)) != 1:
        raise ParameterError(f"tensor must have shape (D, D, D), got {array.shape}")
    return array


def _is_symmetric(array: Array) -> bool:
    if not np.isfinite(array).all():
        raise ParameterError("the tensor must be finite")
    scale = max(float(np.abs(array).max()), 1e-300)
    return bool(np.abs(array - symmetrise(array)).max() <= _SAME * scale)
