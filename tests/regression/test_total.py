"""Sums that nobody sees through: what trust ``aggregator`` gives, says and refuses."""

import math

import numpy as np
import pytest

from tacit import Ledger, Privacy, PrivateLinearRegression, Site
from tacit.errors import NotCertified, ParameterError, SiteFailure, VerificationFailed
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.design import Design
from tacit.regression.total import TOTAL, TotalSummary
from tacit.rounds.aggregate import SumAggregator

RNG = np.random.default_rng(3)
X = RNG.uniform(0, 1, (1200, 2))
Y = 1 + X @ [1.0, -1.0] + RNG.normal(0, 0.1, len(X))
SUMMED = Privacy(1.0, 1e-6, trust="aggregator")


def model(privacy=SUMMED, **more):
    settings = {"bounds": [(0, 1), (0, 1)], "y_bounds": (-1, 3), "method": "Bayes-fixedS-fast",
                "chains": 1, "draws": 20, "random_state": 5, **more}  # fmt: skip
    return PrivateLinearRegression(privacy=privacy, **settings)


def sites(count, paid=True):
    ledgers = [Ledger.memory(epsilon=1.0, delta=1e-5) if paid else None for _ in range(count)]
    return [Site(f"S{k}", (X[k::count], Y[k::count]), own) for k, own in enumerate(ledgers)]


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_ten_sites_have_the_noise_of_one_holder(neighbours):
    asked = Privacy(1.0, 1e-6, trust="aggregator", neighbours=neighbours)
    found = model(asked).fit(sites(10, paid=False))
    alone = model(Privacy(1.0, 1e-6, neighbours=neighbours)).fit((X, Y))
    total, own = found.summaries_[TOTAL].moments, alone.summaries_["the data"].moments
    assert total.gram_sd == pytest.approx(own.gram_sd, rel=1e-4)
    assert total.cross_sd == pytest.approx(own.cross_sd, rel=1e-4)
    assert set(found.certificates_) == {f"S{k}" for k in range(10)}
    assert found.certificate_.epsilon <= 1.0 and found.certificate_.trust == "aggregator"
    apart = model(Privacy(1.0, 1e-6, trust="site", neighbours=neighbours)).fit(
        sites(10, paid=False)
    )
    each = [one.moments.gram_sd**2 for one in apart.summaries_.values()]
    assert math.sqrt(sum(each)) == pytest.approx(math.sqrt(10) * own.gram_sd, rel=1e-4)
    if neighbours == REPLACE:
        assert total.rows == len(X)


def test_the_noise_of_the_total_is_what_is_stated():
    """On the same rows at many seeds: its spread is gram_sd, and no site's alone would be."""
    same = sites(4)
    totals = []
    for seed in range(60):
        found = model(random_state=seed).fit([Site(s.name, s.data) for s in same])
        totals.append(found.summaries_[TOTAL].moments)
    spread = np.array([t.gram for t in totals]).std(axis=0, ddof=1)
    stated = totals[0].gram_sd
    assert abs(np.diag(spread).mean() / stated - 1.0) < 0.25
    cross = np.array([t.cross for t in totals]).std(axis=0, ddof=1).mean()
    assert abs(cross / totals[0].cross_sd - 1.0) < 0.25


def test_fewer_shares_than_sites_are_noise_on_top():
    """With threshold 7 and one colluding site ten sites add 10/6 of the variance."""
    design, names = Design((0.0,) * 3, (1.0,) * 3), ("a", "b", "y")
    whole = RegressionAgreement(design, names, SUMMED, 10, shares=10)
    covered = RegressionAgreement(design, names, SUMMED, 10, shares=6)
    assert covered.noise_sd(10) / whole.noise_sd(10) == pytest.approx(math.sqrt(10 / 6), rel=1e-6)
    assert covered.noise_sd(7) == pytest.approx(whole.noise_sd(10) * math.sqrt(7 / 6), rel=1e-6)
    assert covered.event == whole.event  # what is charged is the sum over the honest
    assert not covered.apart and covered.digest != whole.digest


def test_nothing_but_the_total_reaches_the_coordinator(monkeypatch):
    seen = []
    collect = SumAggregator.collect

    def watched(self, replies):
        seen.append(collect(self, replies))
        return seen[-1]

    monkeypatch.setattr(SumAggregator, "collect", watched)
    found = model().fit(sites(3))
    assert [one.by_site for one in seen] == [None]
    assert list(found.summaries_) == [TOTAL]
    assert not any("S0" in name for name in found.shared_)


def test_a_total_is_joined_with_nothing_and_mailed_by_nobody(tmp_path):
    found, payer = model().fit(sites(3)), Ledger.memory(epsilon=1.0, delta=1e-5)
    late = Site("late", (X, Y), payer)
    with pytest.raises(ParameterError, match="no site can come later"):
        found.add_sites([late])
    for privacy in (SUMMED, Privacy(1.0, 1e-6, trust="site")):
        with pytest.raises(ParameterError, match="no summary can be joined"):
            model(privacy).fit([found.summaries_[TOTAL], late])
    mailed = model(Privacy(1.0, 1e-6, trust="site")).fit([Site("A", (X, Y))]).summaries_["A"]
    with pytest.raises(ParameterError, match="no summary can be joined"):
        model().fit([mailed, late])
    with pytest.raises(NotCertified, match="no site has a summary of its own"):
        found.summaries_[TOTAL].save(tmp_path / "total.json")
    assert payer.remaining.epsilon == 1.0


def test_a_site_that_is_lost_spoils_the_sum_and_nothing_is_seen(monkeypatch):
    with pytest.raises(ParameterError, match="on_failure must be 'stop'"):
        model(on_failure="exclude").fit(sites(3))
    broken = [*sites(2), Site("broken", (X[:, :1], Y))]
    with pytest.raises((SiteFailure, ParameterError)):
        model().fit(broken)
    assert all(one.ledger.remaining.epsilon == 1.0 for one in broken[:2])


def test_a_release_keeps_the_total_and_every_certificate(tmp_path):
    found = model(random_state=None).fit(sites(3))
    found.release(tmp_path / "r", ledgers=[])
    back = PrivateLinearRegression.from_release(tmp_path / "r")
    assert np.array_equal(back.coef_, found.coef_)
    assert set(back.certificates_) == {"S0", "S1", "S2"}
    assert back.summaries_[TOTAL].added == back.summaries_[TOTAL].shares == 3
    with pytest.raises(ParameterError, match="no site can come later"):
        back.add_sites([Site("late", (X, Y))])


def test_less_noise_than_the_certificates_rest_on_is_found():
    total = model(random_state=None).fit(sites(4)).summaries_[TOTAL]
    assert isinstance(total.verify(), TotalSummary)
    facts = vars(total)
    with pytest.raises(ParameterError, match="no noise of 5 shares"):
        TotalSummary(**facts | {"shares": 5})
    with pytest.raises(VerificationFailed, match="less than its certificate"):
        TotalSummary(**facts | {"shares": 2}).verify()


def test_the_thesis_has_no_shares():
    from tacit.published.alparslan2023 import ThesisRegression

    asked = Privacy(1.0, 1e-4, trust="aggregator")
    with pytest.raises(ParameterError, match=r"privacy\.trust must be"):
        ThesisRegression(privacy=asked).fit(sites(2))
