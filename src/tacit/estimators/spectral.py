"""`SpectralEstimator`: how topic models and mixtures are learned from noisy moments.

What is released and why it is private stands in `tacit.estimators.spectral_release`, who sends
what in `tacit.estimators.spectral_rounds`, and how components follow from moments in
`tacit.models.whitening` and `tacit.inference.power`. This class joins them; its two children say
what a document or a sample is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.rng import generator
from tacit.errors import NotCertified, ParameterError, SiteFailure
from tacit.estimators import spectral_published as published
from tacit.estimators.base import PrivateEstimator, SiteSide
from tacit.estimators.release import write_release
from tacit.estimators.site import Site
from tacit.estimators.spectral_release import Plan
from tacit.estimators.spectral_rounds import Holder, Spectrum, check_room
from tacit.estimators.spectral_signal import check_signal
from tacit.inference.power import power_method
from tacit.mechanisms.noise import Noise
from tacit.models.moments import DocumentMoments, SampleMoments
from tacit.models.whitening import Whitening, noise_edge, whiten
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.events import ADD_REMOVE, DpEvent
from tacit.privacy.guarantee import Certificate, Privacy
from tacit.privacy.ledger import Ledger, Reservation
from tacit.rounds.aggregate import Aggregator, PlainAggregator, SumAggregator
from tacit.rounds.inprocess import run
from tacit.rounds.protocol import Failure, RunRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST_COMPONENTS", "STRATEGIES", "SpectralEstimator"]

MOST_COMPONENTS = 200  # `tacit.models.moments.SHRINK` covers rounding up to here
STRATEGIES = ("certified", *published.STRATEGIES)
COMMON: Mapping[str, Constraint] = {
    "share": Real(0, 1, open_low=True, open_high=True),
    "restarts": AnyOf(Integer(1), None),
    "iterations": Integer(1),
    "privacy": AnyOf(InstanceOf(Privacy), None),
    "strategy": OneOf(*STRATEGIES),
    "calibration": OneOf("certified", "published"),
    "on_failure": OneOf("stop", "exclude"),
    "ledger": AnyOf(InstanceOf(Ledger), None),
    "random_state": AnyOf(Integer(0), None),
}


class SpectralEstimator(PrivateEstimator, ABC):
    """The common part of `SingleTopicModel` and `GaussianMixture`; see there."""

    share: float
    restarts: int | None
    iterations: int
    privacy: Privacy | None
    strategy: str
    calibration: str
    on_failure: str
    random_state: int | None
    plan_: Plan | None = None
    _unit: ClassVar[str]
    _purpose: ClassVar[str]

    # -- what a child says -------------------------------------------------------------------

    @abstractmethod
    def _rank(self) -> int:
        """Return how many components are asked for."""

    @abstractmethod
    def _public_size(self) -> int | None:
        """Return D where the parameters state it."""

    @abstractmethod
    def _moments(self, data: Any) -> DocumentMoments | SampleMoments:
        """Read one holder's data; what cannot be used is refused, to the holder."""

    @abstractmethod
    def _learn(self, found: Spectrum, white: Whitening) -> None:
        """Turn released moments into attributes: post-processing only."""

    def _notes(self) -> tuple[str, ...]:
        return ()

    # -- what is public ----------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        privacy = self.privacy
        if (self.strategy == "certified") != (self.calibration == "certified"):
            raise ParameterError(
                f"strategy {self.strategy!r} and calibration {self.calibration!r} do not go "
                "together: 'agn', 'avn' and 'dp-tpm' are published calibrations, pass "
                "calibration='published' with them and only with them"
            )
        if privacy is None or math.isinf(privacy.epsilon):
            if self.calibration == "published":
                raise ParameterError("a published calibration needs privacy=Privacy(…)")
            return
        if privacy.unit != self._unit:
            raise ParameterError(
                f"privacy.unit must be {self._unit!r} for {self._purpose}, got {privacy.unit!r}"
            )
        if privacy.trust not in ("central", "site", "aggregator"):
            raise ParameterError(
                f"privacy.trust must be 'central', 'site' or 'aggregator', got {privacy.trust!r}"
            )
        if privacy.delta <= 0.0:
            raise ParameterError(
                "privacy.delta must be positive, because whitening needs Gaussian noise: pass "
                "Privacy(…, delta=1e-6); OrthogonalDecomposition is purely ε-private with δ = 0, "
                "for tensors that need no whitening"
            )
        if privacy.trust == "aggregator" and self.on_failure == "exclude":
            raise ParameterError(
                "on_failure must be 'stop' with trust='aggregator': the share of the noise of a "
                "site that is lost would be missing from the sum"
            )

    def _plan(self, size: int, sites: int = 1) -> Plan:
        rank = self._rank()
        if rank > size:
            raise ParameterError(
                f"{rank} components cannot be found in {size} dimensions: pass at most {size}"
            )
        privacy = self.privacy
        neighbours = ADD_REMOVE if privacy is None else str(privacy.neighbours)
        return Plan(
            size, rank, self._unit == "row", neighbours, self.share, sites if self._secure else 1
        )

    @property
    def _secure(self) -> bool:
        """Whether only sums over sites are seen."""
        return self.privacy is not None and self.privacy.trust == "aggregator"

    def schedule(self) -> DpEvent:
        """Return everything that one fit releases at one site."""
        plan = self.plan_
        if plan is None:
            size = self._public_size()
            if size is None:
                raise NotCertified("the size is not stated: the price is known at fit only")
            plan = self._plan(size)
        if self.calibration == "published":
            assert self.privacy is not None
            return published.schedule(plan, self.privacy, self.strategy)
        return plan.event(self.privacy)

    def _charged(self) -> Privacy | None:
        """Return the request; a published calibration costs what it really gives."""
        if self.calibration == "certified" or self.privacy is None:
            return self.privacy
        real = epsilon_of(self.schedule(), self.privacy.delta)
        return self.privacy.with_epsilon(max(real * 1.001, 1e-9))

    # -- fitting -----------------------------------------------------------------------------

    def _fit(self, data: Any) -> None:
        self._check_parameters()
        self.plan_ = None
        sites = self._as_sites(data)
        if self.calibration == "published" and len(sites) > 1:
            raise ParameterError(
                f"strategy {self.strategy!r} is published for one holder: pass the data of one, "
                "or strategy='certified' with calibration='certified' for several sites"
            )
        loaded = self._load(sites)
        sites = [site for site in sites if site.name in loaded]
        sizes = {m.size - (self._unit == "row") for m in loaded.values()}
        if len(sizes) > 1:
            raise ParameterError(f"the sites have different sizes: {sorted(sizes)}")
        size = sizes.pop()
        stated = self._public_size()
        if stated is not None and stated != size:
            raise ParameterError(f"the data have {size} dimensions, {stated} were stated")
        self.plan_ = self._plan(size, len(sites))
        if self._secure:  # the holders' own business, before anybody pays
            second = self.plan_.mechanisms(self.privacy)[0]
            for moments in loaded.values():
                check_room(self.plan_, second, moments, len(sites))
        reservations = self._reserve(sites, self._purpose)
        sources = {site.name: self._noise("grid", site.name) for site in sites}
        rng = generator(self.random_state, "spectral")
        if self.calibration == "published":
            name = sites[0].name
            self._fit_published(loaded[name], reservations[name], sources[name], rng)
        else:
            self._fit_rounds(sites, loaded, reservations, sources, rng)
        self._certify_all(sites, reservations, sources)

    def _load(self, sites: Sequence[Site]) -> dict[str, DocumentMoments | SampleMoments]:
        """Read every site's data, before anything is paid for."""
        loaded: dict[str, DocumentMoments | SampleMoments] = {}
        self.failures_: list[Failure] = []
        for site in sites:
            try:
                loaded[site.name] = self._moments(site.data)
            except Exception as error:
                if self.on_failure == "exclude" and len(sites) > 1:
                    self.failures_.append(Failure.of(0, site.name, error))
                elif isinstance(error, ParameterError) and site.name != "the data":
                    raise ParameterError(f"site {site.name!r}: {error}") from None
                else:
                    raise
        if not loaded:
            reasons = "; ".join(f"{failure.site}: {failure.reason}" for failure in self.failures_)
            raise SiteFailure(f"no site can read its data ({reasons})")
        return loaded

    def _fit_rounds(
        self,
        sites: Sequence[Site],
        loaded: Mapping[str, DocumentMoments | SampleMoments],
        reservations: Mapping[str, Reservation | None],
        sources: Mapping[str, Noise],
        rng: np.random.Generator,
    ) -> None:
        plan = self.plan_
        assert plan is not None
        mechanisms = plan.mechanisms(self.privacy)
        secure = self._secure
        aggregator: Aggregator = SumAggregator(len(sites)) if secure else PlainAggregator()
        found = self._spectrum(len(sites), rng)
        holders = [
            Holder(
                site.name, loaded[site.name], plan, mechanisms, reservations[site.name],
                sources[site.name],
            )
            for site in sites
        ]  # fmt: skip
        self.record_ = run(found, holders, aggregator=aggregator, on_failure=self.on_failure)
        self.failures_ += self.record_.failures
        self._take(found, len(self.record_.sites), rng)

    def _noise_sd(self, sites: int) -> float:
        """Return the standard deviation on the diagonal of the sum's second moment."""
        plan = self.plan_
        assert plan is not None
        return plan.mechanisms(self.privacy)[0].scale * math.sqrt(sites / plan.sites)

    def _spectrum(self, sites: int, rng: np.random.Generator) -> Spectrum:
        plan = self.plan_
        assert plan is not None
        edge = noise_edge(self._noise_sd(sites), plan.matrix_size)
        return Spectrum(plan, plan.mechanisms(self.privacy), self._secure, rng, edge)

    def _take(self, found: Spectrum, sites: int, rng: np.random.Generator) -> None:
        """Turn released moments into components."""
        sd = self._noise_sd(sites)
        white = whiten(found.values, found.basis, noise_edge(sd, found.plan.matrix_size))
        check_signal(white, sd, self.privacy)
        self.eigenvalues_ = white.values
        self._rng = rng
        self._learn(found, white)

    # -- sides in different places -------------------------------------------------------------

    def _open(self, shares: int) -> Plan:
        """Return everything public, for sides that never meet."""
        self._check_parameters()
        size = self._public_size()
        if size is None or self.calibration == "published":
            raise ParameterError(
                "sides in different places need a stated size and a certified calibration"
            )
        self.plan_ = self._plan(size, shares)
        return self.plan_

    def coordinator_side(self, sites: int, shares: int) -> Spectrum:
        """Return the coordinator of a fit whose sites are elsewhere; see `conclude`.

        Parameters
        ----------
        sites, shares
            How many sites there are, and into how many shares noise is split under a secure sum:
            as many as must at least be in every sum.
        """
        self._open(shares)
        self._coordinator_rng = generator(self.random_state, "spectral")
        return self._spectrum(sites, self._coordinator_rng)

    def site_side(self, site: Site, sites: int, shares: int, run: str) -> SiteSide:
        """Reserve both releases and return this site's side of a fit.

        Parameters
        ----------
        site
            The site's data and its ledger.
        sites, shares
            As in `coordinator_side`.
        run
            The name of the run: taken up again under its name, it is not charged again.
        """
        plan = self._open(shares)
        mechanisms, moments = plan.mechanisms(self.privacy), self._load([site])[site.name]
        if moments.size - (self._unit == "row") != plan.size:
            raise ParameterError(f"the data have another size than the stated {plan.size}")
        if self._secure:
            check_room(plan, mechanisms[0], moments, sites)
        reservation = self._reserve([site], self._purpose, run)[site.name]
        noise = self._noise("grid", site.name)
        return SiteSide(
            Holder(site.name, moments, plan, mechanisms, reservation, noise),
            lambda: self._certify(site, reservation, noise, self._assumptions(sites)),
        )

    def conclude(
        self, found: Spectrum, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> None:
        """Learn from what the rounds gave, with every site's certificate.

        Parameters
        ----------
        found, record, certificates
            After the last round.
        """
        self.record_ = record
        self._take(found, len(record.sites), self._coordinator_rng)
        self._keep_certificates(certificates)

    def _decompose(
        self, third: NDArray[np.float64], white: Whitening
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return components (rows) and N·w of a third moment in the basis, heaviest first."""
        found = power_method(
            white.tensor(third), self._rank(), self._rng, restarts=self.restarts,
            iterations=self.iterations,
        )  # fmt: skip
        values = found.values
        mass = np.where(values > 0.0, np.maximum(values, 1e-150) ** -2.0, 0.0)
        order = np.argsort(-mass, kind="stable")
        return white.components(values, found.vectors)[order], mass[order]

    def _fit_published(
        self,
        moments: DocumentMoments | SampleMoments,
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        raise TypeError(f"{type(self).__name__} has no published strategy")

    def _certify_all(
        self,
        sites: Sequence[Site],
        reservations: Mapping[str, Reservation | None],
        sources: Mapping[str, Noise],
    ) -> None:
        notes = self._assumptions(len(sites))
        found: dict[str, Certificate] = {}
        for site in sites:
            reservation, noise = reservations[site.name], sources[site.name]
            if self.calibration == "published":
                assert self.privacy is not None and reservation is not None
                found[site.name] = Certificate.issue(
                    self.privacy, self.schedule(), assumptions=notes + noise.assumptions,
                    claimed_epsilon=self.privacy.epsilon, claim=published.CLAIMS[self.strategy],
                    holder=site.name, ledger=reservation.entry,
                )  # fmt: skip
            else:
                found[site.name] = self._certify(site, reservation, noise, notes)
        self._keep_certificates(found)

    def _assumptions(self, sites: int) -> tuple[str, ...]:
        assert self.plan_ is not None
        notes = self.plan_.assumptions() + self._notes()
        if sites > 1:
            notes += (f"the sites hold different {self._unit}s",)
        if self.plan_.sites > 1:
            notes += self.plan_.mechanisms(self.privacy)[0].assumptions
        return notes

    def _keep_certificates(self, certificates: Mapping[str, Certificate]) -> None:
        self.certificates_: dict[str, Certificate] = dict(certificates)
        self.certificate_: Certificate = max(
            self.certificates_.values(), key=lambda certificate: certificate.epsilon
        )

    def _write(self, folder: Any, arrays: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        if not hasattr(self, "certificates_"):
            raise ParameterError("there is nothing to release: call fit first")
        write_release(folder, type(self).__name__, arrays, self.certificates_, settings)
