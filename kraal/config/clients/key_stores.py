"""Conversion of key stores and trust stores (PEM in the config, PEM files, PKCS12) to PEM in memory.

Java reads its own format JKS, which is the default of `ssl.keystore.type`; no other library does, so a JKS file
is refused with the command that converts it. What a file is, its first bytes say: Java reads PKCS12 under the
name JKS as well, so a PKCS12 file needs no type here either.
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

if TYPE_CHECKING:
    from kraal.config.clients.private_keys import Pkcs12

_JAVA_ONLY: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
_DER_SEQUENCE: Final = b"\x30"
_LARGEST: Final = 10 * 1024 * 1024
_PEM_LINE: Final = 64


class Unusable(ValueError):
    """Raised for an unusable store, with the config key and the end of an error message without secrets."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


@dataclass(frozen=True, slots=True)
class Identity:
    """The certificate chain and private key of a client, in PEM; the key is unencrypted PKCS8."""

    chain: str
    """The client's certificate first, then its issuers'."""
    key: str = field(repr=False)


def read_trust(settings: Mapping[str, str]) -> str | None:
    """Return the certificates in `ssl.truststore.*` as PEM; None for the system's. Raises Unusable."""
    at = "ssl.truststore."
    location, password, kind = _common(settings, at)
    inline = settings.get(f"{at}certificates")
    if inline:
        _pem_only(f"{at}certificates", kind, at, location=location, password=password)
        return _all_certificates(f"{at}certificates", inline)
    if location is None:
        if password is not None:
            raise Unusable(f"{at}password", "there is no ssl.truststore.location that it could open")
        return None
    data = _content(location, f"{at}location", kind)
    if kind == "PEM":
        _pem_only(f"{at}location", kind, at, location=None, password=password)
        return _all_certificates(f"{at}location", _text(data))
    found = _pkcs12(data, password, f"{at}location", location).certificates
    if not found:
        raise Unusable(f"{at}location", "it has no certificates, or they cannot be read without a password")
    return found


def read_identity(settings: Mapping[str, str]) -> Identity | None:
    """Return the identity in `ssl.keystore.*`; None if there is none. Raises Unusable."""
    at = "ssl.keystore."
    location, password, kind = _common(settings, at)
    key_password = settings.get("ssl.key.password") or None
    key, chain = settings.get(f"{at}key") or None, settings.get(f"{at}certificate.chain") or None
    if key is not None or chain is not None:
        given = f"{at}key" if key is not None else f"{at}certificate.chain"
        _pem_only(given, kind, at, location=location, password=password)
        if key is None or chain is None:
            raise Unusable(given, "ssl.keystore.key and ssl.keystore.certificate.chain are needed together")
        return _from_pem(chain, key, key_password, given, f"{at}certificate.chain")
    if location is None:
        if password is not None:
            raise Unusable(f"{at}password", "there is no ssl.keystore.location that it could open")
        return None
    data = _content(location, f"{at}location", kind)
    if kind == "PEM":
        _pem_only(f"{at}location", kind, at, location=None, password=password)
        return _from_pem(_text(data), _text(data), key_password, f"{at}location", f"{at}location")
    if password is None:
        raise Unusable(f"{at}location", "a PKCS12 key store needs ssl.keystore.password")
    store = _pkcs12(data, password, f"{at}location", location)
    if store.key is None or store.chain is None:
        raise Unusable(f"{at}location", "it has no private key with a certificate")
    return Identity(store.chain, store.key)


def _common(settings: Mapping[str, str], at: str) -> tuple[str | None, str | None, str]:
    """Return location, password and type of a store. Raises Unusable for a type that is none of ours."""
    kind = (settings.get(f"{at}type") or "JKS").strip()
    if kind.upper() not in {"PEM", "PKCS12", "JKS"}:
        raise Unusable(f"{at}type", "it must be PEM or PKCS12")
    location = (settings.get(f"{at}location") or "").strip() or None
    return location, settings.get(f"{at}password") or None, kind.upper()


