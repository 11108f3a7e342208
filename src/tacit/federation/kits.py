"""Start-up kits: what the engine's server, its clients and the one who submits read at the start.

The same files that the engine's own provisioning would write, without its scripts, and with what
that leaves open closed: an allow list of the four classes that tacit needs, no code in jobs, no
logs that leave, stores inside the kit, connections by `tacit.federation.driver`.
"""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

from tacit.federation.engine.nvflare import CLASSES
from tacit.federation.folders import make_folder, replace_file
from tacit.federation.tls import REVOKED

__all__ = [
    "ADMIN",
    "ROLE",
    "install_admin",
    "install_revoked",
    "install_server",
    "install_site",
]

ADMIN, ROLE = "admin@tacit.federation", "project_admin"
_SCHEME = "stcp"  # in whose place `tacit.federation.driver` puts itself
_PROJECT = "tacit"
_RIGHTS = {
    ROLE: {
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
_DRIVER = '''"""Found by the engine through comm_config.json; no connection is made without it."""

try:
    from tacit.federation.driver import install

    install()
except Exception as error:  # the engine would go on with connections of its own
    raise SystemExit(f"tacit's connections are missing: {error}") from None
'''


def install_server(
    kit: Path, host: str, port: int, *, key: bytes, certificate: bytes, root: bytes
) -> None:
    """Write the server's kit; `install_revoked` adds the list that it needs."""
    server = {
        "name": _PROJECT,
        "service": {"target": f"{host}:{port}", "scheme": _SCHEME},
        "admin_server": host,
        "admin_port": port,
        "ssl_private_key": "server.key",
        "ssl_cert": "server.crt",
        "ssl_root_cert": "rootCA.pem",
        "connection_security": "mtls",
    }
    _write(kit, "startup/fed_server.json", {"format_version": 2, "servers": [server]})
    _credentials(kit, "server", key, certificate, root)
    _write_local(kit, _server_resources())


def install_site(
    kit: Path, name: str, host: str, port: int, *, key: bytes, certificate: bytes, root: bytes
) -> None:
    """Write a site's kit."""
    server = {
        "name": _PROJECT,
        "service": {"target": f"{host}:{port}", "scheme": _SCHEME},
        "identity": host,
    }
    client = {
        "ssl_private_key": "client.key",
        "ssl_cert": "client.crt",
        "ssl_root_cert": "rootCA.pem",
        "fqsn": name,
        "is_leaf": True,
        "connection_security": "mtls",
    }
    start = {"format_version": 2, "servers": [server], "client": client}
    _write(kit, "startup/fed_client.json", start)
    _credentials(kit, "client", key, certificate, root)
    _write_local(kit, _site_resources())


def install_admin(
    kit: Path, host: str, port: int, *, key: bytes, certificate: bytes, root: bytes
) -> None:
    """Write the kit of the one who submits jobs, on the server's machine."""
    admin = {
        "project_name": _PROJECT,
        "username": ADMIN,
        "server_identity": host,
        "scheme": "tcp",
        "host": host,
        "port": port,
        "connection_security": "mtls",
        "uid_source": "user_input",
        "with_file_transfer": True,
        "upload_dir": "transfer",
        "download_dir": "transfer",
        "client_key": "client.key",
        "client_cert": "client.crt",
        "ca_cert": "rootCA.pem",
    }
    timing = {
        "idle_timeout": 900.0,
        "login_timeout": 10.0,
        "with_debug": False,
        "authenticate_msg_timeout": 2.0,
        "prompt": "> ",
    }
    _write(kit, "startup/fed_admin.json", {"format_version": 1, "admin": admin})
    _write(kit, "local/resources.json.default", {"format_version": 1, "admin": timing})
    _credentials(kit, "client", key, certificate, root)


def install_revoked(kit: Path, revoked: bytes) -> None:
    """Give a server the list of certificates that it refuses; a running one looks at it."""
    replace_file(kit / "startup" / REVOKED, revoked)


def _credentials(kit: Path, side: str, key: bytes, certificate: bytes, root: bytes) -> None:
    for name, content in (
        (f"{side}.key", key),
        (f"{side}.crt", certificate),
        ("rootCA.pem", root),
    ):
        replace_file(kit / "startup" / name, content)


def _write_local(kit: Path, found: dict[str, Any]) -> None:
    enforced = {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": list(CLASSES),
    }
    _write(kit, "local/resources.json.tacit", {**enforced, **found})
    _write(kit, "local/authorization.json", {"format_version": "1.0", "permissions": _RIGHTS})
    # relative to the kit, where the engine's processes run
    ways = {"allow_adhoc_conns": False, "comm_driver_path": "local/drivers"}
    _write(kit, "local/comm_config.json", ways)
    replace_file(make_folder(kit / "local" / "drivers") / "tacit_driver.py", _DRIVER)
    logs = resources.files("nvflare.fuel.utils").joinpath("log_config.json").read_bytes()
    replace_file(kit / "local" / "log_config.json.default", logs)


def _server_resources() -> dict[str, Any]:
    storage = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    persistor = "nvflare.app_common.state_persistors.storage_state_persistor"
    launcher = "nvflare.app_common.job_launcher.server_process_launcher"
    return {
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 1000,
                "heart_beat_timeout": 600,
                "download_job_url": "http://download.server.com/",
                "admin_timeout": 10.0,
            }
        ],
        "snapshot_persistor": {
            "path": f"{persistor}.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {
                    "path": storage,
                    "args": {"root_dir": "{store}/snapshots", "uri_root": "/"},
                },
            },
        },
        "components": [
            {
                "id": "job_scheduler",
                "path": "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                "args": {"max_jobs": 4},
            },
            {
                "id": "job_manager",
                "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                "args": {"uri_root": "{store}/jobs", "job_store_id": "job_store"},
            },
            {"id": "job_store", "path": storage},
            {
                "id": "process_launcher",
                "path": f"{launcher}.ServerProcessJobLauncher",
                "args": {},
            },
        ],
    }


def _site_resources() -> dict[str, Any]:
    managers = "nvflare.app_common.resource_managers.gpu_resource_manager"
    consumers = "nvflare.app_common.resource_consumers.gpu_resource_consumer"
    launcher = "nvflare.app_common.job_launcher.client_process_launcher"
    return {
        "client": {"retry_timeout": 30, "compression": "Gzip"},
        "components": [
            {
                "id": "resource_manager",
                "path": f"{managers}.GPUResourceManager",
                "args": {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300},
            },
            {
                "id": "resource_consumer",
                "path": f"{consumers}.GPUResourceConsumer",
                "args": {},
            },
            {
                "id": "process_launcher",
                "path": f"{launcher}.ClientProcessJobLauncher",
                "args": {},
            },
        ],
    }


def _write(kit: Path, name: str, content: dict[str, Any]) -> None:
    replace_file(kit / name, json.dumps(content, indent=1) + "\n")
