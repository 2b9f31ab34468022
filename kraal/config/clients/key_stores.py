"""Conversion of key stores and trust stores (PEM in the config, PEM files, PKCS12, JKS, JCEKS) to PEM in memory.

The format is detected from the first bytes of a file. Java also reads PKCS12 if the type is JKS, the default of
`ssl.keystore.type`, so a PKCS12 file requires no type here either. Only Java reads JKS and JCEKS, so keytool converts
such stores. Without keytool, they are rejected with an error that contains the command to run on another machine.
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
_MAX_FILE_BYTES: Final = 10 * 1024 * 1024
_PEM_LINE_LENGTH: Final = 64


class UnusableKeyStore(ValueError):
    """Raised if a store is unusable. Contains the config key and the reason, without secrets."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificate chain in PEM; the key is unencrypted PKCS8."""

    chain: str
    """The certificate of the key, followed by the certificates of its issuers."""
    key: str = field(repr=False)


def read_trust(settings: Mapping[str, str]) -> str | None:
    """Return the certificates of `ssl.truststore.*` in PEM; None if no trust store is set. Raises UnusableKeyStore."""
    prefix = "ssl.truststore."
    location, password, kind = _store_settings(settings, prefix)
    inline_certificates = settings.get(f"{prefix}certificates")
    if inline_certificates:
        _require_pem(f"{prefix}certificates", kind, prefix, location=location, password=password)
        return _join_certificates(f"{prefix}certificates", inline_certificates)
    if location is None:
        if password is not None:
            raise UnusableKeyStore(f"{prefix}password", "ssl.truststore.location is not set")
        return None
    data = _read_store(location, f"{prefix}location", kind)
    if kind == "PEM":
        _require_pem(f"{prefix}location", kind, prefix, location=None, password=password)
        return _join_certificates(f"{prefix}location", _decode(data))
    certificates = _read_pkcs12(data, password, f"{prefix}location", location).certificates
    if not certificates:
        raise UnusableKeyStore(
            f"{prefix}location", "the store has no certificates, or none that can be read without a password"
        )
    return certificates


def read_identity(settings: Mapping[str, str]) -> Identity | None:
    """Return the key and certificates of `ssl.keystore.*`; None if no key store is set. Raises UnusableKeyStore."""
    prefix = "ssl.keystore."
    location, password, kind = _store_settings(settings, prefix)
    key_password = settings.get("ssl.key.password") or None
    key, chain = settings.get(f"{prefix}key") or None, settings.get(f"{prefix}certificate.chain") or None
    if key is not None or chain is not None:
        entry = f"{prefix}key" if key is not None else f"{prefix}certificate.chain"
        _require_pem(entry, kind, prefix, location=location, password=password)
        if key is None or chain is None:
            raise UnusableKeyStore(
                entry, "ssl.keystore.key and ssl.keystore.certificate.chain must be set together"
            )
        return _parse_pem_identity(chain, key, key_password, entry, f"{prefix}certificate.chain")
    if location is None:
        if password is not None:
            raise UnusableKeyStore(f"{prefix}password", "ssl.keystore.location is not set")
        return None
    data = _read_store(location, f"{prefix}location", kind)
    if kind == "PEM":
        _require_pem(f"{prefix}location", kind, prefix, location=None, password=password)
        return _parse_pem_identity(
            _decode(data), _decode(data), key_password, f"{prefix}location", f"{prefix}location"
        )
    if password is None:
        raise UnusableKeyStore(f"{prefix}location", "a key store of this type requires ssl.keystore.password")
    store = _read_pkcs12(data, password, f"{prefix}location", location, key_password)
    if store.key is None or store.chain is None:
        raise UnusableKeyStore(f"{prefix}location", "the store has no private key with a certificate")
    return Identity(store.chain, store.key)


def _store_settings(settings: Mapping[str, str], prefix: str) -> tuple[str | None, str | None, str]:
    """Return the location, password and type of a store. Raises UnusableKeyStore if the type is unsupported."""
    kind = (settings.get(f"{prefix}type") or "JKS").strip()
    if kind.upper() not in {"PEM", "PKCS12", *JAVA_STORES.values()}:
        raise UnusableKeyStore(f"{prefix}type", "it must be PEM, PKCS12, JKS or JCEKS")
    location = (settings.get(f"{prefix}location") or "").strip() or None
    return location, settings.get(f"{prefix}password") or None, kind.upper()


def _require_pem(entry: str, kind: str, prefix: str, *, location: str | None, password: str | None) -> None:
    """Raise UnusableKeyStore if the type is not PEM, or for settings that Java does not allow with PEM."""
    if kind != "PEM":
        raise UnusableKeyStore(entry, f"this setting requires {prefix}type=PEM, but the type is {kind}")
    if location is not None:
        raise UnusableKeyStore(entry, f"this setting and {prefix}location are mutually exclusive")
    if password is not None:
        raise UnusableKeyStore(
            f"{prefix}password", "PEM has no store password; set ssl.key.password for an encrypted key"
        )


