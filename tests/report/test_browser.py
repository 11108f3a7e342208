"""The report in a real browser: it renders, asks for nothing, prints, and passes axe."""

import os
from pathlib import Path

import pytest

from tests.report.browser import Browser, find_browser
from tests.report.pages import answer, everything
from tests.report.test_page import hostile

ROOT = Path(__file__).parents[2]
AXE = Path(os.environ.get("TACIT_AXE", ROOT / "node_modules" / "axe-core" / "axe.min.js"))
SLOW = pytest.mark.slow
LOOKS = [
    (390, False),
    (1280, True),
    pytest.param(1280, False, marks=SLOW),
    pytest.param(390, True, marks=SLOW),
    pytest.param(1920, False, marks=SLOW),
    pytest.param(1920, True, marks=SLOW),
]


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
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(everything(), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def cell(tmp_path_factory):
    """What a notebook shows of an answer, on a page of its own."""
    path = tmp_path_factory.mktemp("notebook") / "cell.html"
    head = '<meta charset="utf-8"/><meta name="viewport" content="width=device-width"/>'
    text = f'<!DOCTYPE html><html lang="en"><head>{head}<title>A cell</title></head><body><main>'
    text += f"<h1>A cell</h1>{answer()._repr_html_()}</main></body></html>"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_it_renders_without_errors_requests_scrolling_or_violations_of_axe(
    browser, page, width, dark
):
    browser.open(page, width, dark=dark)
    assert browser.requests() == [page.resolve().as_uri()]
    assert browser.complaints() == []
    assert browser.run("document.documentElement.scrollWidth") <= width
    sizes = browser.run("[...document.querySelectorAll('svg')].map(s => s.clientHeight)")
    assert len(sizes) >= 11
    assert min(sizes) > 40
    letters = browser.run(
        "Math.min(...[...document.querySelectorAll('svg text')]"
        ".map(t => t.getBoundingClientRect().height))"
    )
    assert letters > 8
    paper = browser.run("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") is not dark
    assert violations(browser, page, width, dark) == []


def test_no_letters_of_a_picture_lie_outside_of_it(browser, page):
    browser.open(page, 1280)
    outside = browser.run(
        "[...document.querySelectorAll('svg text')].filter(t => {"
        "const a = t.getBoundingClientRect(), b = t.ownerSVGElement.getBoundingClientRect();"
        "return a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 2"
        " || a.bottom > b.bottom + 3}).map(t => t.textContent)"
    )
    assert outside == []


def test_a_wide_screen_is_used(browser, page):
    columns = (
        "new Set([...document.querySelectorAll('#what-was-learned ~ .grid > *')]"
        ".map(c => Math.round(c.getBoundingClientRect().left))).size"
    )
    counts = []
    for width in (390, 1280, 1920):
        browser.open(page, width)
        counts.append(browser.run(columns))
    assert counts == [1, 2, 3]


def test_it_prints_with_the_certificate_unfolded_and_in_ink(browser, page, tmp_path):
    browser.open(page, 1280, dark=True)
    assert 4 <= browser.paper(tmp_path / "page.pdf") <= 12
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        heights = browser.run(
            "[...document.querySelectorAll('details.printed .exact')].map(p => p.clientHeight)"
        )
        assert heights
        assert min(heights) > 10
        paper = browser.run("getComputedStyle(document.documentElement).getPropertyValue('--ink')")
        assert paper.strip() == "#1c2733"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


@pytest.mark.parametrize(("width", "dark"), LOOKS)
def test_axe_finds_nothing_in_a_notebooks_cell(browser, cell, width, dark):
    assert violations(browser, cell, width, dark) == []
    assert browser.run("document.documentElement.scrollWidth") <= width


def violations(browser, page, width, dark):
    if not AXE.exists():
        pytest.skip("axe-core is not here: run `make axe`, or name axe.min.js in TACIT_AXE")
    browser.open(page, width, dark=dark)
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true }); 0")
    browser.run(AXE.read_text(encoding="utf-8") + "; 0")
    return browser.run("axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes[0].html))")


def test_axe_catches_a_broken_page(browser, page, tmp_path):
    """The negative control: without a language and with pale text there are violations."""
    text = page.read_text(encoding="utf-8").replace(' lang="en"', "").replace("#4a5866", "#bbb")
    broken = tmp_path / "broken.html"
    broken.write_text(text, encoding="utf-8")
    found = {line.partition(":")[0] for line in violations(browser, broken, 390, False)}
    assert {"html-has-lang", "color-contrast"} <= found


@pytest.mark.parametrize("width", [390, pytest.param(1280, marks=SLOW)])
def test_hostile_names_do_not_break_the_layout(browser, tmp_path, width):
    path = tmp_path / "hostile.html"
    path.write_text(hostile(), encoding="utf-8")
    browser.open(path, width)
    assert browser.complaints() == []
    browser.run("document.querySelectorAll('details').forEach(d => { d.open = true }); 0")
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run("document.querySelectorAll('script, b').length") == 0
