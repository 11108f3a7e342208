"""The attacks of `experiments.hostile`: what counts as a gain is seen, and builds go back.

Its quick form is run by ``tests/test_package.py``.
"""

import struct

import pytest

from experiments import hostile
from experiments._hostile import builds, coordinator, liars, messages, strangers, sums
from experiments._hostile.got import Got
from experiments._hostile.homes import Home
from experiments.runner import Outcome
from tacit.federation import wire
from tacit.federation.secure import keys


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path, "North")
    found.folder.mkdir()
    (found.folder / "identity.key").write_text("0123456789abcdef" * 4 + "\n")
    return found.write({"North": keys.identity_public(bytes(32)).hex()})


def test_marks_are_found_in_whatever_leaves(home):
    assert home.facts([b"nothing", b"i1,3", b""]) == 0
    assert home.facts([mark + b"..." for mark in home.marks]) == len(home.marks) == 6
    assert home.facts([struct.pack("<3d", 1.0, home.number, 2.0)]) == 1
    other = Home(home.folder, "South")
    assert not any(mark in other.marks for mark in home.marks)


def test_bytes_of_files_are_counted_by_whole_lines(home):
    row = home.table.read_bytes().splitlines()[5]
    assert home.bytes_of_files([b"...", row[:-1]]) == 0
    assert home.bytes_of_files([b"reply " + row + b" end"]) == len(row)
    assert home.bytes_of_files([(home.folder / "identity.key").read_bytes()]) == 64


def test_every_attack_names_a_build_and_every_build_goes_back():
    named = {
        build
        for table in (coordinator.ATTACKS, sums.ATTACKS, liars.ATTACKS)
        for _, build in table.values()
        if build
    }
    assert named <= set(builds.BUILDS)
    for build in builds.BUILDS:
        before = [(owner, name, getattr(owner, name)) for owner, name, _ in builds.BUILDS[build]()]
        with builds.taken(build):
            assert all(getattr(owner, name) is not old for owner, name, old in before)
        assert all(getattr(owner, name) is old for owner, name, old in before)
    assert wire.refusal.__module__ == wire.__name__


def test_every_kind_of_message_is_sent(tmp_path):
    sent = {order.topic for order in (*messages.orders(tmp_path), *messages.more_orders())}
    for owner in (messages.TrainingTopic, messages.SysCommandTopic, messages.ReservedTopic):
        assert set(messages.topics(owner)) <= sent
    assert {"process_info", "config_vars", "comm_config", "stop_cell"} <= sent


def test_a_greeting_is_told_from_an_alert():
    assert strangers.greeted(strangers.hello("North"))
    assert not strangers.greeted(b"") and not strangers.greeted(b"\x15\x03\x03" + bytes(20))


def test_a_gain_and_a_blind_control_miss_their_bars(monkeypatch):
    rows = {("a", "b"): Got(1, sums=1, megabytes=51.0)}, {("a", "b"): Got(1)}
    monkeypatch.setattr(hostile, "_quickly", lambda: rows)
    outcome: Outcome = hostile.run(quick=True)
    missed = {check.what for check in outcome.checks if not check.ok}
    assert missed == {
        "sums of fewer than the threshold", "MB for a refused request",
        "attacks that a weakened build withstands",
    }  # fmt: skip
