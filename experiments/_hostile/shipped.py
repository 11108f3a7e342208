"""Whoever holds the federation's root key: mints the role "super", and ships code to sites.

The engine asks nothing of that role: what its jobs bring along is run by the client of every site,
whatever the site's list of classes and its rights say. So it runs, where there is nothing.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.flare_api import new_secure_session

from experiments._hostile.engine import Federation
from experiments._hostile.got import Got
from experiments._hostile.probe import LOOK
from tacit.federation.engine import nvflare
from tacit.federation.members import certificates

_NAME = "super@tacit.federation"
_PATIENCE = 45.0  # seconds until code that was shipped has told what it found
_REPORT = """
targets, port = json.loads(TARGETS), PORT
name = sys.argv[sys.argv.index("-c") + 1]
with socket.create_connection(("127.0.0.1", port)) as line:
    line.sendall(json.dumps([name, look(targets[name])]).encode())

from nvflare.apis.executor import Executor

class Foreign(Executor):
    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        return shareable
"""


def minted(federation: Federation) -> Any:
    """Return a session of somebody who has given himself the role."""
    kit, home = federation.place / "super", federation.whole / "authority"
    shutil.copytree(federation.whole / "coordinator" / "admin", kit)
    root = (
        certificates.load_private((home / "root.key").read_bytes()),
        certificates.load_certificate((home / "root.pem").read_bytes()),
    )
    key = certificates.new_key()
    now = datetime.now(UTC)
    made = certificates.member_certificate(root, _NAME, key.public_key(), now, role="super")
    (kit / "startup" / "client.crt").write_bytes(certificates.public_pem(made))
    (kit / "startup" / "client.key").write_bytes(certificates.private_pem(key))
    file = kit / "startup" / "fed_admin.json"
    content = json.loads(file.read_text())
    content["admin"]["username"] = _NAME
    file.write_text(json.dumps(content))
    return new_secure_session(_NAME, str(kit), timeout=10.0)


def _commands(place: str) -> list[tuple[str, dict[str, str]]]:
    """Return what the engine's own session offers to somebody who may do everything."""
    return [
        ("cat_target", {"file": place + ".csv"}),
        ("cat_target", {"file": place + "/identity.key"}),
        ("ls_target", {"path": place}),
        ("grep_target", {"pattern": "mark", "file": place + "/site.toml"}),
        ("tail_target", {"file": place + "/notes.csv"}),
        ("get_working_directory", {}),
        ("get_client_env", {}),
    ]


def play(federation: Federation, targets: Sequence[str]) -> dict[str, Got]:
    """Read files as the role may, then ship code; return what was got at each site."""
    got = {name: Got() for name in targets}
    told: dict[str, list[bytes]] = {name: [] for name in targets}
    session = minted(federation)
    try:
        for name in targets:
            for method, about in _commands(str(federation.aliases[name])):
                try:
                    told[name].append(str(getattr(session, method)(name, **about)).encode())
                except Exception as error:
                    told[name].append(str(error).encode())
                got[name].attempts += 1
        for name, report in _ship(federation, session, targets).items():
            told[name].append(report)
            got[name].attempts += 1
    finally:
        with contextlib.suppress(Exception):
            session.close()
    for name in targets:
        home = federation.homes[name]
        got[name].files, got[name].facts = home.bytes_of_files(told[name]), home.facts(told[name])
        got[name].code = home.lines_run()
        home.ran.unlink(missing_ok=True)
    return got


def _ship(federation: Federation, session: Any, targets: Sequence[str]) -> dict[str, bytes]:
    """Submit a job with code of its own; return what it found at each site."""
    wanted = {name: _wanted(federation, name) for name in targets}
    job = nvflare.write_job(federation.place / "jobs", "shipped", tuple(targets))
    config = job / "app" / "config"
    server = (config / "config_fed_server.json").read_text()
    idle = server.replace(nvflare.CLASSES[2], "experiments._hostile.bridge.Idle")
    (config / "config_fed_server.json").write_text(idle)
    client = json.loads((config / "config_fed_client.json").read_text())
    client["executors"][0]["executor"] = {"path": "foreign.Foreign", "args": {}}
    (config / "config_fed_client.json").write_text(json.dumps(client))
    meta = json.loads((job / "meta.json").read_text())
    meta["deploy_map"] = {"app": ["server", *targets]}
    (job / "meta.json").write_text(json.dumps(meta))
    custom = job / "app" / "custom"
    custom.mkdir()
    found: dict[str, bytes] = {}
    with socket.create_server(("127.0.0.1", 0)) as listener:
        code = _REPORT.replace("TARGETS", repr(json.dumps(wanted)))
        code = LOOK + code.replace("PORT", str(listener.getsockname()[1]))
        (custom / "foreign.py").write_text(code)
        session.submit_job(str(job))
        deadline = time.monotonic() + _PATIENCE
        while len(found) < len(targets) and (left := deadline - time.monotonic()) > 0:
            listener.settimeout(left)
            with contextlib.suppress(TimeoutError):
                connection, _ = listener.accept()
                with connection, connection.makefile("rb") as told:
                    name, report = json.loads(told.read())
                    found[name] = json.dumps(report).encode()
    return found


def _wanted(federation: Federation, name: str) -> dict[str, Any]:
    """Return what code that runs at a site goes for."""
    place = federation.aliases[name]
    return {
        "files": [f"{place}.csv", *(f"{place}/{n}" for n in ("site.toml", "identity.key"))],
        "folders": [str(place), str(Path(str(place), "state"))],
        "installed": [],
        "ran": [f"{place}/ran"],
        "process": federation.pid(name),
        "socket": f"{place}/s",
    }
