"""The common base of `PrivateLogisticRegression` and `PrivatePoissonRegression`.

What a site releases, and why that is private, stands in
`tacit.regression.generalised.agreement`; how a posterior follows in
`tacit.regression.generalised.learning`. This class takes it to the caller's own scale.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from tacit._core.answers import Answer
from tacit._core.arrays import Array
from tacit._core.chains import inference_data
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit.data.matrices import warn_of_column
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID, PrivateEstimator
from tacit.estimators.features import check_fitted, remember
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.estimators.site import Site
from tacit.privacy.events import ADD_REMOVE
from tacit.privacy.guarantee import Privacy
from tacit.regression.blanks import TO_STATE
from tacit.regression.bounds import PublicBounds, as_pairs, as_stated, plain_bounds
from tacit.regression.design import Design
from tacit.regression.generalised.agreement import GeneralisedAgreement, rounds_for
from tacit.regression.generalised.answers import answer_of
from tacit.regression.generalised.learning import Learned
from tacit.regression.generalised.numerics.links import Link
from tacit.regression.generalised.public import design_for
from tacit.regression.generalised.rows import SiteRows, read_columns, read_rows
from tacit.regression.joining import common_labels

__all__ = ["METHODS", "GeneralisedRegression"]

METHODS = ("auto", "rounds", "one-shot")
_CHAINS = 4  # into which independent draws are laid out
_PIECE = 1 << 22  # predictions that are made at once


class GeneralisedRegression(PrivateEstimator):
    """Base of regressions with a link."""

    _link: ClassVar[str] = ""
    _takes_shards = True
    _to_state = TO_STATE
    _inference_only = ("draws",)
    _stored: ClassVar[tuple[str, ...]] = ()
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "method": OneOf(*METHODS),
        "target": AnyOf(InstanceOf(str), None),
        "rows": AnyOf(Real(1), None),
        "draws": Integer(100),
        "noise": OneOf("exact", "grid"),
        "checkpoint": AnyOf(InstanceOf(str, os.PathLike), None),
        "on_failure": OneOf("stop", "exclude"),
        "progress": InstanceOf(bool),
        **PAID,
    }

    # set by the children's constructors
    columns: Any
    method: str
    bounds: Any
    target: str | None
    rows: float | None
    draws: int
    noise: str
    privacy: Privacy | None
    random_state: int | None

    # -- what a child says -----------------------------------------------------------------

    @property
    @abstractmethod
    def _public(self) -> PublicBounds:
        """What is public about the range of features and response."""

    @property
    def _top(self) -> float:
        """The largest response."""
        return 1.0

    @property
    def _logs(self) -> bool:
        """Whether the first release is about log(1 + y): of counts, where rounds follow."""
        return self._link == "poisson" and self.method != "one-shot"

    def _numbers_of(self, data: Any) -> Any:
        """Return a holder's data with responses as numbers."""
        return data

    @abstractmethod
    def _about(self) -> str:
        """Return what coefficients are about, in a few words."""

    # -- what is public --------------------------------------------------------------------

    @property
    def _noisy(self) -> bool:
        return self.privacy is not None and math.isfinite(self.privacy.epsilon)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_row_privacy("a regression over rows", *GeneralisedAgreement.trusts)
        self._public.check()
        trust = self.privacy.trust if self.privacy is not None else None
        if trust == "aggregator" and self.noise != "grid":
            raise ParameterError("noise must be 'grid' where noise is drawn in shares")

    def _facts(self, data: Any) -> int | None:
        return self._public.width(data)

    def _imagined(self) -> int:
        return 2

    def _design(self, features: int | None) -> Design:
        request = self._request()
        neighbours = ADD_REMOVE if request is None else str(request.neighbours)
        return design_for(self._public, neighbours, features, self._link, self._logs)

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> GeneralisedAgreement:
        width = next((width for width in facts if width is not None), None)
        design, public = self._design(width), self._public
        return GeneralisedAgreement(
            self._link,
            design,
            public.names(design),
            self._request(len(facts)),
            len(facts),
            self._top,
            0 if self.method == "one-shot" else rounds_for(design.coefficients),
            None if self.rows is None else float(self.rows),
            self.noise,
            shares,
            public.notes,
        )

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], None]:
        """Return the parameters of a file or a proposal, with ranges as pairs."""
        if "columns" in settings:
            return dict(settings), None
        if not isinstance(settings.get("bounds"), Mapping) or "target" not in settings:
            raise ParameterError(
                "regression needs columns, or bounds = {feature: [low, high]}, and a target"
            )
        return {name: as_pairs(value) for name, value in settings.items()}, None

    # -- fitting ---------------------------------------------------------------------------

    def fit(self, data: Any, y: Any = None) -> Self:
        """Learn the coefficients.

        Parameters
        ----------
        data
            X, with ``y`` beside it; or one holder's data (a pair (X, y), a table, a file); or a
            list of `Site` with such data.
        y
            The responses, where ``data`` is X.
        """
        warn_of_column(y)
        return super().fit(data if y is None else (data, y))

    def _run(self, sites: Sequence[Site], agreement: Agreement) -> Outcome:
        self._labels = [] if self._public.by_name else common_labels(sites, [])
        return super()._run(sites, agreement)

    def _read(self, data: Any, agreement: Agreement) -> SiteRows:
        assert isinstance(agreement, GeneralisedAgreement)
        public, design = self._public, agreement.design
        if public.columns is not None:
            assert public.target is not None
            return read_columns(data, public.columns, public.target, design, self._top, self._logs)
        names = list(public.pairs()) if public.by_name else None
        return read_rows(
            self._numbers_of(data), design, names, public.target, self._top, self._logs
        )

    def _conclude(self, outcome: Outcome) -> None:
        assert isinstance(outcome.agreement, GeneralisedAgreement)
        learned: Learned = outcome.result
        self.design_, self.columns_ = outcome.agreement.design, outcome.agreement.columns
        if "_labels" not in vars(self):
            self._labels = []
        back = _back(self.design_)
        drawn = learned.draws(self.draws // _CHAINS * _CHAINS, self.random_state) @ back.T
        self._take(
            back @ learned.mean,
            drawn.reshape(_CHAINS, -1, len(back)),
            learned.dispersion,
        )
        self.shared_ = {
            "coef": self.coef_,
            "coef_sd": self.coef_sd_,
            "intercept": np.array(self.intercept_),
            "intercept_sd": np.array(self.intercept_sd_),
            "draws": self.draws_,
            "dispersion": np.array(self.dispersion_),
        }

    def _take(self, mean: Array, draws: Array, dispersion: float) -> None:
        """Keep what was learned, on the caller's own scale."""
        self.coef_, self.intercept_, self.draws_ = mean[1:], float(mean[0]), draws
        sd = draws.reshape(-1, len(mean)).std(axis=0)
        self.coef_sd_, self.intercept_sd_ = sd[1:], float(sd[0])
        self.dispersion_ = float(dispersion)
        remember(self, *self._public.taken(self._labels, self.design_))

    # -- predictions -----------------------------------------------------------------------

    def _means(self, X: Any, level: float | None = None) -> tuple[Array, Array, Array]:
        """Return the mean response of rows at the posterior mean, and an interval of it.

        An average over the posterior would count what noise leaves open in directions that hardly
        matter: on simulated rows of much noise its log loss is larger by a fifth.
        """
        check_fitted(self, "coef_")
        matrix = self._public.features_of(self, X)
        link = Link(self._link, self._top)
        mean = link.mean(matrix @ self.coef_ + self.intercept_)
        if level is None:
            return mean, mean, mean
        draws = self.draws_.reshape(-1, len(self.coef_) + 1)
        step = max(1, _PIECE // len(draws))
        low, high = np.empty(len(matrix)), np.empty(len(matrix))
        ends = [0.5 - level / 2.0, 0.5 + level / 2.0]
        for start in range(0, len(matrix), step):
            part = slice(start, start + step)
            found = matrix[part] @ draws[:, 1:].T + draws[:, 0]
            low[part], high[part] = link.mean(np.quantile(found, ends, axis=1))
        return mean, low, high

    def to_arviz(self) -> Any:
        """Return the posterior draws on the caller's own scale as ArviZ ``InferenceData``."""
        check_fitted(self, "coef_")
        values = {"coef": self.draws_[..., 1:], "intercept": self.draws_[..., 0]}
        coords = {"feature": list(self.columns_[:-1])}
        return inference_data(values, coords=coords, dims={"coef": ["feature"]})

    def _found(self, level: float) -> Answer:
        return answer_of(self, self._about(), level)

    # -- releases --------------------------------------------------------------------------

    @property
    def _told(self) -> tuple[str, ...]:  # type: ignore[override]
        own = ("columns", "order", "middle", "half", "constant", "neighbours", "names", "labels")
        return tuple(dict.fromkeys((*self._stored, *own, "privacy")))

    def _settings(self) -> dict[str, Any]:
        public, design = self._public.columns, self.design_
        return {
            **{name: plain_bounds(getattr(self, name)) for name in self._stored},
            "columns": None if public is None else public.described(),
            "order": [] if public is None else list(public.encoded(list(public))),
            "middle": list(design.middle),
            "half": list(design.half),
            "constant": design.constant,
            "neighbours": design.neighbours,
            "names": list(self.columns_),
            "labels": [str(label) for label in self._labels],
            "privacy": None if self.privacy is None else self.privacy.stated(),
        }

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        features = list(self.columns_[:-1])
        dims: dict[str, tuple[str, ...]] = {
            "coef": ("feature",),
            "coef_sd": ("feature",),
            "draws": ("chain", "draw", "term"),
        }
        return dims, {"feature": features, "term": ["(intercept)", *features]}

    def _adopt(self, release: Release) -> None:
        settings, arrays = release.settings, release.arrays
        self.columns_ = tuple(settings["names"])
        # JSON's mappings have no order; a category that is the target has numbers of its own
        in_order = {**settings, "names": settings["order"]} if settings["columns"] else settings
        type(self).__init__(self, **as_stated(in_order, self._stored))
        asked = settings.get("privacy")
        self.privacy = None if asked is None else Privacy(**asked)
        self._labels = list(settings["labels"])
        self.design_ = Design(
            tuple(settings["middle"]),
            tuple(settings["half"]),
            neighbours=settings["neighbours"],
            statistics="moments",
            constant=settings["constant"],
        )
        mean = np.concatenate([[float(arrays["intercept"])], arrays["coef"]])
        self._take(mean, arrays["draws"], float(arrays["dispersion"]))


def _back(design: Design) -> Array:
    """Return the matrix from coefficients of (1, x), mapped to [−1, 1], to the caller's scale."""
    half, middle = np.array(design.half[:-1]), np.array(design.middle[:-1])
    back = np.diag(np.concatenate([[1.0], 1.0 / half]))
    back[0, 1:] = -middle / half
    return back
