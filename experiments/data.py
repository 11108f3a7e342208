"""Where the real data sets are."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent


def data_folder(name: str) -> Path:
    """Return the folder of a data set: under TACIT_DATA, or ../shared/data from the root."""
    base = Path(os.environ.get("TACIT_DATA", ROOT.parent / "shared" / "data"))
    folder = base / name
    if not folder.exists():
        raise SystemExit(
            f"this needs the data set {name!r}: put it below a folder named by TACIT_DATA"
        )
    return folder
