"""Every cell of the guide runs, shows something worth reading, and uses public names only."""

import ast
import re
import warnings

import pytest

from experiments import _pages
from tests.docs.support import DOCS, pages, prose

import guide.reference as reference  # isort: skip


@pytest.fixture
def without_screen(monkeypatch):
    """Draw into memory."""
    import matplotlib

    monkeypatch.setenv("MPLBACKEND", "Agg")
    matplotlib.use("Agg")


def is_truth(value):
    """Return whether a cell shows nothing but yes or no, or a shape."""
    parts = value if isinstance(value, tuple) else (value,)
    return any(type(part).__name__ in ("bool", "bool_") for part in parts)


@pytest.mark.parametrize("page", _pages.pages(), ids=lambda page: page.stem)
def test_every_cell_runs_and_shows_a_result(page, without_screen, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=r"\s*ArviZ is undergoing")
        ran = _pages.run_page(page, tmp_path)
    assert [cell.source for cell, value in ran.shown if is_truth(value)] == []
    assert [cell.source for cell in ran.undescribed] == [], "a picture needs :alt:, its words"
    assert any(value is not None for _, value in ran.shown) or ran.pictures


def test_a_cell_that_fails_is_named_by_page_and_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n\n```{code-cell}\n1 / 0\n```\n", encoding="utf-8")
    with pytest.raises(ZeroDivisionError) as found:
        _pages.run_page(page, tmp_path)
    assert "page.md, line 3" in found.value.__notes__[0]


def test_a_cell_that_should_fail_and_does_not_is_an_error(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```{code-cell}\n:tags: [raises-exception]\n1\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="should raise"):
        _pages.run_page(page, tmp_path)


def test_files_and_commands_of_cells(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```{code-cell}\n%%writefile a.txt\nhello\n```\n\n"
        "```{code-cell}\n!cat a.txt\n!tacit --version\n```\n",
        encoding="utf-8",
    )
    (_, nothing), (_, said) = _pages.run_page(page, tmp_path).shown
    assert nothing is None
    assert said.startswith("hello\n")
    assert "tacit 0" in said


def imported(source):
    """Return the names that a cell imports from tacit, tests or experiments."""
    lines = [line for line in source.splitlines() if not line.startswith(("!", "%"))]
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in (
            "tacit", "tests", "experiments", "benchmarks",
        ):  # fmt: skip
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.fixture(scope="module")
def public():
    """Return every (module, name) that the reference has an entry for."""
    import importlib

    found = set()
    for package in reference.PACKAGES:
        found |= {(package, name) for name in reference.names_of(importlib.import_module(package))}
    for patterns in reference.MODULES.values():
        for module in reference.modules(patterns):
            names = reference.names_of(importlib.import_module(module))
            found |= {(module, name) for name in names}
    return found


@pytest.mark.parametrize("page", _pages.pages(), ids=lambda page: page.stem)
def test_cells_use_names_that_the_reference_has(page, public):
    for cell in _pages.cells(page.read_text(encoding="utf-8")):
        if not cell.source.startswith("%%"):
            assert set(imported(cell.source)) <= public


def test_every_public_name_has_a_docstring_and_a_page():
    written = reference.pages()
    for names in reference.public_names().values():
        for name in names:
            assert name.full in written
            if callable(name.value):
                assert (name.value.__doc__ or "").strip(), name.full


def test_nothing_private_is_in_the_reference():
    for name in reference.pages():
        assert not any(part.startswith("_") for part in name.split("."))


# -- words --------------------------------------------------------------------------------------

# Names of formats, tools, laws and people that a reader knows or that are no terms of the field.
PLAIN = re.findall(
    r"\w+",
    """
    AES AGN API ASCII AVN BLAS CDF COVERED CPU CRP CSV DP DPD GB GCM HDL HKDF HTML HTTP ID II
    III IPC ISO IV JSON KOS LDL LDP1 LDP2 MB MF ML MNIST NA NOT NVFLARE OK PDF PID PMF PNG
    README RSA
    SGD SIGKILL SIGSTOP SIGTERM SQL SVG TCP TOML TPM TSH TSV UCLAF URL UTF UTS WSL
    """,
)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_abbreviations_stand_in_the_glossary(page):
    from guide.glossary import entries

    if page.stem in ("changelog", "glossary"):
        return
    known = entries((DOCS / "glossary.md").read_text(encoding="utf-8"))
    words = {
        word for forms, _ in known.values() for form in forms for word in re.split(r"[\s-]", form)
    }
    text = re.sub(r"`[^`]*`|\]\([^)]*\)", " ", prose(page.read_text(encoding="utf-8")))
    text = "\n".join(line for line in text.splitlines() if not line.startswith("|"))
    found = set(re.findall(r"(?<![\w-])[A-Z][A-Z0-9]+(?![\w])", text))
    assert found - words - set(PLAIN) == set()
