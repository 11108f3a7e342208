"""The certificates of a federation's mutual TLS: a root, requests, signatures, a revocation list.

RSA throughout: the engine signs its own challenges with RSA-PSS and reads no other key. A site's
certificate serves clients only (it cannot play the server), and names the site's identity, so
that one file says which connection belongs to which signing key.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import (
    RSAPrivateKey,
    RSAPublicKey,
    generate_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tacit.errors import ParameterError, VerificationFailed

__all__ = [
    "DAYS",
    "check_certificate",
    "check_request",
    "key_digest",
    "load_certificate",
    "load_private",
    "make_request",
    "make_root",
    "member_certificate",
    "new_key",
    "private_pem",
    "public_pem",
    "revocation_list",
    "server_certificate",
]

DAYS = 365  # how long a member's certificate lasts
_ROOT_DAYS = 3652  # all members must be invited anew when the root ends
_ROOT_BITS, _MEMBER_BITS = 3072, 2048  # NIST SP 800-57: to 2030 and beyond; one year at a time
_ORGANIZATION = "tacit"
_URN = "urn:tacit:identity:"
_SKEW = timedelta(minutes=10)  # clocks of institutions differ


def new_key(bits: int = _MEMBER_BITS) -> RSAPrivateKey:
    """Return a fresh private key for TLS."""
    return generate_private_key(65537, bits)


def private_pem(key: RSAPrivateKey) -> bytes:
    """Return a private key as it is written into a kit."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def public_pem(item: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    """Return a certificate or a request as text."""
    return item.public_bytes(serialization.Encoding.PEM)


def load_private(text: bytes) -> RSAPrivateKey:
    """Return a private key of TLS from its text."""
    key = serialization.load_pem_private_key(text, None)
    if not isinstance(key, RSAPrivateKey):
        raise VerificationFailed("a key of TLS must be RSA: the engine reads no other")
    return key


def load_certificate(text: str | bytes) -> x509.Certificate:
    """Return a certificate from its text."""
    try:
        data = text.encode() if isinstance(text, str) else text
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        raise VerificationFailed("a certificate cannot be read") from None


def key_digest(item: x509.Certificate | x509.CertificateSigningRequest | RSAPrivateKey) -> str:
    """Return the SHA-256 of a public key of TLS, in hexadecimal."""
    public = item.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(public).hexdigest()


def make_root(now: datetime) -> tuple[RSAPrivateKey, x509.Certificate]:
    """Return the authority's key and its certificate, which signs itself."""
    key = new_key(_ROOT_BITS)
    name = _name("tacit")
    usage = _usage(sign_certificates=True)
    builder = (
        _builder(name, name, key.public_key(), key.public_key(), now, _ROOT_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
    )
    return key, builder.sign(key, hashes.SHA256())


def server_certificate(
    root: tuple[RSAPrivateKey, x509.Certificate],
    host: str,
    key: RSAPrivateKey,
    now: datetime,
    days: int = DAYS,
) -> x509.Certificate:
    """Return the server's certificate: it serves under one host, and is no client's."""
    try:
        place: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        place = x509.DNSName(host)
    return _leaf(root, _name(host), key.public_key(), place, server=True, now=now, days=days)


def member_certificate(
    root: tuple[RSAPrivateKey, x509.Certificate],
    name: str,
    public: RSAPublicKey,
    now: datetime,
    days: int = DAYS,
    *,
    identity: bytes | None = None,
    role: str | None = None,
) -> x509.Certificate:
    """Return the certificate of a site, with its identity, or of the one who submits, with a role.

    Nothing of a request but its key goes into a certificate.
    """
    note = x509.UniformResourceIdentifier(_URN + (identity or b"").hex())
    return _leaf(root, _name(name, role), public, note, server=False, now=now, days=days)


def make_request(key: RSAPrivateKey, name: str, identity: bytes) -> x509.CertificateSigningRequest:
    """Return a request, signed by the key of TLS: it proves that the asker holds it."""
    note = x509.UniformResourceIdentifier(_URN + identity.hex())
    return (
        x509.CertificateSigningRequestBuilder()
        .subject_name(_name(name))
        .add_extension(x509.SubjectAlternativeName([note]), critical=False)
        .sign(key, hashes.SHA256())
    )


def check_request(text: str, name: str, identity: bytes) -> x509.CertificateSigningRequest:
    """Return a request whose asker holds its key, and meant this name and this identity."""
    try:
        request = x509.load_pem_x509_csr(text.encode())
        public, proved = request.public_key(), request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm):
        raise VerificationFailed(f"the request of {name!r} cannot be read") from None
    if not proved:
        raise VerificationFailed(f"the request of {name!r} is not signed by the key it names")
    if not isinstance(public, RSAPublicKey) or not 2048 <= public.key_size <= 4096:
        raise VerificationFailed(f"the key of {name!r} must be RSA, 2048 to 4096 bits")
    if _common_name(request) != name or _identity(request) != identity:
        raise VerificationFailed(f"the request of {name!r} was made for another name or identity")
    return request


