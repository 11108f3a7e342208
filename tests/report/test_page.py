"""The report as text: what it holds, that it needs nothing else, and what it must not let out."""

import dataclasses
import itertools
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import tacit as tc
from tacit._core.answers import Answer, Answering, Table
from tacit.errors import ParameterError
from tacit.report import write_report
from tacit.report.contents import gather
from tacit.report.page import render_report
from tests.report.pages import HOSTILE, accuracy, answer, certificate, contents, everything


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
def page():
    return everything()


@pytest.fixture(scope="module")
def fitted():
    model = tc.PrivateSummary({"age": (0, 110)}, statistics=("mean",), privacy=tc.Privacy(1.0))
    return model.fit({"age": np.linspace(20, 90, 500)})


def test_every_part_is_there_and_named(page):
    for words in ("The mean age is 58.2 years", "right at most 69.8 times in 100", "every row",
                  "the coordinator, the other sites and the public", "to plan beds",
                  "data@hospitals.example", "2026-11-18", "Who saw what", "age lies in [0, 110]",
                  "Accuracy against ε", "own mean (free)", "Budgets over time", "R-hat",
                  "@inproceedings{dwork2006", "tacit verify", "What the words mean"):  # fmt: skip
        assert words in page
    outline = Outline(page)
    pictures = [a for tag, a in outline.tags if tag == "svg"]
    assert len(pictures) >= 11
    assert all(p["role"] == "img" and p["aria-label"] for p in pictures)
    assert page.count("<svg") == page.count("<title>") - 1 == page.count("<desc>")
    assert len(set(outline.ids)) == len(outline.ids)
    levels = [int(tag[1]) for tag, _ in outline.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(levels))
    assert ("html", {"lang": "en"}) in outline.tags


def test_the_result_comes_first_and_the_sites_that_agree_share_one_certificate(page):
    order = ["The mean age is 58.2", "Somebody who knows", 'id="what-was-learned"',
             'id="the-promise"', 'id="who-saw-what"', 'id="to-run-it-again"']  # fmt: skip
    places = [page.index(words) for words in order]
    assert places == sorted(places)
    assert page.count("-differentially private when") == 1
    assert "What North, South and West promise alike" in page
    assert "Where the promises differ" not in page


def test_promises_that_differ_are_set_side_by_side():
    ours = {"North": certificate(0.5), "South": certificate(2.0, notes=("a caveat of one",)),
            "West": certificate(0.5)}  # fmt: skip
    text = everything(certificates=ours)
    assert "Where the promises differ" in text
    assert "North and West" in text
    assert text.count("-differentially private when") == 2
    given = text[text.index('id="what-is-taken-as-given"') :]
    row = re.search(r"<tr>(?:(?!</tr>).)*a caveat of one.*?</tr>", given)[0]
    assert "South" in row
    assert "all" not in re.sub("<[^>]*>", " ", row).split()


