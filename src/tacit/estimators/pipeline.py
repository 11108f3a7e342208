"""`Pipeline`: scikit-learn's, which says on the certificate what has seen raw rows before.

A certificate is about what an estimator did with the rows that it was given. A scaler that learned
a mean from all rows before has put other people into every row, and nobody who is handed the
result can tell. A pipeline of scikit-learn's own tells its steps nothing; this one knows its
steps, and tells every private estimator in it which of those before it were fitted on the rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline as PlainPipeline
from sklearn.pipeline import _name_estimators
from sklearn.utils import get_tags

from tacit.data.scaling import PublicScaler
from tacit.errors import ParameterError
from tacit.estimators.base import PrivateEstimator
from tacit.privacy.certificate import Certificate

__all__ = ["Pipeline", "make_pipeline", "seen_before"]

# scikit-learn's steps that learn nothing from rows and map each row by itself
_ROW_BY_ROW = {
    "Binarizer",
    "FeatureHasher",
    "HashingVectorizer",
    "Normalizer",
    "PolynomialFeatures",
}
_INSIDE = {
    "Pipeline": "steps",
    "ColumnTransformer": "transformers",
    "FeatureUnion": "transformer_list",
}


def seen_before(name: str, step: Any) -> list[str]:
    """Return what a certificate says about a step that comes before a private estimator.

    Nothing is said of `PublicScaler`, of scikit-learn's steps that learn nothing and map each row
    by itself, and of a private estimator with a guarantee of its own.

    Parameters
    ----------
    name
        What the pipeline calls it.
    step
        The step.

    Examples
    --------
    >>> from sklearn.preprocessing import Normalizer, StandardScaler
    >>> seen_before("norm", Normalizer())
    []
    >>> seen_before("scale", StandardScaler())[0][:48]
    "NOT COVERED: 'scale' (StandardScaler) was fitted"
    """
    if step is None or isinstance(step, str) or type(step) is PublicScaler:
        return []
    kind, home = type(step).__name__, type(step).__module__
    known = home.startswith("sklearn.")  # a child of a known class may do anything
    if kind in _INSIDE and (known or type(step) is Pipeline):
        held = [(part[0], part[1]) for part in getattr(step, _INSIDE[kind])]
        held.append(("remainder", getattr(step, "remainder", None)))
        return [line for own, part in held for line in seen_before(f"{name}.{own}", part)]
    if isinstance(step, PrivateEstimator):
        asked = step._given("privacy")
        if asked is not None and math.isfinite(asked.epsilon):
            return []
    if known and (kind in _ROW_BY_ROW or _counts_public_words(kind, step)):
        return []
    if known and kind == "FrozenEstimator":
        own = type(step.estimator).__name__
        return [f"{name!r} ({own}) was fitted before: what it was fitted on is taken to be public"]
    return [
        f"NOT COVERED: {name!r} ({kind}) was fitted on the raw rows before this estimator, or "
        "maps them together: the guarantee holds only if everything it learned is public"
    ]


def _counts_public_words(kind: str, step: Any) -> bool:
    """Whether a step counts words of a stated vocabulary, each text by itself."""
    if kind != "CountVectorizer" or step.vocabulary is None or not isinstance(step.analyzer, str):
        return False
    return step.tokenizer is None and step.preprocessor is None


class Pipeline(PlainPipeline):  # type: ignore[misc]
    """scikit-learn's ``Pipeline`` that tells private estimators what came before them.

    A step that was fitted on the raw rows is listed on the certificate of every private estimator
    after it, and there is a warning. Data-dependent steps are better replaced: `PublicScaler` for
    scalers, ``Columns(missing="impute")`` for imputers, stated categories for encoders.

    Parameters
    ----------
    steps, transform_input, memory, verbose
        As in scikit-learn.
    public
        Names of steps that the caller states to be public: frozen after a fit on public data, or
        mapping each row by itself. The certificate lists them as stated. A step of scikit-learn's
        that would be fitted here, on the raw rows, is refused.

    Examples
    --------
    >>> import numpy as np
    >>> import tacit as tc
    >>> X = np.random.default_rng(0).uniform(0, 10, (500, 2))
    >>> model = tc.PrivateLinearRegression(
    ...     bounds=[(0, 1)] * 2, y_bounds=(0, 20), privacy=tc.Privacy(1, 1e-6), random_state=0)
    >>> pipe = make_pipeline(tc.PublicScaler(bounds=(0, 10)), model).fit(X, X.sum(axis=1))
    >>> any("NOT COVERED" in line for line in pipe[-1].certificate_.assumptions)
    False
    """

    def __init__(
        self,
        steps: list[tuple[str, Any]],
        *,
        transform_input: Any = None,
        memory: Any = None,
        verbose: bool = False,
        public: tuple[str, ...] = (),
    ) -> None:
        super().__init__(steps, transform_input=transform_input, memory=memory, verbose=verbose)
        self.public = public

    def fit(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit all steps, one after the other; see scikit-learn.

        Parameters
        ----------
        X, y, **params
            As there.
        """
        with self._telling():
            return super().fit(X, y, **params)

    def fit_transform(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit all steps and transform with the last; see scikit-learn.

        Parameters
        ----------
        X, y, **params
            As there.
        """
        with self._telling():
            return super().fit_transform(X, y, **params)

    def fit_predict(self, X: Any, y: Any = None, **params: Any) -> Any:
        """Fit all steps and predict with the last; see scikit-learn.

        Parameters
        ----------
        X, y, **params
            As there.
        """
        with self._telling():
            return super().fit_predict(X, y, **params)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """While steps are fitted, private ones know what came before them."""
        before = [(model, model._before, lines) for model, lines in self._lines()]
        try:
            for model, known, lines in before:
                model._before = (*known, *(line for line in lines if line not in known))
            yield
            self._pass_on()
        finally:
            for model, known, _ in before:
                model._before = known

    def _pass_on(self) -> None:
        """Let what later steps learned rest on the certificates of private steps before, too.

        Their rows went through what those steps released.
        """
        before: dict[str, Certificate] = {}
        for name, step in self.steps:
            own: dict[str, Certificate] = {}
            for model in _fitted_in(step):
                own |= {f"{name}: {site}": found for site, found in model.certificates_.items()}
                if before:
                    model._upstream = {**model._upstream, **before}
                    model._rest_on(model.certificates_)
            before |= own

    def _lines(self) -> list[tuple[PrivateEstimator, list[str]]]:
        """Return every private estimator of the steps, with what is said of those before it."""
        unknown = sorted(set(self.public) - {name for name, _ in self.steps})
        if unknown:
            raise ParameterError(f"public names {unknown[0]!r}, which is none of the steps")
        found, lines = [], list[str]()
        for name, step in self.steps:
            for model in _private_in(step):
                found.append((model, list(lines)))
            if name in self.public:
                _check_public(name, step)
                lines.append(f"{name!r} ({type(step).__name__}) is public, as the caller states")
            else:
                lines += seen_before(name, step)
        uncovered = [line for _, own in found[-1:] for line in own if line.startswith("NOT")]
        if uncovered:
            warnings.warn("; ".join(uncovered), UserWarning, stacklevel=4)
        return found


def make_pipeline(*steps: Any, memory: Any = None, public: tuple[str, ...] = ()) -> Pipeline:
    """Return a `Pipeline` whose steps are called by the names of their classes.

    Parameters
    ----------
    *steps
        As in scikit-learn.
    memory, public
        As in `Pipeline`.
    """
    return Pipeline(_name_estimators(steps), memory=memory, public=public)


def _check_public(name: str, step: Any) -> None:
    """Raise where a step that is stated to be public is about to learn from the raw rows."""
    kind, home = type(step).__name__, type(step).__module__
    if home.startswith("sklearn.") and kind != "FrozenEstimator" and get_tags(step).requires_fit:
        raise ParameterError(
            f"public names {name!r}, a {kind} that this pipeline fits on the raw rows: fit it on "
            "public data and pass FrozenEstimator of it, or take tc.PublicScaler"
        )


def _private_in(step: Any) -> list[PrivateEstimator]:
    """Return the private estimators that a step is or holds."""
    if isinstance(step, PrivateEstimator):
        return [step]
    if not isinstance(step, BaseEstimator):
        return []
    held = step.get_params(deep=True).values()
    return list({id(one): one for one in held if isinstance(one, PrivateEstimator)}.values())


def _fitted_in(step: Any) -> list[PrivateEstimator]:
    """Return the private estimators with a guarantee that a fitted step is or holds."""
    if isinstance(step, PrivateEstimator):
        found = getattr(step, "certificates_", {})
        return [step] if any(one.is_private for one in found.values()) else []
    held = [getattr(step, "estimator", None)]
    for name in ("steps", "transformers_", "transformer_list"):
        held += [part[1] for part in getattr(step, name, ())]
    return [model for part in held if part is not None for model in _fitted_in(part)]