def _read_store(location: str, key: str, kind: str) -> bytes:
    """Read the file of a store and compare its format with the type. Raises UnusableKeyStore."""
    path = Path(location)
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise UnusableKeyStore(key, f"the file is larger than {_MAX_FILE_BYTES} bytes")
        data = path.read_bytes()
    except OSError as exc:
        raise UnusableKeyStore(key, f"the file cannot be read: {exc.strerror or exc}") from exc
    if data[:4] in JAVA_STORES and kind != "PEM":
        return data
    stem = key.removesuffix(".location")
    is_pem = b"-----BEGIN" in data
    if is_pem and kind != "PEM":
        raise UnusableKeyStore(key, f"the file is PEM; set {stem}.type=PEM")
    if not is_pem and kind == "PEM":
        raise UnusableKeyStore(key, f"the file is not PEM, although {stem}.type is PEM")
    if not is_pem and not data.startswith(_DER_SEQUENCE):
        raise UnusableKeyStore(key, "the file is neither PKCS12 nor JKS nor PEM")
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
    from kraal.config.clients.private_keys import UnreadableKey, open_pkcs12  # noqa: PLC0415 - slow import

    java_format = JAVA_STORES.get(data[:4])
    if java_format is not None:
        converted_store = _convert_java_store(Path(location), data, java_format, key, password, key_password)
        data, password = converted_store.data, converted_store.password
    try:
        return open_pkcs12(data, password)
    except UnreadableKey as exc:
        raise UnusableKeyStore(
            key, _describe_open_failure(location, java_format or "PKCS12", key, password)
        ) from exc


def _convert_java_store(
    path: Path, data: bytes, kind: str, key: str, password: str | None, key_password: str | None
) -> ConvertedStore:
    try:
        return to_pkcs12(path, data, kind, password, key_password)
    except KeytoolMissing as exc:
        raise UnusableKeyStore(
            key,
            f"only Java reads {kind} stores, and {exc}. Alternatively, convert the store on another machine with: "
            f"{_keytool_command(path, kind)} and set {key}={path.with_suffix('.p12')}",
        ) from exc
    except ConversionFailed as exc:
        reason = f"'{path}' cannot be opened as {kind}: {exc}"
        if exc.culprit is Culprit.STORE:
            reason = _describe_open_failure(str(path), kind, key, password)
        elif exc.culprit is Culprit.KEY:
            hint = "ssl.key.password is wrong" if key_password else "set ssl.key.password"
            reason = f"the password of the private key differs from the password of the store: {hint}"
        raise UnusableKeyStore(key, reason) from exc


def _describe_open_failure(location: str, kind: str, key: str, password: str | None) -> str:
    password_key = key.removesuffix("location") + "password"
    hint = f"{password_key} is wrong" if password else f"{password_key} is not set"
    return f"'{location}' cannot be opened as {kind}: {hint}, or the file is damaged"


@lru_cache(maxsize=16)
def _parse_pem_identity(
    chain: str, key: str, password: str | None, key_setting: str, chain_setting: str
) -> Identity:
    from kraal.config.clients.private_keys import UnreadableKey, decrypt_matching_key  # noqa: PLC0415 - slow import

    blocks = _find_blocks(key, "PRIVATE KEY")
    if len(blocks) != 1:
        raise UnusableKeyStore(key_setting, f"expected one private key in PEM, got {len(blocks)}")
    certificates = _find_certificates(chain_setting, chain)
    try:
        decrypted_key = decrypt_matching_key(blocks[0], password, certificates[0])
    except UnreadableKey as exc:
        hint = (
            "ssl.key.password is wrong"
            if password
            else "the key is encrypted and ssl.key.password is not set"
        )
        raise UnusableKeyStore(
            key_setting, f"the private key cannot be read: {hint}, or the key is damaged"
        ) from exc
    if decrypted_key is None:
        raise UnusableKeyStore(chain_setting, "the first certificate belongs to another private key")
    return Identity("".join(certificates), decrypted_key)


def _join_certificates(key: str, text: str) -> str:
    return "".join(_find_certificates(key, text))


def _find_certificates(key: str, text: str) -> list[str]:
    blocks = _find_blocks(text, "CERTIFICATE")
    if not blocks:
        raise UnusableKeyStore(key, "expected at least one certificate in PEM, got none")
    return blocks


def _find_blocks(text: str, name: str) -> list[str]:
    """Return the PEM blocks whose label ends with `name`, in standard format.

    In a properties file, a block is often a single line with spaces instead of line breaks; Java accepts such blocks.
    """
    name_pattern = name.replace(" ", r"\s+")
    matches = re.finditer(
        rf"-+BEGIN\s+(?P<title>[A-Z0-9 ]*?{name_pattern})\s*-+\s+(?P<body>.*?)-+END\s[^-]*-+", text, re.DOTALL
    )
    return [
        block for match in matches if (block := _normalize_block(match["title"], match["body"])) is not None
    ]


def _normalize_block(title: str, body: str) -> str | None:
    body_without_headers = re.sub(r"[^\r\n]*:[^\r\n]*[\r\n]+", "", body)  # such as "Proc-Type: 4,ENCRYPTED"
    if body_without_headers != body:
        return f"-----BEGIN {title}-----\n{body.strip()}\n-----END {title}-----\n"
    base64_text = re.sub(r"\s", "", body)
    try:
        base64.b64decode(base64_text, validate=True)
    except binascii.Error:
        return None
    wrapped_text = "\n".join(textwrap.wrap(base64_text, _PEM_LINE_LENGTH))
    return f"-----BEGIN {title}-----\n{wrapped_text}\n-----END {title}-----\n"


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")
