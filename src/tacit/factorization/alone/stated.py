"""What a caller of `CoupledFactorization` states about factors, and which inference reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Signature
from typing import Any

import numpy as np

from tacit._core.check import Real, check
from tacit.data.members import Members
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.constraints import Constraints, given_factor, graph_of
from tacit.factorization.divergences import LOGIT, loss_name
from tacit.factorization.language.structure import CoupledModel

__all__ = [
    "FLAT",
    "INFERENCES",
    "READ_BY",
    "Factor",
    "check_defined",
    "check_prior",
    "check_read",
    "constraints_of",
    "has_real_factors",
    "labels_of",
    "real_names",
    "stated_priors",
]


@dataclass(frozen=True, eq=False)
class Factor:
    """What is known of a factor beforehand, as an entry of ``prior``.

    Parameters
    ----------
    prior
        Its (shape, mean), as a pair alone would state; None leaves it to tacit.
    fixed
        Its values, (rows, latents …) or member → row, which are given and not learned.
    smooth
        μ, of an ordered entity, or (weights, μ) with symmetric weights between its members: a
        penalty μ/2·Σ_{i<j} W_ij·‖θ_i − θ_j‖² draws neighbours together (``"map"``).

    Examples
    --------
    >>> Factor(smooth=10.0).smooth
    10.0
    """

    prior: tuple[float, float] | None = None
    fixed: Any = None
    smooth: Any = None


INFERENCES = ("map", "vb", "gibbs", "sgld")
FLAT = "flat"  # no prior at all: maximum likelihood
# parameter → the inferences that read it
READ_BY: Mapping[str, tuple[str, ...]] = {
    "adapt": ("vb",),
    "tolerance": ("map", "vb"),
    "restarts": ("map", "vb"),
    "accelerate": ("map",),
    "burn_in": ("gibbs", "sgld"),
    "thin": ("gibbs", "sgld"),
    "batch": ("sgld",),
    "step_size": ("sgld",),
    "decay": ("sgld",),
}


def check_read(inference: str, given: Mapping[str, Any], constructor: Signature) -> None:
    """Raise where a parameter is given that the inference does not read."""
    for name, readers in READ_BY.items():
        if inference not in readers and given[name] != constructor.parameters[name].default:
            raise ParameterError(
                f"{name} is not read by inference={inference!r}: it is for "
                f"{' and '.join(repr(reader) for reader in readers)}"
            )


def check_prior(prior: Any, inference: str = "map") -> None:
    """Raise unless a prior is (shape, mean), or a mapping from factors to such pairs or more."""
    if prior == FLAT:
        if inference != "map":
            raise ParameterError("prior='flat' is for inference='map': a posterior needs a prior")
        return
    for pair in prior.values() if isinstance(prior, Mapping) else [prior]:
        if isinstance(pair, Factor) and isinstance(prior, Mapping):
            if pair.smooth is not None and inference != "map":
                raise ParameterError(
                    f"smooth is not read by inference={inference!r}: it is for 'map'"
                )
            if pair.prior is not None:
                check_prior(pair.prior, inference)
            continue
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ParameterError(f"prior must be (shape, mean), got {pair!r}")
        for part in pair:
            check("prior", part, Real(0, open_low=True))


def stated_priors(prior: Any, names: Any) -> dict[str, tuple[float, float]]:
    """Return (shape, mean) of the factors whose prior is given: all of them, or those named."""
    if isinstance(prior, Mapping):
        pairs = {n: one.prior if isinstance(one, Factor) else one for n, one in prior.items()}
        return {name: tuple(pair) for name, pair in pairs.items() if pair is not None}
    return {} if prior is None or prior == FLAT else dict.fromkeys(names, tuple(prior))


def check_defined(inference: str, model: CoupledModel, real: Any = None) -> None:
    """Refuse what an inference is not defined for, and say what is."""
    if inference == "map":
        return
    remedy = "pass inference='map'; restarts show how sure its estimates are"
    if model.repeated:
        raise ParameterError(
            f"relation {model.repeated[0]!r} names an entity more than once, so the rows of its "
            f"factor are not independent given the others, as inference={inference!r} assumes: "
            f"{remedy}"
        )
    odds = [name for name, power in model.powers.items() if power == LOGIT]
    other = [name for name, power in model.powers.items() if power not in (0.0, LOGIT)]
    if odds and real is False:
        raise ParameterError(
            f"relation {odds[0]!r} has {loss_name(LOGIT)}, whose estimates are log odds of either "
            "sign: leave real_factors to tacit (None), or pass True"
        )
    if odds and other:
        raise ParameterError(
            f"relation {odds[0]!r} has {loss_name(LOGIT)} and {other[0]!r} "
            f"{loss_name(model.powers[other[0]])}: factors that may be negative cannot be "
            f"positive as well, which posteriors ask of all of them alike. Make both of them "
            f"'euclidean' or 'logit', or {remedy}"
        )


def has_real_factors(given: Mapping[str, Any], model: CoupledModel) -> bool:
    """Whether the factors of a posterior may be negative: as stated, or if estimates may be."""
    stated = given["real_factors"]
    if given["inference"] == "map":
        return False
    if stated is None:
        return all(power in (0.0, LOGIT) for power in model.powers.values())
    if not isinstance(stated, bool | np.bool_):
        raise ParameterError(
            f"real_factors by name is for inference='map', not {given['inference']!r}: signs of "
            "single factors have no conjugate law. Pass True or False"
        )
    return bool(stated)


def real_names(given: Mapping[str, Any], model: CoupledModel) -> frozenset[str]:
    """Return the factors of ``"map"`` that may be negative.

    They are those that are named, or all; unless stated, those that only log odds are made of.
    """
    stated, everything = given["real_factors"], frozenset(model.latents)
    if given["inference"] != "map" or stated is False:
        return frozenset()
    if stated is None:
        bound = {n for v, p in model.powers.items() if p != LOGIT for n in model.names(v)}
        return everything - bound
    if stated is True:
        return everything
    named = frozenset([stated] if isinstance(stated, str) else stated)
    if not named <= everything:
        raise ParameterError(
            f"real_factors names {min(named - everything)!r}, which is no factor: there are "
            f"{sorted(everything)}"
        )
    return named


def labels_of(model: CoupledModel, relations: Mapping[str, Any]) -> dict[str, Any]:
    """Return the names of every entity's members, where they have any."""
    return {
        model.entity(mode): names
        for found in relations.values()
        for mode, names in found.labels.items()
    }


