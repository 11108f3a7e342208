"""What each site brings: its ratings, and the privacy weights of them or of its users."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.data.problems import BadTable
from tacit.data.shards import Shards
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.site import Site
from tacit.factorization.offsets.weights import PrivacyWeights
from tacit.privacy.guarantee import Privacy
from tacit.recommender.method import Task
from tacit.recommender.ratings import Facts, Ratings, same_names, users_of

__all__ = ["held_at", "sites_with_weights", "task_of"]

_UNSTATED = (
    "items must be stated, and are never read from private ratings: pass items=[…], the public "
    "list of all items that may be rated, by their names"
)


def ratings_of(site: Site, own: Mapping[str, Any], over_sites: bool) -> Ratings:
    """Return a site's ratings; an error names the site where there are several."""
    try:
        return Ratings.of(site.data, **own)
    except ParameterError as error:
        if not over_sites or isinstance(error, BadTable):
            raise
        raise ParameterError(f"site {site.name!r}: {error}") from None


def held_at(
    site: Site, lay: Callable[[Shards], Any], own: Mapping[str, Any], over_sites: bool
) -> Site:
    """Return a site with its ratings, or with shards of them that ``lay`` lays out."""
    held = lay(site.data) if isinstance(site.data, Shards) else site.data
    if not isinstance(held, Shards):
        held = ratings_of(replace(site, data=held), own, over_sites)
    return replace(site, data=held)


def sites_with_weights(sites: Sequence[Site], weights: Any) -> list[Site]:
    """Return sites with the weights of their users, or with one for every rating."""
    if any(isinstance(site.data, Shards) for site in sites):
        raise ParameterError(
            "weights go with one table of ratings, whose users are known, and not with shards: "
            "state them by item (item_weights in a file), or pass one table"
        )
    return (_of_users if isinstance(weights, PrivacyWeights) else _of_ratings)(sites, weights)


def _of_users(sites: Sequence[Site], weights: PrivacyWeights) -> list[Site]:
    """Return sites with the weights of their users, numbered one site after the other."""
    sizes = [site.data.shape for site in sites]
    everybody = users_of({site.name: site.data for site in sites})
    ordered = not any(site.data.table for site in sites)
    weights = weights.among(everybody, sites[0].data.items, ordered=ordered)
    ends = np.cumsum([0, *(size[0] for size in sizes)])
    return [
        Site(site.name, site.data.weighted(weights, int(a), int(b)), site.ledger)
        for site, a, b in zip(sites, ends, ends[1:], strict=False)
    ]


def _of_ratings(sites: Sequence[Site], weights: Any) -> list[Site]:
    """Return sites with a weight for every rating."""
    by_site = weights if isinstance(weights, Mapping) else {}
    if not set(by_site) >= {site.name for site in sites}:
        if len(sites) > 1:
            raise ParameterError(
                "several sites have weights of their own: pass weights={site: array, …}"
            )
        by_site = {sites[0].name: weights}
    return [
        Site(site.name, site.data.weighted_each(by_site[site.name]), site.ledger) for site in sites
    ]


def task_of(
    facts: Sequence[Facts | None],
    request: Privacy | None,
    bounds: tuple[float, float],
    rank: int,
    shares: int,
    duplicates: str,
) -> Task:
    """Return what is public about a fit, from what is public of every site."""
    known = [one for one in facts if one is not None]
    if len(known) < len(facts):
        raise ParameterError("pass the ratings, or (users, items): the price depends on them")
    first = known[0]
    if request is not None and np.isfinite(request.epsilon) and any(o.unstated for o in known):
        raise UnboundedData(_UNSTATED)
    sizes = {one.items for one in known}
    if len(sizes) > 1:
        raise ParameterError(f"the sites have different numbers of items: {sorted(sizes)}")
    if any(not same_names(one.labels, first.labels) for one in known):
        raise ParameterError(f"the sites list different items: {_UNSTATED}")
    gamma = first.item_weights
    counts = [one.users for one in known if one.users is not None]
    beta = [one.openness for one in known if one.openness is not None]
    return Task(
        sum(counts) if len(counts) == len(known) else None,
        first.items,
        bounds,
        rank,
        request,
        None if gamma is None else tuple(float(one) for one in gamma),
        np.concatenate(beta) if len(beta) == len(known) else None,
        sites=len(facts),
        shares=shares,
        devices=first.devices,
        by_rating=any(one.by_rating for one in known),
        duplicates=tuple(sorted({duplicates, *(one.duplicates for one in known)})),
    )
