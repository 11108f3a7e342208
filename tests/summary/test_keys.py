"""Keys whose list is not public: named where many have them, and only through the mechanism."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

import tacit as tc
from tacit.audit.attack import audit
from tacit.errors import ParameterError, UnboundedData
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.summary.agreement import STATISTICS, SummaryAgreement
from tacit.summary.layout import GROUP, PERSON
from tacit.summary.naming import packed, unit_keys, unpacked

TOWNS = tc.Columns(age=tc.number(20, 90), town=tc.keys(at_most=20, length=16))
PRIVATE = tc.Privacy(1.0, 1e-6)


def people(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    towns = rng.choice(["Ulm", "Köln", "a/b", '=cmd|"x"'], rows, p=[0.5, 0.3, 0.15, 0.05])
    frame = {"age": rng.uniform(20, 90, rows), "town": np.append(towns[1:], "only me")}
    return pd.DataFrame(frame)


def test_frequent_keys_are_named_and_rare_ones_are_not():
    frame = people()
    found = tc.PrivateSummary(TOWNS, statistics=("mean",), privacy=PRIVATE).fit(frame)
    true = frame.town.value_counts().to_dict()
    assert list(found.counts_["town"]) == ["Ulm", "Köln", "a/b", '=cmd|"x"']
    for town, count in found.counts_["town"].items():
        assert count == pytest.approx(true[town], abs=15 * found.noise_sd_["town"]["cell"])
    assert found.certificate_.epsilon <= 1.0 and found.threshold_["town"] > 15
    notes = " ".join(found.certificate_.assumptions)
    assert "values of town with a noisy count of at least" in notes


def test_without_noise_all_keys_are_named():
    frame = people()
    for privacy in (None, tc.Privacy(float("inf"))):
        found = tc.PrivateSummary(TOWNS, privacy=privacy).fit(frame)
        assert found.counts_["town"] == frame.town.value_counts().to_dict()


def test_a_release_with_keys_by_groups_is_read_back(tmp_path):
    columns = tc.Columns(town=tc.keys(), job=tc.keys(), sex=tc.category("f", "m"))
    rng = np.random.default_rng(0)
    data = {"town": rng.choice(["Ulm", "50%/x"], 4000), "sex": rng.choice(["f", "m"], 4000),
            "job": np.arange(4000)}  # fmt: skip
    model = tc.PrivateSummary(columns, by="sex", statistics=("count",), privacy=PRIVATE).fit(data)
    back = tc.PrivateSummary.from_release(model.release(tmp_path / "r"))
    assert back.counts_ == model.counts_ and model.counts_["job"] == {}
    assert set(model.counts_["town"]["50%/x"]) == {"f", "m"}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"privacy": tc.Privacy(1.0)}, ParameterError, "δ pays for those that become known"),
        ({"by": "town"}, ParameterError, "whose values are listed"),
        ({"privacy": tc.Privacy(1e-6, 1e-6)}, ParameterError, "too small to name anything"),
        ({"columns": {GROUP: tc.keys()}}, ParameterError, "rename it"),
        ({"columns": {PERSON: (0, 1)}}, ParameterError, "rename it"),
    ],
)
def test_what_keys_cannot_do_is_refused_before_anything_is_read(change, error, words):
    with pytest.raises(error, match=words):
        tc.PrivateSummary(**{"columns": TOWNS, "privacy": PRIVATE, **change}).price()


def test_people_with_several_keys_go_with_add_remove_only():
    columns = tc.Columns(town=tc.keys(), person="id", rows_per_person=3)
    replaced = tc.Privacy(1.0, 1e-6, neighbours="replace-one")
    with pytest.raises(ParameterError, match="need add-remove-one"):
        tc.PrivateSummary(columns, privacy=replaced).price()
    tc.PrivateSummary(TOWNS, privacy=replaced).price()  # rows have one key each


def test_a_missing_list_is_an_error_that_says_what_to_pass():
    with pytest.raises(UnboundedData, match=r"tc\.keys\(\) counts in a summary"):
        tc.category()
    with pytest.raises(UnboundedData, match='"kind": "keys" counts'):
        tc.Columns.from_dictionary({"fields": [{"name": "town", "type": "string"}]})


def test_keys_are_stated_in_files():
    field = {"name": "town", "type": "string", "kind": "keys", "constraints": {"maxLength": 16}}
    stated = tc.Columns.from_dictionary({"fields": [field]})
    assert stated == tc.Columns.of({"town": {"kind": "keys", "length": 16}})
    assert tc.Columns.of(stated.described()) == stated


def test_keys_are_read_one_by_one_as_text():
    columns = tc.Columns(town=tc.keys(length=5), unknown="other", missing="drop")
    read = columns.read({"town": [" Ulm", 12, 12.0, "0012", None, "n/a", "Heidelberg", "KÖLN"]})
    assert read.values["town"].tolist() == ["Ulm", "12", "12", "0012", "other", "KÖLN"]
    with pytest.raises(ParameterError, match=r"row 2: 'Köln am Rhein'\. A key has"):
        tc.Columns(town=tc.keys(length=5)).read({"town": ["Ulm", "Köln am Rhein"]})
    with pytest.raises(ParameterError, match="'town', missing: the table, row 2"):
        tc.Columns(town=tc.keys()).read({"town": ["Ulm", None]})
    with pytest.raises(UnboundedData, match="keys have no public list"):
        tc.Columns(town=tc.keys(), missing="impute")
    filled = tc.Columns(town=tc.keys(), missing="impute", constants={"town": "nowhere"})
    assert filled.read({"town": ["Ulm", None]}).values["town"].tolist() == ["Ulm", "nowhere"]


@pytest.mark.parametrize("columns", [TOWNS, tc.Columns(note=tc.text(["a"]), age=(0, 9))])
def test_models_do_not_read_them(columns):
    with pytest.raises(ParameterError, match="does not read"):
        tc.PrivateLinearRegression(columns, target="age").price()


# -- over sites ---------------------------------------------------------------------------------


def test_each_site_names_its_own_keys_and_counts_are_added_up():
    north, south = people(seed=1), people(seed=2)
    south.loc[south.town == "Köln", "town"] = "Bonn"
    sites = [tc.Site("north", north), tc.Site("south", south)]
    found = tc.PrivateSummary(TOWNS, statistics=("mean",), privacy=PRIVATE).fit(sites)
    true = pd.concat([north, south]).town.value_counts().to_dict()
    for town in ("Ulm", "Köln", "Bonn"):
        sd = found.noise_sd_["town"]["cell"]
        assert found.counts_["town"][town] == pytest.approx(true[town], abs=15 * sd)
    assert "only me" not in found.counts_["town"]
    more = found.add_sites(tc.Site("west", people(seed=3))).counts_["town"]
    assert more["Ulm"] > found.noise_sd_["town"]["cell"] + 5000


def test_a_federation_agrees_on_the_length_of_every_reply():
    """However many keys there are: what is not used of a reply is zero."""
    settings = {"columns": TOWNS.described(), "statistics": ["mean"]}
    proposal = Proposal(
        computation="summary", settings=settings, sites=("a", "b", "c"), run="r",
        privacy={"epsilon": 1.0, "delta": 1e-6, "unit": "row", "trust": "site"},
    )  # fmt: skip
    computation = Computation(proposal)
    (step,) = [s for s in computation.agreement.steps if s.name == "keys 0"]
    for released in ({}, {"0 Ulm": 40}, {f"0 {k}": 40 + k for k in range(99)}):
        sent = packed(released, 20, 16)
        assert {n: a.nbytes for n, a in sent.items()} == {
            n: spec.most_bytes for n, spec in step.replies.items()
        }
        largest = sorted(released.values(), reverse=True)[:20]
        assert sorted(unpacked(sent).values(), reverse=True) == largest
    with pytest.raises(ParameterError, match="no secure sum"):
        Computation(dataclasses.replace(proposal, threshold=3))


def test_a_hostile_site_cannot_break_the_reading_of_its_reply():
    rng = np.random.default_rng(0)
    wild = {
        "counts": rng.integers(0, 9, 50),
        "groups": rng.integers(0, 3, 50),
        "lengths": rng.integers(0, 9, 50),
        "texts": rng.integers(0, 256, (50, 8)).astype(np.uint8),
    }
    assert all(isinstance(text, str) and count > 0 for (_, text), count in unpacked(wild).items())


# -- attacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize("statistics", [(), ("mean",), STATISTICS])
@pytest.mark.parametrize("sites", [1, 3])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 12.0])
@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
def test_all_parts_together_cost_what_was_asked_for(statistics, sites, epsilon, neighbours):
    asked = tc.Privacy(epsilon, 1e-6, unit="row", neighbours=neighbours)
    keys = (("town", 5, 8), ("job", 5, 8))
    agreement = SummaryAgreement((("age", 0.0, 9.0),), statistics, 4, asked, sites, keys=keys)
    assert 0.8 * epsilon < epsilon_of(agreement.event, 1e-6) <= epsilon


def model_of(most):
    columns = tc.Columns(town=tc.keys(), sex=tc.category("f", "m"), person="id",
                         rows_per_person=most)  # fmt: skip
    return tc.PrivateSummary(columns, by="sex", statistics=(), privacy=tc.Privacy(1.0, 0.05))


def neighbours(most):
    """Forty people; and with them one who brings hundreds of keys that nobody else has."""
    rng = np.random.default_rng(3)
    others = pd.DataFrame({
        "id": np.arange(40).astype(str), "town": rng.choice(["Ulm", "Bonn"], 40),
        "sex": rng.choice(["f", "m"], 40),
    })  # fmt: skip
    evil = pd.DataFrame({"id": "evil", "town": [f"my {k}" for k in range(300)], "sex": "f"})
    return others, pd.concat([others, evil])


def keys_of(model, agreement, frame):
    return unit_keys(model._read(frame, agreement), "town", 64)


@pytest.mark.parametrize("most", [1, 4])
def test_no_person_moves_the_counts_by_more_than_the_certificate_says(most):
    model = model_of(most)
    agreement = model._agree([None])
    (step,) = agreement.steps
    without, with_evil = (keys_of(model, agreement, frame) for frame in neighbours(most))
    assert step.mechanism.distance(without, with_evil) == 1.0

    def twin(frame):  # counts rows, not people: a person's rows are bounded by nobody
        return [one for one in frame.town]

    broken = step.mechanism.distance(*(twin(frame) for frame in neighbours(most)))
    assert broken > 1.0


def chance_of_a_key(mechanism, units, draws=3000):
    """How often a key leaves that only one person has."""
    noise = Noise("grid", seed=5)
    left = sum(any(key.startswith("0 my") for key in mechanism.draw(units, noise))
               for _ in range(draws))  # fmt: skip
    return left / draws


class TooLow(SummaryAgreement):
    """Names keys from a third of the threshold on."""

    @property
    def key_mechanisms(self):
        return tuple(Low(**vars(one)) for one in super().key_mechanisms)


class Low(type(SummaryAgreement((), (), 4, PRIVATE, keys=(("k", 1, 1),)).key_mechanisms[0])):
    @property
    def threshold(self):
        return 2 + super().threshold // 3


def test_whose_keys_exist_shows_no_more_often_than_delta_says_and_a_low_threshold_is_caught():
    model = model_of(2)
    agreement = dataclasses.replace(model._agree([None]), noise="grid")
    units = keys_of(model, agreement, neighbours(2)[1])
    room = 3 * np.sqrt(0.05 * 0.95 / 3000)
    (mechanism,) = agreement.key_mechanisms
    assert 0.2 * 0.05 < chance_of_a_key(mechanism, units) <= 0.05 + room
    fields = {f.name: getattr(agreement, f.name) for f in dataclasses.fields(agreement)}
    (broken,) = TooLow(**fields).key_mechanisms
    assert chance_of_a_key(broken, units) > 0.05 + 2 * room


def test_an_audit_attacks_keys_and_stays_below_the_certificate():
    columns = tc.Columns(town=tc.keys(at_most=5, length=8))
    model = tc.PrivateSummary(columns, statistics=(), privacy=tc.Privacy(1.0, 0.05))
    found = audit(model, runs=6000, seed=1)
    assert 0.2 < found.attacked <= found.certified <= 1.0
