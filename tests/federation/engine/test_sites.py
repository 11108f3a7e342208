"""The processes of a site and of a coordinator: none outlives whoever started them."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tacit.errors import TacitError
from tacit.federation.engine import isolation
from tacit.federation.engine.processes import run_coordinator
from tacit.federation.engine.sites import running_site
from tacit.federation.files import SiteConfig
from tacit.federation.provision import init_federation

from .support import SOURCE, need, processes_of, until, way_named

# The command line, with the way to isolate that every machine of ours has.
COMMAND = """
import sys
from tacit.federation.engine import isolation
isolation.WAYS = tuple(way for way in isolation.WAYS if way.name == "namespaces")
from tacit.cli import main
main()
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]
    folder = tmp_path_factory.mktemp("wall") / "ours"
    init_federation(folder, ["North"], port=port)
    (folder / "coordinator" / "coordinator.toml").write_text(
        'sites = ["North"]\n[[computation]]\ncomputation = "regression"\n'
    )
    return folder


def site(place: Path, *lines: str) -> Path:
    file = place / "sites" / "North" / "site.toml"
    text = re.sub(r"(?m)^(engine|socket) = .*\n", "", file.read_text())
    file.write_text("\n".join([*lines, text]))
    if not (file.parent / "ledger.db").exists():
        SiteConfig.read(file).create_ledger()
    return file


def family(process: subprocess.Popen, engine: str) -> list[psutil.Process]:
    """Return a tree of processes once the engine is one of them."""
    root = psutil.Process(process.pid)

    def found():
        here = [root, *root.children(recursive=True)]
        told = []
        for one in here:
            try:
                told += one.cmdline()
            except psutil.Error:
                continue
        return here if any(engine in word for word in told) else None

    return until(found)


def started(*words: object) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *map(str, words)], stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )  # fmt: skip


def ready(process: subprocess.Popen) -> str:
    said = []
    for line in process.stderr:
        said.append(line)
        if "Ctrl-C" in line:
            return "".join(said)
    raise AssertionError("".join(said))


SLOW = pytest.mark.slow
KILLS = [
    pytest.param(None, "tacit", signal.SIGKILL, id="a killed command"),
    pytest.param(None, "tacit", signal.SIGTERM, id="a terminated command", marks=SLOW),
    pytest.param(None, "tacit", signal.SIGINT, id="an interrupted command", marks=SLOW),
    pytest.param(None, "data", signal.SIGKILL, id="a killed data process", marks=SLOW),
    pytest.param(None, "tree", signal.SIGKILL, id="a killed engine", marks=SLOW),
    pytest.param("trusted", "tacit", signal.SIGKILL, id="a killed command, trusted", marks=SLOW),
    pytest.param("trusted", "tree", signal.SIGTERM, id="an ended tree", marks=SLOW),
]


@pytest.mark.parametrize(("engine", "target", "number"), KILLS)
def test_no_process_of_a_site_outlives_the_others(place, engine, target, number):
    if engine is None:
        need(way_named("namespaces"))
    file = site(place, *([] if engine is None else [f'engine = "{engine}"']))
    with started("site", file) as process:
        said = ready(process)
        assert ("THE ENGINE IS TRUSTED" if engine else "namespaces") in said
        members = family(process, "client_train")
        named = {word: one for one in members for word in one.cmdline()}
        modules = {word.rpartition("engine.")[2]: one for word, one in named.items()}
        assert {"data", "tree"} <= set(modules)
        hit = members[0] if target == "tacit" else modules[target]
        hit.send_signal(number)
        _, left = psutil.wait_procs(members, timeout=60)
        assert left == []
    assert not processes_of(place)


@pytest.mark.parametrize(
    ("target", "number"),
    [
        pytest.param("tacit", signal.SIGKILL, id="killed"),
        pytest.param("tacit", signal.SIGTERM, id="ended", marks=SLOW),
        pytest.param("tree", signal.SIGKILL, id="its tree killed", marks=SLOW),
    ],
)
def test_no_process_of_a_coordinator_outlives_its_command(place, target, number):
    with started("coordinate", place / "coordinator" / "coordinator.toml") as process:
        members = family(process, "server_train")
        modules = {word.rpartition("engine.")[2]: one for one in members for word in one.cmdline()}
        (members[0] if target == "tacit" else modules["tree"]).send_signal(number)
        _, left = psutil.wait_procs(members, timeout=60)
        assert left == []
    assert not processes_of(place)


def test_a_foreign_server_on_the_port_is_noticed_before_anything_starts(place):
    server = (place / "coordinator/server/startup/fed_server.json").read_text()
    port = int(re.search(r'"target": "localhost:(\d+)"', server).group(1))
    with socket.socket() as foreign:
        foreign.bind(("127.0.0.1", port))
        foreign.listen()
        with pytest.raises(TacitError, match=f"port {port} "):
            run_coordinator(place / "coordinator" / "coordinator.toml", wait=1.0)
    assert not processes_of(place)


def test_where_nothing_can_isolate_a_site_refuses_and_says_what_to_do(place, monkeypatch):
    def no_wall(plan, keep):
        return []

    monkeypatch.setattr(isolation, "WAYS", (isolation.Isolation("paper", no_wall),))
    with (
        pytest.raises(TacitError, match="paper: exit status 1") as told,
        running_site(site(place)),
    ):
        pass
    for word in ("bubblewrap", "user namespaces", "user:NAME", "compose", 'engine = "trusted"'):
        assert word in str(told.value)
    assert not processes_of(place)


def test_a_site_whose_data_process_refuses_says_why(place):
    need(way_named("namespaces"))
    file = site(place, 'engine = "user:54321"', 'socket = "none/site.sock"')
    with pytest.raises(TacitError, match="must exist"), running_site(file):
        pass
    assert not processes_of(place)


def test_another_user_who_can_read_the_data_is_refused(place, monkeypatch):
    file = site(place, 'engine = "user:54321"', 'socket = "none/site.sock"')
    monkeypatch.setattr("tacit.federation.engine.sites.may_read", lambda user, path: True)
    with pytest.raises(TacitError, match="can read"), running_site(file):
        pass
