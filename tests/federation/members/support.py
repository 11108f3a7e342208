"""Where things are in the federations of these tests, and what must not leave a site."""

import base64

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tacit.federation.files import SiteConfig
from tacit.federation.members import certificates
from tacit.federation.members.identity import as_told, read_identity
from tacit.federation.members.standing import identities
from tacit.federation.secure import keys

NOBODY = as_told({})


def home(place, site):
    return place / site.lower() / site


def request_of(place, site):
    return home(place, site) / f"{site}.request.json"


def approval(place, site, number=""):
    return place / "office" / "ours" / "approvals" / f"{site}.approval{number}.json"


def roster(place):
    return place / "office" / "ours" / "roster.json"


def shown(place, site):
    return identities(SiteConfig.read(home(place, site) / "site.toml"))[site]


def whole(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def secrets(home):
    """Return every form in which a site's private keys could be written down."""
    forms = []
    for path in (
        home / "identity.key",
        home / "pending/client.key",
        home / "kit/startup/client.key",
    ):
        if not path.exists():
            continue
        if path.name == "identity.key":
            raw = bytes.fromhex(path.read_text())
        else:
            key = certificates.load_private(path.read_bytes())
            numbers = key.private_numbers()
            prime = max(numbers.p, numbers.q)
            forms += [str(prime).encode(), prime.to_bytes(128, "big")]
            raw = key.private_bytes(
                serialization.Encoding.DER,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        forms += [raw, raw.hex().encode(), base64.b64encode(raw), raw.hex().upper().encode()]
        # lines that hold primes and exponent: the first ones hold the modulus, which is public
        forms += [path.read_bytes().split(b"\n")[k] for k in (14, 18) if path.name == "client.key"]
    return [form for form in forms if b"BEGIN" not in form]


def leaks(folder, found):
    return [path for path, text in whole(folder).items() for form in found if form in text]


def revoked(office):
    text = (office / "coordinator/server/startup/revoked.pem").read_bytes()
    return {entry.serial_number for entry in x509.load_pem_x509_crl(text)}


def serial(file):
    return certificates.load_certificate(file.read_bytes()).serial_number


def public(place, site):
    return keys.identity_public(read_identity(home(place, site) / "identity.key")).hex()
