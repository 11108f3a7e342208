"""The guide builds, its links lead somewhere, and its reference holds every public name."""

import importlib.util
import re
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def guide():
    spec = importlib.util.spec_from_file_location("guide", ROOT / "docs" / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def site(guide, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    guide.build(folder)
    return folder


def test_every_page_is_built_and_listed_in_the_index(guide, site):
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in guide.pages():
        assert (site / f"{page.stem}.html").exists()
        assert page.name == "index.md" or f"({page.name})" in index


def test_built_pages_link_to_built_pages_and_load_nothing_from_elsewhere(site):
    for page in site.glob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert "<script" not in text
        for target in re.findall(r'(?:href|src)="([^"#]+)', text):
            known = (site / target).exists() or target in ("federation.html", "secure.html",
                                                            "scale.html")  # fmt: skip
            assert known or "://" in target or target.startswith(".."), f"{page.name}: {target}"


def test_links_of_the_guide_and_of_the_readme_lead_somewhere(guide):
    others = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    texts = {file: file.read_text(encoding="utf-8") for file in others}
    assert guide.broken_links({**guide.pages(), **texts}) == []


def test_a_broken_link_is_found(guide):
    page = ROOT / "docs" / "index.md"
    wrong = "[a](nowhere.md) [b](start.md#nowhere) [c](https://example.org) [d](start.md#start)"
    assert [text.split(": ")[1] for text in guide.broken_links({page: wrong})] == [
        "there is no nowhere.md", "start.md has no heading #nowhere",
    ]  # fmt: skip


def test_the_reference_holds_every_public_name(site):
    text = (site / "api.html").read_text(encoding="utf-8")
    for name, home in tacit._EXPORTS.items():
        assert home == "tacit.errors" or f'id="{home}.{name}"' in text


def test_every_public_name_has_a_docstring(guide):
    silent = [
        f"{file.stem}.{name}"
        for file in guide.SOURCE.rglob("*.py")
        for name, _, text in guide.public_names(file)
        if not text.strip()
    ]
    assert silent == []
