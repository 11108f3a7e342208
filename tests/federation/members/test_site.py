"""Keys are made at home: join, accept, renew, pin, and all that a site must refuse."""

import dataclasses
import json
import shutil
import stat
from datetime import UTC, datetime, timedelta

import pytest

from tacit.errors import ParameterError, TacitError, VerificationFailed
from tacit.federation.files import SiteConfig
from tacit.federation.members import certificates
from tacit.federation.members.authority import approve, members, renew_server, revoke
from tacit.federation.members.documents import Approval, Invitation, Member, Roster
from tacit.federation.members.identity import as_told, everybody, fingerprint, read_identity
from tacit.federation.members.site import accept, join, renew
from tacit.federation.members.standing import certificate_ends, expiry, identities, identities_page
from tacit.federation.secure import keys

from .support import (
    NOBODY,
    approval,
    home,
    leaks,
    public,
    request_of,
    revoked,
    roster,
    secrets,
    shown,
    whole,
)


def test_private_keys_of_sites_exist_only_at_the_site_at_every_step(asked, tmp_path):
    office = asked / "office"

    def watch():
        for site in ("North", "South"):
            found = secrets(home(asked, site))
            assert len(found) >= 4
            others = [p for p in asked.iterdir() if p.name != site.lower()]
            assert not [leak for other in others for leak in leaks(other, found)]

    watch()
    approve(office / "ours", [request_of(asked, "North"), request_of(asked, "South")], everybody)
    watch()
    for site in ("North", "South"):
        accept(home(asked, site), approval(asked, site), everybody)
    watch()
    renew(home(asked, "North"))
    watch()
    # the watch can see: a key that is there is found, in any of its forms
    for form in secrets(home(asked, "North")):
        (office / "planted").write_bytes(b"x" + form + b"x")
        assert leaks(office, secrets(home(asked, "North")))


def test_files_with_secrets_are_for_their_owner_only(place):
    for path in place.rglob("*"):
        if path.suffix in (".key", ".toml", ".pem") or path.is_dir():
            assert not path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO), path


def test_what_people_compare_is_the_same_at_both_ends(place):
    config = SiteConfig.read(home(place, "North") / "site.toml")
    found = identities(config)
    assert list(found) == ["North", "South"]
    assert found["South"] == shown(place, "South")
    assert len(found["South"].split()) == 10 and len(found["South"]) == 49
    at_authority = {row["name"]: row["fingerprint"] for row in members(place / "office/ours")}
    assert at_authority["North"] == found["North"]
    invitation = Invitation.read(place / "office/ours/invitation.json")
    pinned = Invitation.read(home(place, "North") / "invitation.json")
    assert invitation.fingerprint == pinned.fingerprint
    page = identities_page(config)
    assert found["North"] in page and found["South"] in page


def test_nobody_is_approved_or_pinned_unconfirmed(asked):
    office = asked / "office/ours"
    before = whole(office)
    with pytest.raises(ParameterError, match="was not confirmed"):
        approve(office, [request_of(asked, "North")], NOBODY)
    with pytest.raises(VerificationFailed, match="NOT THE ONE YOU WERE TOLD"):
        approve(office, [request_of(asked, "North")], as_told({"North": shown(asked, "South")}))
    assert whole(office) == before
    told = as_told({site: shown(asked, site).upper() for site in ("North", "South")})
    approve(office, [request_of(asked, "North"), request_of(asked, "South")], told)
    north = home(asked, "North")
    found = accept(north, approval(asked, "North"), NOBODY)
    assert found.waiting == {"South": shown(asked, "South")} and found.pinned == []
    assert set(SiteConfig.read(north / "site.toml").partners) == {"North"}
    before = whole(north)
    with pytest.raises(VerificationFailed, match="NOT THE ONE YOU WERE TOLD"):
        accept(north, approval(asked, "North"), as_told({"South": shown(asked, "North")}))
    assert whole(north) == before
    assert accept(north, roster(asked), told).pinned == ["South"]
    assert set(SiteConfig.read(north / "site.toml").partners) == {"North", "South"}


def forged_roster(place, version, **identities):
    """Return a roster that the authority really signed, with identities of its choice."""
    office = place / "office/ours"
    private = read_identity(office / "authority/identity.key")
    listed = tuple(Member(name, key, "2026-01-01") for name, key in identities.items())
    file = place / "roster.json"
    made = Roster(keys.identity_public(private), version, listed).to_json(private)
    file.write_text(json.dumps(made))
    return file