def _pem_only(given: str, kind: str, at: str, *, location: str | None, password: str | None) -> None:
    """Refuse what Java refuses beside PEM."""
    if kind != "PEM":
        raise Unusable(given, f"it is allowed only with {at}type=PEM, but that is {kind}")
    if location is not None:
        raise Unusable(given, f"either it or {at}location is allowed, not both")
    if password is not None:
        raise Unusable(f"{at}password", "PEM has no store password; ssl.key.password opens an encrypted key")


def _content(location: str, key: str, kind: str) -> bytes:
    """Read a store and check that it is what its type says. Raises Unusable."""
    path = Path(location)
    try:
        if path.stat().st_size > _LARGEST:
            raise Unusable(key, f"it is larger than {_LARGEST} bytes")
        data = path.read_bytes()
    except OSError as exc:
        raise Unusable(key, f"it cannot be read: {exc.strerror or exc}") from exc
    java = _JAVA_ONLY.get(data[:4])
    stem = key.removesuffix(".location")
    if java is not None:
        raise Unusable(
            key,
            f"it is a {java} store, which only Java reads. Convert it once with: {_keytool(path, java)} "
            f"and set {key}={path.with_suffix('.p12')} and {stem}.type=PKCS12",
        )
    is_pem = b"-----BEGIN" in data
    if is_pem and kind != "PEM":
        raise Unusable(key, f"it is PEM; set {stem}.type=PEM")
    if not is_pem and kind == "PEM":
        raise Unusable(key, f"it is not PEM, as {stem}.type says")
    if not is_pem and not data.startswith(_DER_SEQUENCE):
        raise Unusable(key, "it is neither PKCS12 nor PEM")
    return data


def _keytool(path: Path, kind: str) -> str:
    source, target = shlex.quote(str(path)), shlex.quote(str(path.with_suffix(".p12")))
    return (
        f"keytool -importkeystore -srckeystore {source} -srcstoretype {kind} "
        f"-destkeystore {target} -deststoretype PKCS12"
    )


def _pkcs12(data: bytes, password: str | None, key: str, location: str) -> Pkcs12:
    from kraal.config.clients.private_keys import Damaged, open_pkcs12  # noqa: PLC0415 - see there

    try:
        return open_pkcs12(data, password)
    except Damaged as exc:
        which = key.removesuffix("location") + "password"
        hint = f"{which} does not open it" if password else f"{which} is not set"
        raise Unusable(key, f"'{location}' cannot be opened as PKCS12: {hint}, or it is damaged") from exc


@lru_cache(maxsize=16)
def _from_pem(chain: str, key: str, password: str | None, key_at: str, chain_at: str) -> Identity:
    from kraal.config.clients.private_keys import Damaged, matching_key  # noqa: PLC0415 - see there

    blocks = _blocks(key, "PRIVATE KEY")
    if len(blocks) != 1:
        raise Unusable(key_at, f"expected one private key in PEM, got {len(blocks)}")
    certificates = _certificates(chain_at, chain)
    try:
        written = matching_key(blocks[0], password, certificates[0])
    except Damaged as exc:
        hint = "ssl.key.password does not open it" if password else "it is encrypted without ssl.key.password"
        raise Unusable(key_at, f"the private key cannot be read: {hint}, or it is damaged") from exc
    if written is None:
        raise Unusable(chain_at, "the first certificate belongs to another private key")
    return Identity("".join(certificates), written)


def _all_certificates(key: str, text: str) -> str:
    return "".join(_certificates(key, text))


def _certificates(key: str, text: str) -> list[str]:
    found = _blocks(text, "CERTIFICATE")
    if not found:
        raise Unusable(key, "expected at least one certificate in PEM, got none")
    return found


def _blocks(text: str, name: str) -> list[str]:
    """Return the PEM blocks whose title ends with `name`, in standard lines.

    In a properties file a block often stands on one line, with blanks for line ends; Java takes that.
    """
    spaced = name.replace(" ", r"\s+")
    found = re.finditer(
        rf"-+BEGIN\s+(?P<title>[A-Z0-9 ]*?{spaced})\s*-+\s+(?P<body>.*?)-+END\s[^-]*-+", text, re.DOTALL
    )
    return [block for match in found if (block := _block(match["title"], match["body"])) is not None]


def _block(title: str, body: str) -> str | None:
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


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
