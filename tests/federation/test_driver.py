"""The engine's connections in tacit's hands: nobody is kept out, the revoked are hung up on."""

import socket
import ssl
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress
from types import SimpleNamespace

import pytest
from nvflare.fuel.f3.comm_config import CommConfigurator
from nvflare.fuel.f3.connection import ConnState
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.drivers.tcp_driver import TcpDriver
from nvflare.fuel.utils.config_service import ConfigService

from experiments._hostile.strangers import credentials, knock
from tacit.federation import kits, tls
from tacit.federation.driver import SCHEME, TacitDriver
from tacit.federation.members.authority import revoke
from tacit.federation.provision import init_federation


@pytest.fixture(autouse=True)
def engine_settings(monkeypatch, tmp_path):
    """Let connections find the engine's settings, which a process loads once."""
    monkeypatch.setattr(CommConfigurator, "_config_loaded", True)
    monkeypatch.setattr(CommConfigurator, "_configuration", {})
    monkeypatch.setattr(ConfigService, "_var_values", {})


@pytest.fixture
def place(tmp_path):
    return init_federation(tmp_path / "ours", ["North", "South"])


class Monitor:
    """Notes which connections the engine was told of."""

    def __init__(self):
        self.here, self.changed = {}, threading.Condition()

    def state_change(self, connection):
        connection.register_frame_receiver(self)
        with self.changed:
            self.here[connection.name] = connection.state
            self.changed.notify_all()

    def process_frame(self, frame):
        pass

    def wait(self, **numbers):
        def reached():
            states = list(self.here.values())
            return all(states.count(ConnState[name]) == n for name, n in numbers.items())

        with self.changed:
            assert self.changed.wait_for(reached, 60), self.here


def parameters(place, port):
    server = place / "coordinator" / "server" / "startup"
    return {
        "host": "localhost", "port": port, "scheme": SCHEME, "secure": True,
        "ca_cert": str(server / "rootCA.pem"), "server_cert": str(server / "server.crt"),
        "server_key": str(server / "server.key"),
    }  # fmt: skip


@contextmanager
def listening(place, kind=TacitDriver):
    """Run a driver's server on loopback; yield it, its monitor and its port."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    driver, monitor = kind(), Monitor()
    driver.register_conn_monitor(monitor)
    connector = SimpleNamespace(params=parameters(place, port), mode=Mode.PASSIVE)
    thread = threading.Thread(target=driver.listen, args=(connector,), daemon=True)
    thread.start()
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 60).close()
            break
    try:
        yield driver, monitor, port
    finally:
        driver.shutdown()
        thread.join()
        driver.server.server_close()


def member(place, port, site="North", timeout=60.0):
    """Return a connection of a member, through which the server can be heard."""
    startup = place / "sites" / site / "kit" / "startup"
    files = (startup / name for name in ("rootCA.pem", "client.crt", "client.key"))
    plain = socket.create_connection(("127.0.0.1", port), timeout)
    return tls.client_context(*files).wrap_socket(plain, server_hostname="localhost")


def test_callers_who_say_nothing_keep_nobody_out(place):
    with listening(place) as (_, monitor, port), ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
        with member(place, port):
            monitor.wait(CONNECTED=1)
        monitor.wait(CONNECTED=0, CLOSED=1)


def test_the_engines_own_server_is_kept_busy_by_one_of_them(place):
    with listening(place, TcpDriver) as (_, monitor, port):
        with socket.create_connection(("127.0.0.1", port), 60), pytest.raises(TimeoutError):
            member(place, port, timeout=1.0)
        assert monitor.here == {}


def test_a_member_who_is_revoked_is_hung_up_on_and_the_others_are_not(place):
    with listening(place) as (_, monitor, port), member(place, port) as north:
        with member(place, port, "South") as south:
            monitor.wait(CONNECTED=2)
            revoke(place, "South")
            with suppress(ssl.SSLError):
                assert south.recv(1) == b""
        monitor.wait(CONNECTED=1, CLOSED=1)
        south = credentials(place / "sites" / "South" / "kit" / "startup")
        assert knock(port, south, b"x") == b""
        north.sendall(b"x")
        assert list(monitor.here.values()).count(ConnState.CONNECTED) == 1


def test_the_server_goes_on_with_its_last_list_where_a_new_one_is_torn(place):
    with listening(place) as (driver, monitor, port):
        file = place / "coordinator" / "server" / "startup" / tls.REVOKED
        revoke(place, "South")
        file.write_text("torn")
        driver.server.service_actions()
        with member(place, port):
            monitor.wait(CONNECTED=1)


def test_a_site_connects_through_the_driver(place):
    with listening(place) as (_, monitor, port):
        startup = place / "sites" / "North" / "kit" / "startup"
        params = {
            "host": "localhost", "port": port, "scheme": SCHEME, "secure": True,
            "ca_cert": str(startup / "rootCA.pem"), "client_cert": str(startup / "client.crt"),
            "client_key": str(startup / "client.key"),
        }  # fmt: skip
        caller, own = TacitDriver(), Monitor()
        caller.register_conn_monitor(own)
        connector = SimpleNamespace(params=params, mode=Mode.ACTIVE)
        thread = threading.Thread(target=caller.connect, args=(connector,), daemon=True)
        thread.start()
        monitor.wait(CONNECTED=1)
        own.wait(CONNECTED=1)
        caller.shutdown()
        thread.join()
        own.wait(CLOSED=1)
        with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
            caller.connect(SimpleNamespace(params={**params, "host": "127.0.0.1"}))


def run_driver_file(place, before="pass"):
    """Run what a kit has the engine import; print the driver that it would use then."""
    folder = place / "sites" / "North" / "kit" / "local" / "drivers"
    script = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); {before}; import tacit_driver\n"
        "from nvflare.fuel.f3 import communicator\n"
        f"print(communicator.driver_mgr.find_driver_class({SCHEME!r}).__name__)"
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


def test_a_kit_has_the_engine_use_this_driver_or_end(place):
    assert run_driver_file(place).stdout.strip() == "TacitDriver"
    broken = run_driver_file(place, "sys.modules['tacit.federation.tls'] = None")
    assert broken.returncode == 1 and broken.stdout == ""
    assert "connections are missing" in broken.stderr
    assert kits._SCHEME == SCHEME
