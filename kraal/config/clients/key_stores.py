"""Conversion of key stores and trust stores (PEM in the config, PEM files, PKCS12, JKS, JCEKS) to PEM in memory.

The format is detected from the first bytes of a file: Java also reads PKCS12 if the type is JKS, the default of
`ssl.keystore.type`, so a PKCS12 file requires no type here either. Only Java reads JKS and JCEKS; keytool converts
them. Without keytool they are rejected with an error that contains the command to run elsewhere.
Source: DefaultSslEngineFactory (Kafka 4.3.0).
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kraal.config.clients.java_stores import (
    JAVA_STORES,
    ConversionFailed,
    ConvertedStore,
    Culprit,
    KeytoolMissing,
    to_pkcs12,
)

if TYPE_CHECKING:
    from kraal.config.clients.private_keys import Pkcs12

_DER_SEQUENCE: Final = b"\x30"
_MAX_BYTES: Final = 10 * 1024 * 1024
_PEM_LINE: Final = 64


class UnusableKeyStore(ValueError):
    """A store is unusable. Has the config key, and the end of an error message without secrets."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


@dataclass(frozen=True, slots=True)
class Identity:
    """The certificate chain and the private key of a client in PEM; the key is unencrypted PKCS8."""

    chain: str
    """The client's certificate, followed by those of its issuers."""
    key: str = field(repr=False)


def read_trust(settings: Mapping[str, str]) -> str | None:
    """Return the certificates of `ssl.truststore.*` in PEM, or None if it is not set. Raises UnusableKeyStore."""
    at = "ssl.truststore."
    location, password, kind = _store_settings(settings, at)
    inline = settings.get(f"{at}certificates")
    if inline:
        _require_pem(f"{at}certificates", kind, at, location=location, password=password)
        return _join_certificates(f"{at}certificates", inline)
    if location is None:
        if password is not None:
            raise UnusableKeyStore(f"{at}password", "there is no ssl.truststore.location that it could open")
        return None
    data = _read_store(location, f"{at}location", kind)
    if kind == "PEM":
        _require_pem(f"{at}location", kind, at, location=None, password=password)
        return _join_certificates(f"{at}location", _decode(data))
    certificates = _read_pkcs12(data, password, f"{at}location", location).certificates
    if not certificates:
        raise UnusableKeyStore(
            f"{at}location", "it has no certificates, or they cannot be read without a password"
        )
    return certificates


def read_identity(settings: Mapping[str, str]) -> Identity | None:
    """Return the key and certificates of `ssl.keystore.*`, or None if it is not set. Raises UnusableKeyStore."""
    at = "ssl.keystore."
    location, password, kind = _store_settings(settings, at)
    key_password = settings.get("ssl.key.password") or None
    key, chain = settings.get(f"{at}key") or None, settings.get(f"{at}certificate.chain") or None
    if key is not None or chain is not None:
        entry = f"{at}key" if key is not None else f"{at}certificate.chain"
        _require_pem(entry, kind, at, location=location, password=password)
        if key is None or chain is None:
            raise UnusableKeyStore(
                entry, "ssl.keystore.key and ssl.keystore.certificate.chain are needed together"
            )
        return _parse_pem_identity(chain, key, key_password, entry, f"{at}certificate.chain")
    if location is None:
        if password is not None:
            raise UnusableKeyStore(f"{at}password", "there is no ssl.keystore.location that it could open")
        return None
    data = _read_store(location, f"{at}location", kind)
    if kind == "PEM":
        _require_pem(f"{at}location", kind, at, location=None, password=password)
        return _parse_pem_identity(
            _decode(data), _decode(data), key_password, f"{at}location", f"{at}location"
        )
    if password is None:
        raise UnusableKeyStore(f"{at}location", "a key store of this type needs ssl.keystore.password")
    store = _read_pkcs12(data, password, f"{at}location", location, key_password)
    if store.key is None or store.chain is None:
        raise UnusableKeyStore(f"{at}location", "it has no private key with a certificate")
    return Identity(store.chain, store.key)


def _store_settings(settings: Mapping[str, str], at: str) -> tuple[str | None, str | None, str]:
    """Return the location, password and type of a store. Raises UnusableKeyStore if the type is unsupported."""
    kind = (settings.get(f"{at}type") or "JKS").strip()
    if kind.upper() not in {"PEM", "PKCS12", *JAVA_STORES.values()}:
        raise UnusableKeyStore(f"{at}type", "it must be PEM, PKCS12, JKS or JCEKS")
    location = (settings.get(f"{at}location") or "").strip() or None
    return location, settings.get(f"{at}password") or None, kind.upper()


def _require_pem(entry: str, kind: str, at: str, *, location: str | None, password: str | None) -> None:
    """Raise UnusableKeyStore for settings that Java does not allow with PEM."""
    if kind != "PEM":
        raise UnusableKeyStore(entry, f"it is allowed only with {at}type=PEM, but that is {kind}")
    if location is not None:
        raise UnusableKeyStore(entry, f"either it or {at}location is allowed, not both")
    if password is not None:
        raise UnusableKeyStore(
            f"{at}password", "PEM has no store password; ssl.key.password opens an encrypted key"
        )