def test_a_changed_identity_of_a_partner_is_refused_loudly_though_the_authority_signs_it(place):
    north, other = home(place, "North"), keys.identity_public(keys.fresh_identity()).hex()
    before = whole(north)
    swapped = forged_roster(place, 99, North=public(place, "North"), South=other)
    with pytest.raises(VerificationFailed, match="THE IDENTITY OF South HAS CHANGED"):
        accept(north, swapped, everybody)
    own = forged_roster(place, 99, North=other, South=public(place, "South"))
    with pytest.raises(VerificationFailed, match="THIS SITE IS LISTED WITH ANOTHER IDENTITY"):
        accept(north, own, everybody)
    gone = forged_roster(place, 99, South=public(place, "South"))
    with pytest.raises(VerificationFailed, match="THIS SITE IS NOT LISTED"):
        accept(north, gone, everybody)
    assert whole(north) == before


def test_rosters_only_go_forward_and_there_is_one_of_each_version(place):
    north = home(place, "North")
    version = json.loads(roster(place).read_text())["version"]
    mine = {"North": public(place, "North"), "South": public(place, "South")}
    with pytest.raises(VerificationFailed, match="is older"):
        accept(north, forged_roster(place, version - 1, **mine), everybody)
    with pytest.raises(VerificationFailed, match="SIGNED TWO ROSTERS"):
        accept(north, forged_roster(place, version, **mine), everybody)
    accept(north, forged_roster(place, version + 1, **mine), everybody)


def changed_approval(place, **changes):
    data = json.loads(approval(place, "North").read_text()) | changes
    file = place / "changed.json"
    file.write_text(json.dumps(data))
    return file


def expired_certificate(place):
    office = place / "office/ours/authority"
    root = (
        certificates.load_private((office / "root.key").read_bytes()),
        certificates.load_certificate((office / "root.pem").read_bytes()),
    )
    key = certificates.load_private((home(place, "North") / "kit/startup/client.key").read_bytes())
    made = certificates.member_certificate(
        root, "North", key.public_key(), datetime(2020, 1, 1, tzinfo=UTC),
        identity=bytes.fromhex(public(place, "North")),
    )  # fmt: skip
    return certificates.public_pem(made).decode()


def foreign_certificate(place):
    root = certificates.make_root(datetime.now(UTC))
    key = certificates.load_private((home(place, "North") / "kit/startup/client.key").read_bytes())
    made = certificates.member_certificate(
        root, "North", key.public_key(), datetime.now(UTC),
        identity=bytes.fromhex(public(place, "North")),
    )  # fmt: skip
    return certificates.public_pem(made).decode()


