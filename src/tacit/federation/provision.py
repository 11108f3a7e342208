"""A whole federation on one machine, for demonstrations, tests and benchmarks.

The same three steps that institutions take each at its own place (`tacit federation init`,
``join``, ``approve``, ``accept``), one after another in folders side by side. Fingerprints are
confirmed by nobody: between institutions, take the steps one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tacit.errors import ParameterError
from tacit.federation.kits import ADMIN
from tacit.federation.members.authority import approve, init_authority
from tacit.federation.members.documents import check_host, check_name
from tacit.federation.members.identity import everybody
from tacit.federation.members.site import accept, join

__all__ = ["ADMIN", "init_federation"]


def init_federation(
    folder: Path, sites: Sequence[str], *, host: str = "localhost", port: int = 8002
) -> Path:
    """Write a complete federation.

    Parameters
    ----------
    folder
        Where to; must not exist. ``authority/`` and ``coordinator/`` are the coordinator's, each
        ``sites/NAME/`` is its site's.
    sites
        Their names.
    host, port
        Where sites reach the coordinator.
    """
    check_host(host, port)
    names = tuple(check_name(name, host) for name in sites)
    if len({name.lower() for name in names}) != len(names) or not names:
        raise ParameterError(f"sites must be different names, got {list(names)}")
    if folder.exists():
        raise ParameterError(f"{folder} exists already: choose another place")
    init_authority(folder, host=host, port=port)
    homes = {name: folder / "sites" / name for name in names}
    requests = [
        join(folder / "invitation.json", name, home).request for name, home in homes.items()
    ]
    approved, _ = approve(folder, requests, everybody)
    for answer in approved:
        accept(homes[answer.name], answer.file, everybody)
    return folder
