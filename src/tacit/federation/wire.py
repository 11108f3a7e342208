"""What travels: named arrays, bound to their run; replies also to their site and request.

Layout: 8 bytes of magic, 32 bytes that bind, then a `tacit.rounds.messages.Message` in its own
binary form. Nothing is ever unpickled. Both ends refuse what is too long before reading it.

A request ends with its digest, by which replies and a site's outbox know it. A reply has none: on
the way TLS keeps it whole, and files have their own.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from tacit.errors import RequestRefused, SiteFailure
from tacit.federation.refusals import code_of, sentence
from tacit.rounds.messages import Message

__all__ = [
    "LARGEST",
    "answer",
    "ask",
    "read_answer",
    "read_request",
    "refusal",
    "text_array",
]

_MAGIC = b"TACITW1\n"
LARGEST = 1 << 30  # bytes of one message


def text_array(text: str) -> Any:
    """Return text as an array of bytes."""
    return np.frombuffer(text.encode(), np.uint8)


def _bound(kind: str, run: str, site: str, request: bytes | memoryview = b"") -> bytes:
    digest = hashlib.sha256()
    # a request ends with the digest of all of it, and begins with what it is bound to
    summary = bytes(request[8:40]) + bytes(request[-32:])
    for part in (kind.encode(), run.encode(), site.encode(), summary):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _unpack(data: Any, binding: bytes, largest: int, *, sealed: bool) -> Message:
    if not isinstance(data, bytes | memoryview) or len(data) > largest or data[:8] != _MAGIC:
        raise RequestRefused("a message is none of tacit's, or too long", "message")
    if data[8:40] != binding:
        raise RequestRefused(
            "a message belongs to another run, site or request: replayed or lost", "message"
        )
    try:
        message = Message.from_bytes(memoryview(data)[40:], sealed=sealed)
    except SiteFailure as error:
        raise RequestRefused(str(error), "message") from None
    for name, array in message.arrays.items():
        if not np.isfinite(array).all():
            raise RequestRefused(f"array {name!r} holds numbers that are not finite", "message")
    return message


def ask(message: Message, run: str) -> bytes:
    """Return a request, the same for every site of a run.

    >>> read_request(ask(Message(3), "run 1"), "run 1").round
    3
    """
    return message.to_bytes(_MAGIC + _bound("request", run, ""))


def read_request(data: Any, run: str, largest: int = LARGEST) -> Message:
    """Read a request at a site, or raise `SiteFailure`."""
    return _unpack(data, _bound("request", run, ""), largest, sealed=True)


def answer(reply: Message, request: bytes | memoryview, run: str, site: str) -> bytes:
    """Return a reply to a request."""
    return reply.to_bytes(_MAGIC + _bound("reply", run, site, request), sealed=False)


def refusal(error: Exception, request: bytes | memoryview, run: str, site: str) -> bytes:
    """Return that there is no reply, and why: one byte (`tacit.federation.refusals`).

    Parameters
    ----------
    error, request, run, site
        What went wrong, and where.
    """
    code = np.array([code_of(error)], np.uint8)
    return answer(Message(0, {"refused": code}), request, run, site)


def read_answer(data: Any, request: bytes, run: str, site: str, largest: int = LARGEST) -> Message:
    """Read a reply at the coordinator; a refusal raises `SiteFailure` with its reason."""
    message = _unpack(data, _bound("reply", run, site, request), largest, sealed=False)
    if set(message.arrays) == {"refused"}:
        code = message["refused"].ravel()[:1]
        raise SiteFailure(sentence(int(code[0]) if len(code) else -1))
    return message
