"""Joint computations over bytes: the same results as in one process, faults, policies."""

import dataclasses
import io
import json

import numpy as np
import pytest
from rich.console import Console

from tacit.errors import LedgerError, ParameterError, SiteFailure
from tacit.federation import wire
from tacit.federation.activity import line_about
from tacit.federation.computation import Computation
from tacit.federation.coordinate import coordinate, run_proposal
from tacit.federation.files import CoordinatorConfig, SiteConfig
from tacit.federation.history import History
from tacit.federation.proposal import Proposal
from tacit.federation.refusals import SENTENCES
from tacit.federation.secure import keys
from tacit.federation.service import SiteService
from tacit.privacy.ledger.ledger import Ledger
from tacit.report.live import show_record
from tacit.rounds.messages import Message

from .support import (
    FACTORIZATION,
    INFERENCE,
    PINNED,
    REGRESSION,
    ROW,
    SITES,
    USER,
    Direct,
    factorization_in_one_process,
    ready,
    regression_in_one_process,
    services,
    site_file,
    toml,
)

REGRESSION_RUN = Proposal("regression", REGRESSION | INFERENCE, ROW, SITES, "run r", seed=7)
FACTORIZATION_RUN = Proposal("factorization", FACTORIZATION, USER, SITES, "run f", seed=7)


def spent(folder, site):
    return Ledger.open(folder / site / "ledger.db").spent.epsilon


def test_regression_equals_the_run_in_one_process(tmp_path):
    result = run_proposal(REGRESSION_RUN, Direct(services(tmp_path)))
    expected = regression_in_one_process(7)
    assert np.array_equal(result.model.coef_, expected.coef_)
    assert result.model.intercept_ == expected.intercept_
    assert set(result.certificates) == set(SITES)
    for site in SITES:
        assert result.certificates[site].epsilon == expected.certificates_[site].epsilon
        assert spent(tmp_path, site) == 1.0


@pytest.mark.parametrize("threshold", [None, 2])
def test_factorization_equals_the_run_in_one_process(tmp_path, threshold):
    proposal = Proposal("factorization", FACTORIZATION, USER, SITES, "run", threshold, 7, 0)
    found = services(tmp_path)
    result = run_proposal(proposal, Direct(found), partners=PINNED)
    expected = factorization_in_one_process(7)
    for name, factor in expected.shared_factors_.items():
        assert np.array_equal(result.model.shared_factors_[name], factor)
    cells = np.array([[0, 1], [3, 2]], np.int32)
    for site in SITES:  # predictions are made at the site
        there = found[site].result.predict("ratings", cells)
        assert np.array_equal(there, expected.predict(site, cells, positions=True))


# --- policy: refused before data is read ---


def refusal(tmp_path, proposal, **options):
    """Return what is said of a refused proposal, and what the holders' logs say.

    No data was needed for that, nobody was charged, and what is said is on the fixed list.
    """
    found = services(tmp_path, **options)
    for site in SITES:
        (tmp_path / site / "patients.csv").unlink()
        (tmp_path / site / "ratings.csv").unlink()
    direct = Direct(found)
    with pytest.raises(SiteFailure) as caught:
        run_proposal(proposal, direct, partners=PINNED)
    assert {method for method, _ in direct.calls} == {"open"}
    for site in SITES:
        path = tmp_path / site / "ledger.db"
        assert not path.exists() or Ledger.open(path).spent.epsilon == 0.0
    for site in str(caught.value).split("; "):
        assert site.partition(": ")[2] in SENTENCES.values()
    said = str(caught.value)
    logs = [tmp_path / site / "state" / "refused.log" for site in SITES]
    return said + "".join(log.read_text(encoding="utf-8") for log in logs if log.exists())


def changed(proposal, **settings):
    return dataclasses.replace(proposal, settings={**proposal.settings, **settings})


