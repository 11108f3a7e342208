"""The door: one request at a time, bounded, for one user, whatever the other side sends."""

import contextlib
import os
import socket
import struct
import subprocess
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tacit.federation.engine import frames, linux
from tacit.federation.engine.door import Door
from tacit.federation.engine.greet import greet

from .support import NOBODY, python_of_nobody


@pytest.fixture
def opened():
    """Give connections to a door; all of it ends with the test."""
    ends, threads = [], []

    def connect(door):
        one, other = socket.socketpair()
        one.settimeout(60)
        thread = threading.Thread(target=door.attend, args=(other,))
        thread.start()
        ends.append(one)
        threads.append(thread)
        return one

    yield connect
    for end in ends:
        end.close()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()


def closed(connection) -> bool:
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_requests_are_answered_one_after_another(opened):
    asked = []
    door = Door(lambda call, body: asked.append((call, bytes(body))) or b"re:" + bytes(body))
    connection = opened(door)
    for number, call in enumerate(frames.CALLS):
        assert bytes(frames.ask(connection, number, call.encode())) == b"re:" + call.encode()
    assert asked == [(call, call.encode()) for call in frames.CALLS]


@pytest.mark.parametrize("header", [(9, 0), (0, 101)], ids=["no such call", "too long"])
def test_a_frame_that_breaks_the_protocol_closes_the_connection_unanswered(opened, header):
    asked = []
    connection = opened(Door(lambda *what: asked.append(what) or b"", largest=100))
    connection.sendall(struct.pack(">BQ", *header))
    assert closed(connection) and asked == []


def test_a_body_longer_than_its_call_needs_is_read_past_and_answered_as_empty(opened):
    door = Door(lambda call, body: f"{call} {len(body)}".encode(), limit={"open": 3}.__getitem__)
    connection = opened(door)
    assert bytes(frames.ask(connection, 0, b"x" * 200_000)) == b"open 0"
    assert bytes(frames.ask(connection, 0, b"xyz")) == b"open 3"  # and the line is still open


def test_a_reply_beyond_the_limit_does_not_leave(opened):
    connection = opened(Door(lambda call, body: b"x" * 101, largest=100))
    connection.sendall(struct.pack(">BQ", 0, 0))
    assert closed(connection)


def test_a_peer_that_stalls_within_a_frame_is_cut_off(opened):
    asked = []
    door = Door(lambda *what: asked.append(what) or b"", patience=0.01)
    stalled = opened(door)
    stalled.sendall(struct.pack(">BQ", 0, 10) + b"half")
    assert closed(stalled) and asked == []
    assert bytes(frames.ask(opened(door), 0, b"")) == b""  # and holds up nobody


def test_bodies_of_many_connections_are_read_one_at_a_time(opened):
    inside, most = [], []

    def answer(call, body):
        inside.append(1)
        most.append(len(inside))
        inside.pop()
        return bytes(body)

    door = Door(answer)
    connections = [opened(door) for _ in range(6)]
    for connection in connections:
        frames.send(connection, 2, b"x" * 1000)
    for connection in connections:
        call, length = frames.read_header(connection)
        assert call == 2 and bytes(frames.read_body(connection, length)) == b"x" * 1000
    assert max(most) == 1


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=40), max_size=4))
def test_any_bytes_end_in_answers_or_a_closed_connection(pieces):
    door = Door(lambda call, body: bytes(body), largest=16)
    one, other = socket.socketpair()
    with one:
        for piece in pieces:
            one.sendall(piece)
        one.shutdown(socket.SHUT_WR)
        door.attend(other)
        assert other.fileno() == -1
        received = b""
        with contextlib.suppress(ConnectionResetError):  # where it left something unread
            while piece := one.recv(4096):
                received += piece
    assert b"".join(pieces).startswith(received)  # an echo of whole frames, and nothing else


@pytest.fixture
def listening(tmp_path_factory):
    """Give sockets at which a door listens for one user."""
    opened = []

    def listen(door, user, folder):
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(folder / "s"))
        os.chmod(folder / "s", 0o666)
        listener.listen()
        inside, doorman = socket.socketpair()
        greeting = threading.Thread(target=greet, args=(listener, user, doorman))
        welcoming = threading.Thread(target=door.welcome, args=(inside,))
        greeting.start()
        welcoming.start()
        opened.append((listener, doorman, greeting, welcoming))
        return str(folder / "s")

    yield listen
    for listener, doorman, greeting, welcoming in opened:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        greeting.join(60)
        doorman.close()
        welcoming.join(60)
        assert not greeting.is_alive() and not welcoming.is_alive()


def connected(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(path)
    return connection


@pytest.fixture
def short_folder():
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_another_user_is_sent_away_without_an_answer(listening, short_folder):
    path = listening(Door(lambda call, body: b"secret"), os.getuid() + 1, short_folder)
    with connected(path) as connection:
        assert closed(connection)


def test_without_the_check_of_the_user_the_same_connection_is_answered(
    listening, short_folder, monkeypatch
):
    stranger = os.getuid() + 1
    monkeypatch.setattr("tacit.federation.engine.greet.peer_user", lambda connection: stranger)
    path = listening(Door(lambda call, body: b"secret"), stranger, short_folder)
    with connected(path) as connection:
        assert bytes(frames.ask(connection, 0, b"")) == b"secret"


@pytest.mark.skipif(python_of_nobody() is None, reason="needs root and a Python for others")
def test_the_kernel_tells_who_connects(listening, short_folder):
    path = listening(Door(lambda call, body: b"for nobody"), NOBODY, short_folder)
    code = (
        "import socket,sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]);"
        "s.sendall(bytes(9)); sys.stdout.buffer.write(s.recv(99))"
    )
    done = subprocess.run(
        [python_of_nobody(), "-c", code, path], user=NOBODY, group=NOBODY, extra_groups=[],
        capture_output=True, check=True, cwd="/",
    )  # fmt: skip
    assert done.stdout == struct.pack(">BQ", 0, 10) + b"for nobody"
    with connected(path) as connection:
        assert linux.peer_user(connection) == os.getuid()
        assert closed(connection)


def test_more_connections_than_allowed_are_closed_at_once(listening, short_folder):
    path = listening(Door(lambda call, body: b"", connections=2), os.getuid(), short_folder)
    with connected(path) as one, connected(path) as two:
        assert bytes(frames.ask(one, 0, b"")) == bytes(frames.ask(two, 0, b"")) == b""
        with connected(path) as three:
            assert closed(three)
