"""Connections with the files of real kits: who gets in at a server, and whom a site believes."""

import contextlib
import shutil
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta

import pytest
from nvflare.fuel.f3.drivers.net_utils import get_ssl_context

from experiments._hostile.strangers import certified, credentials, knock
from tacit.federation import tls
from tacit.federation.members.authority import revoke
from tacit.federation.provision import init_federation

YEAR = timedelta(days=365)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Our federation, with North a member and South revoked, beside that of another authority."""
    folder = tmp_path_factory.mktemp("tls")
    init_federation(folder / "ours", ["North", "South"])
    init_federation(folder / "theirs", ["North"])
    revoke(folder / "ours", "South")
    return folder


def kit(place, site="North", federation="ours"):
    return place / federation / "sites" / site / "kit" / "startup"


def server_files(startup):
    return startup / "rootCA.pem", startup / "server.crt", startup / "server.key"


def client_files(startup):
    return startup / "rootCA.pem", startup / "client.crt", startup / "client.key"


@contextlib.contextmanager
def serving(context, answer=b"welcome"):
    """Serve TLS on loopback, one caller after another; yield the port."""

    def serve():
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            with plain, contextlib.suppress(OSError):
                plain.settimeout(30)
                with context.wrap_socket(plain, server_side=True) as caller:
                    caller.recv(1)
                    caller.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.fixture(scope="module")
def port(place):
    with serving(
        tls.server_context(*server_files(place / "ours/coordinator/server/startup"))
    ) as p:
        yield p


CALLERS = {
    "a member": (lambda place, _: credentials(kit(place)), True),
    "no certificate": (lambda place, _: None, False),
    "plain TCP": (lambda place, _: "plain", False),
    "another authority": (lambda place, _: credentials(kit(place, federation="theirs")), False),
    "a revoked member": (lambda place, _: credentials(kit(place, "South")), False),
    "an expired certificate": (
        lambda place, folder: certified(place / "ours", folder, datetime(2020, 1, 1, tzinfo=UTC)),
        False,
    ),
    "a certificate of tomorrow": (
        lambda place, folder: certified(place / "ours", folder, datetime.now(UTC) + YEAR),
        False,
    ),
    "the server's own": (
        lambda place, _: credentials(place / "ours/coordinator/server/startup", "server"),
        False,
    ),
}


@pytest.mark.parametrize("caller", CALLERS)
def test_only_members_get_an_answer(place, port, tmp_path, caller):
    make, welcome = CALLERS[caller]
    text = b"no beginning of TLS"  # one byte of it would be waited for
    assert knock(port, make(place, tmp_path), text) == (b"welcome" if welcome else b"")


def test_the_engines_own_server_would_let_a_revoked_member_in(place, tmp_path):
    startup = place / "ours/coordinator/server/startup"
    root, certificate, key = map(str, server_files(startup))
    engine = {"ca_cert": root, "server_cert": certificate, "server_key": key, "secure": True}
    with serving(get_ssl_context(engine, ssl_server=True)) as port:
        assert knock(port, credentials(kit(place, "South")), b"x") == b"welcome"
        assert knock(port, credentials(kit(place, federation="theirs")), b"x") == b""


def call(context, port, name="localhost"):
    plain = socket.create_connection(("127.0.0.1", port), 30)
    with plain, context.wrap_socket(plain, server_hostname=name) as caller:
        caller.sendall(b"x")
        return caller.recv(100)


def engine_client(startup):
    root, certificate, key = map(str, client_files(startup))
    params = {"ca_cert": root, "client_cert": certificate, "client_key": key, "secure": True}
    return get_ssl_context(params, ssl_server=False)


def test_a_site_believes_its_own_server_only(place, tmp_path, monkeypatch):
    ours = place / "ours/coordinator/server/startup"
    site = tls.client_context(*client_files(kit(place)))
    with serving(tls.server_context(*server_files(ours))) as port:
        assert call(site, port) == b"welcome"
        with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
            call(site, port, "fed.example.org")
    # a server of an authority that the operating system trusts, which takes every caller
    public = tmp_path / "public.pem"
    shutil.copy(place / "theirs/authority/root.pem", public)
    monkeypatch.setenv("SSL_CERT_FILE", str(public))
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    startup = place / "theirs/coordinator/server/startup"
    theirs.load_cert_chain(startup / "server.crt", startup / "server.key")
    with serving(theirs, b"trap") as port:
        assert call(engine_client(kit(place)), port) == b"trap"  # the engine's own would be caught
        with pytest.raises(ssl.SSLCertVerificationError):
            call(tls.client_context(*client_files(kit(place))), port)


def test_a_server_may_be_named_by_its_address(tmp_path):
    ours = init_federation(tmp_path / "ours", ["North"], host="127.0.0.1")
    startup = ours / "coordinator" / "server" / "startup"
    site = tls.client_context(*client_files(ours / "sites" / "North" / "kit" / "startup"))
    with serving(tls.server_context(*server_files(startup))) as port:
        assert call(site, port, "127.0.0.1") == b"welcome"
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            call(site, port, "localhost")


def test_another_member_cannot_play_the_server(place, tmp_path):
    trap = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trap.load_cert_chain(*client_files(kit(place, "South"))[1:])
    site = tls.client_context(*client_files(kit(place)))
    site.check_hostname = False  # not the name alone: the certificate is no server's
    with serving(trap, b"trap") as port, pytest.raises(ssl.SSLError, match="certificate purpose"):
        call(site, port)


def test_a_server_without_its_list_of_revoked_certificates_does_not_start(place, tmp_path):
    startup = shutil.copytree(place / "ours/coordinator/server/startup", tmp_path / "startup")
    (startup / tls.REVOKED).unlink()
    with pytest.raises(OSError):
        tls.server_context(*server_files(startup))


def test_a_list_that_somebody_else_signed_lets_nobody_in(place, tmp_path):
    startup = shutil.copytree(place / "ours/coordinator/server/startup", tmp_path / "startup")
    shutil.copy(place / "theirs/authority/revoked.pem", startup / tls.REVOKED)
    with serving(tls.server_context(*server_files(startup))) as port:
        assert knock(port, credentials(kit(place)), b"x") == b""