@pytest.mark.parametrize(
    ("proposal", "reason"),
    [
        (changed(REGRESSION_RUN, bounds={"age": [0, 100], "dose": [0, 10]}), "bounds is"),
        (changed(REGRESSION_RUN, y_bounds=[0, 1]), "y_bounds is [0.0, 1.0], not [0.0, 200.0]"),
        (changed(REGRESSION_RUN, statistics="Szu"), "Szu"),
        (dataclasses.replace(REGRESSION_RUN, privacy=ROW | {"epsilon": 1.01}), "ε = 1.01 is more"),
        (dataclasses.replace(REGRESSION_RUN, privacy=ROW | {"delta": 2e-6}), "δ = 2e-06 is more"),
        (dataclasses.replace(REGRESSION_RUN, privacy=None), "no guarantee is asked for"),
        (
            dataclasses.replace(REGRESSION_RUN, privacy=ROW | {"neighbours": "replace-one"}),
            "not 'add-remove-one'",
        ),
        (changed(FACTORIZATION_RUN, rank=3), "rank is 3.0, not 2.0"),
        (changed(FACTORIZATION_RUN, options={"rounds": 40}), "rounds"),
        (dataclasses.replace(FACTORIZATION_RUN, privacy=USER | {"unit": "entry"}), "unit is"),
    ],
)
def test_a_site_refuses_what_its_policy_does_not_allow(tmp_path, proposal, reason):
    assert reason in refusal(tmp_path, proposal)


def opened(service, proposal, digest="", **more):
    """Open a run at a site as a coordinator would that checks nothing itself."""
    texts = {"proposal": proposal.to_json(), "digest": digest} | more
    arrays = {name: wire.text_array(text) for name, text in texts.items()}
    asked = wire.ask(Message(0, arrays), "open")
    return wire.read_answer(service.call("open", asked), asked, "open", service.name)


@pytest.mark.parametrize(
    ("privacy", "about"),
    [
        ({"against": "nobody at all"}, "guarantee"),
        ({"trust": "local"}, "trust"),
        ({"trust": "aggregator"}, "trust"),
        ({"trust": "central"}, "trust"),
        ({"neighbours": "replace-one"}, "neighbours"),
        ({"epsilon": "1"}, "guarantee"),
        ({"epsilon": -1.0}, "guarantee"),
        ({"epsilon": float("nan")}, "guarantee"),
    ],
)
def test_a_guarantee_is_that_of_the_policy_in_every_field(tmp_path, privacy, about):
    site = ready(site_file(tmp_path, "North"))
    asked = dataclasses.replace(REGRESSION_RUN, privacy=ROW | privacy)
    with pytest.raises(SiteFailure) as caught:
        opened(site, asked)
    assert str(caught.value) == SENTENCES[about]


def test_a_proposal_much_longer_than_the_policy_is_not_read(tmp_path, monkeypatch):
    site = ready(site_file(tmp_path, "North"))
    monkeypatch.setattr(Proposal, "from_json", None)  # whoever read it would fail otherwise
    with pytest.raises(SiteFailure, match="too long"):
        opened(site, REGRESSION_RUN, "0" * 200_000)


def test_a_site_that_names_coordinators_reads_what_they_signed_only(tmp_path):
    ours, theirs = keys.fresh_identity(), keys.fresh_identity()
    public = keys.identity_public(ours).hex()
    found = services(tmp_path, extra=f'coordinators = {{hub = "{public}"}}')
    with pytest.raises(SiteFailure, match="not signed by a coordinator"):
        run_proposal(REGRESSION_RUN, Direct(found))
    with pytest.raises(SiteFailure, match="not signed by a coordinator"):
        run_proposal(REGRESSION_RUN, Direct(found), identity=theirs)
    assert run_proposal(REGRESSION_RUN, Direct(found), identity=ours).record.rounds == 1
    for site in SITES:
        assert [
            (one.run, one.coordinator) for one in History(found[site].config.state).runs()
        ] == [("run r", "hub")]


