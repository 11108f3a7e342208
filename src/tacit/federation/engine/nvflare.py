"""The transport: NVFLARE's Collab API carries bytes between the coordinator and its sites.

`CollabCoordinator` here and `CollabSite` are installed with tacit at both ends and named in each
site's class allow list; a job names them and holds no code. They find what they need through the
environment, which `tacit coordinate` and `tacit site` set: nothing of data or policy is in a job.
"""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path

from nvflare.collab import collab
from nvflare.collab.api.call_opt import CallOption
from nvflare.collab.api.context import get_call_context
from nvflare.collab.api.group import group

from tacit.errors import SiteFailure, TacitError
from tacit.federation.coordinate import coordinate
from tacit.federation.engine.client import carried, carry
from tacit.federation.files import CoordinatorConfig

__all__ = ["CLASSES", "COORDINATOR", "CollabCoordinator", "CollabTransport", "write_job"]

COORDINATOR = "TACIT_COORDINATOR"  # in the environment: where the coordinator's file is
CLASSES = (
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
    "tacit.federation.engine.nvflare.CollabCoordinator",
    "tacit.federation.engine.client.CollabSite",
)


class CollabCoordinator:
    """The object that drives the rounds, in the server's job."""

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Run every computation of the coordinator's file."""
        config = CoordinatorConfig.read(os.environ[COORDINATOR])
        config.output.mkdir(parents=True, exist_ok=True)
        try:
            coordinate(config, CollabTransport())
        except Exception as error:
            known = isinstance(error, TacitError)
            reason = str(error) if known else traceback.format_exc()
            content = {"reason": reason, "final": known and not isinstance(error, SiteFailure)}
            (config.output / "failed.json").write_text(json.dumps(content), encoding="utf-8")
            raise
        (config.output / "complete").touch()


class CollabTransport:
    """Calls sites through the running job."""

    def call(
        self,
        method: str,
        data: bytes | Mapping[str, bytes],
        names: tuple[str, ...],
        timeout: float,
    ) -> Iterator[tuple[str, bytes | memoryview | Exception]]:
        """Call every named site at once; yield answers as they come.

        Where each site gets bytes of its own, the engine has a call for each under way.
        """
        proxies = {proxy.name: proxy for proxy in collab.clients if proxy.name in names}
        for name in names:
            if name not in proxies:
                yield name, SiteFailure("is not connected")
        if not proxies:
            return
        context, option = get_call_context(), CallOption(blocking=False, timeout=timeout)
        if isinstance(data, Mapping):
            pending = [
                group(context, [proxy], option).call(method, carry(data[name]))
                for name, proxy in proxies.items()
            ]
        else:
            pending = [group(context, list(proxies.values()), option).call(method, carry(data))]
        for results in pending:
            for name, value in results:
                found = carried(value)
                wrong = SiteFailure("sent something that is no message")
                yield name, wrong if found is None else found
            for name, error in results.failures.items():
                yield name, SiteFailure(f"no answer ({type(error).__name__})")


def write_job(folder: Path, name: str, sites: tuple[str, ...]) -> Path:
    """Write a job that names the two objects and holds no code; return its folder."""
    app = folder / name / "app" / "config"
    app.mkdir(parents=True, exist_ok=True)
    controller, executor, coordinator, site = CLASSES
    server = {
        "format_version": 2,
        "workflows": [
            {
                "id": "controller",
                "path": controller,
                "args": {"server_obj_id": "_server", "collab_obj_ids": [], "props": {}},
            }
        ],
        "components": [{"id": "_server", "path": coordinator, "args": {}}],
    }
    client = {
        "format_version": 2,
        "executors": [
            {
                "tasks": ["*"],
                "executor": {
                    "path": executor,
                    "args": {"client_obj_id": "_client", "collab_obj_ids": [], "props": {}},
                },
            }
        ],
        "components": [{"id": "_client", "path": site, "args": {}}],
    }
    for content, kind in ((server, "server"), (client, "client")):
        content |= {"task_data_filters": [], "task_result_filters": []}
        (app / f"config_fed_{kind}.json").write_text(json.dumps(content, indent=1))
    meta = {
        "name": name,
        "resource_spec": {},
        "min_clients": 1,
        "deploy_map": {"app": ["@ALL"]},
        "mandatory_clients": list(sites),
    }
    (folder / name / "meta.json").write_text(json.dumps(meta, indent=1))
    return folder / name
