"""The guide as readers get it: built with its cells run, and looked at in a real browser."""

import os
from pathlib import Path

import pytest

from tests.docs.support import ROOT, broken, build, loaded
from tests.report.test_browser import AXE

import tacit  # isort: skip

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]
MAIN = ("index", "start", "tables", "summary", "regression", "recommender", "glossary", "choosing",
        "hospitals", "experiments", "api/index", "api/tacit.PrivateSummary", "search")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    given = os.environ.get("TACIT_GUIDE")  # a folder that `make docs` built
    if given:
        return Path(given).resolve()
    return build(tmp_path_factory.mktemp("built") / tacit.__version__)


def look(browser, page, width, scheme):
    wanted = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=wanted)
    browser.open(page, width)


def test_pages_show_what_their_cells_gave(site):
    text = (site / "start.html").read_text(encoding="utf-8")
    assert "differentially private" in text
    assert text.count("cell_output") > 8
    assert "_images/" in text
    assert broken(site) == []


def test_no_page_names_the_machine_that_it_was_built_on(site):
    for page in site.rglob("*.html"):
        assert str(ROOT) not in page.read_text(encoding="utf-8"), page.name


def test_the_first_page_with_all_it_loads_is_below_a_megabyte(site):
    page = site / "index.html"
    files = {(page.parent / target.split("?")[0]).resolve() for target in loaded(page)}
    assert page.stat().st_size + sum(file.stat().st_size for file in files) < 1_000_000


@pytest.mark.parametrize("name", MAIN)
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_it_asks_for_files_only_and_does_not_scroll_sideways(browser, site, name, width):
    look(browser, site / f"{name}.html", width, "light")
    asked = [url for url in browser.requests() if not url.startswith(("file:", "data:"))]
    assert asked == []
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("name", MAIN)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_axe_finds_nothing(browser, site, name, scheme, width):
    if not AXE.exists():
        pytest.skip("axe-core is not here: run `make axe`, or name axe.min.js in TACIT_AXE")
    look(browser, site / f"{name}.html", width, scheme)
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true }); 0")
    browser.run(AXE.read_text(encoding="utf-8") + "; 0")
    found = browser.run(
        "axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html.slice(0, 200)))"
    )
    assert found == []


def test_search_finds_a_page_without_a_server(browser, site):
    look(browser, site / "search.html", 1280, "light")
    browser.run("Search.performSearch('exponential mechanism'); 0")
    found = browser.run(
        "new Promise(done => { const at = Date.now(); (function look() {"
        " const said = document.querySelector('.search-summary');"
        " const over = said && said.innerText.startsWith('Search finished');"
        " if (over || Date.now() - at > 20000)"
        " done([...document.querySelectorAll('#search-results li a')].map(a => a.href));"
        " else setTimeout(look, 50); })(); })"
    )
    assert any("noise.html" in link for link in found)
    assert browser.complaints() == []