@pytest.mark.parametrize("limit", ["runs = 1", "epsilon = 1.5"])
def test_a_coordinator_cannot_drain_a_ledger_by_starting_runs(tmp_path, limit):
    site = ready(site_file(tmp_path, "North", epsilon=9.0, extra=f"limits = {{{limit}}}"))
    digest = Computation(REGRESSION_RUN).digest
    opened(site, REGRESSION_RUN, digest)
    began = wire.ask(Message(0), "run r")
    wire.read_answer(site.call("begin", began), began, "run r", "North")
    opened(site, REGRESSION_RUN, digest)  # the same run is not another one
    with pytest.raises(SiteFailure, match="no more runs, or no more epsilon"):
        opened(site, dataclasses.replace(REGRESSION_RUN, run="another"), digest)
    assert spent(tmp_path, "") == 1.0


def test_a_ledger_is_never_made_on_the_way(tmp_path):
    config = SiteConfig.read(site_file(tmp_path, "North"))
    with pytest.raises(LedgerError, match="tacit ledger create"):
        config.open_ledger()
    with pytest.raises(SiteFailure, match="cannot answer"):
        opened(SiteService(config), REGRESSION_RUN, Computation(REGRESSION_RUN).digest)
    config.create_ledger()
    History(config.state).begin("run", "", 1.0)
    (tmp_path / "ledger.db").unlink()
    for again in (config.open_ledger, config.create_ledger):  # its budget would begin anew
        with pytest.raises(LedgerError, match="restore"):
            again()


def test_a_rehearsal_reads_no_data_and_costs_nothing(tmp_path):
    found = services(tmp_path, epsilon=0.5)  # too little for a real run
    for site in SITES:
        (tmp_path / site / "patients.csv").unlink()
    asked = dataclasses.replace(REGRESSION_RUN, rehearsal=True)
    result = run_proposal(asked, Direct(found))
    assert result.record.rounds == 1 and np.isfinite(result.model.coef_).all()
    for site in SITES:
        assert spent(tmp_path, site) == 0.0 and not History(found[site].config.state).runs()
        assert any("made-up" in note for note in result.certificates[site].assumptions)
    again = dataclasses.replace(asked, run="another")
    run_proposal(again, Direct(found))  # in place of the last one: a disk is not filled by them
    assert len(list((tmp_path / "North" / "state").iterdir())) == 1


def test_a_rehearsal_asks_the_policy_all_the_same(tmp_path):
    asked = dataclasses.replace(REGRESSION_RUN, rehearsal=True, privacy=ROW | {"epsilon": 9.0})
    assert "smaller epsilon" in refusal(tmp_path, asked)


def test_a_holder_hears_at_home_what_a_coordinator_never_does(tmp_path):
    service = ready(site_file(tmp_path, "North"))
    assert service.problems() == {}
    path = tmp_path / "ratings.csv"
    path.write_text(path.read_text().replace(",i3,", ",unheard of,"))
    (tmp_path / "patients.csv").unlink()
    problems = service.problems()
    assert "patients.csv" in str(problems["1: regression"][0])
    assert "unheard of" in str(problems["2: factorization"][0])
    assert spent(tmp_path, "") == 0.0


def test_a_site_refuses_more_rounds_than_its_policy_allows(tmp_path):
    assert "4 rounds are more than 3" in refusal(tmp_path, FACTORIZATION_RUN, rounds=3)


def test_a_site_refuses_predictable_noise_unless_its_policy_allows_it(tmp_path):
    assert "predictable" in refusal(tmp_path, REGRESSION_RUN, seeded=False)


def test_a_site_refuses_too_few_partners(tmp_path):
    assert "3 sites take part, fewer than 4" in refusal(tmp_path, REGRESSION_RUN, partners=4)


def test_a_site_refuses_strangers(tmp_path):
    reason = refusal(tmp_path, REGRESSION_RUN, sites=["North", "South"])
    assert "'West' takes part, who was not agreed on" in reason


def test_a_site_that_asks_for_secure_sums_refuses_sums_of_few(tmp_path):
    secure = dataclasses.replace(FACTORIZATION_RUN, threshold=2, colluding=0)
    reason = refusal(tmp_path, secure, secure=True, partners=3)
    assert "sums over fewer than 3 sites could be seen" in reason


