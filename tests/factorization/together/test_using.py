"""What sites do with what was learned: every verb, for every method and form."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError, VerificationFailed
from tacit.factorization import Langevin, LocalCounts, PrivateFactorization

PLACES = ("park", "pool", "pub", "pier")
ACTS = ("walk", "swim")
USER = tc.Privacy(5.0, 1e-5, unit="user", trust="site")
ENTRY = tc.Privacy(5.0, 1e-5, unit="entry", trust="site")
LOCAL = tc.Privacy(5.0, unit="entry", trust="local")
SHORT = LocalCounts(burn_in=3, draws=4, thin=1)
ROUNDS = Langevin(rounds=3)


def people(site, count=8):
    return tuple(f"{site}{k}" for k in range(count))


def visits(seed, names, modes=("person", "place"), missing=0.3):
    """Return counts of 0 … 4 with names, some cells missing."""
    rng = np.random.default_rng(seed)
    members = {"person": names, "place": PLACES, "act": ACTS}
    table = rng.poisson(1.5, [len(members[mode]) for mode in modes]).clip(0, 4).astype(float)
    table[rng.random(table.shape) < missing] = np.nan
    table[0, 0] = 4.0
    return tc.Relation.from_dense(modes, table, labels={mode: members[mode] for mode in modes})


MATRIX, TENSOR = ("person", "place"), ("person", "place", "act")
CASES = {
    "offsets": ("person:k place:k", MATRIX, {"method": "offsets", "privacy": USER}),
    "als": ("person:k place:k", MATRIX, {"method": "als", "privacy": ENTRY}),
    "sgld, user": ("person:k place:k", MATRIX, {"method": ROUNDS, "privacy": USER}),
    "sgld, entry, tucker": (
        "person:k place:l act:m core:klm", TENSOR, {"method": ROUNDS, "privacy": ENTRY}),
    "sgld, kl": (
        "person:k place:k act:k", TENSOR, {"method": ROUNDS, "privacy": USER, "divergence": "kl"}),
    "local": ("person:k place:k", MATRIX, {"method": SHORT, "privacy": LOCAL, "divergence": "kl"}),
    "local, tucker, own": (
        "person:k place:l act:m core:klm", TENSOR,
        {"method": LocalCounts(views="own", burn_in=3, draws=4, thin=1), "privacy": LOCAL,
         "divergence": "kl"}),
    "local, draws alone": (
        "person:k place:k", MATRIX,
        {"method": LocalCounts(burn_in=3, draws=4, thin=1, own_effects=False), "privacy": LOCAL,
         "divergence": "kl"}),
}  # fmt: skip


def fitted(case):
    form, modes, options = CASES[case]
    rank = {k: 2 for k in "klm" if f":{k}" in form or k in form.split(":")[-1]}
    model = PrivateFactorization(form, rank=rank, bounds=(0, 4), **options)
    sites = [tc.Site(s, visits(k, people(s), modes)) for k, s in enumerate(("n", "s"))]
    return model.fit(sites), modes


def context(modes):
    return {"act": "swim"} if "act" in modes else {}


@pytest.mark.parametrize("case", CASES)
def test_every_method_has_every_verb(case, tmp_path):
    model, modes = fitted(case)
    own = visits(0, people("n"), modes)
    everything = {e: [own.labels[e][k] for k in own.indices[:, m]] for m, e in enumerate(modes)}
    values = model.predict("n", everything)
    assert ((values >= 0) & (values <= 4)).all()
    # the best are the best of what predict says, and nothing that was seen is recommended
    given = {"person": "n3", **context(modes)}
    best = model.top("n", "place", given, 2)
    asked = {"place": list(PLACES), **{e: [m] * len(PLACES) for e, m in given.items()}}
    expected = dict(zip(PLACES, model.predict("n", asked), strict=True))
    assert [value for _, value in best] == sorted(expected.values(), reverse=True)[:2]
    assert best[0][0] not in dict(model.top("n", "place", given, 4, skip=[best[0][0]]))
    found = model.recommend("n", n=4, given=context(modes))
    assert list(found) == list(people("n"))
    for person, lists in found.items():
        seen = {
            cell[1]
            for cell in zip(*everything.values(), strict=True)
            if cell[0] == person and cell[2:] == tuple(context(modes).values())
        }
        assert {place for place, _ in lists} == set(PLACES) - seen
        assert [v for _, v in lists] == sorted((v for _, v in lists), reverse=True)
    alone = model.recommend("n", "n3", exclude_seen=False, given=context(modes))
    np.testing.assert_allclose([v for _, v in alone[:2]], [v for _, v in best])
    # a score is that of the predictions
    power = model.coupled_model().powers["data"]
    if power == 0.0:
        half = np.mean((own.values - values) ** 2) / 2
        np.testing.assert_allclose(model.score("n", own), -half)
    assert np.isfinite(model.score("n", own))
    # newcomers, by name
    before = model.predict("s", [["s1", *(m[0] for m in (PLACES, ACTS)[: len(modes) - 1])]])
    news = visits(9, ("ada", "bob", "cyd"), modes)
    names, rows = model.fold_in("s", news, return_names=True)
    assert names == ("ada", "bob", "cyd") and len(rows) == 3 and np.isfinite(rows).all()
    assert len(model.recommend("s", ["bob", "s1"], 1, given=context(modes))) == 2
    after = model.predict("s", [["s1", *(m[0] for m in (PLACES, ACTS)[: len(modes) - 1])]])
    if case == "local, draws alone":  # elsewhere effects are chosen over all members
        np.testing.assert_allclose(after, before)
    with pytest.raises(ParameterError, match="'bob' is no newcomer at site 's'"):
        model.fold_in("s", visits(9, ("eve", "bob"), modes))
    # a site comes back another day, newcomers and what never left it included
    model.release(tmp_path / "release")
    model.save_site("s", tmp_path / "s.side")
    again = PrivateFactorization.from_release(tmp_path / "release").load_site(tmp_path / "s.side")
    ours, theirs = (one.recommend("s", given=context(modes)) for one in (again, model))
    assert list(ours) == [*people("s"), "ada", "bob", "cyd"]
    for person, lists in ours.items():
        np.testing.assert_allclose(list(dict(lists).values()), list(dict(theirs[person]).values()))
    # and a site that was not there
    again.adopt(tc.Site("new", news))
    assert np.isfinite(
        list(dict(again.recommend("new", "cyd", given=context(modes))).values())
    ).all()


def test_a_side_stays_with_its_release_and_its_holder(tmp_path):
    model, _ = fitted("sgld, user")
    path = model.save_site("n", tmp_path / "n.side")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert b"PRIVATE" in path.read_bytes()[:80] and b"pickle" not in path.read_bytes()
    with pytest.raises(ParameterError, match="exists: pass another name, or replace=True"):
        model.save_site("n", path)
    model.save_site("n", path, replace=True)
    other, _ = fitted("sgld, user")
    with pytest.raises(VerificationFailed, match="belongs to another release"):
        other.load_site(path)
    whole = path.read_bytes()
    for hurt in (whole[:-9], whole[:-30] + bytes(30), whole.replace(b"n3", b"n9", 1), b"", b"{}"):
        path.write_bytes(hurt)
        if hurt.startswith(whole[:500]) or hurt in (b"", b"{}"):
            with pytest.raises(VerificationFailed):
                model.load_site(path)
    with pytest.raises(TypeError, match="its sites' cells"):
        pickle.dumps(model)


def test_nothing_of_a_site_is_in_what_others_get(tmp_path):
    model, modes = fitted("local, tucker, own")
    model.fold_in("n", visits(9, ("Adelgunde Neu",), modes))  # no hash has that name in it
    model.recommend("n", given=context(modes))
    model.release(tmp_path / "before")
    twin = PrivateFactorization.from_release(tmp_path / "before")
    said = b"".join(p.read_bytes() for p in (tmp_path / "before").rglob("*") if p.is_file())
    assert not [name for name in (b"Adelgunde", b'"n3"', b"\nn3,") if name in said]
    assert not {"parts_", "_held"} & set(vars(twin))
    pickle.dumps(twin)


@pytest.mark.slow
def test_a_new_process_predicts_with_side_and_release(tmp_path):
    model, _ = fitted("als")
    model.release(tmp_path / "release")
    model.save_site("n", tmp_path / "n.side")
    code = (
        "import sys, tacit as tc\n"
        "model = tc.PrivateFactorization.from_release(sys.argv[1]).load_site(sys.argv[2])\n"
        "print(repr(float(model.predict('n', [['n3', 'pub']])[0])))"
    )
    asked = [sys.executable, "-c", code, str(tmp_path / "release"), str(tmp_path / "n.side")]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(float(model.predict("n", [["n3", "pub"]])[0]))


def test_what_stayed_at_a_site_serves_its_newcomers(tmp_path):
    model = PrivateFactorization(
        "person:k place:k act:k", rank=2, bounds=(0, 4), shared=["place"], privacy=ENTRY,
        method=ROUNDS,
    ).fit([tc.Site("n", visits(0, people("n"), TENSOR))])  # fmt: skip
    with pytest.raises(ParameterError, match=r"'act' stayed at the sites of the fit.*save_site"):
        model.adopt(tc.Site("other", visits(0, people("n"), TENSOR)))
    kept = model.parts_["n"].own()["act"].copy()
    model.fold_in("n", visits(1, ("ada",), TENSOR))
    np.testing.assert_array_equal(model.parts_["n"].final["act"], kept)
    model.release(tmp_path / "release")
    model.save_site("n", tmp_path / "side")
    again = PrivateFactorization.from_release(tmp_path / "release").load_site(tmp_path / "side")
    cells = [["ada", "pub", "swim"], ["n2", "pool", "walk"]]
    np.testing.assert_allclose(again.predict("n", cells), model.predict("n", cells))


def test_cold_start_from_a_side_relation_alone():
    rng = np.random.default_rng(2)

    def held(names, seed):
        tags = tc.Relation.from_dense(
            ("person", "tag"), np.random.default_rng(seed).uniform(0, 4, (len(names), 3)),
            labels={"person": names, "tag": ("x", "y", "z")})  # fmt: skip
        return {"visits": visits(seed, names), "tags": tags}

    model = PrivateFactorization(
        {"visits": "person:k place:k", "tags": "person:k tag:k"}, rank=3, bounds=(0, 4),
        method=ROUNDS, privacy=USER,
    ).fit([tc.Site(s, held(people(s), k)) for k, s in enumerate("ns")])  # fmt: skip
    tags = {"person": ["ada"] * 2, "tag": ["x", "z"], "value": rng.uniform(0, 4, 2)}
    model.fold_in("n", {"tags": tags})
    with_tags = model.predict("n", {"person": ["ada"], "place": ["pub"]}, "visits")
    assert np.isfinite(with_tags).all()
    with pytest.raises(ParameterError, match="pass relation=…, one of \\['visits', 'tags'\\]"):
        model.recommend("n")
    assert len(model.recommend("n", "ada", 9, "visits")) == len(PLACES)
    with pytest.raises(ParameterError, match="does not name 'place'"):
        model.top("n", "place", {"person": "ada"}, relation="tags")
    with pytest.raises(ParameterError, match="has no relation 'ages'"):
        model.predict("n", [["ada", "x"]], "ages")


def test_a_tensor_asks_in_which_context():
    model, _ = fitted("sgld, kl")
    with pytest.raises(ParameterError, match="name in given a member of each of these but"):
        model.recommend("n", "n1")
    with pytest.raises(ParameterError, match="given must hold one member"):
        model.top("n", "place", {"person": "n1"})
    acts = model.recommend("n", "n1", exclude_seen=False, given={"place": "pub"})
    assert {name for name, _ in acts} == set(ACTS)
    by_place = model.recommend("n", [1], 9, given={"act": 1}, positions=True)
    by_name = model.recommend("n", ["n1"], 9, given={"act": "swim"})
    assert [PLACES[k] for k, _ in by_place[1]] == [name for name, _ in by_name["n1"]]


def test_members_without_names_are_numbered_on():
    table = np.random.default_rng(0).uniform(1, 5, (6, 4))
    model = PrivateFactorization("user:k item:k", rank=2, bounds=(1, 5), method="offsets",
                                 privacy=USER).fit([tc.Site("a", table)])  # fmt: skip
    names, _ = model.fold_in("a", table[:2], return_names=True)
    assert names == (6, 7) and len(model.recommend("a", 7, exclude_seen=False)) == 4
    named = {"user": ["x"], "item": [1], "value": [2.0]}
    with pytest.raises(ParameterError, match="have names, and those of site 'a' have none"):
        model.fold_in("a", named)


def test_a_member_without_cells_gets_what_everybody_gets():
    model, _ = fitted("offsets")
    nobody = tc.Relation.from_cells(
        MATRIX, np.empty((0, 2)), [], labels={"person": ("new",), "place": PLACES})  # fmt: skip
    model.fold_in("n", nobody)
    shared = model.shared_
    found = model.predict("n", [["new", place] for place in PLACES])
    # offsets count as far as the site's other members say that they help
    expected = [
        2.0 + (shared["mean"] + share * shared["place offset"]).clip(-2, 2)
        for share in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    assert min(np.abs(found - one).max() for one in expected) < 1e-9
