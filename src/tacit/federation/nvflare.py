"""The transport: NVFLARE's Collab API carries bytes between the coordinator and its sites.

The two objects below are installed with tacit at both ends and named in each site's class allow
list; a job names them and holds no code. They find their files through the environment, which
`tacit coordinate` and `tacit site` set: nothing about data or policy is in a job.
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
from tacit.federation.config import CoordinatorConfig, SiteConfig
from tacit.federation.coordinate import coordinate
from tacit.federation.site import SiteService

__all__ = ["CLASSES", "COORDINATOR", "SITE", "CollabCoordinator", "CollabSite", "write_job"]

SITE, COORDINATOR = "TACIT_SITE", "TACIT_COORDINATOR"  # where the files are
CLASSES = (
    "nvflare.collab.runtime.controller.CollabController",
    "nvflare.collab.runtime.executor.CollabExecutor",
    "tacit.federation.nvflare.CollabCoordinator",
    "tacit.federation.nvflare.CollabSite",
)


class CollabSite:
    """The object that a site publishes: hands bytes to its `SiteService`."""

    def __init__(self) -> None:
        self._service: SiteService | None = None

    @collab.publish  # type: ignore[untyped-decorator]
    def call(self, method: str, data: bytes) -> bytes:
        """Answer one call."""
        if self._service is None:
            self._service = SiteService(SiteConfig.read(os.environ[SITE]))
        return self._service.call(method, data)


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
        self, method: str, data: Mapping[str, bytes], timeout: float
    ) -> Iterator[tuple[str, bytes | Exception]]:
        """Call every named site at once; yield answers as they come."""
        proxies = {proxy.name: proxy for proxy in collab.clients}
        for name in data:
            if name not in proxies:
                yield name, SiteFailure("is not connected")
        waiting = {}
        for name, body in data.items():  # each site gets bytes of its own: one call each
            if name in proxies:
                option = CallOption(blocking=False, timeout=timeout)
                one = group(get_call_context(), [proxies[name]], option)
                waiting[name] = one.call(method, body)
        for name, results in waiting.items():
            yield name, _outcome(results, name)


def _outcome(results: object, name: str) -> bytes | Exception:
    """Return what a site gave, or why there is nothing."""
    for site, value in results:  # type: ignore[attr-defined]
        if site == name and isinstance(value, bytes):
            return value
        return SiteFailure("sent something that is no message")
    failure = results.failures.get(name)  # type: ignore[attr-defined]
    kind = "no answer" if failure is None else type(failure).__name__
    return SiteFailure(f"no answer ({kind})")


def write_job(folder: Path, name: str, sites: tuple[str, ...]) -> Path:
    """Write a job that names the two objects and holds no code; return its folder."""
    app = folder / name / "app" / "config"
    app.mkdir(parents=True, exist_ok=True)
    controller, executor, coordinator, site = CLASSES
    server = {
        "format_version": 2,
        "workflows": [{"id": "controller", "path": controller,
                       "args": {"server_obj_id": "_server", "collab_obj_ids": [], "props": {}}}],
        "components": [{"id": "_server", "path": coordinator, "args": {}}],
    }  # fmt: skip
    client = {
        "format_version": 2,
        "executors": [{"tasks": ["*"], "executor": {"path": executor, "args": {
            "client_obj_id": "_client", "collab_obj_ids": [], "props": {}}}}],
        "components": [{"id": "_client", "path": site, "args": {}}],
    }  # fmt: skip
    for content, kind in ((server, "server"), (client, "client")):
        content |= {"task_data_filters": [], "task_result_filters": []}
        (app / f"config_fed_{kind}.json").write_text(json.dumps(content, indent=1))
    meta = {
        "name": name, "resource_spec": {}, "min_clients": 1, "deploy_map": {"app": ["@ALL"]},
        "mandatory_clients": list(sites),
    }  # fmt: skip
    (folder / name / "meta.json").write_text(json.dumps(meta, indent=1))
    return folder / name
