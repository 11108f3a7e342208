"""From a configuration to an estimator and its sites, for any family."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tacit.cli.config import Config
from tacit.data.tables import read_source
from tacit.errors import ParameterError, TacitError
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.families import estimator_called
from tacit.estimators.site import Site
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.naming import name_ledger

__all__ = ["data_of", "estimator_of", "name_ledgers", "sites_of"]


def estimator_of(config: Config) -> tuple[PrivateEstimator, Any]:
    """Return the estimator that a configuration describes, not fitted, and the facts it states."""
    request = config.section("privacy")
    try:
        privacy = None
        if request:
            if "epsilon" not in request:
                config.fail("write epsilon = …, such as 1.0", "privacy")
            privacy = Privacy(**request)
        kind = estimator_called(str(config.data["estimator"]), config.plugins)
        stated = config.section("parameters") | _entities(config)
        if config.section("columns") and "columns" in kind._get_param_names():
            stated["columns"] = config.section("columns")
        parameters, facts = kind._stated(stated)
        return kind(**parameters, privacy=privacy), facts
    except TacitError as error:
        if isinstance(error, ParameterError) and str(error).startswith(str(config.path)):
            raise
        config.explain(error)


def _entities(config: Config) -> dict[str, Any]:
    """Return the public members of entities, each a list or the lines of a text file."""
    found = {}
    for entity, members in config.section("labels").items():
        if isinstance(members, str):
            try:
                text = (config.folder / members).read_text(encoding="utf-8")
            except OSError as error:
                config.fail(f"{members} cannot be read: {error}", "labels", entity)
            members = [line.strip() for line in text.splitlines() if line.strip()]
        found[entity] = members
    return {"entities": found} if found else {}


def sites_of(config: Config, model: PrivateEstimator, facts: Any) -> list[Site]:
    """Return the sites, with their data read and their ledgers opened."""
    sites = []
    for number, entry in enumerate(config.data["site"]):
        try:
            data = data_of(config, model, facts, entry)
        except TacitError as error:
            config.fail(str(error), "site", "data", number)
        try:
            asked = model._request(len(config.data["site"]))
            sites.append(Site(entry["name"], data, _ledger(config, entry, asked)))
        except TacitError as error:
            config.fail(str(error), "site", "ledger", number)
    return sites


def data_of(config: Config, model: PrivateEstimator, facts: Any, entry: Mapping[str, Any]) -> Any:
    """Return what a site of a configuration holds."""
    source = {
        "table": read_source(entry["data"], config.folder),
        "columns": config.section("columns"),
        "value": config.data.get("value"),
    }
    return model._tables({"data": source}, facts)


def name_ledgers(config: Config, sites: Sequence[Site]) -> None:
    """Let each site's data name the ledger that pays for it, before anything is charged."""
    for number, (entry, site) in enumerate(zip(config.data["site"], sites, strict=True)):
        if site.ledger is None:
            continue
        stated = {"file": entry["data"]} if isinstance(entry["data"], str) else entry["data"]
        file = stated.get("file", stated.get("shards"))
        if file is None:  # a database has no folder to keep the name in
            continue
        data = config.folder / re.sub(r"[*?\[\]]", "_", str(file))
        place = data.with_name(data.name + ".ledger")
        try:
            name_ledger(
                place, config.folder / entry["ledger"], site.ledger, entry.get("ledger_instead_of")
            )
        except TacitError as error:
            config.fail(str(error), "site", "ledger", number)


def _ledger(config: Config, entry: dict[str, Any], privacy: Privacy | None) -> Ledger | None:
    if "ledger" not in entry:
        return None
    path = config.folder / entry["ledger"]
    epsilon = entry.get("ledger_epsilon")
    if epsilon is None and not path.exists():
        raise ParameterError(f"there is no ledger {path}: add ledger_epsilon = … to make one")
    made = {} if path.exists() or privacy is None else _for_whom(entry, privacy)
    return Ledger.open(path, epsilon=epsilon, delta=entry.get("ledger_delta"), **made)


def _for_whom(entry: dict[str, Any], privacy: Privacy) -> dict[str, Any]:
    """Return what a new ledger is for: what the entry states, else what this fit is about."""
    if "ledger_unit" in entry:
        return {"unit": entry["ledger_unit"], "neighbours": entry.get("ledger_neighbours")}
    return {"unit": privacy.unit, "neighbours": privacy.neighbours}
