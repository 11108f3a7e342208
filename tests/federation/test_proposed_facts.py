"""Proposals of topics, mixtures and recommenders from a stranger, and what only a site knows.

What a proposal states is public and the same for everybody: it is never the name of a file, never
so large that a site would run out of memory over it, and what is wrong with it is said in words.
"""

import sys
import time

import numpy as np
import pytest

import tacit as tc
from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure, TacitError
from tacit.estimators.families import estimator_of
from tacit.federation.computation import Computation
from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal

from .support import SITES, Direct, identified, ready, toml, write_csv

WORDS = [f"w{k}" for k in range(80)]
DOCUMENTS = {"epsilon": 1.0, "delta": 1e-5, "unit": "document", "trust": "site"}
ENTRIES = {"epsilon": 1.0, "delta": 1e-5, "unit": "entry", "trust": "site",
           "neighbours": "replace-one"}  # fmt: skip
ROWS = {"epsilon": 1.0, "delta": 1e-5, "unit": "row", "trust": "site"}
TOPICS = {"topics": 2, "vocabulary": WORDS}
RATINGS = {"bounds": [1.0, 5.0], "items": 8, "rank": 2}


def computed(kind, settings, privacy):
    return Computation(Proposal(kind, settings, privacy, ("a", "b"), "run", None, 3, 0))


_OPENED: list[str] = []
sys.addaudithook(lambda name, given: _OPENED.append(str(given[0])) if name == "open" else None)


@pytest.mark.parametrize("kind", ["topics", "mixture", "recommender", "regression", "summary"])
def test_a_proposal_never_names_a_file(tmp_path, kind):
    """Every setting of every family that a path could go into: the file is not opened."""
    private = tmp_path / "private.csv"
    private.write_text("document,word,count\na,w1,3\n")
    for name in [*estimator_of(kind)._get_param_names(), "item_weights", "options", "members"]:
        for value in (str(private), [str(private)], {"file": str(private)}):
            _OPENED.clear()
            for base in ({}, TOPICS, RATINGS):
                with pytest.raises(TacitError):
                    computed(kind, base | {name: value}, DOCUMENTS)
            assert not [path for path in _OPENED if "private.csv" in path], name


def test_the_control_sees_a_file_that_is_opened(tmp_path):
    private = tmp_path / "private.csv"
    private.write_text("document,word,count\na,w1,3\n")
    _OPENED.clear()
    model = tc.SingleTopicModel(2, vocabulary=WORDS, public=str(private))
    with pytest.raises(ParameterError):
        model._agree([80])
    assert [path for path in _OPENED if "private.csv" in path]


LARGE = 10**9
PUBLIC = {
    "public": [7, {}, [], [[]], [[float("nan")]], [[1e308] * 80], [["unknown"]] * 9, [[0, "w1"]],
               [["w1", "w2", "w3"]] * 3, [["w1"] * 10] * 50, [[LARGE, 1, 2]], [[-1, 0, 1]]],
    "embeddings": [5, {"a": 1}, [["a"] * 3] * 80, [[1.0] * 3] * 79, [[0.0] * 3] * 80,
                   [[1e308] * 3] * 80, [[float("inf")] * 3] * 80, [[1.0, 2.0]] * 79 + [[1.0]]],
    "groups": [48, "x", [0] * 3, [LARGE] + [0] * 79, [-5] * 80, [1.5] * 80, ["a"] * 80,
               [-1] * 80, [64] * 80],
    "vocabulary": [LARGE, "w1", ["w1", "w1"], [[1]], []],
    "common": [LARGE, 65, "some", 0],
    "mixing": [-1.0, "x"],
}  # fmt: skip


@pytest.mark.parametrize("name", list(PUBLIC))
def test_public_texts_and_vectors_are_refused_in_words_or_agreed_on(name):
    started = time.process_time()
    for value in PUBLIC[name]:
        for more in ({}, {"vocabulary": LARGE}):
            settings = {**TOPICS, **more, name: value}
            digests = {_digest(settings) for _ in range(2)}
            assert len(digests) == 1, value  # both sides agree, or refuse in the same words
    assert time.process_time() - started < 20.0


def _digest(settings):
    try:
        return computed("topics", settings, DOCUMENTS).agreement.digest
    except TacitError as error:
        return str(error)[:2000]


def test_public_words_count_as_what_they_say_and_not_how_they_are_written():
    ids = [[k, k + 1, k + 2] for k in range(78)]
    named = [[WORDS[k] for k in document] for document in ids]
    one, other = (
        computed("topics", TOPICS | {"public": p, "groups": 6}, DOCUMENTS) for p in (named, named)
    )
    assert one.digest == other.digest
    note = [line for line in one.agreement.assumptions if "sha256" in line]
    assert note and "holds nobody's documents" in note[0]
    moved = computed("topics", TOPICS | {"public": named[:40], "groups": 6}, DOCUMENTS)
    assert moved.digest != one.digest


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"people_key": "aa"}, "no setting 'people_key'"),
        ({"sites_per_person": "assigned"}, "no setting 'sites_per_person'"),
        ({"weights": [1.0]}, "no setting 'weights'"),
        ({"method": "private-weights", "item_weights": [0.5] * 8}, "leave item_weights out"),
        ({"method": "offsets", "options": {"public_weights": False}, "item_weights": [0.5] * 8},
         "leave item_weights out"),
        ({"method": "heterogeneous", "options": {"clip": 1e300}}, "clip must"),
    ],
)  # fmt: skip
def test_what_only_a_site_knows_cannot_be_proposed(settings, reason):
    with pytest.raises(ParameterError, match=reason):
        computed("recommender", RATINGS | settings, ENTRIES)


