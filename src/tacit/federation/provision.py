"""`tacit federation init`: certificates, keys, start-up kits and files for N sites.

The engine provisions certificates and kits (mutual TLS). What it leaves open is closed here: an
allow list of the four classes that tacit needs, no code in jobs, stores inside the kits instead of
a shared temporary folder; and every site gets a signing key for secure aggregation.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tacit._core.check import Integer, check
from tacit.errors import ParameterError, TacitError
from tacit.federation.engine.deploy import write_forms
from tacit.federation.engine.nvflare import CLASSES
from tacit.federation.secure import keys

__all__ = ["ADMIN", "init_federation"]

ADMIN = "admin@tacit.federation"
_RIGHTS = {
    "project_admin": {
        "submit_job": "any",
        "clone_job": "none",
        "manage_job": "any",
        "download_job": "any",
        "view": "any",
        "operate": "any",
        "shell_commands": "none",
        "byoc": "none",
        "server-predeployed-flwr": "none",
    }
}


def init_federation(
    folder: Path, sites: Sequence[str], *, host: str = "localhost", port: int = 8002
) -> Path:
    """Write a complete federation.

    Parameters
    ----------
    folder
        Where to; must not exist. ``coordinator/`` stays with whoever coordinates, each
        ``sites/NAME/`` goes to its site.
    sites
        Their names.
    host, port
        Where sites reach the coordinator.
    """
    check("port", port, Integer(1, 65535))
    names = tuple(sites)
    if len(set(names)) != len(names) or not names:
        raise ParameterError(f"sites must be different names, got {list(names)}")
    for name in names:
        if not name.replace("-", "").replace("_", "").isalnum() or not name.isascii():
            raise ParameterError(f"a site's name is made of letters, digits and -: got {name!r}")
    if folder.exists():
        raise ParameterError(f"{folder} exists already: choose another place")
    before = os.umask(0o077)  # keys are for their owner only
    try:
        _write_federation(folder, names, host, port)
    finally:
        os.umask(before)
    return folder


def _write_federation(folder: Path, names: tuple[str, ...], host: str, port: int) -> None:
    folder.mkdir(parents=True)
    kits = _provision(folder / "provision", names, host, port)
    coordinator = folder / "coordinator"
    coordinator.mkdir()
    shutil.move(kits / host, coordinator / "server")
    shutil.move(kits / ADMIN, coordinator / "admin")
    _harden(coordinator / "server", server=True)
    identities = {name: keys.fresh_identity() for name in names}
    public = {name: keys.identity_public(key).hex() for name, key in identities.items()}
    for name in names:
        place = folder / "sites" / name
        place.mkdir(parents=True)
        shutil.move(kits / name, place / "kit")
        _harden(place / "kit", server=False)
        (place / "identity.key").write_text(identities[name].hex() + "\n")
        (place / "site.toml").write_text(_site_file(name, public), encoding="utf-8")
        write_forms(place, name)
    (coordinator / "coordinator.toml").write_text(_coordinator_file(names), encoding="utf-8")
    # the root key could sign further members: keep it offline
    shutil.move(folder / "provision", coordinator / "root")


def _provision(folder: Path, names: Sequence[str], host: str, port: int) -> Path:
    folder.mkdir()
    people = [
        {
            "name": host,
            "type": "server",
            "org": "tacit",
            "fed_learn_port": port,
            "default_host": host,
        }
    ]
    people += [{"name": name, "type": "client", "org": "tacit"} for name in names]
    people += [{"name": ADMIN, "type": "admin", "org": "tacit", "role": "project_admin"}]
    impl = "nvflare.lighter.impl"
    overseer = {
        "path": "nvflare.ha.dummy_overseer_agent.DummyOverseerAgent",
        "overseer_exists": False,
    }
    project = {
        "api_version": 3,
        "name": "tacit",
        "description": "tacit federation",
        "participants": people,
        "builders": [
            {"path": f"{impl}.workspace.WorkspaceBuilder"},
            {
                "path": f"{impl}.static_file.StaticFileBuilder",
                "args": {"config_folder": "config", "scheme": "tcp", "overseer_agent": overseer},
            },
            {"path": f"{impl}.cert.CertBuilder"},
            {"path": f"{impl}.signature.SignatureBuilder"},
        ],
    }
    (folder / "project.yml").write_text(json.dumps(project, indent=1))  # JSON is YAML
    command = [
        sys.executable,
        "-m",
        "nvflare.lighter.provision",
        "-p",
        "project.yml",
        "-w",
        "workspace",
        "--force",
    ]
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    kits = folder / "workspace" / "tacit" / "prod_00"
    if done.returncode or not kits.exists():
        raise TacitError(
            f"certificates could not be made: {done.stdout[-500:]}{done.stderr[-500:]}"
        )
    return kits


def _harden(kit: Path, *, server: bool) -> None:
    """Allow four classes, no code in jobs, and no store outside of the kit."""
    local = kit / "local"
    resources: dict[str, Any] = json.loads((local / "resources.json.default").read_text())
    resources["class_list_enforcement_mode"] = "enforce"
    resources["class_allow_list"] = list(CLASSES)
    resources.pop("allow_log_streaming", None)
    dropped = {"log_receiver", "site_log_streamer"}  # logs of sites stay at sites
    resources["components"] = [c for c in resources["components"] if c["id"] not in dropped]
    if server:
        resources["servers"][0]["max_num_clients"] = 1000
        store = resources["snapshot_persistor"]["args"]["storage"]["args"]
        store["root_dir"] = "{store}/snapshots"
        for component in resources["components"]:
            if component["id"] == "job_manager":
                component["args"]["uri_root"] = "{store}/jobs"
    (local / "resources.json.tacit").write_text(json.dumps(resources, indent=1))
    rights = {"format_version": "1.0", "permissions": _RIGHTS}
    (local / "authorization.json").write_text(json.dumps(rights, indent=1))


def _site_file(name: str, public: dict[str, str]) -> str:
    partners = "\n".join(f'{site} = "{key}"' for site, key in public.items())
    return f"""# {name}: what this site holds, pays and consents to. It never leaves the site.
