"""Regression as the thesis has it: what it claims, what it gives, and how it is kept apart."""

import math
from dataclasses import replace

import numpy as np
import pytest

from tacit import Ledger, Privacy, PrivateLinearRegression, Site, SiteSummary
from tacit.errors import BudgetExceeded, NotCertified, ParameterError, VerificationFailed
from tacit.estimators.families import estimator_names
from tacit.published.alparslan2023 import (
    ReadDesign,
    ThesisAgreement,
    ThesisRegression,
    ThesisSummary,
)
from tests.regression.test_summary import recertify, reseal

RNG = np.random.default_rng(11)
N = 3000
X = RNG.uniform(0, 1, (N, 3))
Y = 4 + X @ [-1.5, 0.2, 2.0] + RNG.normal(0, 0.3, N)


def sites(parts=3):
    split = zip(np.array_split(X, parts), np.array_split(Y, parts), strict=True)
    return [Site(f"S{k}", part) for k, part in enumerate(split)]


def test_published_says_what_it_gives():
    privacy = Privacy(1.0, 1 / 7654, trust="site")
    fitted = ThesisRegression(privacy=privacy, chains=2, draws=50).fit(sites())
    certificate = fitted.certificate_.verify()
    assert certificate.claimed_epsilon == 1.0
    assert 2.3 < certificate.epsilon < 2.4
    assert "read from the data" in str(certificate) and "mistyped" in str(certificate)
    assert np.allclose(fitted.predict(X).mean(), Y.mean(), atol=0.5)
    with pytest.raises(ParameterError, match="epsilon = 1 only"):
        ThesisRegression(privacy=Privacy(2.0, 1e-4)).fit(X, Y)


def test_published_adassp_spends_three_parts(tmp_path):
    privacy = Privacy(1.0, 1 / 7654, trust="site")
    fitted = ThesisRegression(method="adaSSP", privacy=privacy).fit(sites())
    assert 2.3 < fitted.certificate_.verify().epsilon < 2.4
    summary = fitted.summaries_["S0"]
    smallest = np.linalg.eigvalsh(summary.moments.gram)[0] / summary.design.norm**2
    # noise of 1.487·√3 on each part, on the scale on which a row has norm one
    assert summary.moments.gram_sd == pytest.approx(
        1.487 * 3**0.5 * summary.design.norm**2, rel=1e-3
    )
    assert abs(summary.eigenvalue - smallest) < 12 * 1.487 * 3**0.5
    loaded = ThesisSummary.load(summary.save(tmp_path / "S0.json"))
    assert loaded.eigenvalue == summary.eigenvalue
    with pytest.raises(ParameterError, match="eigenvalue"):
        replace(summary, eigenvalue=None)


def test_published_noise_is_equal_on_the_thesis_scale():
    norm = 3.7
    for statistics in ("Sz", "Szu"):
        design = ReadDesign(
            (0.0,) * 4, (1.0,) * 4, False, statistics=statistics, clip=1.0, norm=norm
        )
        sd = math.sqrt(design.fixed_noise(1.487).variance())
        moments = design.unpack(np.zeros(design.size), sd, 1.0)
        delta = norm**4 + norm**2 + (statistics == "Szu")
        assert moments.gram_sd == pytest.approx(1.487 * math.sqrt(delta), rel=1e-6)
        assert moments.cross_sd == pytest.approx(moments.gram_sd)
        if statistics == "Szu":
            assert moments.square_sd == pytest.approx(moments.gram_sd)


def test_a_ledger_that_refuses_published_noise_charges_nobody():
    payers = [
        Site("A", (X, Y), Ledger.memory(epsilon=5.0, delta=1e-2)),
        Site("B", (X, Y), Ledger.memory(epsilon=1.0, delta=1e-2)),
    ]
    published = ThesisRegression(privacy=Privacy(1.0, 1e-3, trust="site"))
    with pytest.raises(BudgetExceeded, match="B refuse"):
        published.fit(payers)
    assert payers[0].ledger.remaining.epsilon == 5.0


def test_published_noise_is_priced_by_what_it_gives_not_by_its_claim():
    payer = Site("A", (X, Y), Ledger.memory(epsilon=1.2, delta=1e-2))
    published = ThesisRegression(privacy=Privacy(1.0, 1e-3, trust="site"))
    with pytest.raises(NotCertified, match="no price before fit"):
        published.price([payer])
    published.fit((X, Y))
    price = published.price([payer])
    assert price.sites[0].epsilon > 1.2  # its claim of 1 would fit
    assert not price.affordable


def test_published_noise_does_not_pass_as_certified(tmp_path):
    fitted = ThesisRegression(
        method="Bayes-fixedS-fast", chains=1, draws=10, privacy=Privacy(1.0, 1e-3, trust="site")
    ).fit([Site("North", (X, Y))])
    path = fitted.summaries_["North"].save(tmp_path / "north.json")
    with pytest.raises(VerificationFailed, match="no regression summary"):
        SiteSummary.load(path)
    sent = ThesisSummary.load(path)
    assert sent.certificate.claimed_epsilon == 1.0
    certified = PrivateLinearRegression(bounds=[(0, 1)] * 3, y_bounds=9.0)
    with pytest.raises(ParameterError, match="cannot be joined"):
        certified.fit([sent])
    reseal(path, lambda data: recertify(data, calibration="certified", claimed_epsilon=None,
                                        claim=None))  # fmt: skip
    with pytest.raises(VerificationFailed, match="published"):
        ThesisSummary.load(path)


def test_a_release_of_the_thesis_is_read_by_its_own_class(tmp_path):
    privacy = Privacy(1.0, 1 / 7654, trust="site")
    fitted = ThesisRegression(method="adaSSP", privacy=privacy).fit(sites())
    folder = fitted.release(tmp_path / "bundle")
    found = ThesisRegression.from_release(folder)
    assert np.array_equal(found.predict(X), fitted.predict(X))
    assert found.summaries_["S1"].eigenvalue == fitted.summaries_["S1"].eigenvalue
    with pytest.raises(ParameterError, match="is a release of ThesisRegression"):
        PrivateLinearRegression.from_release(folder)


def test_what_is_read_from_data_is_conditional_and_no_family_offers_it():
    assert ThesisAgreement.conditional
    assert not any("published" in place for place in estimator_names().values())


def test_the_thesis_has_no_bounds_to_state():
    assert "bounds" not in ThesisRegression().get_params()
    with pytest.raises(ParameterError, match="under add-remove"):
        ThesisRegression(privacy=Privacy(1.0, 1e-4, neighbours="replace-one")).fit(X, Y)
    with pytest.raises(ParameterError, match="does not read draws"):
        ThesisRegression(method="adaSSP", draws=20, privacy=Privacy(1.0, 1e-4)).fit(X, Y)


def test_published_designs_refuse_what_the_thesis_does_not_release():
    for more in ({"statistics": "moments"}, {"statistics": "Szu", "eigenvalue": True}):
        with pytest.raises(ParameterError, match="published"):
            ReadDesign((0.0,) * 3, (1.0,) * 3, False, clip=1.0, norm=2.0, **more)
