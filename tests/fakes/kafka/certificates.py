"""Certificates for tests: a certificate authority, signed certificates, and stores of both."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

PASSWORD = "store secret"  # noqa: S105 - the password of temporary stores

_AUTHORITY_KEY_USAGE = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


@dataclass(frozen=True)
class Certified:
    """A certificate with its key, and the intermediate certificates up to the root."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    intermediates: tuple[x509.Certificate, ...] = ()

    @property
    def pem(self) -> str:
        """The certificate in PEM format."""
        return to_pem([self.certificate])

    @property
    def chain_pem(self) -> str:
        """The certificate and its intermediate certificates in PEM format."""
        return to_pem([self.certificate, *self.intermediates])

    def key_pem(self, password: str | None = None) -> str:
        """Return the private key in PEM format."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, _make_encryption(password)).decode()

    def issue_certificate(
        self, name: str, *, address: str | None = None, is_authority: bool = False
    ) -> Certified:
        """Create a certificate signed by this one; `address` is an IP address for the subject alternative name."""
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _sign_certificate(name, key, self, address=address, is_authority=is_authority)
        is_root = self.certificate.subject == self.certificate.issuer
        return Certified(certificate, key, () if is_root else (self.certificate, *self.intermediates))

    def key_store(self, path: Path, password: str = PASSWORD) -> Path:
        """Write the certificate, chain and key as PKCS12, with the chain deliberately out of order."""
        data = pkcs12.serialize_key_and_certificates(
            b"me", self.key, self.certificate, [*reversed(self.intermediates)], _make_encryption(password)
        )
        path.write_bytes(data)
        return path

    def trust_store(self, path: Path, password: str = PASSWORD) -> Path:
        """Write the certificate to a PKCS12 trust store."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        path.write_bytes(pkcs12.serialize_java_truststore([entry], _make_encryption(password)))
        return path


def make_authority(name: str = "authority") -> Certified:
    """Create a root certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Certified(_sign_certificate(name, key, None, address=None, is_authority=True), key)


def to_pem(certificates: Sequence[x509.Certificate]) -> str:
    """Return certificates as PEM."""
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _make_encryption(password: str | None) -> KeySerializationEncryption:
    return BestAvailableEncryption(password.encode()) if password else NoEncryption()


def _sign_certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: Certified | None,
    *,
    address: str | None,
    is_authority: bool,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    signer = issuer.key if issuer else key
    # The extensions that RFC 5280 and, since Python 3.13, ssl.VERIFY_X509_STRICT require.
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if is_authority:
        builder = builder.add_extension(_AUTHORITY_KEY_USAGE, critical=True)
    if address is not None:
        names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer, hashes.SHA256())
