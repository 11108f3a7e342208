"""The report in a real browser: it renders, asks for nothing, and passes axe."""

import os
from pathlib import Path

import numpy as np
import pytest

from tests.report.browser import Browser, find_browser
from tests.report.test_page import everything, fitted  # noqa: F401

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("TACIT_AXE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))


@pytest.fixture(scope="module")
def browser():
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium here: install one, or name it in TACIT_CHROMIUM")
    try:
        found = Browser(program)
    except (OSError, TimeoutError, ConnectionError) as error:
        pytest.skip(f"Chromium does not start here: {error}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def page(fitted, tmp_path_factory):  # noqa: F811
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(everything(fitted), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [390, 1280])
def test_it_renders_without_errors_requests_or_sideways_scrolling(browser, page, width, tmp_path):
    browser.open(page, width)
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    sizes = browser.run("[...document.querySelectorAll('svg')].map(s => s.clientHeight)")
    assert len(sizes) >= 6
    assert min(sizes) > 40
    letters = browser.run(
        "Math.min(...[...document.querySelectorAll('svg text')]"
        ".map(t => t.getBoundingClientRect().height))"
    )
    assert letters > 8
    browser.picture(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 10_000


@pytest.mark.parametrize("width", [390, 1280])
def test_axe_finds_nothing(browser, page, width):
    if not AXE.exists():
        pytest.skip("axe-core is not here: run `make axe`, or name axe.min.js in TACIT_AXE")
    browser.open(page, width)
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true }); 0")
    browser.run(AXE.read_text(encoding="utf-8") + "; 0")
    found = browser.run(
        "axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html))"
    )
    assert found == []


def test_axe_catches_a_broken_page(browser, page, tmp_path):
    """The negative control: without a language and with pale text there are violations."""
    if not AXE.exists():
        pytest.skip("axe-core is not here: run `make axe`, or name axe.min.js in TACIT_AXE")
    text = page.read_text(encoding="utf-8").replace(' lang="en"', "").replace("#4a5866", "#bbb")
    broken = tmp_path / "broken.html"
    broken.write_text(text, encoding="utf-8")
    browser.open(broken, 390)
    browser.run(AXE.read_text(encoding="utf-8") + "; 0")
    found = set(browser.run("axe.run().then(r => r.violations.map(v => v.id))"))
    assert {"html-has-lang", "color-contrast"} <= found


def test_a_wide_factor_does_not_break_the_phone(browser, fitted, tmp_path):  # noqa: F811
    from tacit.report.contents import Factor

    wide = Factor(
        "topics", np.ones((60, 50)), tuple(f"a very long word number {k}" for k in range(60))
    )
    path = tmp_path / "wide.html"
    path.write_text(everything(fitted, factors=(wide,)), encoding="utf-8")
    browser.open(path, 390)
    assert browser.run("document.documentElement.scrollWidth") <= 390
