"""The authority: which requests it signs, and which it must refuse."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tacit.errors import ParameterError, TacitError, VerificationFailed
from tacit.federation.files import SiteConfig
from tacit.federation.members import certificates, documents
from tacit.federation.members.authority import approve, members, renew_server, revoke
from tacit.federation.members.documents import Invitation, Request
from tacit.federation.members.identity import as_told, everybody, read_identity, signed
from tacit.federation.members.site import accept, join, renew
from tacit.federation.members.standing import identities
from tacit.federation.secure import keys

from .support import (
    NOBODY,
    approval,
    home,
    public,
    request_of,
    revoked,
    roster,
    serial,
    shown,
    whole,
)


def test_the_authority_never_even_makes_a_sites_key(monkeypatch, asked):
    made = []
    monkeypatch.setattr(certificates, "new_key", lambda *size: made.append(size))
    approve(asked / "office/ours", [request_of(asked, "North")], everybody)
    assert made == []


def changed_request(asked, **changes):
    data = json.loads(request_of(asked, "North").read_text()) | changes
    file = asked / "changed.json"
    file.write_text(json.dumps(data))
    return file


def again(asked, site="North", **changes):
    """Return North's request with changes, signed by a site's identity once more."""
    data = json.loads(request_of(asked, "North").read_text())
    data = {k: v for k, v in data.items() if k not in ("kind", "signature")} | changes
    file = asked / "again.json"
    private = read_identity(home(asked, site) / "identity.key")
    file.write_text(json.dumps(signed("request", data, private)))
    return file


def elliptic(asked):
    public = keys.identity_public(read_identity(home(asked, "North") / "identity.key"))
    note = x509.UniformResourceIdentifier("urn:tacit:identity:" + public.hex())
    builder = (
        x509.CertificateSigningRequestBuilder()
        .subject_name(certificates._name("North"))
        .add_extension(x509.SubjectAlternativeName([note]), critical=False)
    )
    made = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return made.public_bytes(serialization.Encoding.PEM).decode()


def other_request(asked, **changes):
    return json.loads(request_of(asked, "South").read_text()) | changes


FORGERIES = {
    "another name": lambda a: changed_request(a, name="West"),
    "another identity": lambda a: changed_request(a, identity=other_request(a)["identity"]),
    "another key of TLS": lambda a: changed_request(
        a, signing_request=other_request(a)["signing_request"]
    ),
    "a stolen key of TLS": lambda a: again(
        a, "South", name="South", identity=other_request(a)["identity"]
    ),
    "a name that the key did not sign": lambda a: again(a, name="West"),
    "a key of TLS that signed nothing": lambda a: again(
        a, signing_request=other_request(a)["signing_request"]
    ),
    "another federation": lambda a: again(a, federation="00" * 32),
    "a key that the engine cannot read": lambda a: again(a, signing_request=elliptic(a)),
    "no request": lambda a: again(a, signing_request="nothing"),
    "no name": lambda a: again(a, name=7),
    "a path for a name": lambda a: again(a, name="../North"),
    "the server's name": lambda a: again(a, name="server"),
    "the host's name": lambda a: again(a, name="fed.example.org"),
    "no signature": lambda a: changed_request(a, signature=""),
    "an invitation": lambda a: a / "office/ours/invitation.json",
    "no file": lambda a: a / "nowhere.json",
    "no JSON": lambda a: home(a, "North") / "site.toml",
    "deep JSON": lambda a: deep(a),
}


def deep(asked):
    (asked / "deep.json").write_text("[" * 100_000)
    return asked / "deep.json"


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_request_is_refused_that_does_not_prove_both_keys(asked, forgery):
    office = asked / "office/ours"
    before = whole(office)
    with pytest.raises(TacitError):
        approve(office, [request_of(asked, "South"), FORGERIES[forgery](asked)], everybody)
    assert whole(office) == before  # all or none


def test_an_authority_without_the_proof_of_tls_would_sign_a_key_that_the_asker_stole(
    asked, monkeypatch
):
    stolen = FORGERIES["a stolen key of TLS"](asked)
    asker = bytes.fromhex(public(asked, "South"))
    monkeypatch.setattr(certificates, "_identity", lambda item: asker)
    monkeypatch.setattr(certificates, "_common_name", lambda item: "South")
    (found,), _ = approve(asked / "office/ours", [stolen], everybody)
    assert found.name == "South"


def test_an_authority_without_the_proof_of_identity_would_let_an_impostor_in(asked, monkeypatch):
    victim = bytes.fromhex(public(asked, "North"))
    mine = certificates.make_request(certificates.new_key(), "North", victim)
    text = certificates.public_pem(mine).decode()
    impostor = changed_request(asked, signing_request=text)
    with pytest.raises(VerificationFailed, match="not signed by the identity"):
        approve(asked / "office/ours", [impostor], everybody)
    monkeypatch.setattr(documents, "check_signed", lambda *_: None)
    (found,), _ = approve(asked / "office/ours", [impostor], everybody)
    assert found.name == "North"


def test_a_name_or_an_identity_is_taken_once(place):
    office = place / "office/ours"
    invitation = office / "invitation.json"
    impostor = join(invitation, "North", place / "impostor").request
    shout = join(invitation, "NORTH", place / "shout").request
    with pytest.raises(VerificationFailed, match="THE NAME North IS TAKEN"):
        approve(office, [impostor], everybody)
    with pytest.raises(VerificationFailed, match="THE NAME NORTH IS TAKEN"):
        approve(office, [shout], everybody)
    second = place / "second.json"
    identity = read_identity(home(place, "North") / "identity.key")
    authority = Invitation.read(invitation).authority
    second.write_text(Request.make("West", authority, identity, certificates.new_key()))
    with pytest.raises(VerificationFailed, match="is a member, as North"):
        approve(office, [second], everybody)


def test_a_request_that_comes_again_gets_the_same_certificate(place):
    before = json.loads(approval(place, "North").read_text())["certificate"]
    (found,), _ = approve(place / "office/ours", [request_of(place, "North")], everybody)
    assert json.loads(found.file.read_text())["certificate"] == before
    assert found.file == approval(place, "North")


def test_certificates_last_a_year_and_hold_nothing_of_the_requests_choosing(asked):
    now = datetime(2030, 1, 1, tzinfo=UTC)
    (found,), _ = approve(asked / "office/ours", [request_of(asked, "North")], everybody, now=now)
    assert found.ends == now + timedelta(days=365)
    made = certificates.load_certificate(json.loads(found.file.read_text())["certificate"])
    assert made.subject == certificates._name("North")
    uses = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [use._name for use in uses] == ["clientAuth"]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_no_certificate_outlasts_the_root(asked):
    office = asked / "office/ours"
    root = certificates.load_certificate((office / "authority/root.pem").read_bytes())
    late = root.not_valid_after_utc - timedelta(days=100)
    (found,), _ = approve(office, [request_of(asked, "North")], everybody, now=late)
    assert found.ends == root.not_valid_after_utc
    with pytest.raises(ParameterError, match="the root must last"):
        approve(office, [request_of(asked, "South")], everybody, now=late + timedelta(days=100))


def test_a_stolen_key_is_refused_from_the_renewal_on(place):
    north, office = home(place, "North"), place / "office/ours"
    old = serial(north / "kit/startup/client.crt")
    stolen = request_of(place, "North").read_bytes()
    (found,), _ = approve(office, [renew(north).request], NOBODY, replace=True)
    accept(north, found.file, NOBODY)
    assert revoked(office) == {old}
    request_of(place, "North").write_bytes(stolen)
    with pytest.raises(VerificationFailed, match="another's, or revoked"):
        approve(office, [request_of(place, "North")], everybody)


def test_a_revoked_site_is_off_all_lists_and_its_partners_unpin_it(place):
    office, north = place / "office/ours", home(place, "North")
    gone = serial(home(place, "South") / "kit/startup/client.crt")
    assert revoke(office, "South", now=datetime(2027, 5, 4, tzinfo=UTC)) == []
    assert revoked(office) == {gone}
    rows = {row["name"]: row["revoked"] for row in members(office)}
    assert rows["South"] == "2027-05-04" and rows["North"] is None
    text = (office / "coordinator/coordinator.toml").read_text()
    assert 'sites = ["North"]' in text and "minimum = 1" in text
    assert accept(north, roster(place), NOBODY).unpinned == ["South"]
    assert set(SiteConfig.read(north / "site.toml").partners) == {"North"}
    with pytest.raises(VerificationFailed, match="THIS SITE IS REVOKED"):
        accept(home(place, "South"), roster(place), everybody)
    with pytest.raises(VerificationFailed, match="is revoked, as South"):
        approve(office, [request_of(place, "South")], everybody)
    with pytest.raises(ParameterError, match="is no member"):
        revoke(office, "South")


def test_an_institution_that_lost_its_key_comes_back_under_its_name_and_is_confirmed_anew(place):
    office, north = place / "office/ours", home(place, "North")
    revoke(office, "South")
    made = join(office / "invitation.json", "South", place / "again")
    approve(office, [made.request], as_told({"South": made.fingerprint}))
    old = shown(place, "South")
    with pytest.raises(VerificationFailed, match="NOT THE ONE YOU WERE TOLD"):
        accept(north, roster(place), as_told({"South": old}))
    found = accept(north, roster(place), as_told({"South": made.fingerprint}))
    assert (found.unpinned, found.pinned) == (["South"], ["South"])
    assert identities(SiteConfig.read(north / "site.toml"))["South"] == made.fingerprint


def test_the_server_is_renewed_at_the_authority(place):
    office = place / "office/ours"
    startup = office / "coordinator/server/startup"
    admin = serial(office / "coordinator/admin/startup/client.crt")
    before = (startup / "server.key").read_bytes()
    ends = renew_server(office, days=10)
    assert (startup / "server.key").read_bytes() != before
    rows = {row["name"]: datetime.fromisoformat(row["ends"]) for row in members(office)}
    assert rows["server"] == rows["admin"] == ends < rows["North"] < rows["root"]
    assert revoked(office) == {admin}
