"""Strangers at a real server of the engine: none of them hears a word of its protocol."""

import json
import socket

import pytest

from experiments._hostile.strangers import credentials, greeted, hello, knock, strangers
from tacit.federation.engine.processes import running_server
from tacit.federation.engine.sites import running_site
from tacit.federation.members.authority import revoke
from tacit.federation.provision import init_federation

_COMPUTATION = '\n[[computation]]\ncomputation = "regression"\n'


def served(port: int, server, shown) -> bytes:
    """Knock until the server is up, then once more."""
    while server.poll() is None:
        try:
            return knock(port, shown, hello("North"))
        except ConnectionRefusedError:
            continue
    raise AssertionError("the server ended")


@pytest.mark.slow
def test_strangers_get_nothing_from_a_real_server_and_stop_nobody(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    place = init_federation(tmp_path / "ours", ["North", "South"], port=port)
    theirs = init_federation(tmp_path / "theirs", ["North"], port=port)
    file = place / "coordinator" / "coordinator.toml"
    file.write_text(file.read_text() + _COMPUTATION)
    kit = {site: place / "sites" / site / "kit" / "startup" for site in ("North", "South")}
    callers = strangers(place, theirs, "North", tmp_path)
    with running_server(file) as server:
        assert greeted(served(port, server, credentials(kit["North"])))  # members are heard
        with socket.create_connection(("127.0.0.1", port), 60):  # and one who says nothing waits
            found = {who: knock(port, shown, hello("North")) for who, shown in callers.items()}
            assert found == dict.fromkeys(callers, b"")
            assert greeted(knock(port, credentials(kit["South"]), hello("South")))
            revoke(place, "South")
            while knock(port, credentials(kit["South"]), hello("South")):
                assert server.poll() is None  # it looks at the list twice a second
            assert greeted(knock(port, credentials(kit["North"]), hello("North")))
        assert server.poll() is None
    log = (place / "coordinator" / "server" / "process.log").read_text()
    assert "refused 127.0.0.1" in log
    assert json.dumps("South") not in file.read_text()


@pytest.mark.slow
def test_a_real_site_hangs_up_on_a_server_whose_certificate_names_another_host(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
    place = init_federation(tmp_path / "ours", ["North"], port=port)
    file = place / "coordinator" / "coordinator.toml"
    file.write_text(file.read_text() + _COMPUTATION)
    kit = place / "sites" / "North" / "kit"
    start = kit / "startup" / "fed_client.json"
    start.write_text(start.read_text().replace("localhost:", "127.0.0.1:"))
    with running_server(file) as server, running_site(kit.parent / "site.toml") as site:
        served(port, server, credentials(kit / "startup"))
        log = kit.parent / "state" / "engine.log"
        while not log.exists() or "IP address mismatch" not in log.read_text():
            # the engine's own does not look
            assert site.engine.poll() is None and server.poll() is None
        assert "Successfully registered" not in log.read_text()