def test_it_needs_no_script_and_no_other_file(page):
    outline = Outline(page)
    assert not {tag for tag, _ in outline.tags} & {"script", "link", "img", "iframe", "object"}
    assert all(link.startswith("#") for link in outline.links)
    assert {link[1:] for link in outline.links} <= set(outline.ids)
    policy = [a for tag, a in outline.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy[0]["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def hostile():
    """Return a page on which every name is hostile, and the longest tables there are."""
    many = {"name": [HOSTILE] * 5000, "value": [np.nan, np.inf] * 2500}
    tables = tuple(Table(f"t{k}", HOSTILE, many) for k in range(20))
    nothing = answer(HOSTILE, tables=(*answer().tables, *tables), title=HOSTILE,
                     warnings=(HOSTILE,) * 50)  # fmt: skip
    return everything(
        answer=nothing,
        certificates={HOSTILE + str(k): certificate(0.5 + k, holder=HOSTILE) for k in range(3)},
        settings={HOSTILE: HOSTILE, "start": [HOSTILE] * 300},
    )


def test_hostile_names_inject_nothing_turn_nothing_and_stay_small():
    text = hostile()
    assert "<script" not in text
    assert '"><b' not in text
    assert "&lt;script&gt;" in text
    assert not set(text) & set("\x00\u202a\u202e\u2066\u200f")
    assert len(text.encode()) < 500_000
    labels = [a["aria-label"] for tag, a in Outline(text).tags if a.get("role") == "region"]
    assert len(set(labels)) == len(labels)


def test_without_a_certificate_it_says_so_and_has_no_section_about_one():
    text = everything(certificates={})
    assert "No promise." in text
    assert 'id="the-promise"' not in text
    assert 'id="who-saw-what"' not in text


def test_without_noise_the_picture_says_that_all_see_raw_data():
    model = tc.PrivateSummary({"age": (0, 110)}, statistics=("mean",)).fit({"age": [1.0, 2.0]})
    text = render_report(gather(model))
    assert "Do not send it to anybody" in text
    assert "no noise: no guarantee" in text
    assert "Nothing is promised" in text


def test_a_paper_s_claim_and_seeded_noise_are_said_at_the_top():
    published = dataclasses.replace(
        certificate(), calibration="published", claimed_epsilon=0.1, claim="one round of many"
    )
    seeded = certificate(notes=("seeded noise: not for release",))
    box = everything(certificates={"North": published, "South": seeded}).split("<nav")[0]
    assert "claims ε = 0.1" in box
    assert "this is not for release" in box


def test_a_score_on_private_data_stands_on_the_holders_own_page_only(tmp_path):
    with pytest.raises(ParameterError, match="a score on private data is data"):
        render_report(contents(), accuracy=accuracy("own"))
    text = render_report(contents(), accuracy=accuracy("own"), own=True)
    assert "Do not send it to anybody" in text.split("<nav")[0]
    assert "<title>Own page: " in text
    assert 'id="training"' in text
    assert 'id="training"' not in render_report(contents(), accuracy=accuracy())


def test_a_file_is_never_written_over_silently(fitted, tmp_path):
    place = tmp_path / "r.html"
    place.write_text("mine")
    with pytest.raises(ParameterError, match="exists: choose another name, or pass replace=True"):
        write_report(fitted, place)
    assert place.read_text() == "mine"
    assert write_report(fitted, place, replace=True) == place
    assert place.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [place]
    (tmp_path / "link.html").symlink_to(tmp_path / "nowhere.html")
    with pytest.raises(ParameterError, match="exists"):
        write_report(fitted, tmp_path / "link.html")
    with pytest.raises(ParameterError, match="is a folder"):
        write_report(fitted, tmp_path, replace=True)


def test_a_release_and_its_estimator_give_the_same_page(fitted, tmp_path):
    fitted.release(tmp_path / "release")
    read = tc.read_release(tmp_path / "release")
    said = {"date": "2026-11-18", "purpose": "beds"}
    pages = [write_report(source, tmp_path / f"{k}.html", **said).read_text(encoding="utf-8")
             for k, source in enumerate((read, tmp_path / "release"))]  # fmt: skip
    assert pages[0] == pages[1]
    assert "beds" in pages[0]
    one, two = gather(fitted), gather(read)
    assert str(one.answer) == str(two.answer)
    assert one.certificates == two.certificates


def test_what_was_not_fitted_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="call fit"):
        write_report(tc.PrivateSummary(), tmp_path / "r.html")


def test_objects_among_settings_are_named_and_never_printed():
    text = everything(settings={"start": np.array([123.456]), "note": {"a": [object(), 7]}})
    assert "123.456" not in text
    assert "(ndarray)" in text
    assert "object at 0x" not in text


def test_a_release_whose_estimator_is_not_here_still_has_a_page(fitted, tmp_path):
    fitted.release(tmp_path / "release")
    read = dataclasses.replace(tc.read_release(tmp_path / "release"), estimator="Elsewhere")
    found = gather(read)
    assert found.answer.tables[0].name == "arrays"
    assert "there is no estimator" in found.answer.warnings[0]
    assert "Released arrays" in render_report(found)


def test_what_was_fitted_without_privacy_has_a_page_for_its_holder_only():
    plain = tc.CoupledFactorization("row:k column:k", rank=1, iterations=30, random_state=0)
    found = gather(plain.fit(np.outer([1.0, 2, 3], [2.0, 1, 4])))
    assert found.settings["rank"] == 1
    assert len(found.training) > 1
    text = render_report(found)
    assert "No promise." in text
    assert "Do not send it to anybody" in text.split("<nav")[0]
    assert 'id="training"' in text


def test_an_answer_of_nothing_but_a_title_is_enough():
    text = everything(answer=Answer("Only a name"))
    assert "What Only a name learned stands below." in text


def test_notebooks_show_certificates_ledgers_and_estimators(fitted):
    ledger = tc.Ledger.memory(epsilon=3.0, delta=1e-5)
    assert "<table>" in fitted.certificate_._repr_html_()
    assert "Charges" in ledger._repr_html_()
    assert "The certificate of" in fitted._repr_html_()


def test_convergence_is_drawn_from_the_answers_own_columns():
    columns = {"parameter": ["slope"], "mean": [1.0], "R-hat": [1.2], "effective draws": [40]}
    shown = Table("parameters", "Posterior", columns)

    class Model(Answering):
        certificates_ = {"North": certificate()}  # noqa: RUF012

        def _answer(self, level):
            return Answer("Model", tables=(shown,))

    text = render_report(gather(Model()))
    assert "R-hat of every parameter" in text
    assert "Numbers of “Effective draws”" in text
