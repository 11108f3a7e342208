"""How a fit takes in what sites release: raw data through the gate, summaries as they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from tacit.errors import ParameterError
from tacit.estimators.fit import Outcome, fit
from tacit.estimators.site import Site
from tacit.regression.agreement import RegressionAgreement, Total
from tacit.regression.design import Design
from tacit.regression.found import FindingAgreement, Found, FoundSummary
from tacit.regression.joining import (
    check_complete,
    check_names,
    check_together,
    common_labels,
    sorted_parts,
)
from tacit.regression.methods import CITES
from tacit.regression.summary import SiteSummary
from tacit.regression.total import TOTAL, check_alone, total_of

__all__ = ["take", "take_up"]

Model = TypeVar("Model", bound=Any)


def take(model: Model, data: Any) -> Model:
    """Release what is raw, take in what was released, and infer.

    Parameters
    ----------
    model
        The estimator, to whose ``summaries_`` all of it is added.
    data
        As `PrivateLinearRegression.fit` has it.
    """
    summaries, raw = sorted_parts(data)
    check_alone(model.privacy, [*model.summaries_.values(), *summaries])
    sites = model._as_sites(raw) if raw is not None else []
    known = [*model.summaries_.values(), *summaries]
    if known and model._public.search is not None:
        raise ParameterError(
            "ranges are found with all sites of one fit, so that none can come later: fit all of "
            "them at once, or state bounds"
        )
    check_names([s.site for s in known], sites, model.privacy)
    agreement = model._together(known, sites)
    check_together(agreement, known, model.method, bool(sites) and model._noisy)
    if not model._public.by_name:
        model._labels = common_labels(sites, model._labels)
    outcome = _release_of(model, sites, agreement, alone=not known) if sites else None
    model.design_, model.columns_ = agreement.design, agreement.columns
    lost = [] if outcome is None else outcome.record.failures
    if outcome is not None:
        model.record_ = outcome.record
        model.failures_ += lost
        take_up(model, outcome)
    model.summaries_.update({summary.site: summary for summary in summaries})
    if model.on_failure == "stop":
        check_complete(lost)
    model._infer()
    return model


def take_up(model: Any, outcome: Outcome) -> None:
    """Keep what was released: every site's own, or the total with all certificates."""
    model.cites_ = outcome.agreement.cites + CITES.get(model.method, ())
    agreement, result = outcome.agreement, outcome.result
    assert isinstance(agreement, RegressionAgreement)
    if isinstance(agreement, FindingAgreement) and isinstance(result, Found):
        model.design_ = agreement.of_ranges(result.middle, result.half)
        own = _summaries_of(outcome, FoundSummary, model.design_, result.by_site)
        model.summaries_.update(own)
    elif isinstance(result, Total):
        model.summaries_[TOTAL] = total_of(outcome)
        model._upstream = dict(outcome.certificates)
    else:
        own = _summaries_of(outcome, model._summaries, agreement.design, result)
        model.summaries_.update(own)


def _release_of(
    model: Any, sites: list[Site], agreement: RegressionAgreement, alone: bool
) -> Outcome | None:
    """Run the agreement over those that can take part; ``alone``: nobody released before."""
    exclude = model.on_failure == "exclude" and not (alone and len(sites) == 1)
    loaded, failures = model._load(sites, agreement, exclude)
    model.failures_ += failures
    ready = [site for site in sites if site.name in loaded]
    if not ready:
        return None
    # all have paid by then: what one fails to send does not cost the others their release, but in
    # a sum its share of the noise would be missing
    lost = "stop" if agreement.summed else "exclude"
    place = replace(model._place(), on_failure=lost, progress=False)
    return fit(agreement, ready, loaded, place)


def _summaries_of(
    outcome: Outcome, kind: type[SiteSummary], design: Design, replies: Mapping[str, Any]
) -> dict[str, SiteSummary]:
    """Return what every site released, with its certificate: post-processing of replies."""
    agreement = outcome.agreement
    assert isinstance(agreement, RegressionAgreement)
    sd = math.sqrt(agreement.mechanism.variance())
    return {
        site: kind.of(site, agreement.columns, design, reply, sd, outcome.certificates[site])
        for site, reply in replies.items()
        if site in outcome.certificates
    }
