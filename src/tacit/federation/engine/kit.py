"""A start-up kit of the engine: its own configuration, and the command that runs it."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path

from tacit.errors import TacitError

__all__ = ["check_kit", "client_command", "pack", "prepare", "server_command", "unpack"]

_SERVER = "nvflare.private.fed.app.server.server_train"
_CLIENT = "nvflare.private.fed.app.client.client_train"


def check_kit(kit: Path) -> None:
    """Refuse a folder that is no kit."""
    if not (kit / "startup").is_dir():
        raise TacitError(f"{kit} is no start-up kit: `tacit federation init` writes them")


def pack(kit: Path) -> bytes:
    """Return what a client needs of its kit, as an archive."""
    check_kit(kit)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("startup", "local"):
            archive.add(kit / name, name)
    return packed.getvalue()


def unpack(packed: bytes, kit: Path) -> None:
    """Write a kit from its archive."""
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(kit, filter="data")


def prepare(kit: Path) -> None:
    """Make the kit's configuration point into the kit, wherever it lies now.

    It runs where the engine runs and with no other rights: whoever took over an engine can leave
    links in its kit that lead elsewhere.
    """
    check_kit(kit)
    draft = kit / "local" / "resources.json.tacit"
    if draft.exists():
        text = draft.read_text().replace("{store}", json.dumps(str(kit / "store"))[1:-1])
        (kit / "local" / "resources.json").write_text(text)
    for name in ("transfer", "tmp"):
        (kit / name).mkdir(exist_ok=True)


def _command(module: str, kit: Path, config: str, *settings: str) -> list[str]:
    words = [sys.executable, "-u", "-m", module, "-m", str(kit), "-s", config]
    given = ("secure_train=true", *settings, "org=tacit", "config_folder=config")
    return [*words, "--set", *given]


def server_command(kit: Path) -> list[str]:
    """Return the command that runs the coordinator's server."""
    return _command(_SERVER, kit, "fed_server.json")


def client_command(kit: Path) -> list[str]:
    """Return the command that runs a site's client."""
    content = json.loads((kit / "startup" / "fed_client.json").read_text(encoding="utf-8"))
    return _command(_CLIENT, kit, "fed_client.json", f"uid={content['client']['fqsn']}")
