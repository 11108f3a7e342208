"""Tables from files and databases, a real PostgreSQL server among them."""

import glob
import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tacit.data.relations import Relation
from tacit.data.tables import read_source
from tacit.errors import ParameterError

ROWS = [("a", 1, 2.5), ("b", 2, -1.0)]


def check(table):
    assert list(np.asarray(table["name"])) == ["a", "b"]
    assert np.array_equal(np.asarray(table["x"], float), [2.5, -1.0])
    relation = Relation.from_frame(table, {"who": "name", "what": "n"}, "x")
    assert relation.values.tolist() == [2.5, -1.0]


def test_csv_and_parquet_give_the_same_table(tmp_path):
    (tmp_path / "t.csv").write_text("name,n,x\na,1,2.5\nb,2,-1.0\n")
    check(read_source({"file": "t.csv"}, tmp_path))
    frame = pytest.importorskip("pandas").DataFrame(dict(read_source({"file": "t.csv"}, tmp_path)))
    frame.to_parquet(tmp_path / "t.parquet")
    check(read_source({"file": "t.parquet"}, tmp_path))


def test_sqlite_is_asked_a_query(tmp_path):
    connection = sqlite3.connect(tmp_path / "t.db")
    connection.execute("create table t (name text, n integer, x real)")
    connection.executemany("insert into t values (?, ?, ?)", ROWS)
    connection.commit()
    connection.close()
    url = f"sqlite:///{tmp_path}/t.db"
    check(read_source({"url": url, "query": "select name, n, x from t order by n"}))


def test_errors_do_not_repeat_the_password(tmp_path):
    source = {"url": f"sqlite:///{tmp_path}/hunter2/none.db", "query": "select 1"}
    with pytest.raises(ParameterError) as caught:
        read_source(source)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "source", [{}, {"file": "none.csv"}, {"url": "sqlite://"}, {"file": "t.txt"}]
)
def test_a_source_that_cannot_be_read_is_refused(tmp_path, source):
    (tmp_path / "t.txt").write_text("")
    with pytest.raises(ParameterError):
        read_source(source, tmp_path)


def programs() -> Path | None:
    """Return where PostgreSQL's server programs are."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"))
    path = found[-1] if found else shutil.which("initdb")
    return None if path is None else Path(path).parent


def unprivileged() -> dict:
    """Return options that run a process as somebody the server accepts: it refuses root."""
    if os.getuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": found.pw_uid, "group": found.pw_gid, "extra_groups": []}
    return {}


@pytest.fixture
def postgresql():
    """Start a server of the distribution's package on loopback; yield its url."""
    where = programs()
    if where is None:
        pytest.skip("PostgreSQL's server is not installed: apt-get install postgresql")
    options = unprivileged()
    if os.getuid() == 0 and not options:
        pytest.skip("PostgreSQL does not run as root, and there is no other user")
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="tacit-pg-") as place:
        if options:
            os.chown(place, options["user"], options["group"])
        data = f"{place}/data"
        more = {"check": True, "capture_output": True, "cwd": place, **options}
        subprocess.run(
            [where / "initdb", "-D", data, "-U", "tacit", "-A", "trust", "--no-sync"], **more
        )
        settings = f"-p {port} -k {place} -c listen_addresses=localhost -c fsync=off"
        control = [where / "pg_ctl", "-D", data, "-l", f"{place}/log", "-w"]
        subprocess.run([*control, "-o", settings, "start"], **more)
        try:
            yield f"postgresql+psycopg://tacit:$PG_TEST_PASSWORD@localhost:{port}/postgres"
        finally:
            subprocess.run([*control, "-m", "immediate", "stop"], **more)


def test_a_real_postgresql_server_is_asked_a_query(postgresql, monkeypatch):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    monkeypatch.setenv("PG_TEST_PASSWORD", "secret")
    engine = sqlalchemy.create_engine(os.path.expandvars(postgresql))
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text("create table t (name text, n integer, x double precision)")
        )
        for name, n, x in ROWS:
            connection.execute(
                sqlalchemy.text("insert into t values (:name, :n, :x)"),
                {"name": name, "n": n, "x": x},
            )
    engine.dispose()
    check(read_source({"url": postgresql, "query": "select name, n, x from t order by n"}))
    with pytest.raises(ParameterError) as caught:
        read_source({"url": postgresql, "query": "select nothing from nowhere"})
    assert "secret" not in str(caught.value)
