"""From a configuration to an estimator and its sites."""

from __future__ import annotations

from typing import Any

from tacit.commands.config import Config
from tacit.data.relations import Relation
from tacit.data.tables import read_table
from tacit.errors import ParameterError, TacitError
from tacit.estimators.site import Site
from tacit.models.structure import CoupledModel
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger

__all__ = ["estimator_of", "relation_of", "sites_of"]


def estimator_of(config: Config) -> Any:
    """Return the estimator that a configuration describes, not fitted."""
    import tacit

    parameters = config.section("parameters")
    request = config.section("privacy")
    try:
        if request:
            if "epsilon" not in request:
                config.fail("write epsilon = …, such as 1.0", "privacy")
            parameters["privacy"] = Privacy(**request)
        if config.data["estimator"] != "CoupledFactorization":
            parameters = {key: _pairs(value) for key, value in parameters.items()}
        return getattr(tacit, str(config.data["estimator"]))(**parameters)
    except TacitError as error:
        if isinstance(error, ParameterError) and str(error).startswith(str(config.path)):
            raise
        config.explain(error)


def _pairs(value: Any) -> Any:
    """Return ranges as pairs: TOML knows lists only."""
    if isinstance(value, dict):
        return {key: _pairs(part) for key, part in value.items()}
    if isinstance(value, list) and len(value) == 2 and not isinstance(value[0], str):
        return tuple(value)
    return value


def sites_of(config: Config) -> list[Site]:
    """Return the sites, with their data read and their ledgers opened."""
    sites = []
    for number, entry in enumerate(config.data["site"]):
        try:
            data = _data(config, entry["data"])
        except TacitError as error:
            config.fail(str(error), "site", "data", number)
        try:
            sites.append(Site(entry["name"], data, _ledger(config, entry)))
        except TacitError as error:
            config.fail(str(error), "site", "ledger", number)
    return sites


def _ledger(config: Config, entry: dict[str, Any]) -> Ledger | None:
    if "ledger" not in entry:
        return None
    path = config.folder / entry["ledger"]
    epsilon = entry.get("ledger_epsilon")
    if epsilon is None and not path.exists():
        raise ParameterError(f"there is no ledger {path}: add ledger_epsilon = … to make one")
    return Ledger.open(path, epsilon=epsilon, delta=entry.get("ledger_delta"))


def _data(config: Config, name: str) -> Any:
    table = read_table(config.folder / name)
    if config.data["estimator"] != "CoupledFactorization":
        return table
    return relation_of(config, table, value=config.data.get("value"))


def relation_of(config: Config, table: Any, value: str | None) -> Relation:
    """Return a table with one row per cell as the relation of the configuration's model."""
    parameters = config.section("parameters")
    model = CoupledModel(parameters.get("model", "row:k column:k"), parameters.get("rank", 5))
    if len(model.forms) != 1:
        raise ParameterError("the command line fits one relation: use Python for several")
    (tokens,) = model.forms.values()
    entities = [factor for factor, _ in tokens]
    labels = {}
    for entity, members in config.section("labels").items():
        if isinstance(members, str):
            try:
                text = (config.folder / members).read_text(encoding="utf-8")
            except OSError as error:
                config.fail(f"{members} cannot be read: {error}", "labels", entity)
            members = [line.strip() for line in text.splitlines() if line.strip()]
        labels[entity] = members
    return Relation.from_frame(table, entities, value, labels=labels)
