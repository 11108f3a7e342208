"""Take the pictures of the demonstration's report that the guide shows.

python -m tests.report.screenshots docs/images
"""

import sys
import tempfile
from pathlib import Path

from tacit.demo.run import run_demo
from tests.report.browser import Browser, find_browser

if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    program = find_browser()
    if program is None:
        sys.exit("no Chromium here: install one, or name it in TACIT_CHROMIUM")
    with tempfile.TemporaryDirectory() as folder:
        run_demo(Path(folder, "demo"), quiet=True)
        browser = Browser(program)
        try:
            for width in (390, 1280):
                browser.open(Path(folder, "demo", "report.html"), width)
                browser.picture(target / f"report-{width}.png")
        finally:
            browser.close()
