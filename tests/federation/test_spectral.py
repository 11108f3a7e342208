"""Topics and mixtures over bytes: equal to one process, with noise in shares under secure sums."""

import numpy as np
import pytest

import tacit as tc
from tacit.federation.coordinate import run_proposal
from tacit.federation.files import SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.service import SiteService

from .support import PINNED, SITES, Direct, identified, ready, toml, write_csv

WORDS = [f"w{k}" for k in range(6)]
TOPICS = {"topics": 2, "vocabulary": WORDS}
MIXTURE = {"components": 2, "radius": 6.0, "features": 3, "columns": ["x", "y", "z"]}


def counts(site):
    rng = np.random.default_rng(SITES.index(site))
    topics = np.array([[0.5, 0.3, 0.2, 0, 0, 0], [0, 0, 0.1, 0.2, 0.3, 0.4]])
    return np.array([rng.multinomial(8, topics[k]) for k in rng.integers(0, 2, 400)])


def samples(site):
    rng = np.random.default_rng(SITES.index(site))
    means = np.array([[3.0, 0, 1], [0, 3.0, -1]])
    return means[rng.integers(0, 2, 500)] + 0.5 * rng.standard_normal((500, 3))


def sites(folder, kind, unit, settings):
    found = {}
    for site in SITES:
        home = folder / site
        home.mkdir()
        if kind == "topics":
            table = counts(site)
            document, word = np.nonzero(table)
            write_csv(home / "t.csv", {"document": document, "word": np.array(WORDS)[word],
                                       "count": table[document, word]})  # fmt: skip
        else:
            write_csv(home / "t.csv", dict(zip("xyz", samples(site).T, strict=True)))
        allow = {"computation": kind, "epsilon": 20.0, "delta": 1e-4, "unit": unit, "rounds": 44,
                 "seeded": True, "settings": settings,
                 "colluding": 0}  # fmt: skip
        (home / "site.toml").write_text(
            f'name = "{site}"\n{identified(home, site)}'
            'ledger = {file = "l.db", epsilon = 50.0, delta = 1e-3}\n'
            'data = {t = {file = "t.csv", value = "count"}}\n'
            f"allow = {toml([allow | {'trust': t} for t in ('site', 'aggregator')])}\n"
        )
        found[site] = ready(home / "site.toml")
    return found


@pytest.mark.parametrize(("trust", "threshold"), [("site", None), ("aggregator", 3)])
def test_topics_equal_the_run_in_one_process(tmp_path, trust, threshold):
    privacy = {"epsilon": 10.0, "delta": 1e-5, "unit": "document", "trust": trust}
    proposal = Proposal("topics", TOPICS, privacy, SITES, "run", threshold, 3, 0)
    result = run_proposal(
        proposal, Direct(sites(tmp_path, "topics", "document", TOPICS)), partners=PINNED
    )
    model = tc.SingleTopicModel(**TOPICS, privacy=tc.Privacy(**privacy), random_state=3)
    model.fit([tc.Site(site, counts(site)) for site in SITES])
    assert np.array_equal(result.model.topics_, model.topics_)
    assert np.array_equal(result.model.weights_, model.weights_)
    assert result.model.certificates_["North"].epsilon == model.certificates_["North"].epsilon


def test_with_a_lower_threshold_sites_add_larger_shares(tmp_path):
    privacy = {"epsilon": 10.0, "delta": 1e-5, "unit": "document", "trust": "aggregator"}
    proposal = Proposal("topics", TOPICS, privacy, SITES, "run", 2, 3, 0)
    result = run_proposal(
        proposal, Direct(sites(tmp_path, "topics", "document", TOPICS)), partners=PINNED
    )
    notes = result.certificates["North"].assumptions
    assert any("the sum over at least 2 sites" in note for note in notes)


def test_a_mixture_equals_the_run_in_one_process(tmp_path):
    privacy = {"epsilon": 20.0, "delta": 1e-5, "unit": "row", "trust": "aggregator"}
    proposal = Proposal("mixture", MIXTURE, privacy, SITES, "run", 3, 3, 0)
    result = run_proposal(
        proposal, Direct(sites(tmp_path, "mixture", "row", MIXTURE)), partners=PINNED
    )
    model = tc.GaussianMixture(
        2, radius=6.0, features=3, privacy=tc.Privacy(**privacy), random_state=3
    ).fit([tc.Site(site, samples(site)) for site in SITES])
    assert np.array_equal(result.model.means_, model.means_)


@pytest.mark.parametrize(("trust", "threshold"), [("site", None), ("aggregator", 3)])
@pytest.mark.parametrize("common", [None, "all"])
def test_a_site_that_is_restarted_in_every_round_goes_on(tmp_path, trust, threshold, common):
    """A second moment that was looked at stands: the same eigenvalues; and it can pay for more.

    Seeded noise begins anew with the site, so that where words come first, a second moment is the
    same only if it was drawn before: restarts begin when it stands.
    """
    words = [*WORDS, *(f"rare {k}" for k in range(510))]
    settings = {"topics": 2, "vocabulary": words} | ({"common": common} if common else {})
    privacy = {"epsilon": 10.0, "delta": 1e-5, "unit": "document", "trust": trust}
    proposal = Proposal("topics", settings, privacy, SITES, "run", threshold, 3, 0)
    direct = Direct(sites(tmp_path, "topics", "document", settings))
    home = tmp_path / "North"
    restarts, count = [], []

    def restarted(method, name, body, answer):
        due = common is None or list(home.rglob("standing-*"))
        if name == "North" and method == "respond" and due:
            count.append(method)
            service = SiteService(SiteConfig.read(home / "site.toml"))
            for method, sent in restarts[:2]:
                service.call(method, sent)
            direct.services["North"] = service
        elif name == "North" and method in ("open", "begin"):
            restarts.append((method, body))
        return answer

    direct.fault = restarted
    result = run_proposal(proposal, direct, partners=PINNED)
    assert len(count) > 1 and (common is None or result.record.rounds > 3)
    model = tc.SingleTopicModel(**settings, privacy=tc.Privacy(**privacy), random_state=3)
    padded = [np.pad(counts(site), ((0, 0), (0, 510))) for site in SITES]
    model.fit([tc.Site(site, table) for site, table in zip(SITES, padded, strict=True)])
    assert result.model.documents_ == model.documents_
    assert result.certificates["North"].epsilon == model.certificates_["North"].epsilon
    if common == "all":
        assert np.array_equal(result.model.eigenvalues_, model.eigenvalues_)
    assert not list(home.rglob("standing-*"))  # wiped in the end


def test_a_coordinator_that_died_between_moments_goes_on(tmp_path):
    class Gone(Exception):
        pass

    def stop(record):
        if record.rounds == 1:
            raise Gone

    privacy = {"epsilon": 10.0, "delta": 1e-5, "unit": "document", "trust": "site"}
    proposal = Proposal("topics", TOPICS, privacy, SITES, "run", None, 3)
    direct = Direct(sites(tmp_path, "topics", "document", TOPICS))
    with pytest.raises(Gone):
        run_proposal(proposal, direct, checkpoint=tmp_path / "c", progress=stop)
    result = run_proposal(proposal, direct, checkpoint=tmp_path / "c")
    assert result.record.resumed_at == 1
    model = tc.SingleTopicModel(**TOPICS, privacy=tc.Privacy(**privacy), random_state=3)
    model.fit([tc.Site(site, counts(site)) for site in SITES])
    assert np.array_equal(result.model.topics_, model.topics_)
