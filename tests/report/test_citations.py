"""BibTeX: entries are well formed and complete, and each method cites what it builds on."""

import re

import numpy as np
import pytest

import tacit as tc
from tacit.posterior import NormalMean
from tacit.regression.methods import CITES
from tacit.report.citations import _ENTRIES, citation_keys, citations
from tacit.report.contents import gather
from tests.contracts.hostile import examples

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
    agreed = {key for _, agreement in examples() for key in agreement.cites}
    methods = {key for keys in CITES.values() for key in keys}
    assert methods | agreed | always == set(_ENTRIES)


@pytest.mark.parametrize(
    ("mechanism", "source_of", "other"),
    [("smooth", "nissim2007", "smith2011"), ("exponential", "smith2011", "nissim2007")],
)
def test_a_result_cites_what_its_agreement_says(tmp_path, mechanism, source_of, other):
    privacy = tc.Privacy(1.0, 1e-5, neighbours="replace-one")
    short = {"chains": 1, "draws": 8, "warmup": 8, "mechanism": mechanism}
    model = tc.PrivatePosterior(NormalMean(), "median", bounds=(0, 10), privacy=privacy, **short)
    model.fit(np.linspace(2, 6, 40)).release(tmp_path / "release")
    for source in (
        model,
        tc.read_release(tmp_path / "release"),
        tc.PrivatePosterior.from_release(tmp_path / "release"),
    ):
        contents = gather(source)
        keys = citation_keys(contents.certificates, contents.cites)
        assert {"alparslan2022", source_of, "dwork2006"} <= set(keys)
        assert other not in keys


def cited(kind, wanted):
    """Return the keys of the first agreement of a kind whose text holds a word."""
    found = next(e for n, e in examples() if n.startswith(kind) and wanted in repr(e))
    return citation_keys({}, found.cites)


@pytest.mark.parametrize(
    ("kind", "word", "wanted", "unwanted"),
    [
        ("GradientAgreement", "'hdpmf'", "hu2023", "hua2015"),
        ("GradientAgreement", "'dpmf'", "hua2015", "hu2023"),
        ("GradientAgreement", "'pdpmf'", "zhang2019", "hua2015"),
        ("OneAnswerAgreement", "", "shin2018", "hu2023"),
        ("WeightedOffsetsAgreement", "", "hu2023", "shin2018"),
        ("TopicAgreement", "", "imtiaz2017", "shin2018"),
        ("LangevinAgreement", "", "ermis2020", "chien2021"),
        ("RegressionAgreement", "", "alparslan2023", "wang2018"),
    ],
)
def test_a_method_cites_what_it_builds_on(kind, word, wanted, unwanted):
    keys = cited(kind, word)
    assert wanted in keys
    assert unwanted not in keys
    assert citations(keys).count("@") == len(keys)


def test_a_ridge_by_an_eigenvalue_cites_its_source():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (200, 1))
    model = tc.PrivateLinearRegression(
        method="adaSSP", bounds=[(0, 1)], y_bounds=(0, 1), privacy=tc.Privacy(1.0, 1e-6)
    )
    assert "wang2018" in gather(model.fit((x, x[:, 0]))).cites
