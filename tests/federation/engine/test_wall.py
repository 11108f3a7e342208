"""What a site's file says about the wall, and what a security officer reads of it."""

import os
import tempfile
from pathlib import Path

import pytest

from tacit.errors import ParameterError
from tacit.federation.engine.access import may_read
from tacit.federation.engine.wall import Wall
from tacit.federation.files import SiteConfig

SITE = "name = 'North'\nledger = {file = 'l.db', epsilon = 1, delta = 1e-6}\n"
STRANGER = 54321


def config(folder, text):
    file = folder / "site.toml"
    file.write_text(SITE + text)
    return SiteConfig.read(file)


def test_a_file_that_says_nothing_gets_the_wall_and_no_network(tmp_path):
    found = config(tmp_path, "")
    assert found.wall == Wall("isolated") == Wall.read(tmp_path / "site.toml")
    assert "has no network" in found.page() and "TRUSTED" not in found.page()


def test_a_trusted_engine_is_said_in_capitals(tmp_path):
    page = config(tmp_path, "engine = 'trusted'\n").page()
    assert "THE ENGINE IS TRUSTED" in page and "CAN READ EVERY FILE" in page
    assert "NO CERTIFICATE HOLDS AGAINST THEM" in page


def test_every_place_that_the_data_process_may_reach_is_on_the_page_in_capitals(tmp_path):
    page = config(tmp_path, "[network]\nallow = ['db.ward:5432', '10.0.0.7:8786']\n").page()
    assert "KEEPS THE NETWORK" in page and "DB.WARD:5432, 10.0.0.7:8786" in page
    assert "has no network" not in page


def test_another_user_is_named_by_name_or_number_with_its_socket(tmp_path):
    wall = config(tmp_path, f"engine = 'user:{STRANGER}'\nsocket = 'door/site.sock'\n").wall
    assert wall.user == STRANGER and wall.socket == tmp_path / "door" / "site.sock"
    assert str(STRANGER) in wall.page()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("engine = 'none'", "must be"), ("engine = 3", "must be"),
        ("engine = 'user:54321'", "needs socket"), ("socket = 's'", "only"),
        ("engine = 'user:no-such-person'\nsocket = 's'", "nobody knows"),
        ("engine = 'user:0'\nsocket = 's'", "another one"),
        (f"engine = 'user:{os.geteuid()}'\nsocket = 's'", "another one"),
        ("[network]\nallow = 'db:1'", "list"), ("[network]\nallow = ['db']", "host:port"),
        ("[network]\nallow = ['db:5432; all']", "host:port"), ("[network]\nall = 1", "nothing"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(tmp_path, text, reason):
    with pytest.raises(ParameterError, match=reason):
        config(tmp_path, text + "\n")


def test_whether_another_user_could_read_a_file_follows_its_whole_path():
    with tempfile.TemporaryDirectory(prefix="tacit-") as place:
        folder, file = Path(place), Path(place, "data.csv")
        file.write_text("x")
        for file_mode, folder_mode, readable in (
            (0o644, 0o755, True), (0o644, 0o711, True), (0o600, 0o755, False),
            (0o644, 0o700, False), (0o640, 0o755, False),
        ):  # fmt: skip
            file.chmod(file_mode)
            folder.chmod(folder_mode)
            assert may_read(STRANGER, file) == readable
            assert may_read(os.geteuid(), file)
        assert not may_read(STRANGER, folder / "none")
