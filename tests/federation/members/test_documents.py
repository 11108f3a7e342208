"""Files from others: whatever they hold, they are taken whole or refused by tacit's own errors."""

import copy
import json

import pytest

from tacit.errors import ParameterError, TacitError
from tacit.federation import folders
from tacit.federation.members.documents import (
    Approval,
    Invitation,
    Request,
    check_host,
    check_name,
)
from tacit.federation.members.identity import fingerprint, read_identity, same_fingerprint, signed

from .support import approval, home, request_of, roster

NASTY = [
    None, True, -1, 0, 1.5, 10**40, "", "\ud800", "é" * 70, "00" * 32, "../x", [], [[]], [None],
    {}, {"a": {}}, [{"name": 1}], "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "-----BEGIN CERTIFICATE REQUEST-----\nMAA=\n-----END CERTIFICATE REQUEST-----\n",
]  # fmt: skip


def mutations(data):
    """Yield a document with each entry, at any depth, replaced by each nasty value or left out."""

    def places(value, path=()):
        yield path
        if isinstance(value, dict):
            for key in value:
                yield from places(value[key], (*path, key))
        elif isinstance(value, list):
            for k in range(len(value)):
                yield from places(value[k], (*path, k))

    for path in [p for p in places(data) if p]:
        for nasty in [*NASTY, ...]:
            changed = copy.deepcopy(data)
            inner = changed
            for step in path[:-1]:
                inner = inner[step]
            if nasty is ...:
                del inner[path[-1]]
            else:
                inner[path[-1]] = nasty
            yield changed


def signed_again(data, private):
    if "signature" not in data or "kind" not in data:
        return data
    body = {name: value for name, value in data.items() if name not in ("kind", "signature")}
    return signed(data["kind"], body, private)


@pytest.fixture(scope="module")
def readers(formed):
    """Document → its file, who signs it, and how it is read."""
    office = formed / "office/ours"
    authority = read_identity(office / "authority/identity.key")
    north = read_identity(home(formed, "North") / "identity.key")
    invitation = Invitation.read(office / "invitation.json")

    def answer(path):
        return Approval.read(path, invitation.authority)

    return {
        "invitation": (office / "invitation.json", authority, Invitation.read),
        "request": (request_of(formed, "North"), north, lambda p: Request.read(p, invitation)),
        "roster": (roster(formed), authority, answer),
        "approval": (approval(formed, "North"), authority, answer),
    }


@pytest.mark.parametrize("document", ["invitation", "request", "roster", "approval"])
@pytest.mark.parametrize("resigned", [False, True])
def test_a_document_is_taken_or_refused_and_nothing_else(readers, tmp_path, document, resigned):
    file, private, read = readers[document]
    read(file)
    target, refused = tmp_path / "document.json", 0
    changes = list(mutations(json.loads(file.read_text())))
    for changed in changes:
        if resigned:  # so that what stands behind the signature is reached
            if document == "approval" and isinstance(changed.get("roster"), dict):
                changed["roster"] = signed_again(changed["roster"], private)
            changed = signed_again(changed, private)
        target.write_text(json.dumps(changed))
        try:
            read(target)
        except TacitError:
            refused += 1
    assert len(changes) > 100
    assert refused > len(changes) / 2 if resigned else refused >= len(changes) - 2 * len(NASTY)


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"[" * 10**5, b'{"kind": "roster"}', b"null", b"1e999"]
)
def test_what_is_no_document_is_refused(readers, tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    for _, _, read in readers.values():
        with pytest.raises(TacitError):
            read(tmp_path / "file")


def test_an_absurdly_long_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "_LARGEST", 100)
    (tmp_path / "file").write_bytes(b" " * 101)
    with pytest.raises(ParameterError, match="longer than"):
        Invitation.read(tmp_path / "file")


@pytest.mark.parametrize(
    "name",
    ["", "-x", "a b", "a.b", "a/b", "ä", "x" * 64, "Server", "admin", "LOCALHOST", None,
     "N", "yes", "False", "7", "1e3", "nan", "1_000"],
)  # fmt: skip
def test_names_that_the_engine_or_a_shell_would_misread_are_refused(name):
    with pytest.raises(ParameterError):
        check_name(name, "localhost")


@pytest.mark.parametrize("host", ["", "a b", "a:1", "::1", "-a", "a/b", "ä.example.org", None])
def test_hosts_that_cannot_be_called_are_refused(host):
    with pytest.raises(ParameterError, match="host must be"):
        check_host(host, 8002)


def test_fingerprints_differ_in_any_bit_and_are_compared_as_people_write_them():
    shown = fingerprint(bytes(32))
    assert shown != fingerprint(bytes(31) + b"\x01")
    assert same_fingerprint(shown.upper().replace(" ", "-"), shown)
    assert same_fingerprint(shown.replace(" ", ""), shown)
    assert not same_fingerprint(shown[:-1], shown)
    assert not same_fingerprint("", "")
