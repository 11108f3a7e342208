"""What is added to the toy family: a mechanism and a method, each a file and a line elsewhere.

Each entry is file → its whole text (a file beside this one), or (old, new) for a changed line.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
Change = Path | tuple[str, str]

MECHANISM: dict[str, Change] = {
    "truncated.py": HERE / "truncated.py",
    "agreement.py": (
        "from tacit.mechanisms.geometric import TwoSidedGeometric",
        "from .truncated import TruncatedGeometric as TwoSidedGeometric",
    ),
}
METHOD: dict[str, Change] = {
    "gaussian.py": HERE / "gaussian.py",
    "estimator.py": (
        'METHODS = {"geometric": CountsAgreement}',
        "from .gaussian import GaussianCounts  # noqa: E402\n\n"
        'METHODS = {"geometric": CountsAgreement, "gaussian": GaussianCounts}',
    ),
}


def apply(changes: dict[str, Change], package: Path) -> int:
    """Change a package; return how many files were touched."""
    for name, change in changes.items():
        target = package / name
        if isinstance(change, Path):
            target.write_bytes(change.read_bytes())
            continue
        text = target.read_text(encoding="utf-8")
        old, new = change
        if text.count(old) != 1:
            raise ValueError(f"{name} does not hold {old!r} once")
        target.write_text(text.replace(old, new), encoding="utf-8")
    return len(changes)