def constraints_of(
    given: Mapping[str, Any],
    model: CoupledModel,
    relations: Mapping[str, Any],
    labels: Mapping[str, Any],
) -> Constraints:
    """Return what is stated about the factors of a model with data, checked."""
    bound = model.with_dispersions(dict.fromkeys(model.open, 1.0)).bind(relations)
    real = real_names(given, model)
    everywhere = has_real_factors(given, model)
    fixed, graphs = {}, {}
    entries = given["prior"] if isinstance(given["prior"], Mapping) else {}
    told = {name: one for name, one in entries.items() if isinstance(one, Factor)}
    for name, one in told.items():
        if name not in bound.factors:
            raise ParameterError(
                f"prior names {name!r}, which is no factor: there are {list(bound.factors)}"
            )
        stated = one.fixed
        if stated is None:
            continue
        if isinstance(stated, Mapping):
            members = Members(name, bound.factors[name].rows, labels.get(name))
            place = members.find(list(stated))
            if len(set(place.tolist())) < members.size:
                raise ParameterError(f"fixed of {name!r} must have a row for each of its members")
            stated = np.array(list(stated.values()), np.float64)[np.argsort(place)]
        fixed[name] = given_factor(bound, name, stated, name not in real and not everywhere)
    for name, stated in ((name, one.smooth) for name, one in told.items()):
        if stated is None:
            continue
        if bound.factors[name].core or name in fixed:
            raise ParameterError(
                f"smooth is stated of {name!r}, whose rows are "
                + ("given" if name in fixed else "one: it is a core")
                + ": state it of an entity whose factor is learned"
            )
        graphs[name] = graph_of(name, stated, bound.factors[name].rows)
    if fixed and len(fixed) == len(bound.factors):
        raise ParameterError("every factor is fixed, which leaves nothing to learn")
    return Constraints(fixed, real, graphs)