ANSWERS = {
    "another site's": lambda p: approval(p, "South"),
    "another site's certificate": lambda p: changed_approval(
        p, certificate=json.loads(approval(p, "South").read_text())["certificate"]
    ),
    "an expired certificate": lambda p: changed_approval(p, certificate=expired_certificate(p)),
    "another authority's": lambda p: changed_approval(p, certificate=foreign_certificate(p)),
    "the root": lambda p: changed_approval(
        p, certificate=(p / "office/ours/authority/root.pem").read_text()
    ),
    "no certificate": lambda p: changed_approval(p, certificate="nothing"),
    "a changed roster": lambda p: changed_approval(
        p, roster=json.loads(roster(p).read_text()) | {"version": 100}
    ),
    "no roster": lambda p: changed_approval(p, roster=None),
    "a request": lambda p: request_of(p, "North"),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_that_is_not_this_sites_is_refused(place, answer):
    north = home(place, "North")
    file = ANSWERS[answer](place)
    before = whole(north)
    with pytest.raises(VerificationFailed):
        accept(north, file, everybody)
    assert whole(north) == before


def test_an_invitation_that_was_changed_on_its_way_is_refused(start, tmp_path):
    data = json.loads((start / "office/ours/invitation.json").read_text())
    file = tmp_path / "invitation.json"
    changes = (
        {"port": 1}, {"host": "evil.example.org"}, {"host": "a b"}, {"root": "x"},
        {"coordinator": "00" * 32}, {"root_fingerprint": ""}, {"signature": "00"},
    )  # fmt: skip
    for change in changes:
        file.write_text(json.dumps(data | change))
        with pytest.raises(TacitError):
            join(file, "West", tmp_path / "West")
        assert not (tmp_path / "West").exists()


def test_an_invitation_by_somebody_else_has_another_fingerprint(start):
    found = Invitation.read(start / "office/ours/invitation.json")
    for change in ({"port": 1}, {"host": "evil.example.org"}, {"authority": bytes(32)},
                   {"coordinator": bytes(32)}, {"federation": "theirs"}):  # fmt: skip
        assert dataclasses.replace(found, **change).fingerprint != found.fingerprint


def test_renewing_changes_the_key_and_keeps_the_identity(place):
    north, office = home(place, "North"), place / "office/ours"
    kit, before = north / "kit", whole(north / "kit")
    made = renew(north)
    assert made.fingerprint == shown(place, "North")
    assert whole(kit) == before  # works on until the answer is there
    with pytest.raises(ParameterError, match="waits for its approval"):
        renew(north)
    accept(north, approval(place, "North"), NOBODY)  # the earlier answer again changes nothing
    assert (north / "pending/client.key").exists()
    (found,), _ = approve(office, [made.request], NOBODY)  # the known identity has signed it
    assert found.file == approval(place, "North", "-2")
    accept(north, found.file, NOBODY)
    assert whole(kit)[kit / "startup/client.key"] != before[kit / "startup/client.key"]
    assert not list((north / "pending").iterdir())
    assert set(SiteConfig.read(north / "site.toml").partners) == {"North", "South"}
    assert revoked(office) == set()


def test_what_a_person_wrote_into_site_toml_stays(place):
    north = home(place, "North")
    file = north / "site.toml"
    text = file.read_text().replace("epsilon = 4.0", "epsilon = 3.0  # for ever")
    text = text.replace("[partners]", '# mine\n[data.visits]\nfile = "v.csv"\n\n[partners]')
    file.write_text(text + "# the end\n")
    revoke(place / "office/ours", "South")
    accept(north, roster(place), NOBODY)
    kept = file.read_text()
    assert "# for ever" in kept and "# mine" in kept and "# the end" in kept
    config = SiteConfig.read(file)
    assert config.ledger["epsilon"] == 3.0 and set(config.data) == {"visits"}
    assert set(config.partners) == {"North"}


def test_files_written_too_freely_are_left_alone_and_said_so(place):
    north, office = home(place, "North"), place / "office/ours"
    file = north / "site.toml"
    free = file.read_text().replace("[partners] ", "[policies] ").partition("[policies]")[0]
    file.write_text(f'partners.North = "{public(place, "North")}"\n' + free)
    before = whole(north)
    with pytest.raises(ParameterError, match="cannot be changed safely"):
        accept(north, roster(place), everybody)
    assert whole(north) == before
    toml = office / "coordinator/coordinator.toml"
    toml.write_text('sites = [\n  "North",\n  "South",\n]\n')
    (left,) = revoke(office, "South")
    assert "by hand" not in left and 'sites = ["North"]' in left
    assert '"South"' in toml.read_text()
    shutil.move(office / "coordinator", place / "elsewhere")
    (left,) = approve(office, [request_of(place, "North")], everybody)[1]
    assert "revoked.pem" in left


@pytest.mark.parametrize(
    ("days", "told"),
    [(31, "It ends on"), (30, "WARNING: It ends on"), (0, "in 0 days"), (-1, "It ENDED on")],
)
def test_warnings_begin_thirty_days_before_the_end(days, told):
    now = datetime(2027, 1, 1, tzinfo=UTC)
    assert told in expiry("It", now + timedelta(days=days), now)


def test_the_page_warns_about_the_sites_own_certificate(place):
    config = SiteConfig.read(home(place, "North") / "site.toml")
    ends = certificate_ends(config.kit)
    assert "WARNING" not in identities_page(config, ends - timedelta(days=31))
    assert "WARNING" in identities_page(config, ends - timedelta(days=30))
    assert "ENDED" in identities_page(config, ends + timedelta(days=1))


def test_folders_that_are_no_members_or_exist_already_are_refused(place, tmp_path):
    invitation = place / "office/ours/invitation.json"
    with pytest.raises(ParameterError, match="exists already"):
        join(invitation, "North", home(place, "North"))
    with pytest.raises(ParameterError, match="holds no site"):
        renew(tmp_path)
    with pytest.raises(ParameterError, match="holds no authority"):
        members(tmp_path)
    with pytest.raises(ParameterError, match="days must be"):
        renew_server(place / "office/ours", days=0)


def test_an_approval_says_nothing_that_is_not_public(place):
    authority = Invitation.read(place / "office/ours/invitation.json").authority
    found = Approval.read(approval(place, "North"), authority)
    assert set(found.roster.active()) == {"North", "South"}
    text = approval(place, "North").read_text() + roster(place).read_text()
    assert "PRIVATE" not in text
    assert fingerprint(found.roster.active()["North"]) == shown(place, "North")
