"""The common base of estimators: what a user touches, the same for every family.

`PrivateEstimator` has the whole of a fit. A family says what is public (`_agree`), how one holder
reads its own data (`_read`), and what is made of what was learned (`_conclude`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from tacit._core.answers import Answer
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer
from tacit.data.reading import Table
from tacit.data.schema import Columns
from tacit.data.shards import Shards
from tacit.errors import HoldsData, ParameterError, SiteFailure
from tacit.estimators.afterwards import Paid, concluded, kept_by
from tacit.estimators.agreement import Agreement
from tacit.estimators.blanks import Blank
from tacit.estimators.checking import Findings, examined, loaded_by
from tacit.estimators.facts import Facts
from tacit.estimators.features import check_fitted
from tacit.estimators.fit import Fitting, Outcome, Place, fitting
from tacit.estimators.loading import check_shards, laid_out
from tacit.estimators.plain import Estimator
from tacit.estimators.predicting import predicted, schema_of
from tacit.estimators.price import Price, price_of
from tacit.estimators.release import Release, read_release
from tacit.estimators.release.models import adopted, write_model
from tacit.estimators.release.promise import gathered
from tacit.estimators.row_privacy import check_dropping, check_row_privacy
from tacit.estimators.site import ALONE, Site, check_curated, check_own_epsilons, check_sites
from tacit.privacy.certificate import Certificate
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.promises import promise
from tacit.rounds.run import exhausted
from tacit.rounds.sides import Failure, RunRecord

__all__ = ["PAID", "PrivateEstimator"]

# what is asked for, who pays, and whether the noise is seeded
PAID: Mapping[str, Constraint] = {
    "privacy": AnyOf(InstanceOf(Privacy), None),
    "ledger": AnyOf(InstanceOf(Ledger), None),
    "random_state": AnyOf(Integer(0), None),
}


class PrivateEstimator(Estimator):
    """Base of private estimators, with scikit-learn's habits.

    A subclass stores its parameters untouched and constrains them in ``_constraints`` (checked at
    ``fit``). Clones share the ledger of the original: fitting twice is charged twice.
    """

    _purpose: ClassVar[str] = ""  # a few words for ledgers
    _closed: ClassVar[tuple[str, ...]] = (
        "privacy", "ledger", "random_state", "progress", "checkpoint", "noise", "on_failure",
    )  # fmt: skip
    _takes_shards: ClassVar[bool] = False  # whether a holder may pass `Shards`
    _secret: int | None = None  # the seed of an audit's noise
    _before: tuple[str, ...] = ()  # what a pipeline knows of the steps before, for certificates
    _upstream: Mapping[str, Certificate] = MappingProxyType({})  # of private steps before this one
    _inference_only: ClassVar[tuple[str, ...]] = ()  # parameters that no release depends on
    _default_neighbours: str | None = None  # where only one relation makes sense
    _stated_facts: ClassVar[tuple[str, ...]] = ()  # what files state besides parameters
    _told: ClassVar[tuple[str, ...]] = ()  # the settings that a release carries, by name
    # what a file of `tacit new` leaves blank besides columns: "section.key" → what to write there
    _to_state: ClassVar[Mapping[str, Blank]] = {}
    # fitted attributes that hold people's own data: what that is, and what is read instead
    _raw_parts: ClassVar[Mapping[str, tuple[str, str]]] = {}

    certificates_: dict[str, Certificate]
    certificate_: Certificate
    record_: RunRecord
    failures_: list[Failure]
    shared_: dict[str, Any]
    paid_: Paid  # of a fit that failed after it was charged
    cites_: tuple[str, ...] = ()

    # -- what a family says ----------------------------------------------------------------

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        """Return what is public about a fit; called once per fit.

        Parameters
        ----------
        facts
            What `_facts` said of each site; None of a site whose data are not here.
        shares
            Into how many shares noise is split under a secure sum.
        """
        raise TypeError(f"{type(self).__name__} does not say what it releases")

    def _facts(self, data: Any) -> Any:
        """Return what is public and only the holder knows, such as sizes; no value is read."""
        return None

    def _facts_held(self, data: Any) -> Any:
        """Return the same of shards: what the first of them says, unless a family asks all."""
        held = issubclass(type(data), Shards)  # without a look at anything else
        return self._facts(data.pieces[0].read() if held else data)

    def _laid_out(self, shards: Shards) -> Shards:
        """Return shards in which each unit of privacy lies in one."""
        return laid_out(shards, self._stated_columns)

    def _imagined(self) -> Any:
        """Return the facts of a small holder that is only imagined, for audits and plans."""
        return None

    def _read(self, data: Any, agreement: Agreement) -> Any:
        """Read a holder's data as its side takes them; bad data are refused, to the holder."""
        return data

    def _read_shard(self, data: Any, agreement: Agreement) -> Any:
        """Read one shard; as all of a holder's data, unless a family says."""
        return self._read(data, agreement)

    def _look_over(
        self, sites: Sequence[Site], loaded: Mapping[str, Any], agreement: Agreement
    ) -> None:
        """Raise what is wrong with the data of all sites together, before anybody pays."""

    def _conclude(self, outcome: Outcome) -> None:
        """Turn what was learned into attributes: post-processing only."""
        raise TypeError(f"{type(self).__name__} makes nothing of what was learned")

    def _found(self, level: float) -> Answer:
        """Return what was learned, as a person reads it: released numbers only.

        Parameters
        ----------
        level
            The probability that intervals are made for. They count what sampling and what noise
            leaves open. The promise and the certificates are the base's to add.
        """
        return Answer(type(self).__name__)

    def _settings(self) -> dict[str, Any]:
        """Return the public settings that `_told` lists: the parameters of these names."""
        return {name: getattr(self, name) for name in self._told}

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        """Return the names of every released array's dimensions, and the names along them."""
        return {}, {}

    def _adopt(self, release: Release) -> None:
        """Take up what was released."""
        raise TypeError(f"{type(self).__name__} cannot be read back")

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return the parameters and the facts that a file or a proposal states.

        Parameters
        ----------
        settings
            As they come from TOML or JSON.
        """
        return dict(settings), None

    def _tables(self, tables: Mapping[str, Any], facts: Any) -> Any:
        """Return the data of a site from its tables; unless overridden, its only table.

        Parameters
        ----------
        tables
            Name → ``{"table", "columns", "value"}``, as the site's own file names them.
        facts
            As `stated` returned them.
        """
        if len(tables) != 1:
            raise ParameterError(f"one table is read, and {len(tables)} are named: name one")
        (found,) = tables.values()
        return found["table"]

    @classmethod
    def _simulate(cls, facts: Facts, seed: int) -> float:
        """Return the error on simulated data of a planned task, through the real estimator."""
        raise ParameterError(f"{cls.__name__} has no simulation to plan with")

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        """Return the table of answers: the rows, and a column ``prediction`` beside them.

        Parameters
        ----------
        table
            Rows, under the names of the fit.
        data
            A site's own data, where predictions are made at a site.
        interval
            Also return ``low`` and ``high``, which hold a new value with this probability.
        """
        return predicted(self, table)

    def _row_schema(self) -> dict[str, dict[str, Any]]:
        """Return what a row to predict for holds: column → its JSON Schema; empty: nothing is."""
        return schema_of(self)

    # -- what is true of every family ------------------------------------------------------

    @classmethod
    def _proposed(
        cls, settings: Mapping[str, Any], privacy: Privacy | None, seed: int | None
    ) -> tuple[Self, Any]:
        """Return the estimator that settings propose, and the facts that they state.

        Parameters
        ----------
        settings
            Public ones; what decides who pays or what is random cannot be proposed.
        privacy, seed
            What the proposal asks for.
        """
        wrong = sorted(set(cls._closed) & set(settings))
        if wrong:
            raise ParameterError(f"a proposal does not set {wrong[0]!r}")
        parameters, facts = cls._stated(settings)
        known = set(cls._get_param_names())
        unknown = sorted(set(parameters) - known)
        if unknown:
            raise ParameterError(f"{cls.__name__} has no setting {unknown[0]!r}")
        more: dict[str, Any] = {"privacy": privacy, "random_state": seed}
        model = cls(**parameters, **{n: v for n, v in more.items() if n in known})
        model._check_parameters()
        return model, facts

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: refused where it would carry people's data out of the house."""
        for name, (held, back) in self._raw_parts.items():
            if vars(self).get(name):
                raise HoldsData.of(self, held, back)
        state: dict[str, Any] = super().__getstate__()
        return state

    def _answer(self, level: float) -> Answer:
        check_fitted(self, "certificates_")
        certificates = self.certificates_
        nothing = Answer(type(self).__name__, "Nothing could be made of what was released.")
        found = self._found(level) if hasattr(self, "shared_") else nothing
        told = {f"The certificate of {who}": str(one) for who, one in certificates.items()}
        promised = promise(certificates)
        return replace(found, promise=promised, details={**found.details, **told})

    def _given(self, name: str, default: Any = None) -> Any:
        return self.get_params(deep=False).get(name, default)

    def _request(self, sites: int = 1) -> Privacy | None:
        """Return the guarantee asked for, with whatever only makes sense one way filled in."""
        privacy: Privacy | None = self._given("privacy")
        if privacy is None:
            return None
        trust, given = "site" if sites > 1 else "central", self._default_trusts
        if given and trust not in given:
            trust = given[0]
        return privacy.suiting(self._default_unit, trust, self._default_neighbours)

    @property
    def _default_trusts(self) -> tuple[str, ...]:
        """The trusts that the method gives, the usual one first; empty where any will do."""
        return ()

    @property
    def _stated_columns(self) -> Columns | None:
        """What is public about a table, where it was stated as columns."""
        columns = self._given("columns")
        return None if columns is None else Columns.of(columns)

    @property
    def _default_unit(self) -> str:
        """The unit of privacy where nobody stated one."""
        columns = self._stated_columns
        return "row" if columns is None else columns.unit

    def _check_dropping(self) -> None:
        check_dropping(self._request(), self._stated_columns)

    def _check_row_privacy(self, what: str, *trusts: str) -> None:
        known = trusts or ("central", "site")
        check_row_privacy(self._request(), self._stated_columns, self._default_unit, what, known)

    def price(self, sites: Sequence[Site] | Site | None = None) -> Price:
        """Return what `fit` would cost each site; no value is read and nothing changes.

        Parameters
        ----------
        sites
            The sites; without them, the price for one holder.
        """
        self._check_parameters()
        given = self._given("privacy")
        if sites is None:
            alone = [Site(ALONE, None, self._given("ledger"))]
            return price_of(self._agree([None]), alone, given)
        holders = self._as_sites(sites)
        return price_of(self._agreed(holders), holders, given)

    def _agreed(self, sites: Sequence[Site]) -> Agreement:
        """Return the agreement with sites that are in this process."""
        privacy = self._request(len(sites))
        secure = privacy is not None and privacy.trust == "aggregator"
        facts = [None if site.data is None else self._facts_held(site.data) for site in sites]
        return self._agree(facts, len(sites) if secure else 1)

    def _as_sites(self, data: Any) -> list[Site]:
        """Return the sites to fit on; a single table is one holder with the own ledger."""
        own = self._given("ledger")
        if isinstance(data, Site):
            data = [data if data.ledger is not None else replace(data, ledger=own)]
        if isinstance(data, list | tuple) and data and all(isinstance(s, Site) for s in data):
            sites = list(data)
            check_curated(len(sites), self._given("privacy"))
        else:
            sites = [Site(ALONE, data, own)]
        check_shards(sites, taken=self._takes_shards)
        check_sites(sites)
        check_own_epsilons(sites, self._given("privacy"))
        return sites

    def check(self, data: Any, y: Any = None) -> Findings:
        """Return everything that is wrong with the data, in one pass; nothing is paid.

        Parameters
        ----------
        data, y
            As in `fit`: of one holder, or a list of `Site`. What is found is for whoever holds
            the data: it enters no record and no message.
        """
        self._check_parameters()
        return examined(self, self._as_sites(data if y is None else (data, y)))

    def fit(self, data: Any, y: None = None) -> Self:
        """Learn from the data of one holder or of several sites.

        Parameters
        ----------
        data
            A table of one holder, or a list of `Site`.
        y
            Ignored.
        """
        self._check_parameters()
        sites = self._as_sites(data)
        self._keep(self._run(sites, self._agreed(sites)))
        return self

    def _run(self, sites: Sequence[Site], agreement: Agreement) -> Outcome:
        """Read what every site holds, and run the agreement over those that can take part."""
        with kept_by(self):
            return exhausted(self._running(sites, agreement))

    def _running(self, sites: Sequence[Site], agreement: Agreement) -> Fitting:
        """Do the same round by round, for whoever takes these one by one."""
        place = self._place()
        exclude = place.on_failure == "exclude" and len(sites) > 1
        loaded, failures = self._load(sites, agreement, exclude)
        if not loaded:
            reasons = "; ".join(f"{failure.site}: {failure.reason}" for failure in failures)
            raise SiteFailure(f"no site can read its data ({reasons})")
        there = [site for site in sites if site.name in loaded]
        outcome = yield from fitting(agreement, there, loaded, place)
        outcome.record.failures[:0] = failures
        return outcome

    def _load(
        self, sites: Sequence[Site], agreement: Agreement, exclude: bool
    ) -> tuple[dict[str, Any], list[Failure]]:
        """Read what every site holds; those that cannot are left out only to ``exclude`` them."""
        return loaded_by(self, sites, agreement, exclude)

    def _place(self) -> Place:
        given = self._given
        return Place(
            self._purpose,
            given("random_state"),
            given("noise"),
            given("on_failure", "stop"),
            given("checkpoint"),
            given("progress", False),
            self._secret,
            self._before,
        )

    def __sklearn_clone__(self) -> Self:
        """Return a copy with the same parameters, which a pipeline has told the same."""
        twin: Self = super().__sklearn_clone__()
        if self._before:
            twin._before = self._before
        return twin

    def _keep(self, outcome: Outcome) -> None:
        """Keep what a fit gave; nothing of an earlier fit stays."""
        concluded(self, outcome)

    def release(
        self,
        folder: str | os.PathLike[str],
        *,
        purpose: str = "",
        contact: str = "",
        ledgers: Sequence[Ledger] | None = None,
    ) -> Path:
        """Write what was learned with its certificates: JSON, arrays and tables, never pickle.

        Parameters
        ----------
        folder
            Where to; it must not exist, or be empty.
        purpose, contact
            What the release is for, and whom to ask, in a few words.
        ledgers
            Those whose keys sign it, where they have one; the own ledger unless given, [] nobody.
        """
        return write_model(self, folder, purpose, contact, ledgers)

    @classmethod
    def from_release(cls, folder: str | os.PathLike[str]) -> Self:
        """Read a release back, every byte and certificate of it verified.

        Parameters
        ----------
        folder
            Where `release` wrote it.
        """
        model: Self = adopted(cls, read_release(folder), folder)
        return model

    def _rest_on(self, certificates: Mapping[str, Certificate]) -> None:
        """Keep every certificate that what was learned rests on, those before this one too."""
        self.certificates_ = gathered([*certificates.items(), *self._upstream.items()])
        self.certificate_ = max(self.certificates_.values(), key=lambda one: one.epsilon)
