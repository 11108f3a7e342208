"""From inside the engine's sandbox: nothing of the site, of its user, of other processes.

Each attack is also made without the sandbox, or in one that shows too much, and must succeed
there: else it would show nothing.
"""

import json
import os
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.federation.engine import isolation
from tacit.federation.engine.isolation import WAYS, find_isolation, make_plan

from .support import NOBODY, ROOT, SOURCE, python_of_nobody, works

SECRET = "Zq7-planted-secret"
PRIVATE = ("patients.csv", "ledger.db", "identity.key", "state/outbox", "site.toml")
USERS = [pytest.param(None, id="this user"), pytest.param(NOBODY, id="nobody")]
NAMES = [way.name for way in WAYS]


@pytest.fixture
def site(request):
    """Give a site of a user: private files, a kit, a process with secrets, and a socket."""
    user = request.param
    python = sys.executable if user is None else python_of_nobody()
    if python is None:
        pytest.skip("needs root, and a Python that other users may run")
    who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    with tempfile.TemporaryDirectory(prefix="tacit-") as place:
        folder = Path(place, SECRET + "-folder")
        library = library_of(folder)
        library.mkdir()
        for name in (*PRIVATE, "home/notes"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(SECRET)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{place}/s")
        listener.listen()
        if user is not None:
            for found in (Path(place), *Path(place).rglob("*")):
                os.chown(found, user, user)
        paths = [str(SOURCE), os.getcwd(), sysconfig.get_path("purelib")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PASSWORD": SECRET,
                       "HOME": str(folder / "home")}  # fmt: skip
        process = subprocess.Popen(
            [python, "-c", "print('up', flush=True); input()", SECRET], cwd=folder,
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **who,
        )  # fmt: skip
        process.stdout.readline()

        def attack(way, *show):
            targets = {
                "files": [str(folder / name) for name in PRIVATE],
                "folders": [str(folder), str(folder / "home"), place, str(Path.home())],
                "installed": [str(library)] + (["/app/tacit"] if way else []),
                "process": process.pid, "socket": f"{place}/s",
            }  # fmt: skip
            asked = {"way": way, "show": [str(library), *map(str, show)], "targets": targets}
            done = subprocess.run(
                [python, "-m", "experiments._hostile.probe", json.dumps(asked)],
                env=environment, capture_output=True, text=True, check=False, **who,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        try:
            yield folder, attack
        finally:
            process.communicate(b"\n")
            listener.close()


def library_of(folder: Path) -> Path:
    return folder.parent / "library"


def possible(way: str, user) -> None:
    """Skip where a way does not work for the user who runs the tests."""
    reason = works(next(found for found in WAYS if found.name == way))
    if reason is not None:
        pytest.skip(f"{way} does not work on this machine: {reason}")


@pytest.mark.parametrize("site", USERS, indirect=True)
@pytest.mark.parametrize("way", NAMES)
def test_an_engine_that_was_taken_over_finds_nothing(site, way):
    possible(way, site)
    folder, attack = site
    got = attack(way)
    del got["own cmdline"]  # which holds what to go for
    assert SECRET not in json.dumps(list(got.values()))
    for name in PRIVATE:
        assert got[f"read {folder / name}"] is None
    for name in (folder, folder / "home"):
        assert got[f"list {name}"] is None
    # where the library of this test was put there is a folder, with nothing else in it
    assert got[f"list {folder.parent}"] == ["library"]
    for name in ("environ", "cmdline", "maps", "root", "cwd"):
        assert got[f"process {name}"] is None
    for name in ("signal", "connect", "kernel", f"write {library_of(folder)}", "write /app/tacit"):
        assert got[name] is None, name
    assert got["processes"] == 1
    assert set(got["root"]) <= {
        "app", "dev", "etc", "kit", "lib", "lib64", "nix", "proc", "tmp", "usr",
        *(Path(p).parts[1] for p in (sys.executable, sys.prefix, sys.base_prefix, folder)),
    }  # fmt: skip
    assert "PASSWORD" not in got["environment"] and "LOGNAME" not in got["environment"]
    assert got["descriptors"] <= 4  # three, and the one that lists them
    if way != "bubblewrap without a limit on namespaces":
        assert got["namespace"] is None


@pytest.mark.parametrize("site", USERS, indirect=True)
def test_without_the_sandbox_the_same_attacks_find_everything(site):
    folder, attack = site
    got = attack(None)
    for name in PRIVATE:
        assert got[f"read {folder / name}"] == SECRET
    assert SECRET in got["process environ"] and SECRET in got["process cmdline"]
    assert "patients.csv" in got["process cwd"] and "usr" in got["process root"]
    assert got["signal"] == "signalled" and got["connect"] == "connected"
    assert got[f"write {library_of(folder)}"] == "written"
    assert got["processes"] > 1 and "PASSWORD" in got["environment"]
    assert any(SECRET in (got[name] or "") for name in got if name.startswith("everybody"))
    if ROOT and site[0].stat().st_uid == 0:
        assert got["kernel"] == "written"


@pytest.mark.parametrize("site", [USERS[0]], indirect=True)
@pytest.mark.parametrize("way", NAMES)
def test_a_sandbox_that_shows_the_sites_folder_is_read(site, way):
    possible(way, site)
    folder, attack = site
    got = attack(way, folder)
    assert all(got[f"read {folder / name}"] == SECRET for name in PRIVATE)
    assert got["signal"] is None and got["process environ"] is None


def test_a_sandbox_that_does_not_hide_does_not_count(tmp_path):
    def no_wall(plan, keep):
        return []

    way, failed = find_isolation(tmp_path, (isolation.Isolation("none", no_wall),))
    assert way is None and failed == {"none": "exit status 1"}


def test_a_program_that_is_there_but_does_not_work_is_passed_over(tmp_path, monkeypatch):
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'not permitted here' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(isolation.shutil, "which", lambda name: str(broken))
    way, failed = find_isolation(tmp_path, WAYS[:1])
    assert way is None and failed == {"bubblewrap": "not permitted here"}


def test_what_is_private_may_not_lie_where_the_engine_looks(tmp_path):
    plan = make_plan()
    plan.check([tmp_path / "ledger.db", tmp_path])
    library = Path(sysconfig.get_path("stdlib"))
    (tmp_path / "link").symlink_to(library)
    for private in (library / "data.csv", tmp_path / "link" / "data.csv"):
        with pytest.raises(TacitError, match="lies within"):
            plan.check([private])
