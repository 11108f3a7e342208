"""Settings of the guide: Sphinx with MyST-NB, the theme Furo, and the small extensions beside it.

``make docs`` builds ``build/docs/<version>/``. Nothing that a reader opens is fetched from a
network: formulas are MathML, search is a file, fonts are the reader's own.
"""

import hashlib
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(ROOT))

from tacit import __version__  # noqa: E402

project = "tacit"
author = "The tacit developers"
project_copyright = "The tacit developers, Apache-2.0"
version = release = __version__
html_title = "tacit"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "guide.accessible",
    "guide.cells",
    "guide.glossary",
    "guide.mathml",
    "guide.records",
    "guide.reference",
    "guide.versions",
]
exclude_patterns = ["README.md", "figures", "guide"]
suppress_warnings = ["mystnb.unknown_mime_type"]

# -- pages ----------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline"]
myst_heading_anchors = 4
nb_merge_streams = True
nb_output_stderr = "error"
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_execution_in_temp = True


def _library() -> str:
    """Return a digest of tacit's source: what a page showed is kept until either changes."""
    found = hashlib.sha256()
    for file in sorted((ROOT / "src").rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


_cache = ROOT / "build" / "docs-cache"
nb_execution_cache_path = str(_cache / f"outputs-{_library()}")

# Kernels read their settings from a folder of their own: errors in one line, pictures as SVG.
_profile = _cache / "ipython" / "profile_default"
_profile.mkdir(parents=True, exist_ok=True)
(_profile / "ipython_kernel_config.py").write_text(
    """c = get_config()
c.InteractiveShell.xmode = "Minimal"
c.HistoryManager.enabled = False
c.IPKernelApp.log_level = 40
c.InlineBackend.figure_formats = {"svg"}
c.InlineBackend.rc = {"figure.figsize": (7, 3.4), "axes.spines.top": False,
                      "axes.spines.right": False, "svg.hashsalt": "tacit"}
""",
    encoding="utf-8",
)
os.environ["IPYTHONDIR"] = str(_cache / "ipython")
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["COLUMNS"] = "100"
os.environ["TACIT_QUIET"] = "1"  # nobody waits: that a kernel compiles is no output of a page
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")
os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")

# -- the reference --------------------------------------------------------------------------

default_role = "py:obj"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True
napoleon_preprocess_types = False

# -- the look -------------------------------------------------------------------------------

html_theme = "furo"
html_static_path = ["guide/static"]
templates_path = ["guide/templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "versions.html",
        "sidebar/scroll-end.html",
    ]
}
html_css_files = ["guide.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_search_summary = False  # it would fetch pages, which files may not
html_math_renderer = "mathml"
pygments_style = "a11y-high-contrast-light"
pygments_dark_style = "a11y-high-contrast-dark"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True
copybutton_exclude = ".linenos, .gp, .go"
html_theme_options = {"navigation_with_keys": False, "top_of_page_buttons": []}
