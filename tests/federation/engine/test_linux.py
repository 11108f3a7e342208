"""What the kernel is asked: whether a network is empty, as its tables tell."""

import pytest

from tacit.federation.engine.linux import network_is_empty

ROUTE = "Iface\tDestination\tGateway\n"
SOCKETS = "  sl  local_address rem_address   st\n"
LO6 = " 00 ".join(["0" * 32] * 3) + " ffffffff 00000001 00000000 00200200       lo\n"
EMPTY = {"route": ROUTE, "ipv6_route": LO6, "tcp": SOCKETS, "tcp6": SOCKETS, "udp": SOCKETS}


def tables(folder, **changes):
    for name, text in (EMPTY | changes).items():
        (folder / name).write_text(text)
    return folder


def test_a_network_with_nothing_but_itself_is_empty(tmp_path):
    assert network_is_empty(tables(tmp_path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("route", ROUTE + "eth0\t00000000\t0101A8C0\n"),
        ("ipv6_route", LO6 + LO6.replace("lo", "eth0")),
        ("tcp", SOCKETS + "   0: 0100007F:1538 00000000:0000 0A\n"),
        ("udp", SOCKETS + "   0: 0100007F:0035 00000000:0000 07\n"),
    ],
    ids=["a route", "a route of version 6", "a service", "a service by datagrams"],
)
def test_a_way_out_or_a_service_of_others_makes_it_not_empty(tmp_path, name, text):
    assert not network_is_empty(tables(tmp_path, **{name: text}))


def test_where_the_kernel_tells_nothing_it_is_not_taken_to_be_empty(tmp_path):
    assert not network_is_empty(tmp_path)
