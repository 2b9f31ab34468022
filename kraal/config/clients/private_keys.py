"""Conversion of private keys and certificates to unencrypted PEM.

Imported on first use, because importing `cryptography` takes a tenth of a worker's startup time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509 import Certificate, load_pem_x509_certificate


class UnreadableKey(ValueError):
    """Raised if a password is wrong, a store or key is damaged, or an algorithm is unsupported."""


@dataclass(frozen=True, slots=True)
class Pkcs12:
    """The content of a PKCS12 store in PEM; the key is PKCS8 without encryption."""

    certificates: str
    """All certificates, starting with the certificate of the key; may be empty."""
    chain: str | None
    """The key's certificate, followed by the certificates of its issuers."""
    key: str | None = field(repr=False)


@lru_cache(maxsize=16)
def open_pkcs12(data: bytes, password: str | None) -> Pkcs12:
    """Open a PKCS12 store. Cached, because key derivation takes milliseconds and hundreds of tasks may repeat it.

    Raises UnreadableKey.
    """
    try:
        store = pkcs12.load_pkcs12(data, password.encode() if password is not None else None)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise UnreadableKey(str(exc)) from exc
    additional_certificates = [entry.certificate for entry in store.additional_certs]
    certificate = None if store.cert is None else store.cert.certificate
    return Pkcs12(
        certificates=_to_pem(
            additional_certificates if certificate is None else [certificate, *additional_certificates]
        ),
        chain=None if certificate is None else _to_pem(_build_chain(certificate, additional_certificates)),
        key=None
        if store.key is None
        else store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )


def decrypt_matching_key(key: str, password: str | None, certificate: str) -> str | None:
    """Return a private key in PEM as unencrypted PKCS8; None if the key does not match the certificate.

    Raises UnreadableKey if the key or the certificate cannot be read.
    """
    try:
        private_key = load_pem_private_key(key.encode(), password.encode() if password else None)
        parsed_certificate = load_pem_x509_certificate(certificate.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise UnreadableKey(str(exc)) from exc
    key_format = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private_key.public_key().public_bytes(*key_format) != parsed_certificate.public_key().public_bytes(
        *key_format
    ):
        return None
    return private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _to_pem(certificates: Sequence[Certificate]) -> str:
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def _build_chain(leaf: Certificate, candidates: Sequence[Certificate]) -> list[Certificate]:
    """Return a chain in which each certificate precedes its issuer's certificate; drop unrelated certificates."""
    chain, unused_certificates = [leaf], list(candidates)
    while issuer := next(
        (candidate for candidate in unused_certificates if candidate.subject == chain[-1].issuer), None
    ):
        unused_certificates.remove(issuer)
        chain.append(issuer)
    return chain
