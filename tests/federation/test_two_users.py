"""Two real Unix users: one holds the data, the other has the network, and a socket is between."""

import json
import os
import shutil
import signal
import subprocess
import sysconfig
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

import tacit as tc
from tacit.errors import SiteFailure
from tacit.federation.engine.processes import run_coordinator
from tacit.federation.engine.sites import running_site
from tacit.federation.provision import init_federation
from tacit.rounds.messages import Message

from .engine.support import NOBODY, SOURCE, need, processes_of, python_of_nobody, way_named
from .support import INFERENCE, REGRESSION, ROW, patients, site_file, toml
from .test_processes import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(python_of_nobody() is None, reason="needs root and a Python for others"),
]
HOLDER, STRANGER, DOOR = 54301, 54302, 54303  # users and a group that nobody else is in


def as_user(user: int, *groups: int) -> dict:
    paths = [str(SOURCE), sysconfig.get_path("purelib")]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(paths)}
    return {"user": user, "group": user, "extra_groups": list(groups), "cwd": "/",
            "env": environment, "stdin": subprocess.DEVNULL}  # fmt: skip


def owned(place: Path, user: int) -> None:
    for path in (place, *place.rglob("*")):
        os.chown(path, user, user)


def started(words: list[str], user: int) -> subprocess.Popen:
    command = [python_of_nobody(), "-m", "tacit", *words]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        **as_user(user, DOOR),
    )  # fmt: skip


def attempt(code: str, user: int, *groups: int) -> bool:
    done = subprocess.run(
        [python_of_nobody(), "-c", code], check=False, capture_output=True,
        **as_user(user, *groups),
    )  # fmt: skip
    return done.returncode == 0


def test_a_site_of_two_users_takes_part_and_shows_the_engine_nothing():
    need(way_named("namespaces"))
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder, ExitStack() as stack:
        os.chmod(folder, 0o755)
        place = init_federation(Path(folder, "ours"), ["North", "South"], port=free_port())
        for path in (place, place / "sites"):
            path.chmod(0o755)
        home, kit, door = place / "sites" / "North", Path(folder, "kit"), Path(folder, "door")
        shutil.move(home / "kit", kit)
        owned(kit, NOBODY)
        door.mkdir()
        os.chown(door, HOLDER, DOOR)
        door.chmod(0o750)
        wall = f'engine = "user:{NOBODY}"\nsocket = "{door}/s"\nkit = "{kit}"'
        north = site_file(home, "North", extra=wall)
        owned(home, HOLDER)
        south = site_file(place / "sites" / "South", "South")
        step = {"name": "joint", "computation": "regression", "privacy": ROW, "seed": 7,
                "settings": REGRESSION | INFERENCE}  # fmt: skip
        (place / "coordinator" / "coordinator.toml").write_text(
            f"sites = {toml(['North', 'South'])}\nretries = 0\ncomputation = {toml([step])}\n"
        )
        data = stack.enter_context(started(["site", str(north)], HOLDER))
        stack.callback(data.send_signal, signal.SIGTERM)
        said = ""
        for line in data.stderr:
            said += line
            if "Ctrl-C" in line:
                break
        assert f"tacit engine {kit} --socket {door}/s" in said, said
        engine = stack.enter_context(
            started(["engine", str(kit), "--socket", f"{door}/s"], NOBODY)
        )
        stack.callback(engine.send_signal, signal.SIGTERM)
        stack.enter_context(running_site(south))

        # what the engine's user can do about the site: knock
        read = f"open('{home}/patients.csv').read()"
        kill = f"import os; os.kill({data.pid}, 0)"
        knock = f"import socket; s = socket.socket(1); s.connect('{door}/s'); "
        assert attempt(read, HOLDER) and not attempt(read, NOBODY, DOOR)
        assert attempt(kill, HOLDER) and not attempt(kill, NOBODY, DOOR)
        assert not attempt(f"open('/proc/{data.pid}/environ').read()", NOBODY, DOOR)
        answered = knock + "s.sendall(bytes(9)); assert len(s.recv(100)) > 9"
        assert attempt(answered, NOBODY, DOOR)
        assert attempt(knock, STRANGER, DOOR) and not attempt(answered, STRANGER, DOOR)
        assert not attempt(knock, NOBODY) and not attempt(knock, STRANGER)

        try:
            run_coordinator(place / "coordinator" / "coordinator.toml", wait=120)
        except SiteFailure as error:
            logs = [path.read_text() for path in (home / "state").glob("*.log")]
            raise AssertionError("\n".join(logs)) from error
        result = place / "coordinator" / "result" / "joint"
        assert json.loads((result / "record.json").read_text())["failures"] == []
        found = Message.from_bytes((result / "outcome.tacit").read_bytes())["coef"]
        model = tc.PrivateLinearRegression(
            bounds={n: tuple(p) for n, p in REGRESSION["bounds"].items()}, target="pressure",
            y_bounds=tuple(REGRESSION["y_bounds"]), random_state=7, privacy=tc.Privacy(**ROW),
            **INFERENCE,
        )  # fmt: skip
        model.fit([tc.Site(name, patients(name)) for name in ("North", "South")])
        assert np.array_equal(found, model.coef_)
        stack.close()
        assert not processes_of(Path(folder))
