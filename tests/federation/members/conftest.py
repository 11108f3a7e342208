"""A federation of North and South, each at a place of its own."""

import shutil

import pytest

from tacit.federation.members.authority import approve, init_authority
from tacit.federation.members.identity import everybody
from tacit.federation.members.site import accept, join

from .support import approval, home, request_of


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    """An authority, and the requests of North and South, at three places of their own."""
    place = tmp_path_factory.mktemp("start")
    init_authority(place / "office" / "ours", host="fed.example.org")
    invitation = place / "office" / "ours" / "invitation.json"
    for site in ("North", "South"):
        join(invitation, site, place / site.lower() / site)
    return place


@pytest.fixture(scope="module")
def formed(start, tmp_path_factory):
    """The same after both were approved and accepted."""
    place = tmp_path_factory.mktemp("formed") / "all"
    shutil.copytree(start, place)
    approve(
        place / "office/ours", [request_of(place, "North"), request_of(place, "South")], everybody
    )
    for site in ("North", "South"):
        accept(home(place, site), approval(place, site), everybody)
    return place


@pytest.fixture
def asked(start, tmp_path):
    return shutil.copytree(start, tmp_path / "all")


@pytest.fixture
def place(formed, tmp_path):
    return shutil.copytree(formed, tmp_path / "all")
