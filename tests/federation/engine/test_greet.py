"""The doorman: a socket for two users, and connections of one of them."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from tacit.errors import TacitError
from tacit.federation.engine import greet
from tacit.federation.engine.wall import Wall


@pytest.fixture
def door():
    with tempfile.TemporaryDirectory(prefix="tacit-") as folder:
        os.chmod(folder, 0o750)
        yield Wall("user", 54321, Path(folder, "site.sock"))


def test_the_socket_is_for_two_users(door):
    with greet.listener_for(door):
        info = door.socket.stat()
        assert stat.S_IMODE(info.st_mode) == 0o660 and stat.S_ISSOCK(info.st_mode)
        assert info.st_gid == door.socket.parent.stat().st_gid
    with greet.listener_for(door):  # an old socket is no hindrance
        pass


@pytest.mark.parametrize("mode", [0o770, 0o755, 0o777])
def test_a_folder_that_others_may_enter_or_write_is_no_place_for_it(door, mode):
    door.socket.parent.chmod(mode)
    with pytest.raises(TacitError, match="0750"):
        greet.listener_for(door)


def test_a_group_with_a_third_member_is_no_group_for_it(door, monkeypatch):
    monkeypatch.setattr(greet, "_members", lambda group: {os.geteuid(), door.user, 777})
    with pytest.raises(TacitError, match=r"\[777\] too"):
        greet.listener_for(door)
