"""Every private estimator has the same verbs, shows no machinery, and agrees once per fit."""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from sklearn.base import BaseEstimator

from experiments._audit_subjects import SUBJECTS
from tacit.errors import TacitError
from tacit.estimators.agreement import Agreement
from tacit.estimators.families import estimator_names, estimator_of
from tacit.privacy import calibration
from tacit.privacy.events import ADD_REMOVE
from tests.contracts.hostile import examples, play

NAMES = sorted(estimator_names())
VERBS = ("price", "check", "fit", "summary", "to_frame", "plot", "release", "from_release")
# what only some estimators answer to
OWN = {
    "about", "adopt", "add_sites", "calibration_error", "certificate_of", "coupled_model",
    "device", "entropy", "factors", "fit_transform", "fold_in", "get_feature_names_out",
    "infer", "interval", "layer_dropout", "load_site", "partial_fit", "perplexity", "predict",
    "predict_proba", "rank", "recommend", "coherence", "save_site", "score", "similar_items",
    "to_arviz", "top", "top_words", "trainer", "transform",
}  # fmt: skip
EXAMPLES = dict(examples())
OF_KIND: dict[type[Agreement], list[Agreement]] = {}
for one in EXAMPLES.values():
    OF_KIND.setdefault(type(one), []).append(one)


@pytest.mark.parametrize("name", NAMES)
def test_every_estimator_has_the_same_verbs(name: str) -> None:
    kind = estimator_of(name)
    assert all(callable(getattr(kind, verb)) for verb in VERBS)
    shown = {word for word in dir(kind) if not word.startswith(("_", "set_"))}
    extra = shown - set(dir(BaseEstimator)) - set(VERBS) - OWN
    assert {word for word in extra if not word.endswith("_")} == set()


@pytest.mark.parametrize("name", NAMES)
def test_no_constructor_is_longer_than_twenty_parameters(name: str) -> None:
    assert len(estimator_of(name)._get_param_names()) <= 20


@pytest.fixture(params=EXAMPLES.values(), ids=EXAMPLES.keys())
def agreement(request: pytest.FixtureRequest) -> Agreement:
    return request.param


def test_steps_are_made_once_and_noise_is_calibrated_once(
    agreement: Agreement, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agreement that was made anew goes through a run; what was computed stays computed."""
    number = next(k for k, e in enumerate(OF_KIND[type(agreement)]) if e is agreement)
    fresh = next(islice(type(agreement).examples(), number, None))
    made: Counter[str] = Counter()
    asked: Counter[Any] = Counter()
    steps, search = type(fresh)._steps, calibration.gaussian.dp_to_gdp
    calibration.gaussian_sigma.cache_clear()

    def counted_steps(self: Agreement) -> Any:
        made["steps"] += 1
        return steps(self)

    def counted_search(*given: Any) -> float:
        asked[given] += 1
        return search(*given)

    monkeypatch.setattr(type(fresh), "_steps", counted_steps)
    monkeypatch.setattr(calibration.gaussian, "dp_to_gdp", counted_search)
    play(fresh, fresh.worst_case().data)
    # one that is bound by an ε of its own is made beside the one that all agreed on
    assert made["steps"] <= (1 if fresh.at("site") is fresh else 2)
    assert all(times == 1 for times in asked.values()), asked


def test_several_sites_are_said_to_hold_different_units_and_one_is_not(
    agreement: Agreement,
) -> None:
    said = [note for note in agreement.assumptions if "the sites hold different" in note]
    assert len(said) == (agreement.sites > 1)


def test_noise_is_for_the_relation_that_was_asked_for(agreement: Agreement) -> None:
    if agreement.privacy is not None:
        used = {getattr(m, "neighbours", None) for s in agreement.steps for m in s._mechanisms}
        used.add(getattr(agreement, "neighbours", None))
        assert used <= {None, agreement.privacy.neighbours}


def test_without_a_request_rows_users_and_documents_are_added_or_removed(
    agreement: Agreement,
) -> None:
    """So that the number of units stays secret, as it is by default."""
    privacy = agreement.privacy
    if privacy is not None and privacy.unit != "entry" and hasattr(agreement, "neighbours"):
        bare: Any = dataclasses.replace(agreement, privacy=None)  # type: ignore[type-var]
        assert bare.neighbours == ADD_REMOVE


@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_a_price_changes_nothing(subject: Any) -> None:
    """Asked twice it is the same, and neither call leaves anything behind."""
    model = subject.build(**subject.settings[0])
    before = {name: id(value) for name, value in vars(model).items()}
    said = [_price(model) for _ in range(2)]
    assert said[0] == said[1]
    assert {name: id(value) for name, value in vars(model).items()} == before


def _price(model: Any) -> str:
    try:
        return str(model.price())
    except TacitError as error:  # such as: the price depends on the sites' sizes
        return str(error)
