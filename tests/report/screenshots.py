"""Take the pictures that the guide shows: a report, a notebook's cell, and the guide itself.

python -m tests.report.screenshots docs/images build/docs/VERSION
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import tacit as tc
from tacit.demo.run import run_demo
from tests.report.browser import Browser, find_browser

HEIGHTS = {390: 1700, 1280: 1500, 1920: 1300}  # what is seen first, and a scroll more
CELL = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/>
<meta name="viewport" content="width=device-width"/><title>A cell of a notebook</title>
<style>:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.4 system-ui, "DejaVu Sans", sans-serif; margin: 1rem; }}
pre {{ opacity: .8; }}</style></head><body><pre>{code}</pre>{shown}</body></html>"""


def notebook(path):
    """Write what a notebook shows of a regression over two sites."""
    rng = np.random.default_rng(0)
    sites = []
    for name in ("North", "South"):
        age, dose = rng.uniform(20, 90, 4000), rng.uniform(0, 5, 4000)
        pressure = 90 + 0.5 * age - 3 * dose + rng.normal(0, 10, 4000)
        rows = {"age": age, "dose": dose, "pressure": pressure.clip(60, 220)}
        sites.append(tc.Site(name, rows))
    model = tc.PrivateLinearRegression(
        bounds={"age": (20, 90), "dose": (0, 5)},
        y_bounds=(60, 220),
        target="pressure",
        privacy=tc.Privacy(1, 1e-6, trust="site"),
    )
    text = CELL.format(code="model.fit(sites)", shown=model.fit(sites)._repr_html_())
    path.write_text(text, encoding="utf-8")


def main(target, guide):
    """Take every picture, with the guide as it was built last."""
    target.mkdir(parents=True, exist_ok=True)
    program = find_browser()
    if program is None:
        sys.exit("no Chromium here: install one, or name it in TACIT_CHROMIUM")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_demo(folder / "demo", quiet=True)
        notebook(folder / "notebook.html")
        pages = {
            "report": folder / "demo" / "report.html",
            "notebook": folder / "notebook.html",
            "guide": guide.resolve() / "results.html",
        }
        browser = Browser(program)
        try:
            for kind, page in pages.items():
                for width, height in HEIGHTS.items():
                    for dark in (False, True):
                        browser.open(page, width, dark=dark)
                        whole = browser.run("document.body.getBoundingClientRect().bottom")
                        place = target / f"{kind}-{width}{'-dark' if dark else ''}.png"
                        browser.picture(place, min(height, whole + 16))
                        with Image.open(place) as full:  # a guide is downloaded
                            few = full.convert("RGB").quantize(64)
                        few.save(place, optimize=True)
        finally:
            browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
