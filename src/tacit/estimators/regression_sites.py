"""`ReleasingRegression`: how sites release their summaries, in one process or in different places.

What a site adds up and why it is private stands in `tacit.estimators.regression_release`; who
says what in `tacit.estimators.regression_rounds`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any

import numpy as np

from tacit.data.sources import column_names
from tacit.errors import ParameterError
from tacit.estimators.base import SiteSide
from tacit.estimators.regression_fitted import FittedRegression
from tacit.estimators.regression_release import Design, SiteSum, summarise
from tacit.estimators.regression_rounds import Collector, Holder, check_rank
from tacit.estimators.regression_summary import SiteSummary
from tacit.estimators.site import Site
from tacit.mechanisms.additive import Gaussian
from tacit.mechanisms.noise import Noise
from tacit.privacy.guarantee import Certificate, Privacy
from tacit.privacy.ledger import Reservation
from tacit.privacy.published import mistyped_gaussian_noise
from tacit.rounds.inprocess import run
from tacit.rounds.messages import Message
from tacit.rounds.protocol import Failure

__all__ = ["ReleasingRegression"]

_APART = "the sites hold different rows"


class ReleasingRegression(FittedRegression):
    """The part of `PrivateLinearRegression` that releases; see there."""

    privacy: Privacy | None
    calibration: str
    noise: Any
    on_failure: str
    failures_: list[Failure]

    @abstractmethod
    def _design(self, features: int | None = None) -> Design:
        """Return what is public about a release."""

    @abstractmethod
    def _mechanism(self, design: Design) -> Gaussian:
        """Return the mechanism of a release."""

    def _release_sites(self, sites: list[Site], alone: bool) -> list[Failure]:
        """Add up every site's rows, reserve, release through the gate; return who failed there.

        ``alone`` says that nobody else has released before.
        """
        design = self.design_
        assert design is not None
        names, mechanism = self._public.names(design, self.target), self._mechanism(design)
        if not self._public.by_name:
            self._check_labels(sites)
        loaded: dict[str, SiteSum] = {}
        for site in sites:  # the holder's own business, before anything is paid for
            try:
                loaded[site.name] = self._load(site, design, names)
            except Exception as error:
                if self.on_failure == "stop":
                    if isinstance(error, ParameterError):
                        raise ParameterError(f"site {site.name!r}: {error}") from None
                    raise
                self.failures_.append(Failure.of(0, site.name, error))
        single = alone and len(sites) == 1
        sites = [site for site in sites if site.name in loaded]
        if not sites:
            return []
        if single or (alone and mechanism.scale == 0.0):
            whole = sum(total.total.value() for total in loaded.values())
            count = sum(total.count for total in loaded.values())
            check_rank(whole, count, design, names)
        reservations = self._reserve(sites, "linear regression")
        sources = {site.name: self._noise(self.noise, site.name) for site in sites}
        holders = [
            Holder(
                site.name, loaded[site.name], design, mechanism, reservations[site.name],
                sources[site.name],
            )
            for site in sites
        ]  # fmt: skip
        collector = Collector(design)
        # all have paid: what one site fails to send does not cost the others their release
        self.record_ = run(collector, holders, on_failure="exclude")
        self.failures_ += self.record_.failures
        assumptions = design.assumptions(names)
        if len(sites) > 1 or self.summaries_:
            assumptions += (_APART,)
        for site in sites:
            if (reply := collector.replies_by_site.get(site.name)) is None:
                continue
            certificate = self._certificate(
                site, reservations[site.name], sources[site.name], assumptions
            )
            self.summaries_[site.name] = self.summary_of(site.name, reply, certificate)
        return self.record_.failures

    def summary_of(self, site: str, reply: Message, certificate: Certificate) -> SiteSummary:
        """Return a site's reply to `coordinator_side` as a summary, which `fit` takes.

        Parameters
        ----------
        site, reply, certificate
            Who released, what, and under which guarantee.
        """
        design = self.design_
        assert design is not None
        rows = float(reply["rows"][0]) if "rows" in reply.arrays else None
        smallest = float(reply["vector"][-1]) if design.eigenvalue else None
        sd = math.sqrt(self._mechanism(design).variance())
        return SiteSummary(
            site, self._public.names(design, self.target), design,
            design.unpack(reply["vector"], sd, rows), certificate, smallest,
        )  # fmt: skip

    # -- sides in different places ----------------------------------------------------------

    def coordinator_side(self) -> Collector:
        """Return the coordinator of a fit whose sites are elsewhere; see `summary_of`."""
        self._check_parameters()
        self.summaries_, self.failures_, self.feature_names_in_ = {}, [], []
        self.design_ = self._design()
        return Collector(self.design_)

    def site_side(self, site: Site, run: str) -> SiteSide:
        """Reserve a release and return this site's side of a fit.

        Parameters
        ----------
        site
            The site's data and its ledger.
        run
            The name of the run: taken up again under its name, it is not charged again.
        """
        self._check_parameters()
        design = self._design()
        names, mechanism = self._public.names(design, self.target), self._mechanism(design)
        self.feature_names_in_ = []
        if not self._public.by_name:
            self._check_labels([site])
        total = self._load(site, design, names)
        reservation = self._reserve([site], "linear regression", run)[site.name]
        noise = self._noise(self.noise, site.name)
        assumptions = (*design.assumptions(names), _APART)
        return SiteSide(
            Holder(site.name, total, design, mechanism, reservation, noise),
            lambda: self._certificate(site, reservation, noise, assumptions),
        )

    def _width(self, sites: list[Site], summaries: list[SiteSummary]) -> int | None:
        """Return how many features the sites have, where only a norm is public."""
        if not self._public.is_norm:
            return None
        if not sites:
            return summaries[0].design.features
        data = sites[0].data
        if not isinstance(data, tuple) or len(np.shape(data[0])) != 2:
            raise ParameterError(
                "a public norm alone goes with arrays: pass pairs (X, y), with two axes of X"
            )
        return int(np.shape(data[0])[1])

    def _check_labels(self, sites: list[Site]) -> None:
        """Note how the columns of X are called where bounds go by their order."""
        for site in sites:
            pair = isinstance(site.data, tuple) and len(site.data) == 2
            labels = column_names(site.data[0]) if pair else []
            self.feature_names_in_ = self.feature_names_in_ or labels
            if labels and labels != self.feature_names_in_:
                raise ParameterError(
                    f"site {site.name!r} has the columns {labels[:20]}, not "
                    f"{self.feature_names_in_[:20]}: bounds in a list go by their order, pass "
                    "bounds={feature: (low, high)}"
                )

    def _load(self, site: Site, design: Design, names: tuple[str, ...]) -> SiteSum:
        """Add up a site's rows; what cannot be used is refused, to the holder."""
        columns = names[:-1] if self._public.by_name else None
        total = summarise(site.data, design, columns, self.target)
        rows = total.count // design.average
        if rows < design.coefficients:
            raise ParameterError(
                f"{rows} rows are fewer than the {design.coefficients} coefficients: merge it "
                "with another site"
            )
        return total

    def _certificate(
        self, site: Site, reservation: Reservation | None, noise: Noise,
        assumptions: tuple[str, ...],
    ) -> Certificate:  # fmt: skip
        if self.calibration == "certified":
            return self._certify(site, reservation, noise, assumptions)
        assert self.privacy is not None and reservation is not None
        published = mistyped_gaussian_noise(self.privacy.epsilon, self.privacy.delta)
        read = "bounds, means and standard deviations were read from the data and count as public"
        return Certificate.issue(
            self.privacy,
            self.schedule(),
            assumptions=(read, "the number of rows is public", *assumptions, *noise.assumptions),
            claimed_epsilon=published.claimed_epsilon,
            claim=published.claim,
            holder=site.name,
            ledger=reservation.entry,
        )