def _read_store(location: str, key: str, kind: str) -> bytes:
    """Read the file of a store and compare its format with the type. Raises UnusableKeyStore."""
    path = Path(location)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise UnusableKeyStore(key, f"it is larger than {_MAX_BYTES} bytes")
        data = path.read_bytes()
    except OSError as exc:
        raise UnusableKeyStore(key, f"it cannot be read: {exc.strerror or exc}") from exc
    if data[:4] in JAVA_STORES and kind != "PEM":
        return data
    stem = key.removesuffix(".location")
    is_pem = b"-----BEGIN" in data
    if is_pem and kind != "PEM":
        raise UnusableKeyStore(key, f"it is PEM; set {stem}.type=PEM")
    if not is_pem and kind == "PEM":
        raise UnusableKeyStore(key, f"it is not PEM, although {stem}.type is PEM")
    if not is_pem and not data.startswith(_DER_SEQUENCE):
        raise UnusableKeyStore(key, "it is neither PKCS12 nor JKS nor PEM")
    return data


def _keytool_command(path: Path, kind: str) -> str:
    source, target = shlex.quote(str(path)), shlex.quote(str(path.with_suffix(".p12")))
    return (
        f"keytool -importkeystore -srckeystore {source} -srcstoretype {kind} "
        f"-destkeystore {target} -deststoretype PKCS12"
    )


def _read_pkcs12(
    data: bytes, password: str | None, key: str, location: str, key_password: str | None = None
) -> Pkcs12:
    from kraal.config.clients.private_keys import UnreadableKey, open_pkcs12  # noqa: PLC0415 - see there

    java = JAVA_STORES.get(data[:4])
    if java is not None:
        converted = _convert_java_store(Path(location), data, java, key, password, key_password)
        data, password = converted.data, converted.password
    try:
        return open_pkcs12(data, password)
    except UnreadableKey as exc:
        raise UnusableKeyStore(
            key, _describe_open_failure(location, java or "PKCS12", key, password)
        ) from exc


def _convert_java_store(
    path: Path, data: bytes, kind: str, key: str, password: str | None, key_password: str | None
) -> ConvertedStore:
    try:
        return to_pkcs12(path, data, kind, password, key_password)
    except KeytoolMissing as exc:
        raise UnusableKeyStore(
            key,
            f"it is a {kind} store, which only Java reads, and {exc}. Or convert it elsewhere with: "
            f"{_keytool_command(path, kind)} and set {key}={path.with_suffix('.p12')}",
        ) from exc
    except ConversionFailed as exc:
        reason = f"'{path}' cannot be opened as {kind}: {exc}"
        if exc.culprit is Culprit.STORE:
            reason = _describe_open_failure(str(path), kind, key, password)
        elif exc.culprit is Culprit.KEY:
            hint = "ssl.key.password does not open it" if key_password else "set ssl.key.password"
            reason = f"its private key has another password than the store: {hint}"
        raise UnusableKeyStore(key, reason) from exc


def _describe_open_failure(location: str, kind: str, key: str, password: str | None) -> str:
    which = key.removesuffix("location") + "password"
    hint = f"{which} does not open it" if password else f"{which} is not set"
    return f"'{location}' cannot be opened as {kind}: {hint}, or it is damaged"


@lru_cache(maxsize=16)
def _parse_pem_identity(chain: str, key: str, password: str | None, key_at: str, chain_at: str) -> Identity:
    from kraal.config.clients.private_keys import UnreadableKey, decrypt_matching_key  # noqa: PLC0415 - see there

    blocks = _find_blocks(key, "PRIVATE KEY")
    if len(blocks) != 1:
        raise UnusableKeyStore(key_at, f"expected one private key in PEM, got {len(blocks)}")
    certificates = _find_certificates(chain_at, chain)
    try:
        written = decrypt_matching_key(blocks[0], password, certificates[0])
    except UnreadableKey as exc:
        hint = "ssl.key.password does not open it" if password else "it is encrypted without ssl.key.password"
        raise UnusableKeyStore(key_at, f"the private key cannot be read: {hint}, or it is damaged") from exc
    if written is None:
        raise UnusableKeyStore(chain_at, "the first certificate belongs to another private key")
    return Identity("".join(certificates), written)


def _join_certificates(key: str, text: str) -> str:
    return "".join(_find_certificates(key, text))


def _find_certificates(key: str, text: str) -> list[str]:
    blocks = _find_blocks(text, "CERTIFICATE")
    if not blocks:
        raise UnusableKeyStore(key, "expected at least one certificate in PEM, got none")
    return blocks


def _find_blocks(text: str, name: str) -> list[str]:
    """Return the PEM blocks whose label ends with `name`, in standard format.

    In a properties file a block is often a single line with spaces instead of line breaks, which Java accepts.
    """
    spaced = name.replace(" ", r"\s+")
    matches = re.finditer(
        rf"-+BEGIN\s+(?P<title>[A-Z0-9 ]*?{spaced})\s*-+\s+(?P<body>.*?)-+END\s[^-]*-+", text, re.DOTALL
    )
    return [
        block for match in matches if (block := _normalize_block(match["title"], match["body"])) is not None
    ]


def _normalize_block(title: str, body: str) -> str | None:
    lines = re.sub(r"[^\r\n]*:[^\r\n]*[\r\n]+", "", body)  # such as "Proc-Type: 4,ENCRYPTED"
    if lines != body:
        return f"-----BEGIN {title}-----\n{body.strip()}\n-----END {title}-----\n"
    packed = re.sub(r"\s", "", body)
    try:
        base64.b64decode(packed, validate=True)
    except binascii.Error:
        return None
    return (
        f"-----BEGIN {title}-----\n{chr(10).join(textwrap.wrap(packed, _PEM_LINE))}\n-----END {title}-----\n"
    )


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
