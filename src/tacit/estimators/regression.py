"""`PrivateLinearRegression`: Bayesian linear regression from one noisy summary per site.

What a site releases, and why it is private, stands in `tacit.estimators.regression_release`; how
the posterior follows from the summaries in `tacit.inference.regression`. This class joins the
two, and takes the result back to the caller's own scale: with t = (x − m)/h and y = m₀ + h₀·(c·b₀
+ Σ b_k·t_k) the coefficient of feature k is h₀·b_k/h_k, and the intercept is m₀ + h₀·c·b₀ − Σ
coef_k·m_k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.rng import generator
from tacit.errors import (
    NotCertified,
    ParameterError,
    SiteFailure,
)
from tacit.estimators.progress import progress_bar
from tacit.estimators.regression_published import read_design, sampling_options
from tacit.estimators.regression_release import STATISTICS, Design
from tacit.estimators.regression_scale import back_matrix, mean_weight, residual_variance
from tacit.estimators.regression_sites import ReleasingRegression
from tacit.estimators.regression_summary import SiteSummary, check_belongs
from tacit.estimators.site import Site, check_sites
from tacit.inference.regression import METHODS, posterior
from tacit.mechanisms.additive import Gaussian
from tacit.models.regression import Prior, check_prior
from tacit.privacy.events import ADD_REMOVE, DpEvent
from tacit.privacy.guarantee import Certificate, Privacy
from tacit.privacy.ledger import Ledger
from tacit.privacy.published import mistyped_gaussian_noise
from tacit.rounds.protocol import Failure

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PrivateLinearRegression"]

EXACT_METHODS = ("OLS", "conjugate")
SQUARE_METHODS = ("conjugate", "MCMC-B&S")  # that need yᵀy


class PrivateLinearRegression(ReleasingRegression):
    """Bayesian linear regression over one holder or many sites, each with one noisy release.

    Every site adds up its rows, releases the sums once with noise from its own ledger, and is not
    needed again: `add_sites` takes in sites that come later, as raw data or as a mailed
    `SiteSummary`, without another release of the others.

    Parameters
    ----------
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
        The column of the response, where data are tables.
    intercept
        Whether the model has one.
    clip
        The norm to which a row is scaled after the bounds mapped it to [−1, 1]; by default that
        of a row uniform in its bounds (see `tacit.estimators.regression_release`).
    statistics
        What is released: ``"moments"``, ``"Sz"`` (the thesis's pair) or ``"Szu"``.
    average
        How many consecutive rows are averaged before they count (thesis 5.2.4.1), under
        replace-one only.
    prior
        A `tacit.models.regression` prior; the default of the method unless given.
    chains, draws, warmup
        How much to sample.
    privacy
        The guarantee asked for, with unit ``"row"``; None adds no noise.
    ledger
        Who pays when a single table is fitted; sites bring their own.
    noise
        ``"exact"`` or ``"grid"``.
    calibration
        ``"certified"``, or ``"published"``: the thesis's too small noise and bounds read from
        the data, to reproduce its tables; the certificate says what that gives.
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
        The residuals' standard deviation, from the posterior mean of their variance; NaN where
        the method does not learn it.
    posterior_
        The posterior on the model's scale, with draws and diagnostics.
    summaries_
        Site → `SiteSummary`, what each released.
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
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "method": OneOf(*METHODS),
        "target": AnyOf(InstanceOf(str), None),
        "intercept": InstanceOf(bool),
        "clip": AnyOf(Real(1e-6, 1e6), None),
        "statistics": OneOf(*STATISTICS),
        "average": Integer(1, 1 << 12),
        "prior": AnyOf(InstanceOf(Prior), None),
        "chains": Integer(1, 64),
        "draws": Integer(10),
        "warmup": Integer(0),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "noise": OneOf("exact", "grid"),
        "calibration": OneOf("certified", "published"),
        "on_failure": OneOf("stop", "exclude"),
        "progress": InstanceOf(bool),
        "random_state": AnyOf(Integer(0), None),
    }

    def __init__(
        self,
        method: str = "auto",
        *,
        bounds: Mapping[str, tuple[float, float]] | Sequence[tuple[float, float]] | float | None
        = None,
        y_bounds: tuple[float, float] | float | None = None,
        target: str | None = None,
        intercept: bool = True,
        clip: float | None = None,
        statistics: str = "moments",
        average: int = 1,
        prior: Any = None,
        chains: int = 4,
        draws: int = 1000,
        warmup: int = 1000,
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        noise: str = "exact",
        calibration: str = "certified",
        on_failure: str = "stop",
        progress: bool = False,
        random_state: int | None = None,
    ) -> None:  # fmt: skip
        self.method = method
        self.bounds = bounds
        self.y_bounds = y_bounds
        self.target = target
        self.intercept = intercept
        self.clip = clip
        self.statistics = statistics
        self.average = average
        self.prior = prior
        self.chains = chains
        self.draws = draws
        self.warmup = warmup
        self.privacy = privacy
        self.ledger = ledger
        self.noise = noise
        self.calibration = calibration
        self.on_failure = on_failure
        self.progress = progress
        self.random_state = random_state

    # -- what is public -------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        privacy = self.privacy
        self._check_row_privacy("a regression over rows")
        noisy = privacy is not None and math.isfinite(privacy.epsilon)
        if self.method in EXACT_METHODS and noisy:
            raise ParameterError(
                f"method {self.method!r} takes sums for exact: pass privacy=None, or method='auto'"
            )
        if self.method in SQUARE_METHODS and self.statistics == "Sz":
            raise ParameterError(
                f"method {self.method!r} needs yᵀy: pass statistics='moments' or 'Szu'"
            )
        if self.calibration == "published":
            if not noisy or privacy is None or privacy.neighbours != ADD_REMOVE:
                raise ParameterError("published noise needs Privacy(1.0, delta) under add-remove")
            return
        self._public.check()

    def _design(self, features: int | None = None) -> Design:
        """Return everything public about a release."""
        return self._public.design(
            self.intercept,
            ADD_REMOVE if self.privacy is None else str(self.privacy.neighbours),
            self.statistics,
            self.clip,
            self.average,
            features,
            scaled=self.method not in EXACT_METHODS,
        )

    def _mechanism(self, design: Design) -> Gaussian:
        if self.calibration == "published":
            assert self.privacy is not None
            published = mistyped_gaussian_noise(self.privacy.epsilon, self.privacy.delta)
            return design.fixed_noise(published.noise_multiplier, self.noise)
        return design.mechanism(self.privacy, self.noise)

    def schedule(self) -> DpEvent:
        """Return the event of the one release that a fit makes at each site."""
        if self.calibration == "certified" and not self._public.is_norm:
            return self._mechanism(self._design()).event
        design: Design | None = getattr(self, "design_", None)
        if design is None:
            raise NotCertified("bounds do not name the features: the price is known at fit only")
        return self._mechanism(design).event

    # -- fitting --------------------------------------------------------------------------

    def fit(self, data: Any, y: Any = None) -> PrivateLinearRegression:
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
        self.summaries_: dict[str, SiteSummary] = {}
        self.failures_: list[Failure] = []
        self.design_: Design | None = None
        self.feature_names_in_: list[Any] = []
        return self._take(data if y is None else (data, y))

    def add_sites(self, data: Any) -> PrivateLinearRegression:
        """Take in further sites; those that are here already release and pay nothing again.

        Parameters
        ----------
        data
            As in `fit`: sites with raw data, or summaries that were mailed.
        """
        if not getattr(self, "summaries_", None):
            raise ParameterError("there is nothing to add to yet: call fit first")
        return self._take(data)

    def _take(self, data: Any) -> PrivateLinearRegression:
        """Release what is raw, take in what was released, and infer."""
        summaries, sites = self._sort(data)
        self._check_together(summaries, sites)  # before anybody pays
        alone = not summaries and not self.summaries_
        lost = self._release_sites(sites, alone) if sites else []
        self.summaries_.update({summary.site: summary for summary in summaries})
        if lost and self.on_failure == "stop":
            reasons = "; ".join(f"{failure.site}: {failure.reason}" for failure in lost)
            raise SiteFailure(
                f"{reasons}. What the other sites released is kept in summaries_: pass the rest "
                "to add_sites, or those summaries to fit"
            )
        self._infer()
        self.certificates_ = {name: s.certificate for name, s in self.summaries_.items()}
        self.certificate_: Certificate = max(
            self.certificates_.values(), key=lambda certificate: certificate.epsilon
        )
        return self

    def _sort(self, data: Any) -> tuple[list[SiteSummary], list[Site]]:
        """Return what was released before and what is still raw."""
        if isinstance(data, SiteSummary):
            data = [data]
        parts = list(data) if isinstance(data, list | tuple) else []
        mixed = parts and all(isinstance(part, Site | SiteSummary) for part in parts)
        summaries = [part for part in parts if isinstance(part, SiteSummary)] if mixed else []
        if mixed:
            raw = [part for part in parts if isinstance(part, Site)]
            sites = self._as_sites(raw) if raw else []
        else:
            sites = self._as_sites(data)
        names = [*self.summaries_, *(s.site for s in summaries), *(s.name for s in sites)]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ParameterError(
                f"{sorted(twice)} would count twice: give every site a name of its own"
            )
        check_sites(sites)
        if sites and len(names) > 1 and self.privacy and self.privacy.trust == "central":
            raise ParameterError(
                "several sites do not share a curator: pass Privacy(…, trust='site')"
            )
        return summaries, sites

    def _check_together(self, summaries: list[SiteSummary], sites: list[Site]) -> None:
        """Settle on one design for all, and raise where something public does not fit."""
        if self.calibration == "published":
            if sites:
                design = read_design(
                    [site.data for site in sites], self.statistics,
                    eigenvalue=self.method == "adaSSP",
                )  # fmt: skip
            else:
                design = self.design_ or summaries[0].design
        else:
            design = self._design(self._width(sites, summaries))
        check_prior(self.prior or Prior(), design.coefficients)
        names = self._public.names(design, self.target)
        everything = [*self.summaries_.values(), *summaries]
        for summary in everything:
            check_belongs(summary, design, names)
            check_belongs(summary, everything[0].design, everything[0].columns)
            if self.method in SQUARE_METHODS and summary.moments.square is None:
                raise ParameterError(
                    f"method {self.method!r} needs yᵀy, and {summary.site!r} did not release it: "
                    "use method='auto'"
                )
        relations = {s.certificate.neighbours for s in everything if s.certificate.is_private}
        if sites and self.privacy is not None and math.isfinite(self.privacy.epsilon):
            relations.add(design.neighbours)
        if len(relations) > 1:
            raise ParameterError(
                "guarantees under add-remove-one and under replace-one cannot be compared: ask "
                "every site for the same neighbours"
            )
        self.design_ = design

    def _charged(self) -> Privacy | None:
        """Return the request; a published calibration costs more than its claim."""
        if self.calibration == "certified" or self.privacy is None:
            return self.privacy
        real = mistyped_gaussian_noise(self.privacy.epsilon, self.privacy.delta).epsilon()
        return self.privacy.with_epsilon(real * 1.001)

    # -- inference ------------------------------------------------------------------------

    def _infer(self) -> None:
        """Turn the summaries into a posterior: post-processing only."""
        if not self.summaries_:
            reasons = "; ".join(f"{f.site}: {f.reason}" for f in self.failures_)
            raise ParameterError(f"no site is left: {reasons}")
        design = self.design_
        assert design is not None
        moments = [summary.moments for summary in self.summaries_.values()]
        options: dict[str, Any] = {"prior": self.prior}
        if self.calibration == "published":
            assert self.privacy is not None
            options = sampling_options(
                self.method, self.privacy, list(self.summaries_.values()), self.prior
            )
        with progress_bar(self.progress, 2 * self.chains, "sampling") as advance:
            self.posterior_ = posterior(
                moments, self.method, chains=self.chains, draws=self.draws, warmup=self.warmup,
                rng=generator(self.random_state, "regression"), progress=advance, **options,
            )  # fmt: skip
        back = back_matrix(design)
        mean = back @ self.posterior_.mean
        self._covariance = back @ self.posterior_.covariance @ back.T
        sd = np.sqrt(np.maximum(np.diag(self._covariance), 0.0))
        self.intercept_ = float(mean[0] + design.middle[-1])
        self.coef_: NDArray[np.float64] = mean[1:]
        self.intercept_sd_, self.coef_sd_ = float(sd[0]), sd[1:]
        variance = float(np.mean(self.posterior_.noise_variance))
        if math.isnan(variance):
            variance = residual_variance(moments, self.posterior_.mean)
        weight = mean_weight(list(self.summaries_.values()))
        self._noise_unit = design.half[-1] / math.sqrt(weight)
        self.noise_sd_ = self._noise_unit * math.sqrt(variance) if variance >= 0.0 else math.nan
        self.n_features_in_ = design.features