def test_a_site_refuses_what_its_ledger_cannot_pay_and_nobody_is_charged(tmp_path):
    assert "does not admit this run" in refusal(tmp_path, REGRESSION_RUN, epsilon=0.5)


def test_a_computation_that_is_not_on_the_list_is_refused(tmp_path):
    with pytest.raises(Exception, match="there is no estimator 'os'"):
        run_proposal(dataclasses.replace(REGRESSION_RUN, computation="os"), Direct({}))


def test_a_policy_reads_like_a_page(tmp_path):
    config = services(tmp_path)["North"].config
    page = config.policy.page("North")
    assert "What North consents to" in page
    assert "It may cost ε = 1 and δ = 1e-06 per run, for one row" in page
    assert 'bounds = {"age": [18.0, 100.0], "dose": [0.0, 10.0]}' in page
    assert "TESTS ONLY" in page


# --- entity lists ---


def test_members_that_are_not_on_the_agreed_list_are_refused(tmp_path):
    found = services(tmp_path)
    path = tmp_path / "West" / "ratings.csv"
    path.write_text(path.read_text().replace(",i3,", ",unheard of,"))
    with pytest.raises(SiteFailure, match="West: the site cannot answer") as caught:
        run_proposal(FACTORIZATION_RUN, Direct(found))
    assert "unheard of" not in str(caught.value)  # what a site holds is for its holder alone
    log = (found["West"].config.state / "refused.log").read_text(encoding="utf-8")
    assert "unheard of" in log


@pytest.mark.parametrize("threshold", [1000, 4])
def test_noise_never_comes_in_more_shares_than_there_are_sites(threshold):
    with pytest.raises(ParameterError, match="at most all of them"):
        dataclasses.replace(FACTORIZATION_RUN, threshold=threshold)


def test_a_run_is_closed_once_and_says_nothing_about_the_data(tmp_path):
    """Whatever comes as what was learned, a site answers with its certificate, or not at all."""
    found = services(tmp_path)
    site, text = found["North"], wire.text_array(FACTORIZATION_RUN.to_json())
    digest = wire.text_array(Computation(FACTORIZATION_RUN).digest)

    def called(method, arrays):
        run = "open" if method == "open" else FACTORIZATION_RUN.run
        asked = wire.ask(Message(0, arrays), run)
        return wire.read_answer(site.call(method, asked), asked, run, "North")

    called("open", {"proposal": text, "digest": digest})
    called("begin", {})
    wrong = {"shared/item": np.zeros((1, 1))}
    first = called("close", wrong)
    assert set(first.arrays) == {"certificate"}
    assert called("close", wrong).to_bytes() == first.to_bytes()
    with pytest.raises(SiteFailure, match="opened or closed before"):
        called("close", {"shared/item": np.ones((1, 1))})


# --- sites that lie ---


def tamper(kind):
    """Return a fault: what South's second reply becomes."""
    kept = []

    def fault(method, name, request, answer):
        if method != "respond" or name != "South":
            return answer
        kept.append(answer)
        if len(kept) != 2:
            return answer
        message = wire._unpack(answer, answer[8:40], 1 << 30, sealed=False)
        arrays = {n: a.copy() for n, a in message.arrays.items()}
        first = next(iter(arrays))
        round_ = message.round
        if kind == "nan":
            arrays[first].flat[0] = np.nan
        elif kind == "shape":
            arrays[first] = arrays[first][:-1]
        elif kind == "key":
            arrays["extra"] = np.zeros(1)
        elif kind == "round":
            round_ = 0
        elif kind == "replay":
            return kept[0]
        elif kind == "dtype":
            arrays[first] = arrays[first].astype(np.float32)
        elif kind == "garbage":
            return b"\x80\x04K\x01."  # a pickle is never opened
        elif kind == "nothing":
            raise TimeoutError
        return wire.answer(Message(round_, arrays), request, "run f", "South")

    return fault


