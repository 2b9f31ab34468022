"""Private keys and certificates opened, to PEM.

Imported when there are any: what it needs takes a tenth of the time in which a worker starts.
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


class Damaged(ValueError):
    """What cannot be opened: the password is another, or it is damaged, or of a kind that nobody knows."""


@dataclass(frozen=True, slots=True)
class Pkcs12:
    """What a PKCS12 store holds. All of it PEM; the key is PKCS8 without encryption."""

    certificates: str
    """All of them, its own first; empty when there are none."""
    chain: str | None
    """Its own certificate, then those that vouch for it."""
    key: str | None = field(repr=False)


@lru_cache(maxsize=16)
def open_pkcs12(data: bytes, password: str | None) -> Pkcs12:
    """Open a PKCS12 store; remembered, because its password costs milliseconds and tasks come by hundreds.

    Raises Damaged.
    """
    try:
        store = pkcs12.load_pkcs12(data, password.encode() if password is not None else None)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise Damaged(str(exc)) from exc
    others = [entry.certificate for entry in store.additional_certs]
    own = None if store.cert is None else store.cert.certificate
    return Pkcs12(
        certificates=_pem(others if own is None else [own, *others]),
        chain=None if own is None else _pem(_chain(own, others)),
        key=None
        if store.key is None
        else store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )


def matching_key(key: str, password: str | None, certificate: str) -> str | None:
    """Return a private key in PEM as PKCS8 without encryption; None when it is not the certificate's.

    Raises Damaged when either cannot be read.
    """
    try:
        private = load_pem_private_key(key.encode(), password.encode() if password else None)
        own = load_pem_x509_certificate(certificate.encode())
    except (ValueError, TypeError, UnsupportedAlgorithm) as exc:
        raise Damaged(str(exc)) from exc
    shape = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if private.public_key().public_bytes(*shape) != own.public_key().public_bytes(*shape):
        return None
    return private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _pem(certificates: Sequence[Certificate]) -> str:
    return "".join(each.public_bytes(Encoding.PEM).decode() for each in certificates)


def _chain(own: Certificate, others: Sequence[Certificate]) -> list[Certificate]:
    """Sort a chain: each certificate is followed by that of its issuer; strangers are left out."""
    chain, left = [own], list(others)
    while issuer := next((each for each in left if each.subject == chain[-1].issuer), None):
        left.remove(issuer)
        chain.append(issuer)
    return chain