def check_certificate(
    certificate: x509.Certificate,
    root: x509.Certificate,
    key: RSAPrivateKey,
    name: str,
    identity: bytes,
    now: datetime,
) -> None:
    """Raise `VerificationFailed` unless a certificate is this site's own, from the pinned root."""
    try:
        certificate.verify_directly_issued_by(root)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        raise VerificationFailed(
            "the certificate is not from the authority of the invitation"
        ) from None
    if key_digest(certificate) != key_digest(key):
        raise VerificationFailed("the certificate is for another key than the one made here")
    if _common_name(certificate) != name or _identity(certificate) != identity:
        raise VerificationFailed("the certificate is for another name or identity")
    if certificate.not_valid_after_utc <= now:
        raise VerificationFailed("the certificate has ended already")


def revocation_list(
    root: tuple[RSAPrivateKey, x509.Certificate], serials: Iterable[int], now: datetime
) -> bytes:
    """Return the list of certificates that a server refuses, signed by the authority."""
    key, certificate = root
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(now - _SKEW)
        .next_update(certificate.not_valid_after_utc)  # valid until the authority writes another
    )
    for serial in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _leaf(
    root: tuple[RSAPrivateKey, x509.Certificate],
    subject: x509.Name,
    public: RSAPublicKey,
    note: x509.GeneralName,
    *,
    server: bool,
    now: datetime,
    days: int,
) -> x509.Certificate:
    key, certificate = root
    if days < 1 or now >= certificate.not_valid_after_utc:
        raise ParameterError(
            f"days must be 1 or more, got {days}, and the root must last: it ends on "
            f"{certificate.not_valid_after_utc.date()}"
        )
    days = min(days, (certificate.not_valid_after_utc - now).days)  # none outlasts the root
    purpose = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    builder = (
        _builder(certificate.subject, subject, public, key.public_key(), now, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(sign_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        .add_extension(x509.SubjectAlternativeName([note]), critical=False)
    )
    return builder.sign(key, hashes.SHA256())


def _builder(
    issuer: x509.Name,
    subject: x509.Name,
    public: RSAPublicKey,
    signer: RSAPublicKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .issuer_name(issuer)
        .subject_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now.astimezone(UTC) - _SKEW)
        .not_valid_after(now.astimezone(UTC) + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer), critical=False)
    )


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not sign_certificates,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str, role: str | None = None) -> x509.Name:
    parts = [
        x509.NameAttribute(NameOID.COMMON_NAME, common),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, _ORGANIZATION),
    ]
    if role is not None:  # where the engine looks for it
        parts.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role))
    return x509.Name(parts)


def _common_name(item: x509.Certificate | x509.CertificateSigningRequest) -> str:
    found = item.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if len(found) == 1 else ""


def _identity(item: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    try:
        names = item.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        (note,) = names.get_values_for_type(x509.UniformResourceIdentifier)
        return bytes.fromhex(note.removeprefix(_URN))
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return b""
