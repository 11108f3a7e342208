"""Frames: whole or refused, and memory in proportion to what arrived."""

import socket
import struct
import threading
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.federation import service
from tacit.federation.engine import frames


def fed(data: bytes):
    """Return a connection that gives some bytes and then ends."""
    one, other = socket.socketpair()
    thread = threading.Thread(target=lambda: (one.sendall(data), one.close()), daemon=True)
    thread.start()
    return other


def read(data: bytes, largest: int = frames.LARGEST):
    with fed(data) as connection:
        header = frames.read_header(connection, largest)
        return header and (header[0], bytes(frames.read_body(connection, header[1])))


@given(st.integers(0, len(frames.CALLS) - 1), st.binary(max_size=3000))
def test_what_is_sent_arrives(call, body):
    one, other = socket.socketpair()
    with one, other:
        frames.send(one, call, body)
        header = frames.read_header(other)
        assert header == (call, len(body))
        assert bytes(frames.read_body(other, header[1])) == body


def test_a_body_longer_than_any_buffer_arrives():
    body = bytes(range(256)) * 20_000
    one, other = socket.socketpair()
    with one, other:
        sender = threading.Thread(target=frames.send, args=(one, 1, body))
        sender.start()
        _, length = frames.read_header(other)
        assert bytes(frames.read_body(other, length)) == body
        sender.join()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_are_refused(data):
    try:
        found = read(data, largest=64)
    except frames.FrameRefused:
        return
    if found is None:
        assert data == b""
    else:
        call, body = found
        assert data.startswith(struct.pack(">BQ", call, len(body)) + body)
        assert call < len(frames.CALLS) and len(body) <= 64


@pytest.mark.parametrize(
    "data",
    [b"\0", struct.pack(">BQ", 4, 0), struct.pack(">BQ", 0, 65), struct.pack(">BQ", 0, 1 << 63),
     struct.pack(">BQ", 0, 10) + b"short"],
    ids=["half a header", "no such call", "too long", "absurdly long", "half a body"],
)  # fmt: skip
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(frames.FrameRefused):
        read(data, largest=64)


def test_announced_bytes_cost_no_memory_before_they_arrive():
    tracemalloc.start()
    try:
        with pytest.raises(frames.FrameRefused):
            read(struct.pack(">BQ", 0, frames.LARGEST) + b"x" * 1000)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_an_answer_to_something_else_is_refused():
    one, other = socket.socketpair()
    with one, other:
        one.sendall(struct.pack(">BQ", 2, 0))
        with pytest.raises(frames.FrameRefused):
            frames.ask(other, 1, b"")


def test_the_service_answers_exactly_these_calls():
    assert service.CALLS == frames.CALLS
    assert all(hasattr(service.SiteService, f"_{call}") for call in frames.CALLS)
