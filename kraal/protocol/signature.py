"""Signatures of requests between workers, and the session keys (KIP-507).

A worker that is not the leader signs its requests to the leader. The session key is in the config topic, so only
clients that may read that topic can sign. A signature covers only the raw body, not the path or a timestamp.
Source: InternalRequestSignature, DistributedHerder.verifyInternalRequestSignature (Kafka 4.4.0).
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from kraal.core.errors import BadRequest, Forbidden, Unavailable
from kraal.protocol.records import SessionKeyRecord

SIGNATURE_HEADER = "X-Connect-Authorization"
ALGORITHM_HEADER = "X-Connect-Request-Signature-Algorithm"

DEFAULT_ALGORITHM = "HmacSHA256"
"""The default algorithm of signatures and keys."""

DIGESTS: Mapping[str, str] = MappingProxyType(
    {
        "HmacSHA256": "sha256",
        "HmacSHA384": "sha384",
        "HmacSHA512": "sha512",
        "HmacSHA224": "sha224",
        "HmacSHA1": "sha1",
        "HmacMD5": "md5",
    }
)
"""Python's digest names, by Java's names of the supported algorithms."""

KEY_BYTES: Mapping[str, int] = MappingProxyType(
    {
        "HmacSHA256": 32,
        "HmacSHA384": 48,
        "HmacSHA512": 64,
        "HmacSHA224": 28,
        "HmacSHA1": 64,
        "HmacMD5": 64,
    }
)
"""Default key lengths in bytes, if `inter.worker.key.size` is not set. They equal the JVM's defaults, because a Java
leader replaces keys of other lengths."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature headers of a request; either may be missing."""

    value: str | None
    """The signature in base64, as in the header."""
    algorithm: str | None


def sign(key: bytes, body: bytes, algorithm: str = DEFAULT_ALGORITHM) -> str:
    """Return the value of the signature header for `body`. Raises BadRequest for an unknown algorithm."""
    return base64.b64encode(_compute_mac(key, body, algorithm)).decode()


def sign_get(key: bytes, url: str, target: bytes, algorithm: str = DEFAULT_ALGORITHM) -> dict[str, str]:
    """Return the signature headers for a GET of `target` (path and query) from the worker at `url`.

    Connect does not sign GETs. The key is derived from the session key, so that the signature of a GET is not valid for
    a request with a body.
    """
    return signature_headers(_derive_get_key(key), _encode_get(url, target), algorithm)


def is_signed_get(
    signature: Signature, *, key: bytes, allowed_algorithms: Sequence[str], url: str, target: bytes
) -> bool:
    """Return whether `signature` is valid for a GET of `target` from this worker, whose URL is `url`."""
    try:
        parsed_signature = parse_signature(
            signature, key=_derive_get_key(key), allowed_algorithms=allowed_algorithms
        )
        parsed_signature.verify(_encode_get(url, target))
    except (BadRequest, Forbidden):
        return False
    return True


def signature_headers(key: bytes, body: bytes, algorithm: str = DEFAULT_ALGORITHM) -> dict[str, str]:
    """Return the signature headers for a request."""
    return {SIGNATURE_HEADER: sign(key, body, algorithm), ALGORITHM_HEADER: algorithm}


@dataclass(frozen=True, slots=True)
class ParsedSignature:
    """A decoded signature and the key to verify it."""

    mac: bytes
    algorithm: str
    key: bytes

    def verify(self, body: bytes) -> None:
        """Verify that `body` was signed with the key, in constant time. Raises Forbidden."""
        if not hmac.compare_digest(_compute_mac(self.key, body, self.algorithm), self.mac):
            raise Forbidden("Internal request contained invalid signature.")


def parse_signature(
    signature: Signature, *, key: bytes | None, allowed_algorithms: Sequence[str]
) -> ParsedSignature:
    """Parse a request's signature headers.

    The checks have Connect's order and messages. Raises BadRequest for a missing or invalid signature, Unavailable if
    this worker has no key yet.
    """
    value, algorithm = signature.value, signature.algorithm
    if value is None or algorithm is None:
        raise BadRequest("Internal request missing required signature")
    if algorithm not in DIGESTS:
        raise BadRequest(f"Algorithm {algorithm} not available")
    try:
        mac = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as exc:
        raise BadRequest(f"the signature is not base64: {exc}") from exc
    if algorithm not in allowed_algorithms:
        raise BadRequest(
            f"This worker does not support the '{algorithm}' key signing algorithm used by other workers. This "
            f"worker is currently configured to use: [{', '.join(allowed_algorithms)}]. Check that all workers' "
            "configuration files permit the same set of signature algorithms, and correct any misconfigured worker and "
            "restart it."
        )
    if key is None:
        raise Unavailable(
            "This worker is still starting up and has not been able to read a session key from the config topic yet"
        )
    return ParsedSignature(mac, algorithm, key)


def key_size(bits: int | None, algorithm: str = DEFAULT_ALGORITHM) -> int:
    """Return the key length in bytes for `inter.worker.key.size` in bits; None for the algorithm's default."""
    return KEY_BYTES[algorithm] if bits is None else (bits + 7) // 8


def generate_key(
    now_ms: int, algorithm: str = DEFAULT_ALGORITHM, size: int | None = None
) -> SessionKeyRecord:
    """Generate a session key of `size` bytes; `now_ms` is the wall-clock time, which other workers read."""
    length = KEY_BYTES[algorithm] if size is None else size
    return SessionKeyRecord(key=secrets.token_bytes(length), algorithm=algorithm, created_ms=now_ms)


def needs_new_key(
    key: SessionKeyRecord | None, now_ms: int, ttl_ms: int, algorithm: str = DEFAULT_ALGORITHM, size: int = 32
) -> bool:
    """Return whether the leader must write a new key: it is missing, expired, or has another algorithm or size.

    `size` is in bytes. With a `ttl_ms` of 0, keys do not expire. (Java treats 0 as "already expired" at startup and as
    "never" after its first update.) Source: DistributedHerder.checkForKeyRotation.
    """
    if key is None:
        return True
    is_expired = ttl_ms > 0 and key.created_ms + ttl_ms <= now_ms
    return is_expired or key.algorithm != algorithm or len(key.key) != size


def _derive_get_key(key: bytes) -> bytes:
    return hmac.new(key, b"kraal GET", "sha256").digest()


def _encode_get(url: str, target: bytes) -> bytes:
    return url.rstrip("/").lower().encode() + b" " + target


def _compute_mac(key: bytes, body: bytes, algorithm: str) -> bytes:
    digest = DIGESTS.get(algorithm)
    if digest is None:
        raise BadRequest(f"Algorithm {algorithm} not available")
    return hmac.new(key, body, digest).digest()  # unlike hmac.digest, releases the GIL
