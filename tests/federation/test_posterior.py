"""One holder's statistics, asked for from somewhere else: the same numbers as in one process."""

import numpy as np
import pytest

import tacit as tc
from tacit.errors import PolicyRefused, TacitError
from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal
from tacit.posterior import Gamma, UniformWidth
from tacit.privacy.ledger.ledger import Ledger

from .support import Direct, ready, toml, write_csv

PRIVACY = {"epsilon": 2.0, "delta": 1e-4, "unit": "row", "neighbours": "replace-one"}
PUBLIC = {"bounds": [-10.0, 10.0], "size": 300}
SHORT = {"chains": 2, "draws": 100, "warmup": 100}
POSTERIOR = PUBLIC | {"statistic": "median |x|", "mechanism": "smooth"}
SELECTOR = PUBLIC | {"candidates": ["|x|^0.1", "|x|", "|x|^2"], "first_statistic": "|x|"}
MODEL = {"population": "UniformWidth", "prior": {"name": "Gamma", "a": 9.0, "b": 0.7}}


def numbers():
    return np.random.default_rng(3).uniform(-6.0, 6.0, 300)


def service(folder, kind, settings, epsilon=2.0):
    folder.mkdir()
    write_csv(folder / "people.csv", {"id": np.arange(300), "score": numbers()})
    allow = [PRIVACY | {"computation": kind, "settings": settings, "partners": 1, "rounds": 2,
                        "seeded": True, "trust": "central"}]  # fmt: skip
    ledger = {"file": "ledger.db", "epsilon": epsilon, "delta": 1e-3}
    path = folder / "site.toml"
    path.write_text(
        f'name = "North"\nledger = {toml(ledger)}\n'
        f"data = {toml({'people': {'file': 'people.csv', 'value': 'score'}})}\n"
        f"allow = {toml(allow)}\n"
    )
    return {"North": ready(path)}


def proposal(kind, settings, **more):
    return Proposal(kind, settings | more, PRIVACY, ("North",), "run", seed=7)


def test_a_statistic_equals_that_in_one_process(tmp_path):
    asked = proposal("posterior", POSTERIOR, **MODEL, **SHORT, particles=5)
    found = run_proposal(asked, Direct(service(tmp_path / "a", "posterior", POSTERIOR)))
    expected = tc.PrivatePosterior(
        UniformWidth(), "median |x|", bounds=(-10, 10), prior=Gamma(9.0, 0.7), particles=5,
        mechanism="smooth",
        privacy=tc.Privacy(**PRIVACY), random_state=7, **SHORT,
    ).fit(tc.Site("North", numbers()))  # fmt: skip
    np.testing.assert_array_equal(found.model.released_.values, expected.released_.values)
    np.testing.assert_array_equal(found.model.mean_, expected.mean_)
    assert found.certificates["North"].epsilon == 2.0
    assert Ledger.open(tmp_path / "a" / "ledger.db").spent.epsilon == 2.0


def test_a_selection_equals_that_in_one_process_and_is_paid_for_once(tmp_path):
    asked = proposal("selector", SELECTOR, **MODEL, **SHORT)
    found = run_proposal(asked, Direct(service(tmp_path / "a", "selector", SELECTOR)))
    expected = tc.StatisticSelector(
        UniformWidth(), SELECTOR["candidates"], bounds=(-10, 10), prior=Gamma(9.0, 0.7),
        first_statistic="|x|", privacy=tc.Privacy(**PRIVACY), random_state=7, **SHORT,
    ).fit(tc.Site("North", numbers()))  # fmt: skip
    for ours, theirs in zip(found.model.releases_, expected.releases_, strict=True):
        np.testing.assert_array_equal(ours.values, theirs.values)
    np.testing.assert_array_equal(found.model.mean_, expected.mean_)
    assert Ledger.open(tmp_path / "a" / "ledger.db").spent.epsilon == pytest.approx(2.0, abs=1e-9)


