"""The guide builds without a warning, its links lead somewhere, and it loads nothing from afar."""

import re
from urllib.parse import urlsplit

import pytest

from tests.docs.support import DOCS, ROOT, broken, build, loaded, pages

import tacit  # isort: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / tacit.__version__
    return build(folder, nb_execution_mode="off")


@pytest.mark.filterwarnings("default")  # those of Sphinx and of its extensions
class TestBuilt:
    def test_every_page_is_there_and_in_the_navigation(self, site):
        index = (site / "index.html").read_text(encoding="utf-8")
        for page in pages():
            name = page.relative_to(DOCS).with_suffix(".html").as_posix()
            assert (site / name).exists()
            assert name == "index.html" or f'href="{name}"' in index or "gallery/" in name

    def test_links_lead_somewhere(self, site):
        assert broken(site) == []

    def test_a_broken_link_is_found(self, site, tmp_path):
        """The negative control."""
        (tmp_path / "there.html").write_text('<p id="here">', encoding="utf-8")
        targets = ("nowhere.html", "there.html#no", "there.html#here", "https:")
        links = "".join(f'<a href="{target}">' for target in targets)
        (tmp_path / "page.html").write_text(links, encoding="utf-8")
        assert len(broken(tmp_path)) == 3

    def test_nothing_is_loaded_from_a_network(self, site):
        for page in site.rglob("*.html"):
            assert [target for target in loaded(page) if urlsplit(target).netloc] == []
        for sheet in site.rglob("*.css"):
            text = sheet.read_text(encoding="utf-8")
            assert re.findall(r"""(?:url\(|@import)\s*["']?(?:https?:)?//""", text) == []

    def test_the_first_page_is_light(self, site):
        page = site / "index.html"
        files = {(page.parent / urlsplit(target).path).resolve() for target in loaded(page)}
        fonts = {path for path in site.rglob("*.woff2")}
        assert page.stat().st_size + sum(path.stat().st_size for path in files | fonts) < 1_000_000

    def test_formulas_need_no_script(self, site):
        text = (site / "regression.html").read_text(encoding="utf-8")
        assert "<math " in text
        scripts = re.findall(r"<script[^>]*src=[^>]*>", text)
        assert [script for script in scripts if "math" in script.lower()] == []

    def test_search_works_without_a_server(self, site):
        index = (site / "searchindex.js").read_text(encoding="utf-8")
        assert index.startswith("Search.setIndex(")
        assert "regression" in index

    def test_pages_can_be_taken_along_as_notebooks(self, site):
        import json

        notebook = json.loads((site / "notebooks" / "start.ipynb").read_text(encoding="utf-8"))
        kinds = {cell["cell_type"] for cell in notebook["cells"]}
        assert kinds == {"markdown", "code"}

    def test_a_stable_address_leads_to_the_newest_version(self, site):
        above = site.parent
        assert f"url={tacit.__version__}/index.html" in (above / "index.html").read_text("utf-8")
        for name in ("start", "api/tacit.PrivateSummary"):
            text = (above / "stable" / f"{name}.html").read_text("utf-8")
            target = re.search(r"url=([^\"]+)", text).group(1)
            assert ((above / "stable" / f"{name}.html").parent / target).resolve().exists()

    def test_the_first_use_of_a_term_is_linked_to_the_glossary(self, site):
        text = (site / "start.html").read_text(encoding="utf-8")
        assert text.count('href="glossary.html#term-epsilon"') == 1
        glossary = (site / "glossary.html").read_text(encoding="utf-8")
        assert 'id="term-epsilon"' in glossary

    def test_tabs_hold_a_cell_each(self, site):
        text = (site / "start.html").read_text(encoding="utf-8")
        labels = re.findall(r"<label[^>]*\bsd-tab-label\b[^>]*>(.*?)</label>", text, flags=re.S)
        names = [re.sub(r"<[^>]+>", "", label).strip() for label in labels]
        assert names == ["Polars", "pandas", "a file", "command line"]


def test_newer_versions_come_first(tmp_path):
    from guide.versions import versions

    for name in ("0.9.0", "0.10.0", "0.10.0rc1", "stable"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("", encoding="utf-8")
    assert versions(tmp_path)[-1] == "0.9.0"
    assert "stable" not in versions(tmp_path)


def _slug(heading):
    """Return the anchor of a heading, as GitHub makes it."""
    return re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"])
def test_links_of_files_outside_of_the_guide_lead_somewhere(name):
    text = re.sub(r"```.*?```", "", (ROOT / name).read_text(encoding="utf-8"), flags=re.S)
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = ROOT / path if path else ROOT / name
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(encoding="utf-8"), flags=re.M)
            assert anchor in map(_slug, headings), target
