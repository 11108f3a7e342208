"""Frames: what may cross the one local socket between a site's data and its engine.

A frame is one byte (which of the calls), eight bytes of length, big-endian, and as many bytes. A
request is answered by one frame of the same call before the next one is read. Whatever is
malformed ends the connection; memory grows with the bytes that arrive, not with those announced.
"""

from __future__ import annotations

import socket
import struct

from tacit.errors import SiteFailure

__all__ = [
    "CALLS",
    "LARGEST",
    "FrameRefused",
    "ask",
    "read_body",
    "read_header",
    "send",
    "skip_body",
]

CALLS = ("open", "begin", "respond", "close")  # what a site can be asked, in this order
LARGEST = 1 << 30  # bytes of one message, where a site's file does not say less
_HEADER = struct.Struct(">BQ")
_PIECE = 1 << 20  # bytes that are asked for at once


class FrameRefused(SiteFailure):
    """What came is no frame: the connection is of no more use."""


def _read(connection: socket.socket, length: int) -> bytearray:
    """Read a stated number of bytes, or as many as come before the end."""
    found = bytearray()
    while len(found) < length:
        piece = connection.recv(min(length - len(found), _PIECE))
        if not piece:
            break
        found += piece
    return found


def read_header(
    connection: socket.socket, largest: int = LARGEST, calls: int = len(CALLS)
) -> tuple[int, int] | None:
    """Read which call it is and how long its body; None where the other side has closed."""
    header = _read(connection, _HEADER.size)
    if not header:
        return None
    if len(header) < _HEADER.size:
        raise FrameRefused("a frame ended within its header")
    call, length = _HEADER.unpack(header)
    if call >= calls or length > largest:
        raise FrameRefused("a frame names no call, or is too long")
    return call, length


def skip_body(connection: socket.socket, length: int) -> None:
    """Read past a body without keeping it."""
    while length:
        part = connection.recv(min(length, 1 << 16))
        if not part:
            raise FrameRefused("the connection ended within a frame")
        length -= len(part)


def read_body(connection: socket.socket, length: int) -> memoryview:
    """Read the body that a header announced."""
    body = _read(connection, length)
    if len(body) < length:
        raise FrameRefused("a frame ended within its body")
    return memoryview(body).toreadonly()


def send(connection: socket.socket, call: int, body: bytes | memoryview) -> None:
    """Send one frame.

    >>> one, other = socket.socketpair()
    >>> send(one, 2, b"bytes")
    >>> read_header(other), bytes(read_body(other, 5))
    ((2, 5), b'bytes')
    >>> one.close(), other.close()
    (None, None)
    """
    header = _HEADER.pack(call, len(body))
    if len(body) <= _PIECE:
        connection.sendall(header + bytes(body))
        return
    connection.sendall(header)
    connection.sendall(body)


def ask(
    connection: socket.socket, call: int, body: bytes | memoryview, largest: int = LARGEST
) -> memoryview:
    """Send a request and return the answer to it."""
    send(connection, call, body)
    header = read_header(connection, largest)
    if header is None or header[0] != call:
        raise FrameRefused("the other side closed, or answered something else")
    return read_body(connection, header[1])
