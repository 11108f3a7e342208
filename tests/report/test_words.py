"""The promise in words."""

import dataclasses

from tacit.report.words import GLOSSARY, guess_words, joint_words, kinds, listed, unit_words
from tests.report.pages import certificate


def test_certificates_that_differ_in_holder_and_caveats_only_are_one_promise():
    ours = {"a": certificate(), "b": certificate(holder="b", notes=("more",))}
    assert [kind.holders for kind in kinds(ours)] == [("a", "b")]
    (kind,) = kinds(ours)
    assert kind.certificate.holder == "a and b"
    assert "more" in kind.certificate.assumptions
    ours["c"] = certificate(2.0)
    assert [kind.holders for kind in kinds(ours)] == [("a", "b"), ("c",)]


def test_the_guess_is_rounded_up_and_asks_what_the_relation_means():
    one = certificate()
    assert "whether one row was in the data" in guess_words(one)
    replaced = dataclasses.replace(one, neighbours="replace-one")
    assert "which of two versions of one row" in guess_words(replaced)
    assert "any 3 rows together" in unit_words(one.for_group(3))
    assert "whether 3 rows" in guess_words(one.for_group(3))


def test_names_in_a_row_are_cut():
    assert listed(["a"]) == "a"
    assert listed(["a" * 100])[-1] == "…"
    assert listed([str(k) for k in range(1000)]) == "0, 1, 2, 3 and 996 more"


def test_every_word_of_the_glossary_is_explained_without_formulas():
    assert all(len(text) > 15 and "=" not in text for text in GLOSSARY.values())


def test_seeded_noise_of_one_holder_is_not_hidden_among_others():
    ours = {"a": certificate(), "b": certificate(notes=("seeded noise: not for release",))}
    assert [kind.holders for kind in kinds(ours)] == [("a",), ("b",)]
    assert "not for release" in guess_words(kinds(ours)[1].certificate)


def test_two_certificates_for_the_same_people_are_added_up():
    ours = {"the data": certificate(holder="North"), "later": certificate(holder="North")}
    ((size, guess),) = joint_words(ours)
    assert "together ε = 1.2" in size
    assert "right at most 77" in guess
    assert joint_words({"a": certificate(holder="a"), "b": certificate(holder="b")}) == []