@pytest.mark.parametrize("call", ["open", "begin"])
def test_a_site_that_is_lost_before_the_first_round_is_named(tmp_path, call):
    def lose(method, name, request, answer):
        if (method, name) == (call, "South"):
            raise TimeoutError
        return answer

    direct = Direct(services(tmp_path), lose)
    result = run_proposal(FACTORIZATION_RUN, direct, on_failure="exclude")
    assert [(f.site, f.round) for f in result.record.failures] == [("South", 0)]
    assert set(result.certificates) == {"North", "West"}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("nan", "not finite"), ("shape", "has shape"), ("key", "was asked for"),
        ("round", "answered for round 0 in round 1"), ("replay", "replayed"),
        ("dtype", "has dtype"), ("garbage", "none of tacit's"), ("nothing", "TimeoutError"),
    ],
)  # fmt: skip
def test_a_site_that_lies_is_left_out_with_the_reason(tmp_path, kind, reason):
    result = run_proposal(
        FACTORIZATION_RUN, Direct(services(tmp_path), tamper(kind)), on_failure="exclude"
    )
    (failure,) = result.record.failures
    assert (failure.site, failure.round) == ("South", 1)
    assert reason in failure.reason
    assert set(result.certificates) == {"North", "West"}
    assert all(np.isfinite(f).all() for f in result.model.shared_factors_.values())


# --- runs that die ---


class Gone(Exception):
    """The coordinator is gone."""


@pytest.mark.parametrize("threshold", [None, 2])
def test_a_coordinator_that_died_goes_on_and_nobody_pays_twice(tmp_path, threshold):
    proposal = dataclasses.replace(FACTORIZATION_RUN, threshold=threshold, colluding=0)
    found = services(tmp_path)
    sent = {}

    def remember(method, name, request, answer):
        if method == "respond":
            assert sent.setdefault((name, request), answer) == answer
        return answer

    def stop(record):
        if record.rounds == 2:
            raise Gone

    direct = Direct(found, remember)
    with pytest.raises(Gone):
        run_proposal(proposal, direct, checkpoint=tmp_path / "c", progress=stop, partners=PINNED)
    result = run_proposal(proposal, direct, checkpoint=tmp_path / "c", partners=PINNED)
    assert result.record.resumed_at == 2
    expected = factorization_in_one_process(7)
    for name, factor in expected.shared_factors_.items():
        assert np.array_equal(result.model.shared_factors_[name], factor)
    assert all(spent(tmp_path, site) == 1.0 for site in SITES)


def test_a_restarted_site_repeats_the_bytes_it_paid_for(tmp_path):
    found = services(tmp_path)
    sent = {}

    def lose(method, name, request, answer):
        if method == "respond" and name == "South" and len(sent) < 1:
            sent["request"], sent["answer"] = request, answer
            raise ConnectionError
        return answer

    with pytest.raises(SiteFailure, match="ConnectionError"):
        run_proposal(REGRESSION_RUN, Direct(found, lose))
    again = {site: SiteService(SiteConfig.read(tmp_path / site / "site.toml")) for site in SITES}
    seen = {}

    def watch(method, name, request, answer):
        if method == "respond" and name == "South":
            seen["request"], seen["answer"] = request, answer
        return answer

    result = run_proposal(REGRESSION_RUN, Direct(again, watch))
    assert seen == sent
    assert np.array_equal(result.model.coef_, regression_in_one_process(7).coef_)
    assert all(spent(tmp_path, site) == 1.0 for site in SITES)


def test_a_different_request_for_an_answered_round_is_refused(tmp_path):
    found = services(tmp_path)
    run_proposal(FACTORIZATION_RUN, Direct(found))
    other = wire.ask(Message(0, {"factor/item": np.ones((8, 2))}), "run f")
    answer = found["North"].call("respond", other)
    with pytest.raises(SiteFailure, match="come in order, once each"):
        wire.read_answer(answer, other, "run f", "North")
    assert spent(tmp_path, "North") == 1.0


