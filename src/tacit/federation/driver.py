"""The engine's connections, made by `tacit.federation.tls` in the place of its own.

The engine lets kits add drivers for further schemes (``comm_driver_path``), but its clients call
servers under the schemes that it knows. So `install` takes the place of its TLS over TCP. The
file in a kit that calls it ends the process where that fails: no connection is made otherwise.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from cryptography import x509
from nvflare.fuel.f3 import communicator
from nvflare.fuel.f3.drivers.driver_params import DriverParams
from nvflare.fuel.f3.drivers.socket_conn import ConnectionHandler, SocketConnection
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver

from tacit.federation.tls import HANDSHAKE_SECONDS, REVOKED, client_context, server_context

__all__ = ["SCHEME", "Server", "TacitDriver", "install"]

SCHEME = "stcp"  # the engine's name for TLS over TCP
_log = logging.getLogger(__name__)


def install() -> None:
    """Have the engine in this process use `TacitDriver` for all connections to other machines."""
    communicator.driver_mgr.drivers[SCHEME] = TacitDriver


class TacitDriver(TcpDriver):  # type: ignore[misc]
    """Carries the engine's frames over connections whose both ends have proved who they are."""

    @staticmethod
    def supported_transports() -> list[str]:
        """Return the scheme under which kits name it."""
        return [SCHEME]

    def listen(self, connector: Any) -> None:
        """Serve until `shutdown`."""
        self.connector = connector
        self.server = Server(self, connector)
        self.server.serve_forever()

    def connect(self, connector: Any) -> None:
        """Connect, and read until the connection ends."""
        self.connector = connector
        host, port = _address(connector.params)
        context = client_context(*_files(connector.params, "client"))
        plain = socket.create_connection((host, port), HANDSHAKE_SECONDS)
        try:
            secure = context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise
        secure.settimeout(None)
        connection = SocketConnection(secure, connector, True)
        self.add_connection(connection)
        connection.read_loop()
        self.close_connection(connection)

    @staticmethod
    def get_urls(scheme: str, resources: dict[str, Any]) -> tuple[str, str]:
        """Refuse: the engine's listeners of its own choice are for processes of one machine."""
        raise ValueError(f"{scheme} serves at the address of the kit only")


class Server(ThreadingTCPServer):
    """Greets each caller in a thread of its own, and hangs up on those who are revoked.

    Parameters
    ----------
    driver
        Whose connections these are.
    connector
        The engine's parameters: the address, and where the certificates are.
    """

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, driver: TacitDriver, connector: Any) -> None:
        self.driver, self.connector = driver, connector
        self.files = _files(connector.params, "server")
        self.callers: dict[ssl.SSLSocket, int] = {}  # and the serial numbers that they showed
        self.stamp, self.revoked = (0, 0), frozenset[int]()
        self.ssl_context = self._read()
        super().__init__(_address(connector.params), ConnectionHandler)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Let a caller prove who it is, then hand it over to the engine."""
        request.settimeout(HANDSHAKE_SECONDS)
        try:
            caller = self.ssl_context.wrap_socket(request, server_side=True)
        except OSError as error:  # strangers, scanners, certificates that ended or were revoked
            _log.warning("refused %s: %s", client_address[0], type(error).__name__)
            return
        with caller:
            caller.settimeout(None)
            shown = caller.getpeercert(binary_form=True) or b""
            self.callers[caller] = x509.load_der_x509_certificate(shown).serial_number
            try:
                super().finish_request(caller, client_address)
            finally:
                del self.callers[caller]

    def service_actions(self) -> None:
        """Look at the list of revoked certificates, twice a second."""
        try:
            if self._stamp() != self.stamp:
                self.ssl_context = self._read()
        except (OSError, ValueError) as error:
            _log.warning("the list of revoked certificates cannot be read: %s", error)
        for caller, serial in list(self.callers.items()):
            if serial in self.revoked:
                with contextlib.suppress(OSError):
                    caller.shutdown(socket.SHUT_RDWR)

    def _read(self) -> ssl.SSLContext:
        stamp = self._stamp()
        found = x509.load_pem_x509_crl((self.files[0].parent / REVOKED).read_bytes())
        context = server_context(*self.files)
        self.stamp, self.revoked = stamp, frozenset(entry.serial_number for entry in found)
        return context

    def _stamp(self) -> tuple[int, int]:
        found = (self.files[0].parent / REVOKED).stat()
        return found.st_mtime_ns, found.st_ino


def _address(params: dict[str, Any]) -> tuple[str, int]:
    return str(params.get(DriverParams.HOST.value) or ""), int(params[DriverParams.PORT.value])


def _files(params: dict[str, Any], side: str) -> tuple[Path, Path, Path]:
    try:
        names = ("ca_cert", f"{side}_cert", f"{side}_key")
        root, certificate, key = (Path(str(params[name])) for name in names)
    except KeyError as missing:
        raise ssl.SSLError(f"the kit has no {missing}") from None
    return root, certificate, key
