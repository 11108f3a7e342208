"""BibTeX: entries are well formed and complete, and each method cites what it builds on."""

import re

import pytest

from tacit.report.citations import _ENTRIES, _METHODS, citation_keys, citations

NEEDED = {
    "article": {"author", "title", "journal", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "phdthesis": {"author", "title", "school", "year"},
    "mastersthesis": {"author", "title", "school", "year"},
    "techreport": {"author", "title", "institution", "year"},
    "software": {"author", "title", "version"},
}


@pytest.mark.parametrize("key", _ENTRIES)
def test_an_entry_has_the_fields_of_its_kind_and_balanced_braces(key):
    text = _ENTRIES[key]
    kind, name = re.match(r"@(\w+)\{([\w]+),", text).groups()
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", text, flags=re.M))
    assert name == key
    assert fields.keys() == NEEDED[kind]
    assert all(fields.values())
    assert text.count("{") == text.count("}")
    assert "year" not in fields or key.endswith(fields["year"])


def test_every_entry_is_cited_by_something_and_nothing_else_is():
    always = {"tacit", "dwork2006", "doroshenko2022", "canonne2020", "abadi2016"}
    assert {key for *_, key in _METHODS} | always == set(_ENTRIES)


@pytest.mark.parametrize(
    ("estimator", "method", "wanted", "unwanted"),
    [
        ("PrivateRecommender", "GradientFactorization(kind='hdpmf')", "hu2023", "hua2015"),
        ("PrivateRecommender", "GradientFactorization(kind='dpmf')", "hua2015", "hu2023"),
        ("PrivateRecommender", "GradientFactorization(kind='pdpmf')", "zhang2019", "hua2015"),
        ("PrivateRecommender", "LocalGradient(rounds=10)", "shin2018", "hu2023"),
        ("PrivateRecommender", "HeterogeneousOffsets(clip=1.0)", "hu2023", "shin2018"),
        ("SingleTopicModel", "certified", "imtiaz2017", "shin2018"),
        ("CoupledFactorization", "Langevin(rounds=50)", "ermis2020", "chien2021"),
        ("PrivateLinearRegression", "auto", "alparslan2023", "wang2018"),
    ],
)
def test_a_method_cites_what_it_builds_on(estimator, method, wanted, unwanted):
    keys = citation_keys(estimator, method, {})
    assert wanted in keys
    assert unwanted not in keys
    assert citations(keys).count("@") == len(keys)
