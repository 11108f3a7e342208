"""`PrivateFactorization`: what is stated, priced, released, read back and adopted."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone

import tacit as tc
from tacit.errors import NotCertified, ParameterError, UnboundedData
from tacit.factorization import CoupledFactorization, Langevin, LocalCounts, PrivateFactorization
from tacit.factorization.together.methods import METHODS, choose_method, method_of, settings_of
from tacit.factorization.together.stated import Stated

ASKED = tc.Privacy(2.0, 1e-5, unit="user", trust="site")
ITEMS = ("a", "b", "c", "d", "e")


def ratings(seed=0, users=12):
    rng = np.random.default_rng(seed)
    table = np.clip(rng.normal(3.0, 1.0, (users, len(ITEMS))).round(), 1, 5)
    table[rng.random(table.shape) < 0.3] = np.nan
    return tc.Relation.from_dense(("user", "item"), table, labels={"item": ITEMS})


def sites(count=2):
    return [tc.Site(f"s{k}", ratings(k)) for k in range(count)]


def model(**options):
    settings = {"rank": 3, "bounds": (1, 5), "privacy": ASKED, "method": Langevin(rounds=3)}
    return PrivateFactorization("user:k item:k", **{**settings, **options})


def test_an_estimator_has_at_most_twenty_parameters():
    for kind in (CoupledFactorization, PrivateFactorization):
        assert len(inspect.signature(kind).parameters) <= 20


def test_alone_there_is_no_word_of_privacy():
    given = set(inspect.signature(CoupledFactorization).parameters)
    assert not given & {"privacy", "bounds", "ledger", "method", "shared", "accountant"}
    with pytest.raises(TypeError):
        CoupledFactorization(privacy=ASKED)


def test_a_price_changes_nothing():
    asked = model()
    before = dict(vars(asked))
    assert asked.price(sites()).affordable
    assert vars(asked) == before
    with pytest.raises(ParameterError, match="pass the sites"):
        asked.price()


def test_one_holder_with_privacy_is_one_site():
    central = model(privacy=tc.Privacy(2.0, 1e-5, unit="user"), random_state=1).fit(ratings())
    assert list(central.parts_) == ["the data"]
    assert central.predict("the data", [[0, "b"]]).shape == (1,)
    curated = tc.Privacy(2.0, 1e-5, unit="user", trust="central")
    with pytest.raises(ParameterError, match="nobody who sees all rows"):
        model(privacy=curated).fit(sites())


def test_a_site_with_bad_data_is_named():
    with pytest.raises(ParameterError, match="site 's1': the model has no relation 'films'"):
        model().fit([sites()[0], tc.Site("s1", {"films": ratings()})])
    with pytest.raises(ParameterError, match="sites disagree about 'item'"):
        model().fit([sites()[0], tc.Site("s1", np.ones((3, 2)))])
    with pytest.raises(UnboundedData, match="bounds must be given"):
        model(bounds=None).fit(sites())


def test_a_release_is_read_back_and_predicts(tmp_path):
    fitted = model().fit(sites())
    fitted.release(tmp_path / "release")
    again = PrivateFactorization.from_release(tmp_path / "release")
    assert again.get_params()["method"] == fitted.method
    assert again.labels_ == {"item": ITEMS}
    with pytest.raises(NotCertified, match="no site"):
        again.predict("s0", [[0, 1]])
    cells = np.argwhere(np.ones((12, 5)))
    again.adopt(sites())
    for site in ("s0", "s1"):
        ours, theirs = (one.predict(site, cells, positions=True) for one in (again, fitted))
        np.testing.assert_array_equal(ours, theirs)
    again.adopt(tc.Site("new", ratings(9, users=4)))
    assert np.isfinite(again.predict("new", [[3, "e"]])).all()
    with pytest.raises(ParameterError, match="pass the labels of the fit"):
        again.adopt(tc.Site("other", np.ones((3, 2))))


def test_what_stayed_at_a_site_cannot_be_adopted():
    tensor = np.random.default_rng(0).poisson(1.0, (6, 5, 3)).clip(0, 4).astype(float)
    fitted = PrivateFactorization(
        "user:k place:k act:k", rank=2, bounds=(0, 4), shared=["place"], privacy=ASKED,
        method=Langevin(rounds=2),
    ).fit([tc.Site("s", tensor)])  # fmt: skip
    with pytest.raises(ParameterError, match="factor of 'act' stayed"):
        fitted.adopt([tc.Site("t", tensor)])
    with pytest.raises(NotCertified, match="nothing to adopt"):
        model().adopt(sites())


def test_a_fit_forgets_the_one_before():
    fitted = model().fit(sites())
    assert not hasattr(clone(fitted), "parts_")
    fitted.fit([tc.Site("alone", ratings())])
    assert list(fitted.parts_) == list(fitted.certificates_) == ["alone"]


@pytest.mark.parametrize("name", [name for name in METHODS if name in ("sgld", "local")])
def test_a_method_has_a_name_and_settings(name):
    method = method_of(name)
    assert settings_of(method)[0] == name
    assert method_of(*settings_of(method)) == method


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(ParameterError, match="options do not fit the method 'sgld'"):
        method_of("sgld", {"speed": 3})
    with pytest.raises(ParameterError, match="method must be one of"):
        method_of("magic")
    with pytest.raises(ParameterError, match="options go with a method"):
        PrivateFactorization._stated({"options": {"rounds": 3}})


def test_a_proposal_states_what_a_fit_would_find():
    settings = {
        "model": {"data": "user:k item:k"}, "rank": 3, "bounds": [1, 5], "method": "sgld",
        "options": {"rounds": 3}, "entities": {"item": list(ITEMS)},
    }  # fmt: skip
    proposed, facts = PrivateFactorization._proposed(settings, ASKED, None)
    assert facts == Stated({"item": list(ITEMS)}, 0)
    stated = proposed._agree([facts] * 2)
    assert stated.digest == model()._agreed(sites()).digest
    with pytest.raises(ParameterError, match="do not list them"):
        proposed._agree([Stated({"item": 5, "user": 12})])
    for name in ("privacy", "random_state", "checkpoint"):
        with pytest.raises(ParameterError, match="a proposal does not set"):
            PrivateFactorization._proposed({**settings, name: None}, ASKED, None)
    with pytest.raises(ParameterError, match="has no setting 'calibration'"):
        PrivateFactorization._proposed({**settings, "calibration": "published"}, ASKED, None)


def test_auto_takes_counts_where_only_the_person_is_trusted():
    asked = model(privacy=tc.Privacy(1.0, unit="entry", trust="local"), method="auto",
                  divergence="kl")  # fmt: skip
    agreement = asked._agreed(sites())
    assert isinstance(agreement.method, LocalCounts)
    tensor = PrivateFactorization("a:k b:k c:k", bounds=(0, 1), privacy=ASKED)
    agreement = tensor._agreed([tc.Site("s", np.ones((3, 3, 3)))])
    assert isinstance(choose_method(agreement.problem), Langevin)
