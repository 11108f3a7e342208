"""The relay: whole requests only, in step with the data process, and not beyond its end."""

import socket
import struct
import tempfile
import threading

import pytest

from tacit.federation.engine import frames
from tacit.federation.engine.door import Door
from tacit.federation.engine.relay import Relay


@pytest.fixture
def relayed():
    """Give where a relay listens, the far end of its connection, and whether that was lost."""
    near, far = socket.socketpair()
    lost = threading.Event()
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(f"{folder}/s")
        listener.listen()
        Relay(near, listener, lost.set).start()
        yield f"{folder}/s", far, lost
        listener.shutdown(socket.SHUT_RDWR)
        for one in (listener, near, far):
            one.close()


def connected(path):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(path)
    return connection


def attended(far, answer):
    thread = threading.Thread(target=Door(answer).attend, args=(far,), daemon=True)
    thread.start()


def test_many_jobs_share_one_connection(relayed):
    path, far, _ = relayed
    attended(far, lambda call, body: call.encode() + bytes(body))
    with connected(path) as one, connected(path) as two:
        for k in range(20):
            assert bytes(frames.ask(one, 0, b"%d" % k)) == b"open%d" % k
            assert bytes(frames.ask(two, 3, b"%d" % k)) == b"close%d" % k


@pytest.mark.parametrize("left", [b"\0\0", struct.pack(">BQ", 1, 1000) + b"half", b"\xff" * 30])
def test_a_job_that_dies_within_a_frame_leaves_nothing_behind(relayed, left):
    path, far, lost = relayed
    asked = []
    attended(far, lambda call, body: asked.append(bytes(body)) or b"answer")
    with connected(path) as dying:
        dying.sendall(left)
    with connected(path) as next_one:
        assert bytes(frames.ask(next_one, 2, b"whole")) == b"answer"
    assert asked == [b"whole"] and not lost.is_set()


def test_a_job_that_does_not_wait_for_its_answer_costs_the_next_one_nothing(relayed):
    path, far, _ = relayed
    attended(far, lambda call, body: b"to " + bytes(body))
    with connected(path) as impatient:
        frames.send(impatient, 2, b"one")
    with connected(path) as patient:
        assert bytes(frames.ask(patient, 2, b"two")) == b"to two"


def test_the_end_of_the_data_process_is_noticed(relayed):
    path, far, lost = relayed
    far.close()
    with connected(path) as connection, pytest.raises((frames.FrameRefused, OSError)):
        frames.ask(connection, 0, b"")
    assert lost.wait(60)