# -- weights that users chose, which nobody is told ----------------------------------------------

ITEMS = [f"b{k}" for k in range(8)]
OWN = {"bounds": [1.0, 5.0], "rank": 2, "items": ITEMS, "method": "private-weights"}


def rated(site, weights=None):
    rng = np.random.default_rng(SITES.index(site))
    user, item = np.nonzero(rng.random((20, 8)) < 0.6)
    return {
        "user": np.array([f"{site}{u:02d}" for u in user]),
        "item": np.array(ITEMS)[item],
        "rating": rng.integers(1, 6, len(user)).astype(float),
        "wish": rng.uniform(0.1, 1.0, len(user)).round(3) if weights is None else weights(user),
    }


def services(folder, weights=None):
    found = {}
    for site in SITES:
        home = folder / site
        home.mkdir(parents=True)
        write_csv(home / "t.csv", rated(site, weights if site == "South" else None))
        (home / "people.key").write_text("5eed" * 16 + "\n")
        allow = {"computation": "recommender", "epsilon": 1.0, "delta": 1e-5, "unit": "entry",
                 "neighbours": "replace-one", "trust": "site", "rounds": 20, "seeded": True,
                 "settings": OWN}  # fmt: skip
        (home / "site.toml").write_text(
            f'name = "{site}"\n{identified(home, site)}people_key = "people.key"\n'
            'ledger = {file = "l.db", epsilon = 1.5, delta = 1e-4}\n'
            'data = {t = {file = "t.csv", value = "rating", columns = {weight = "wish"}}}\n'
            f"allow = {toml([allow])}\n"
        )
        found[site] = ready(home / "site.toml")
    return found


def proposal():
    return Proposal("recommender", OWN, ENTRIES, SITES, "run", None, 3, 0)


def test_private_weights_over_bytes_equal_one_process_and_never_leave(tmp_path):
    seen = []

    def look(method, name, request, answer):
        seen.append(answer)
        return answer

    result = run_proposal(proposal(), Direct(services(tmp_path), look))
    model = tc.PrivateRecommender(
        (1.0, 5.0), rank=2, method="private-weights", privacy=proposal().guarantee(),
        random_state=3,
    )  # fmt: skip
    tables = {site: rated(site) for site in SITES}
    sites = [
        tc.Site(s, Relation.from_frame(t, ["user", "item"], "rating", labels={"item": ITEMS}))
        for s, t in tables.items()
    ]
    weights = {
        s: Relation.from_frame(t, ["user", "item"], "wish", labels={"item": ITEMS})
        for s, t in tables.items()
    }
    model.fit(sites, weights=weights)
    for name, array in model.shared_.items():
        assert np.array_equal(result.outcome[name], array), name
    for certificate in result.certificates.values():
        assert certificate.epsilon <= 1.0 and not certificate.groups
    agreement = Computation(proposal()).agreement
    for step in agreement.steps:  # a number for each item, never for each rating or user
        for name, spec in step.replies.items():
            assert spec.shape[0] in (1, 2, 8, 16), (step.name, name)
    key = bytes.fromhex("5eed" * 16)  # the key that sites share for other computations
    told = b"".join(seen) + "".join(map(str, result.certificates.values())).encode()
    assert key not in told and b"5eed5eed" not in told


@pytest.mark.parametrize(
    "wish", [np.nan, 0.0, -0.5, 1.5, np.inf], ids=["none", "zero", "negative", "large", "infinite"]
)
def test_a_weight_that_makes_no_sense_is_told_to_its_holder_alone(tmp_path, wish):
    def spoiled(users):
        found = np.full(len(users), 0.625)
        found[3] = wish
        return found

    with pytest.raises(SiteFailure) as failure:
        run_proposal(proposal(), Direct(services(tmp_path, spoiled)))
    text = str(failure.value)
    assert "South" in text and "weight" not in text and str(wish) not in text
    log = next((tmp_path / "South").rglob("refused.log")).read_text()
    assert "weight" in log or "column 'wish'" in log  # its holder is told


def test_weights_change_neither_the_length_of_a_message_nor_a_certificate(tmp_path):
    lengths, said = [], []
    for name, weights in (("own", None), ("least", lambda users: np.full(len(users), 1e-3))):
        seen = []

        def look(method, site, request, answer, seen=seen):
            seen.append((method, site, len(answer)))
            return answer

        result = run_proposal(proposal(), Direct(services(tmp_path / name, weights), look))
        lengths.append([one for one in seen if one[0] in ("open", "begin", "respond")])
        said.append(result.certificates["South"].assumptions)
    assert lengths[0] == lengths[1] and said[0] == said[1]
