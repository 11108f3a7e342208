"""`UsedAtSites`: what sites do with what was learned, after a fit or from a release.

All of it happens at a site, from its own cells and what was released, and is the site's own:
nothing here is charged, and nothing leaves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from tacit.data.members import Members
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.features import NothingFitted, check_fitted
from tacit.estimators.site import ALONE, Site
from tacit.factorization.answers import arviz_of
from tacit.factorization.arrays import Factors, Floats
from tacit.factorization.draws import draws_of
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.together.at_site import AtSite
from tacit.factorization.together.own_files import (
    OwnSide,
    read_side,
    release_digest,
    write_side,
)
from tacit.factorization.together.problem import check_released, problem_of
from tacit.factorization.together.shape import SiteFactors, new_side

__all__ = ["UsedAtSites", "of_each"]


class UsedAtSites(PrivateEstimator):
    """An estimator whose sites predict with what was learned together.

    A family says which model it is, who is protected, and under which agreement sites predict.
    """

    parts_: dict[str, SiteFactors]  # the sites' sides
    _let_go: tuple[str, ...]  # the sites whose data were in shards
    labels_: dict[str, tuple[Any, ...]]
    _held: dict[str, dict[str, Relation]]  # the sites' own relations
    _taken: Factors  # the released arrays that sides predict from
    _about: Mapping[str, Any]  # everything that a release tells about the fit

    def coupled_model(self) -> CoupledModel:
        """Return the model that the parameters describe."""
        raise TypeError(f"{type(self).__name__} does not say what it factorizes")

    def _protected(self, model: CoupledModel) -> str:
        """Return the entity whose members are the sites' own."""
        raise TypeError(f"{type(self).__name__} does not say who is protected")

    def _agreed_here(self, sites: Sequence[Site]) -> Agreement:
        """Return an agreement under which sites predict: nothing is asked or released."""
        raise TypeError(f"{type(self).__name__} does not say what sites agree on")

    def adopt(self, sites: Sequence[Site] | Site, shared: Factors | None = None) -> Self:
        """Take in factors that were released earlier, to predict at sites, and return this.

        Nothing is released and nothing is charged: a site's members are fitted at the site, from
        its own cells and what is public by now. Members and cells may be new.

        Parameters
        ----------
        sites
            Who predicts.
        shared
            The arrays of a release (``read_release(folder).arrays``); those of this fit or
            release unless given.
        """
        self._check_parameters()
        found = vars(self).get("shared_") if shared is None else shared
        if found is None:
            raise NothingFitted("there is nothing to adopt: call fit, from_release or pass shared")
        holders = [sites] if isinstance(sites, Site) else list(sites)
        agreement = self._agreed_here(holders)
        check_released(problem_of(agreement), found)
        held = {site.name: self._read(site.data, agreement) for site in holders}
        seed = self._given("random_state")
        sides = {name: new_side(agreement, name, held[name], seed) for name in held}
        for side in sides.values():
            side.adopt(found)
        self._taken, self.parts_, self._held, self._let_go = found, sides, held, ()
        return self

    def _at(self, site: str) -> AtSite:
        """Return a site with its cells and its side."""
        if not vars(self).get("parts_") and not vars(self).get("_let_go"):
            raise NothingFitted("there is no site to predict at: call fit, adopt or load_site")
        if site in vars(self).get("_let_go", ()):
            raise ParameterError(
                f"the data of site {site!r} were in shards, which were let go: "
                f"adopt(Site({site!r}, cells)) predicts for the members whose cells these are"
            )
        if not isinstance(site, str) or site not in self.parts_:
            raise ParameterError(f"there is no site {site!r}: there are {list(self.parts_)}")
        model = self.coupled_model()
        return AtSite(self.parts_[site], self._held[site], model, self._protected(model))

    def predict(
        self,
        site: str,
        cells: Any,
        relation: str | None = None,
        *,
        return_variance: bool = False,
        interval: float | None = None,
        observation: bool = False,
        positions: bool = False,
    ) -> Any:
        """Return the expected values of cells of a site's relation.

        With ``method="sgld"`` and ``"local"`` they are means over draws, and have a posterior.

        Parameters
        ----------
        site
            Where: predictions are the site's own, and are no release.
        cells
            A table with a column for each entity, in any order; or rows of members in the order
            of the form, (cells, modes). Members go by their names, where the data had any.
        relation
            Which one, where the site has several.
        return_variance
            Also return the posterior variance of the expected values.
        interval
            Also return low and high, which hold the expected value with this probability.
        observation
            Whether variance or interval are those of a new value, its own noise included.
        positions
            Whether members are given by position all the same.
        """
        here = self._at(site)
        name = here.relation(relation)
        index = here.cells(name, cells, positions)
        if return_variance and interval is not None:
            raise ParameterError("pass return_variance or interval, not both")
        if not return_variance and interval is None:
            if observation:
                raise ParameterError("observation goes with return_variance or interval")
            return here.values(name, index)
        return here.posterior(name, index, interval, observation)

    def top(
        self,
        site: str,
        entity: str,
        given: Mapping[str, Any],
        n: int = 10,
        skip: Any = (),
        *,
        relation: str | None = None,
        positions: bool = False,
    ) -> list[tuple[Any, float]]:
        """Return the n members of an entity with the highest expected values at a site.

        Parameters
        ----------
        site
            Where.
        entity, given, n, skip, positions
            As in `CoupledFactorization.top`: for what, a member of every other entity of the
            relation, how many, and whom to leave out.
        relation
            Which one, where the site has several.
        """
        here = self._at(site)
        return here.top(here.relation(relation, entity), entity, given, n, skip, positions)

    def recommend(
        self,
        site: str,
        members: Any = None,
        n: int = 10,
        relation: str | None = None,
        exclude_seen: bool = True,
        *,
        given: Mapping[str, Any] | None = None,
        positions: bool = False,
    ) -> Any:
        """Return what a site's members would value most: member → [(what, expected value), …].

        Parameters
        ----------
        site
            Where.
        members
            Of the protected entity: a list, one member (then just its list), or None for all.
        n
            How many for each.
        relation
            Which one, where several name the protected entity.
        exclude_seen
            Whether cells that the site lists already are left out.
        given
            A member of every entity that is neither protected nor recommended.
        positions
            Whether members are positions, going in and coming out.
        """
        here = self._at(site)
        name = here.relation(relation, here.protected)
        return here.recommend(name, members, n, exclude_seen, given, positions)

    def score(self, site: str, data: Any) -> float:
        """Return minus the mean divergence of given cells of a site's members.

        It is computed from raw cells: the site's own, and no release. Under a Euclidean
        divergence, ``(-2 * score) ** 0.5`` is the root mean squared error.

        Parameters
        ----------
        site
            Where.
        data
            As for `fit`: relation → table, array or `Relation`; just that where there is one.
        """
        return self._at(site).score(data)

    def fold_in(self, site: str, data: Any, *, return_names: bool = False) -> Any:
        """Take in new members at a site, and return their rows; free, and no release.

        Their rows are solved from their own cells and what was released, at the site, which
        knows them by name from then on. Side relations alone suffice (cold start).

        Parameters
        ----------
        site
            Where.
        data
            As in `score`, of new members of the protected entity only.
        return_names
            Also return the names of the new members, in the order of the rows; first.
        """
        here, seed = self._at(site), self._given("random_state")
        relations, names = here.joined(data)
        side = new_side(here.side.agreement, site, relations, seed)
        side.resume(here.side.own(), self._taken)
        self.parts_[site], self._held[site] = side, relations
        rows = side.rows()[-len(names) :]
        return (names, rows) if return_names else rows

    def save_site(self, site: str, path: str | os.PathLike[str], *, replace: bool = False) -> Path:
        """Write a site's own side to a file: its raw cells, and factors that never left it.

        Private, for the holder alone; `load_site` takes it up beside the release that it
        belongs to. Neither pickle nor code is in it.

        Parameters
        ----------
        site
            Whose.
        path
            The file; nobody else may read it.
        replace
            Whether it may be written over.
        """
        here = self._at(site)
        if vars(self).get("shared_") is not self._taken:
            raise ParameterError(
                "the side belongs to no release of this model: fit, or from_release"
            )
        kept = OwnSide(site, dict(here.relations), here.side.own())
        return write_side(path, kept, release_digest(self._about, self.shared_), replace)

    def load_site(self, path: str | os.PathLike[str]) -> Self:
        """Take up a side that `save_site` wrote, and return this, which predicts there.

        Parameters
        ----------
        path
            The file; one that belongs to another release is refused.
        """
        check_fitted(self, "shared_")
        found = read_side(path, release_digest(self._about, self.shared_))
        agreement = self._agreed_here([Site(found.site, found.relations)])
        relations = self._read(found.relations, agreement)
        side = new_side(agreement, found.site, relations, self._given("random_state"))
        side.resume(found.own, self.shared_)
        self.parts_ = {**vars(self).get("parts_", {}), found.site: side}
        self._held = {**vars(self).get("_held", {}), found.site: relations}
        return self

    def factors(self, entity: str) -> dict[Any, Floats]:
        """Return the shared factor of an entity: member → its row; or its number without names."""
        check_fitted(self, "shared_")
        rows = self.shared_.get(entity) if isinstance(entity, str) else None
        if rows is None:
            raise ParameterError(f"there is no shared factor {entity!r}: {list(self.shared_)}")
        return Members(entity, len(rows), self.labels_.get(entity)).named(rows)

    def to_arviz(self, site: str | None = None) -> Any:
        """Return draws of ``method="sgld"`` or ``"local"`` as ArviZ ``InferenceData``: one chain.

        Parameters
        ----------
        site
            Where: all factors as the site has them, its members' rows included, which are its own
            and no release; without it the shared factors, which were released.
        """
        check_fitted(self, "shared_")
        if site is not None:
            return arviz_of(self._at(site).side.own_draws())
        return arviz_of(draws_of(self.shared_))


def of_each(sites: Sequence[Site], look: Callable[[Any], Any]) -> list[Any]:
    """Return what a look at every site's data gives; an error says whose they are."""
    found = []
    for site in sites:
        try:
            found.append(look(site.data))
        except ParameterError as error:
            where = "" if site.name == ALONE else f"site {site.name!r}: "
            raise ParameterError(f"{where}{error}") from None
    return found
