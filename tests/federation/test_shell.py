"""A rogue server asks a live engine for files: it runs the commands, and finds nothing to read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tacit.federation.engine import isolation
from tacit.federation.engine.kit import prepare, server_command
from tacit.federation.engine.processes import end
from tacit.federation.engine.sites import running_site
from tacit.federation.provision import init_federation

from .engine.support import need, processes_of, until, way_named
from .support import site_file
from .test_processes import free_port

pytestmark = pytest.mark.slow
SECRET = "Zq7-planted-secret"


def replies_to_a_rogue_server(folder: Path, extra: str = "") -> dict[str, str]:
    """Run one site against a server that was taken over; return what it was told."""
    place = init_federation(folder / f"ours-{SECRET}", ["North"], port=free_port())
    home = place / "sites" / "North"
    file = site_file(home, "North", extra=extra)
    (home / "patients.csv").write_text(f"age,dose,pressure\n1,2,{SECRET}\n")
    (home / "state").mkdir()
    (home / "state" / "outbox").write_text(SECRET)
    commands = [
        *(f"cat {home / name}" for name in ("patients.csv", "site.toml", "state/outbox")),
        f"head {home / 'identity.key'}", f"ls {home}", "ls /", "pwd", "cat /proc/self/mountinfo",
        "ls /proc",
    ]  # fmt: skip
    told = folder / "told.json"
    kit = place / "coordinator" / "server"
    prepare(kit)
    words = json.dumps({"site": "North", "commands": commands, "replies": str(told)})
    script = str(Path(__file__).with_name("rogue_server.py"))
    command = [sys.executable, "-u", script, words, *server_command(kit)[4:]]
    with open(folder / "server.log", "wb") as log:
        server = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=kit,
            start_new_session=True,
        )  # fmt: skip
    try:
        with running_site(file):
            until(lambda: told.exists() or server.poll() is not None, 180)
    finally:
        end(server)
    assert not processes_of(folder)
    key = (home / "identity.key").read_text().strip()
    return {command: reply.replace(key, SECRET) for command, reply in
            json.loads(told.read_text()).items()}  # fmt: skip


@pytest.mark.parametrize("name", ["namespaces", "bubblewrap"])
def test_a_rogue_server_reads_nothing_of_a_site(tmp_path, monkeypatch, name):
    way = way_named(name)
    need(way)
    monkeypatch.setattr(isolation, "WAYS", (way,))
    replies = replies_to_a_rogue_server(tmp_path)
    assert len(replies) == 9  # each was taken and answered
    assert SECRET not in json.dumps(list(replies.values()))


def test_it_reads_everything_where_the_engine_is_trusted(tmp_path):
    replies = replies_to_a_rogue_server(tmp_path, 'engine = "trusted"')
    assert sum(SECRET in reply for reply in replies.values()) >= 4
    assert any("patients.csv" in reply for reply in replies.values())