@pytest.mark.parametrize(
    ("statistic", "neighbours"),
    [
        ("mean", "add-remove-one"),
        ("|x|^0.5", "replace-one"),
        pytest.param("median", "replace-one", marks=pytest.mark.slow),
        pytest.param("median", "add-remove-one", marks=pytest.mark.slow),
    ],
)
def test_sites_with_noise_and_ledgers_of_their_own_share_one_posterior(
    tmp_path, statistic, neighbours
):
    """Bit for bit as in one process, whether or not the number of people is public."""
    settings = {"bounds": [-10.0, 10.0], "statistic": statistic}
    asked = PRIVACY | {"neighbours": neighbours, "trust": "site"}
    tables = {"North": numbers(), "South": numbers()[:90] + 1.0}
    there = {}
    for name, x in tables.items():
        folder = tmp_path / name
        folder.mkdir()
        write_csv(folder / "people.csv", {"id": np.arange(len(x)), "score": x})
        allow = [asked | {"computation": "posterior", "settings": settings, "partners": 2,
                          "rounds": 2, "seeded": True}]  # fmt: skip
        ledger = {"file": "ledger.db", "epsilon": 2.0, "delta": 1e-3}
        (folder / "site.toml").write_text(
            f'name = "{name}"\nledger = {toml(ledger)}\n'
            f"data = {toml({'people': {'file': 'people.csv', 'value': 'score'}})}\n"
            f"allow = {toml(allow)}\n"
        )
        there[name] = ready(folder / "site.toml")
    short = {"chains": 1, "draws": 20, "warmup": 0}
    proposed = Proposal("posterior", settings | MODEL | short, asked, ("North", "South"), "run",
                        seed=7)  # fmt: skip
    found = run_proposal(proposed, Direct(there))
    expected = tc.PrivatePosterior(
        UniformWidth(), statistic, bounds=(-10, 10), prior=Gamma(9.0, 0.7),
        privacy=tc.Privacy(**asked), random_state=7, **short,
    ).fit([tc.Site(name, x) for name, x in tables.items()])  # fmt: skip
    for ours, theirs in zip(found.model.released_, expected.released_, strict=True):
        np.testing.assert_array_equal(ours.values, theirs.values)
        assert ours.count == theirs.count and ours.size == theirs.size
    np.testing.assert_array_equal(found.model.mean_, expected.mean_)
    for name in tables:
        assert found.certificates[name].trust == "site"
        assert Ledger.open(tmp_path / name / "ledger.db").spent.epsilon == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"population": "os.system"}, "population must be one of"),
        ({"population": {"name": "NormalMean", "mean": 2}}, "no such numbers"),
        ({"prior": {"name": "Cauchy", "a": 1, "b": 1}}, "prior must be one of"),
        ({"statistic": "__import__"}, "a statistic must be"),
        ({"size": None}, "size must be given"),
        ({"ledger": "mine"}, "does not set"),
    ],
)
def test_what_cannot_be_built_from_names_is_refused(tmp_path, change, match):
    settings = {k: v for k, v in (POSTERIOR | MODEL | change).items() if v is not None}
    found = service(tmp_path / "a", "posterior", POSTERIOR)
    with pytest.raises((TacitError, PolicyRefused), match=match):
        run_proposal(proposal("posterior", settings), Direct(found))
    assert not (tmp_path / "a" / "ledger.db").exists() or (
        Ledger.open(tmp_path / "a" / "ledger.db").spent.epsilon == 0.0
    )


def test_a_policy_fixes_what_is_released_and_leaves_inference_open(tmp_path):
    other = POSTERIOR | {"bounds": [-1.0, 1.0]}
    with pytest.raises(Exception, match="does not allow these settings"):
        run_proposal(
            proposal("posterior", other, **MODEL),
            Direct(service(tmp_path / "a", "posterior", POSTERIOR)),
        )
