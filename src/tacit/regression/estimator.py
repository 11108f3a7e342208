"""`PrivateLinearRegression`: Bayesian linear regression from one noisy summary per site.

What a site releases, and why that is private, stands in `tacit.regression.agreement`; how the
posterior follows in `tacit.regression.numerics.posterior`; how it gets back to the caller's own
scale in `tacit.regression.scale`. This class joins the three.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

from sklearn.base import RegressorMixin

from tacit._core.answers import Answer
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.progress import progress_bar
from tacit._core.rng import generator
from tacit.data.matrices import warn_of_column
from tacit.data.reading import Table
from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID, PrivateEstimator
from tacit.estimators.features import NotFitted, check_fitted, remember
from tacit.estimators.fit import Outcome, Place
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.site import Site
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import ADD_REMOVE
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.regression import released, several
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.answers import answer_of
from tacit.regression.blanks import TO_STATE
from tacit.regression.bounds import PublicBounds, as_pairs
from tacit.regression.design import STATISTICS, Design
from tacit.regression.found import FindingAgreement, RawRows, check_findable, hidden_ranges
from tacit.regression.joining import check_loss, common_labels
from tacit.regression.methods import EXACT_METHODS, SAMPLING, check_method
from tacit.regression.numerics.moments import Prior, check_prior
from tacit.regression.numerics.posterior import METHODS, posterior
from tacit.regression.rows import SiteSum
from tacit.regression.scale import Line, r_squared, to_arviz
from tacit.regression.simulation import simulated_error
from tacit.regression.summary import SiteSummary
from tacit.regression.taking import take, take_up
from tacit.regression.total import TOTAL, is_summed

__all__ = ["PrivateLinearRegression"]

INTERCEPT_SD = 0.5  # of the fit at the middle of the bounds, in halves of the response's range


@stores_parameters
class PrivateLinearRegression(RegressorMixin, PrivateEstimator):  # type: ignore[misc]
    """Bayesian linear regression over one holder or many sites, each with one noisy release.

    Every site releases the sums over its rows once, with noise from its own ledger: `add_sites`
    takes in sites that come later, as raw data or as a mailed `SiteSummary`.

    Parameters
    ----------
    columns
        What is public about the table: `tacit.Columns`, a mapping of such or a file's path, with
        every feature and the target. Instead of ``bounds`` and ``y_bounds``.
    method
        How the posterior follows from the summaries: ``"auto"``, ``"MCMC-normalX"``,
        ``"MCMC-fixedS"``, ``"Bayes-fixedS-fast"``, ``"adaSSP"``, ``"MCMC-B&S"``; without
        privacy also ``"OLS"`` and ``"conjugate"``.
    bounds
        The public range of every feature: a mapping of column to (low, high), a sequence of
        pairs in the order of the columns of X, or one number, the public norm of a row.
    y_bounds
        The public range (low, high) of the response, or the largest |y|.
    target
        The column of the response, where data are tables; that of ``columns`` unless given.
    intercept
        Whether the model has an intercept.
    clip
        The norm to which a row is scaled after the bounds mapped it to [−1, 1]; by default that
        of a row uniform in its bounds (see `tacit.regression.design`).
    statistics
        What is released: ``"weighted"``, ``"moments"`` (all sums with equal noise), ``"Sz"`` (the
        thesis's pair) or ``"Szu"``.
    weights
        Public weights of features, a mapping or a sequence, which count by their ratios: what is
        believed to matter less takes less of the budget, and its coefficient is shrunk first.
    ridge
        λ of ``"OLS"`` and ``"adaSSP"``: least squares of Σ e² + λ·‖b‖² on the mapped scale, where
        features lie in [−1, 1], without the intercept. Other methods shrink by their ``prior``.
    prior
        A `tacit.regression.numerics.moments` prior; the default of the method unless given.
    chains, draws, warmup
        How much to sample, for methods that do: chains, the most draws of each, and as many before
        that are thrown away. ``"auto"`` stops at 1,000 effective draws of every coefficient; a
        warm-up of None is 300 of ``"auto"``, at most ``draws``, and ``draws`` of the others.
    privacy
        The guarantee asked for, of rows, or of users where ``columns`` name them; None: no noise.
    ledger
        Who pays when a single table is fitted; sites bring their own.
    noise
        How noise is drawn: ``"exact"``, or faster on a ``"grid"``.
    on_failure
        ``"stop"`` at the first site that fails, or ``"exclude"`` it and go on.
    progress
        Whether a progress bar is shown. The first fit of a sampler on a machine compiles it first.
    random_state
        A seed for noise and sampling, for tests only: certificates then say so.

    Attributes
    ----------
    coef_, intercept_, coef_sd_, intercept_sd_
        Posterior means and standard deviations on the caller's own scale.
    noise_sd_
        The residuals' standard deviation; NaN where the method does not learn it.
    posterior_
        The posterior on the model's scale, with draws and diagnostics.
    summaries_
        Site → `SiteSummary`, what each released.
    design_, columns_
        What is public about the summaries; the names of the features and, last, of the response.
    failures_
        Sites that were left out, and why.
    certificate_, certificates_
        The certificate with the largest ε, and one per site.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 10, (5000, 2))
    >>> y = 3 + X @ [1.0, -0.5] + rng.normal(0, 0.5, 5000)
    >>> model = PrivateLinearRegression(
    ...     bounds=[(0, 10), (0, 10)], y_bounds=(-5, 15), privacy=Privacy(1.0, 1e-6))
    >>> print(model.price())
    the data: ε = 1, δ = 1e-06 (no ledger: affordable)
    when one row is added or removed; unit row, add-remove-one, trust central (filled in: unit,
    neighbours, trust)
    """

    _purpose = "linear regression"
    _takes_shards = True
    _to_state = TO_STATE
    _agreements: ClassVar[type[RegressionAgreement]] = RegressionAgreement
    _summaries: ClassVar[type[SiteSummary]] = SiteSummary
    _stored: ClassVar[tuple[str, ...]] = (
        "columns",
        "method",
        "bounds",
        "y_bounds",
        "target",
        "intercept",
        "clip",
        "statistics",
        "weights",
        "ridge",
    )
    _inference_only = ("method", "chains", "draws", "warmup", "ridge")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "method": OneOf(*METHODS),
        "target": AnyOf(InstanceOf(str), None),
        "intercept": InstanceOf(bool),
        "clip": AnyOf(Real(1e-6, 1e6), None),
        "statistics": OneOf(*STATISTICS),
        "ridge": AnyOf(Real(0.0), None),
        "prior": AnyOf(InstanceOf(Prior), None),
        "chains": Integer(1, 64),
        "draws": Integer(10),
        "warmup": AnyOf(Integer(0), None),
        "noise": OneOf("exact", "grid"),
        "on_failure": OneOf("stop", "exclude"),
        "progress": InstanceOf(bool),
        **PAID,
    }

    columns: Columns | Mapping[str, Any] | str | None = None
    _: KW_ONLY
    method: str = "auto"
    bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | float | None = None
    y_bounds: tuple[float, float] | float | None = None
    target: str | None = None
    intercept: bool = True
    clip: float | None = None
    statistics: str = "weighted"
    weights: Mapping[str, float] | Sequence[float] | None = None
    ridge: float | None = None
    prior: Any = None
    chains: int = 4
    draws: int = 1000
    warmup: int | None = None
    privacy: Privacy | None = None
    ledger: Ledger | None = None
    noise: str = "exact"
    on_failure: str = "stop"
    progress: bool = False
    random_state: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.target is None and self.columns is None
        tags.regressor_tags.poor_score = self._noisy  # of the few rows that checks try
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_row_privacy("a regression over rows", *self._agreements.trusts)
        defaults = inspect.signature(type(self)).parameters
        changed = [n for n in SAMPLING if self._given(n) != defaults[n].default]
        if self.ridge is not None:
            changed.append("ridge")
        check_method(self.method, self._noisy, self.statistics, changed)
        check_loss(self.privacy, self.on_failure)
        if self.method == "MCMC-interceptX" and not self.intercept:
            raise ParameterError(f"{self.method} needs an intercept: pass intercept=True")
        self._check_public()

    # -- what is public --------------------------------------------------------------------

    @property
    def _noisy(self) -> bool:
        return self.privacy is not None and math.isfinite(self.privacy.epsilon)

    @property
    def _public(self) -> PublicBounds:
        return PublicBounds.of(self.bounds, self.y_bounds, self.columns, self.target)

    def _check_public(self) -> None:
        self._public.check()
        if self._public.search is not None:
            check_findable(self._agreements is RegressionAgreement, self.privacy)

    def _design(self, features: int | None) -> Design:
        """Return what is public about the sums of rows."""
        return self._public.design(
            self.intercept,
            ADD_REMOVE if self.privacy is None else str(self.privacy.neighbours),
            self.statistics,
            self.clip,
            features,
            scaled=self.method not in EXACT_METHODS,
            noise_multiplier=self._noise_multiplier,
            weights=self.weights,
        )

    @property
    def _noise_multiplier(self) -> float:
        """The noise that the request needs, relative to a sensitivity; 0 where there is none."""
        asked = self.privacy if self._noisy else None
        return gaussian_sigma(asked.epsilon, asked.delta) if asked and asked.delta else 0.0

    def _facts(self, data: Any) -> int | None:
        return self._public.width(data)

    def _imagined(self) -> int:
        return 2

    _simulate = classmethod(simulated_error)

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> RegressionAgreement:
        design = self._design(next((width for width in facts if width is not None), None))
        check_prior(self.prior or Prior(), design.coefficients)
        return self._agreement(design, len(facts), shares)

    def _agreement(self, design: Design, sites: int, shares: int = 1) -> RegressionAgreement:
        names, notes = self._public.names(design), self._public.notes
        own = design, names, self._request(sites), sites, self.noise, notes, shares
        search = self._public.search
        if search is None:
            return self._agreements(*own)
        return FindingAgreement(*own, search=search, response=self.y_bounds is None)

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
        """Release every site's summary and infer the coefficients.

        Parameters
        ----------
        data
            X, with ``y`` beside it; or one holder's data (a pair (X, y), a table, the path of a
            Parquet file, an iterable of pieces); or a list of `Site` with such data, and of
            `SiteSummary` that were released before.
        y
            The responses, where ``data`` is X.
        """
        self._check_parameters()
        warn_of_column(y)
        self._forget()
        return take(self, data if y is None else (data, y))

    def add_sites(self, data: Any) -> Self:
        """Take in further sites; those that are here already release and pay nothing again.

        Parameters
        ----------
        data
            As in `fit`: sites with raw data, or summaries that were mailed.
        """
        if not getattr(self, "summaries_", None):
            raise NotFitted("there is nothing to add to yet: call fit first")
        self._check_parameters()
        return take(self, data)

    def _forget(self) -> None:
        """Drop everything that an earlier fit left."""
        for name in [name for name in vars(self) if name.endswith("_") or name == "_line"]:
            delattr(self, name)
        self.summaries_: dict[str, SiteSummary] = {}
        self.failures_, self._upstream = [], {}
        self._labels: list[Any] = []

    def _together(self, known: list[SiteSummary], sites: list[Site]) -> RegressionAgreement:
        """Return one agreement for what is raw and what was released before."""
        norm = self._public.is_norm
        facts = [self._facts_held(site.data) for site in sites]
        agreement = self._agree(
            [*facts, *(s.design.features if norm else None for s in known)],
            len(sites) if is_summed(self.privacy) else 1,
        )
        if not known or known[0].design.constant == agreement.design.constant:
            return agreement
        # who joins later does as those before did, whatever ε
        design = replace(agreement.design, constant=known[0].design.constant)
        return replace(agreement, design=design)

    def _look_over(
        self, sites: Sequence[Site], loaded: Mapping[str, SiteSum], agreement: Agreement
    ) -> None:
        if not self._public.by_name:
            common_labels(sites, [])

    def _read(self, data: Any, agreement: Agreement) -> SiteSum | RawRows:
        assert isinstance(agreement, RegressionAgreement)
        return self._public.read(data, agreement.design)

    def _conclude(self, outcome: Outcome) -> None:
        """Take up what sites elsewhere released."""
        assert isinstance(outcome.agreement, RegressionAgreement)
        self._labels, self.summaries_ = [], {}
        self.design_, self.columns_ = outcome.agreement.design, outcome.agreement.columns
        take_up(self, outcome)
        self._infer()

    def _place(self) -> Place:
        place = super()._place()  # shares of noise are drawn on a grid
        return replace(place, noise="grid") if is_summed(self.privacy) else place

    # -- inference -------------------------------------------------------------------------

    def _options(self) -> dict[str, Any]:
        """Return what `posterior` is told besides the moments."""
        prior = self.prior
        if prior is None and self.method == "auto" and self._noisy and self.design_.intercept:
            prior = Prior(intercept_sd=INTERCEPT_SD / self.design_.constant)
        own = {"free": self.design_.intercept, "constant": self.design_.constant}
        return {"prior": prior, "ridge": self.ridge, **own}

    def _infer(self) -> None:
        """Turn the summaries into a posterior: post-processing only."""
        if not self.summaries_:
            reasons = "; ".join(f"{f.site}: {f.reason}" for f in self.failures_)
            raise ParameterError(f"no site is left: {reasons}")
        summaries = list(self.summaries_.values())
        with progress_bar(self.progress, 2 * self.chains, "sampling") as advance:
            self.posterior_ = posterior(
                [summary.moments for summary in summaries],
                self.method,
                chains=self.chains,
                draws=self.draws,
                warmup=self.warmup,
                rng=generator(self.random_state, "regression"),
                progress=advance,
                **self._options(),
            )
        line = Line.of(self.posterior_, self.design_, summaries)
        if hidden_ranges(self):
            del self.posterior_
            line = Line.zero(self.design_.features)
        self._draw(line)

    def _draw(self, line: Line) -> None:
        """Keep what was learned, and what of it is for everybody."""
        self._line = line
        self.coef_, self.intercept_, self.noise_sd_ = line.coef, line.intercept, line.noise_sd
        self.intercept_sd_, self.coef_sd_ = float(line.sd[0]), line.sd[1:]
        remember(self, *self._public.taken(self._labels, self.design_))
        own = {name: s.certificate for name, s in self.summaries_.items() if name != TOTAL}
        self._rest_on(own)
        self.shared_ = released.arrays_of(self)

    def predict(self, X: Any, *, return_sd: bool = False, interval: float | None = None) -> Any:
        """Return the posterior predictive mean of the response, and how sure it is.

        Parameters
        ----------
        X
            Features on the caller's own scale.
        return_sd
            Also return the standard deviation, of coefficients and residual together.
        interval
            Also return bounds (low, high) that hold a new response with this probability.
        """
        check_fitted(self, "coef_")
        return self._line.predict(self._public.features_of(self, X), return_sd, interval)

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        return released.answer(self, table, interval)

    def score(self, X: Any, y: Any) -> float:
        """Return R² on given rows, such as public ones: this is not private."""
        return r_squared(y, self.predict(X))

    def to_arviz(self) -> Any:
        """Return the posterior draws on the caller's own scale as ArviZ ``InferenceData``."""
        check_fitted(self, "coef_")
        drawn, summaries = getattr(self, "posterior_", None), list(self.summaries_.values())
        return to_arviz(drawn, self.design_, summaries, self.columns_[:-1])

    def _found(self, level: float) -> Answer:
        drawn, prior = getattr(self, "posterior_", None), self._options()["prior"]
        known = (self._line, self.design_, self.columns_, self.summaries_)
        answer = answer_of(*known, drawn, prior, level)
        return replace(answer, warnings=(*hidden_ranges(self), *answer.warnings))

    about = several.about
    ranges_ = property(released.ranges_of)
    _told = property(released.told)
    _settings = released.settings_of
    _dimensions = released.dimensions_of
    _adopt = released.adopt
