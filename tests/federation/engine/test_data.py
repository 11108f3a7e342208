"""The data process: no network, no new privileges, no engine, and one door."""

import json
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile

import pytest

from ..support import site_file
from .support import NOBODY, ROOT, SOURCE, python_of_nobody

USERS = [pytest.param(None, id="this user"), pytest.param(NOBODY, id="nobody")]

REACH = """
import ctypes, json, os, socket, sys
from tacit.errors import TacitError
from tacit.federation.engine import data, linux
from tacit.federation.engine.wall import Wall
asked = json.loads(sys.argv[1])
def refuse(*arguments):
    raise OSError(1, "not permitted here")
for name in asked["without"]:
    setattr(linux, name, lambda *arguments: None)
for name in asked["refused"]:
    setattr(linux, name, refuse)
got = {}
try:
    data.wall_in(Wall(asked["engine"], allow=tuple(asked["allow"])), os.getppid())
except TacitError as error:
    got["refused"] = str(error)
def attempt(name, action):
    try:
        action()
        got[name] = True
    except OSError:
        got[name] = False
def send(family, kind, address, words=None):
    with socket.socket(family, kind) as one:
        one.settimeout(20)
        one.connect(address)
        if words:
            one.send(words)
attempt("tcp", lambda: send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", asked["tcp"])))
attempt("udp", lambda: send(socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", asked["udp"]), b"x"))
attempt("outside", lambda: send(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53), b"x"))
attempt("outside 6", lambda: send(socket.AF_INET6, socket.SOCK_DGRAM, ("2001:db8::1", 53), b"x"))
attempt("abstract", lambda: send(socket.AF_UNIX, socket.SOCK_STREAM, asked["abstract"]))
attempt("path", lambda: send(socket.AF_UNIX, socket.SOCK_STREAM, asked["path"]))
def back():
    with open(f"/proc/{asked['outside']}/ns/net") as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), 0):
            raise OSError("no")
    send(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", asked["tcp"]))
attempt("back", back)
with open("/proc/self/status") as status:
    found = dict(line.partition(":")[::2] for line in status)
got["new privileges"] = found["NoNewPrivs"].strip() == "0"
got["capabilities"] = int(found["CapEff"], 16)
print(json.dumps(got))
"""


@pytest.fixture
def reach():
    """Give a function that walls a process in and says what it still reaches."""
    with (
        tempfile.TemporaryDirectory(prefix="tacit-") as folder,
        socket.socket() as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
        socket.socket(socket.AF_UNIX) as abstract,
        socket.socket(socket.AF_UNIX) as path,
    ):
        os.chmod(folder, 0o755)
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        abstract.bind(f"\0tacit-{os.getpid()}")
        path.bind(f"{folder}/s")
        os.chmod(f"{folder}/s", 0o777)
        for one in (tcp, abstract, path):
            one.listen()

        def run(engine="isolated", allow=(), without=(), refused=(), user=None):
            python = sys.executable if user is None else python_of_nobody()
            if python is None:
                pytest.skip("needs root, and a Python that other users may run")
            asked = {
                "engine": engine, "allow": allow, "without": without, "refused": refused,
                "tcp": tcp.getsockname()[1], "udp": udp.getsockname()[1], "outside": os.getpid(),
                "abstract": f"\0tacit-{os.getpid()}", "path": f"{folder}/s",
            }  # fmt: skip
            who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
            found = [str(SOURCE), sysconfig.get_path("purelib")]
            done = subprocess.run(
                [python, "-c", REACH, json.dumps(asked)], capture_output=True, text=True,
                check=False, cwd="/", env={**os.environ, "PYTHONPATH": os.pathsep.join(found)},
                **who,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        yield run


def can_leave(found) -> None:
    if "refused" in found:
        pytest.skip(f"there are no empty networks on this machine: {found['refused']}")


@pytest.mark.parametrize("user", USERS)
def test_the_data_process_reaches_nothing_by_network(reach, user):
    found = reach(user=user)
    can_leave(found)
    for name in ("tcp", "udp", "outside", "outside 6", "abstract", "back"):
        assert found[name] is False, name
    assert found["path"] is True  # a database behind a Unix socket needs no entry
    assert found["new privileges"] is False
    files = 0b1111 if ROOT and user is None else 0
    assert found["capabilities"] & ~files == 0


@pytest.mark.parametrize("user", USERS)
def test_with_an_entry_in_its_file_it_reaches_what_the_machine_reaches(reach, user):
    found = reach(allow=["db.ward:5432"], user=user)
    assert found["tcp"] and found["udp"] and found["abstract"] and found["path"]
    assert found["new privileges"] is False


def test_the_same_attempts_succeed_where_the_network_was_not_left(reach):
    found = reach(without=["leave_network"])
    assert found["tcp"] and found["udp"] and found["abstract"]


@pytest.mark.skipif(not ROOT, reason="only root could go back to a network that it left")
def test_root_that_kept_its_capabilities_finds_the_way_back(reach):
    found = reach(without=["drop_capabilities"])
    can_leave(found)
    assert found["tcp"] is False and found["back"] is True


def test_where_the_network_cannot_be_left_it_refuses_unless_the_engine_is_trusted(reach):
    found = reach(refused=["leave_network"])
    assert "PrivateNetwork=yes" in found["refused"] and 'engine = "trusted"' in found["refused"]
    assert "refused" not in reach(engine="trusted", refused=["leave_network"])


def modules_of(code: str, *arguments: object) -> set[str]:
    """Return the modules that a process of its own has loaded in the end."""
    done = subprocess.run(
        [sys.executable, "-c", code + "\nimport sys; print(*sys.modules)", *map(str, arguments)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return set(done.stdout.split())


def test_the_data_process_never_loads_the_engine(tmp_path):
    code = """
import os, socket, sys
from pathlib import Path
from tacit.federation.engine import data
data.wall_in = lambda wall, parent: None
told, telling = os.pipe()
one, other = socket.socketpair()
one.sendall(bytes(9))
one.shutdown(socket.SHUT_WR)
data.main(Path(sys.argv[1]), telling, other.detach(), os.getppid())
assert len(one.recv(100)) > 9
"""
    loaded = modules_of(code, site_file(tmp_path, "North"))
    assert "tacit.federation.service" in loaded
    assert not {name for name in loaded if name.split(".")[0] == "nvflare"}


def test_the_engine_never_loads_what_reads_the_sites_files():
    loaded = modules_of("import tacit.federation.engine.client, tacit.federation.engine.tree")
    assert "nvflare.collab" in loaded
    ours = {name for name in loaded if name.startswith("tacit.")}
    assert ours <= {
        "tacit._core", "tacit._core.lazy", "tacit._version", "tacit.errors",
        "tacit.federation", "tacit.federation.engine",
        *(f"tacit.federation.engine.{n}" for n in ("client", "frames", "kit", "linux", "relay",
                                                   "tree")),
    }  # fmt: skip