name = "{name}"
kit = "kit"
state = "state"            # replies that were paid for; keep it
identity = "identity.key"  # signs keys of secure aggregation; secret

[ledger]                   # the site's whole budget, for ever
file = "ledger.db"
epsilon = 4.0
delta = 1e-5

# engine = "isolated"      # or "user:NAME" with socket = "PATH", see deploy/README.txt
# [network]                # what the process with the data may reach: nothing, unless named here
# allow = ["db.example.org:5432"]

# Where the data is: a file (.csv, .parquet), or a url and a query (SQLite, PostgreSQL).
# [data.patients]
# file = "patients.csv"
# url = "postgresql+psycopg://reader:$DB_PASSWORD@db/clinic"
# query = "select age, dose, pressure from visits"

# What may be computed. Nothing, until you say so; see `tacit site --policy site.toml`.
# [[allow]]
# computation = "regression"
# epsilon = 1.0
# delta = 1e-6
# unit = "row"
# rounds = 1
# partners = {len(public)}
# [allow.settings]
# bounds = {{age = [18, 100], dose = [0, 10]}}
# y_bounds = [0, 200]
# target = "pressure"

[partners]                 # public signing keys of all sites: compare them by telephone
{partners}
"""


def _coordinator_file(names: Sequence[str]) -> str:
    return f"""# What the coordinator proposes, and to whom.
kit = "server"
admin = "admin"
output = "result"
sites = {json.dumps(list(names))}
timeout = 60               # seconds for each call
on_failure = "stop"        # or "exclude"
minimum = {len(names)}

# [[computation]]
# computation = "regression"
# privacy = {{epsilon = 1.0, delta = 1e-6, unit = "row", trust = "site"}}
# [computation.settings]
# bounds = {{age = [18, 100], dose = [0, 10]}}
# y_bounds = [0, 200]
# target = "pressure"
"""