def test_one_run_name_stands_for_one_proposal(tmp_path):
    found = services(tmp_path)
    run_proposal(REGRESSION_RUN, Direct(found))
    with pytest.raises(SiteFailure, match="opened or closed before"):
        run_proposal(dataclasses.replace(REGRESSION_RUN, seed=8), Direct(found))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("unit", "entry"),
        ("delta", 0.5),
        ("trust", "local"),
        ("against", "nobody"),
        ("holder", "North"),
        ("epsilon", 0.01),
        ("event", None),
    ],
)
def test_a_certificate_of_something_else_is_named_and_costs_nobody_else_the_run(
    tmp_path, field, value
):
    def fault(method, name, body, answer):
        if (method, name) != ("close", "South"):
            return answer
        reply = wire.read_answer(answer, body, REGRESSION_RUN.run, name)
        told = json.loads(reply["certificate"].tobytes()) | {field: value}
        forged = Message(0, {"certificate": wire.text_array(json.dumps(told))})
        return wire.answer(forged, body, REGRESSION_RUN.run, name)

    found = services(tmp_path)
    with pytest.raises(SiteFailure, match=r"South: sent (no|a|the) certificate"):
        run_proposal(REGRESSION_RUN, Direct(found, fault))
    again = run_proposal(REGRESSION_RUN, Direct(found, fault), on_failure="exclude")
    assert sorted(again.certificates) == ["North", "West"]
    assert [failure.site for failure in again.record.failures] == ["South"]
    assert all(spent(tmp_path, site) == 1.0 for site in SITES)


def test_what_a_clock_tells_is_on_the_certificate(tmp_path):
    found = services(tmp_path, extra="answer_after = 0.01")
    result = run_proposal(REGRESSION_RUN, Direct(found))
    notes = " ".join(result.certificates["North"].assumptions)
    assert "answers leave after 0.01 s" in notes and "one bit" in notes


def test_a_holder_sees_who_asks_for_what_and_what_it_costs(tmp_path):
    shown = []
    config = SiteConfig.read(site_file(tmp_path / "North", "North"))
    config.create_ledger()
    service = SiteService(config, lambda what, told: shown.append(line_about(what, told)))
    found = {"North": service}
    found |= {s: ready(site_file(tmp_path / s, s)) for s in ("South", "West")}
    run_proposal(FACTORIZATION_RUN, Direct(found))
    with pytest.raises(SiteFailure):
        opened(found["North"], dataclasses.replace(REGRESSION_RUN, privacy=ROW | {"epsilon": 3.0}))
    assert shown[0].startswith("a coordinator opened factorization with South, West, ε = 1")
    assert shown[1] == "data read, run reserved: ε = 1 left"
    assert shown[2:6] == [f"request {k} of at most 4 answered" for k in (1, 2, 3, 4)]
    assert "certificate has gone out" in shown[6]
    assert shown[7] == "refused to open: ε = 3 is more than 1"


# --- a whole file of computations ---


def test_a_file_of_computations_is_run_once_and_recorded(tmp_path):
    path = tmp_path / "coordinator.toml"
    step = {"name": "one", "computation": "factorization", "privacy": USER, "seed": 7,
            "settings": FACTORIZATION}  # fmt: skip
    path.write_text(f"sites = {toml(SITES)}\ncomputation = [{toml(step)}]\n")
    config = CoordinatorConfig.read(path)
    direct = Direct(services(tmp_path))
    coordinate(config, direct)
    record = json.loads((tmp_path / "result" / "one" / "record.json").read_text())
    assert record["rounds"] == 4 and record["failures"] == []
    assert record["epsilon"].keys() == set(SITES)
    assert "seeded" in record["not_released"]
    console = Console(file=io.StringIO(), width=120)
    show_record(record, console)
    assert "took part to the end" in console.file.getvalue()
    calls = len(direct.calls)
    assert coordinate(config, direct) == {}  # complete: nobody is asked again
    assert len(direct.calls) == calls
    path.write_text(f"rehearsal = true\n{path.read_text()}")
    coordinate(CoordinatorConfig.read(path), direct)  # beside it, and not for release
    record = json.loads((tmp_path / "rehearsal" / "one" / "record.json").read_text())
    assert "made-up" in record["not_released"]
    assert all(spent(tmp_path, site) == 1.0 for site in SITES)
