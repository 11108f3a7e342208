"""The report as text: what it holds, that it needs nothing else, and that names cannot inject."""

import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import tacit as tc
from tacit.data.synthetic import spherical_mixture
from tacit.errors import ParameterError
from tacit.report import Accuracy, write_report
from tacit.report.contents import Contents, Factor, gather
from tacit.report.page import render_report
from tacit.report.posteriors import Parameter


class Outline(HTMLParser):
    """Collect elements, headings and identifiers."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.ids, self.links = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append((tag, found))
        self.ids += [found["id"]] if "id" in found else []
        self.links += [found[k] for k in ("href", "src") if k in found]


@pytest.fixture(scope="module")
def fitted():
    ledger = tc.Ledger.memory(epsilon=3.0, delta=1e-5)
    privacy = tc.Privacy(1.0, 1e-6, trust="site")
    bounds = {"age": (0, 110)}
    ages = np.linspace(20, 90, 500)
    site = tc.Site("North", {"age": ages}, ledger)
    return tc.PrivateSummary(bounds, statistics=("mean",), privacy=privacy).fit([site]), ledger


def everything(fitted, **changes):
    model, ledger = fitted
    parts = {
        "factors": (Factor("test", np.eye(3), ("LDL", "HDL", "TSH")),),
        "posterior": (Parameter.summarised("slope", 1.0, 0.2),
                      Parameter.sampled("level", np.linspace(0, 1, 200))),
        "history": (3.0, 2.0, 1.5), "settings": {"rank": 3}, "versions": {"tacit": "0"},
    } | changes  # fmt: skip
    accuracy = Accuracy("RMSE", {"private": [(0.5, 1.0), (1.0, 0.8)]}, {"trivial": 1.1}, "Good.")
    contents = Contents("PrivateSummary", model.certificates_, **parts)
    return render_report(contents, ledgers={"North": ledger}, accuracy=accuracy)


def test_every_part_is_there_and_named(fitted):
    text = everything(fitted)
    for words in ("What was released of North", "Who saw what", "Accuracy against ε", "trivial",
                  "Budget of North", "Heat map of test", "LDL", "slope", "Convergence",
                  "@inproceedings{dwork2006", "Versions", "rank"):  # fmt: skip
        assert words in text
    outline = Outline(text)
    pictures = [a for tag, a in outline.tags if tag == "svg"]
    assert len(pictures) >= 6
    assert all(p["role"] == "img" and p["aria-labelledby"] in outline.ids for p in pictures)
    assert len(set(outline.ids)) == len(outline.ids)
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert ("html", {"lang": "en"}) in outline.tags


def test_it_needs_no_script_and_no_other_file(fitted):
    outline = Outline(everything(fitted))
    assert not {tag for tag, _ in outline.tags} & {"script", "link", "img", "iframe", "object"}
    assert all(link.startswith("#") for link in outline.links)
    assert {link[1:] for link in outline.links} <= set(outline.ids)


def test_names_from_data_cannot_inject_markup(fitted):
    evil = "<script>alert(1)</script>"
    text = everything(
        fitted, factors=(Factor(evil, np.eye(2), (evil, '"><b')),), settings={evil: evil}
    )
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert '"><b' not in text


def test_a_release_and_its_estimator_give_the_same_certificate(fitted, tmp_path):
    model, _ = fitted
    model.release(tmp_path / "release")
    page = write_report(tc.read_release(tmp_path / "release"), tmp_path / "r.html")
    assert str(model.certificate_)[:60] in page.read_text(encoding="utf-8")


def test_without_noise_the_picture_says_that_all_see_raw_data():
    model = tc.PrivateSummary({"age": (0, 110)}, statistics=("mean",)).fit({"age": [1.0, 2.0]})
    text = render_report(Contents("PrivateSummary", model.certificates_))
    assert "no noise: no guarantee" in text


def test_what_was_not_fitted_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="call fit"):
        write_report(tc.PrivateSummary(), tmp_path / "r.html")


def test_notebooks_show_certificates_ledgers_and_estimators(fitted):
    model, ledger = fitted
    assert "<table>" in model.certificate_._repr_html_()
    assert "summary" in ledger._repr_html_()
    assert "The certificate of North" in model._repr_html_()
    assert "Certificate of North" in model._repr_mimebundle_()["text/html"]


def test_estimators_of_every_family_can_be_shown():
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 10, 300)
    request = tc.Privacy(1.0, 1e-6)
    regression = tc.PrivateLinearRegression(
        bounds={"age": (0, 10)}, y_bounds=(0, 10), target="stay", method="adaSSP", privacy=request
    ).fit({"age": x, "stay": x / 2})
    assert [p.name for p in gather(regression).posterior] == ["age"]
    samples, _, _ = spherical_mixture(2000, 3, 2, sd=0.3)
    means = tc.GaussianMixture(2, radius=6.0, random_state=0).fit(samples)
    assert gather(means).factors[0].values.shape == (3, 2)
    plain = tc.CoupledFactorization("row:k column:k", rank=1, iterations=30, random_state=0)
    plain = plain.fit(np.outer([1.0, 2, 3], [2.0, 1, 4]))
    found = gather(plain)
    assert {factor.name for factor in found.factors} == {"row", "column"}
    assert len(found.history) > 1
    assert "Convergence" in render_report(found)
