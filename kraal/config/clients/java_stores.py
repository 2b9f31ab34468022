"""Conversion of key stores in Java's own formats, JKS and JCEKS, to PKCS12, by Java's keytool.

The result passes through a file in a directory that only this user may enter, encrypted by a password that is used
once; passwords reach keytool in its environment and by a pipe, never on its command line. A store is converted
once a process.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

JAVA_STORES: Final = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
"""Formats by their first four bytes."""

_TIMEOUT_S: Final = 60.0
_MAX_KEYS: Final = 20
_MAX_REASON_LENGTH: Final = 200
_JVM: Final = ("-J-Xmx64m", "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-J-Duser.language=en")
_SOURCE, _TARGET = "KRAAL_SOURCE_STORE", "KRAAL_TARGET_STORE"


class KeytoolMissing(Exception):
    """There is no keytool."""


class Culprit(StrEnum):
    """The setting or file that keeps keytool from converting a store."""

    STORE = "password of the store"
    KEY = "password of the key"
    OTHER = "something else"


class ConversionFailed(Exception):
    """Keytool cannot convert a store; the message is its own."""

    def __init__(self, reason: str, culprit: Culprit = Culprit.OTHER) -> None:
        super().__init__(reason)
        self.culprit = culprit


_CULPRITS: Final = {
    "password was incorrect": Culprit.STORE,
    "Cannot recover key": Culprit.KEY,
    "Too many failures": Culprit.KEY,
}
"""Causes by keytool's messages in English."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A store in PKCS12 with the password that opens it."""

    data: bytes = field(repr=False)
    password: str = field(repr=False)


def find_keytool() -> Path:
    """Return the keytool of `JAVA_HOME`, or that of `PATH`. Raises KeytoolMissing with the end of a sentence."""
    if home := os.environ.get("JAVA_HOME"):
        keytool = Path(home) / "bin" / "keytool"
        if not os.access(keytool, os.X_OK):
            raise KeytoolMissing(f"JAVA_HOME is {home}, which does not contain bin/keytool")
        return keytool
    if on_path := shutil.which("keytool"):
        return Path(on_path)
    if java := shutil.which("java"):
        beside = Path(java).resolve().with_name("keytool")
        if os.access(beside, os.X_OK):
            return beside
    raise KeytoolMissing("there is no keytool: install Java, or set JAVA_HOME")


@lru_cache(maxsize=16)
def to_pkcs12(
    path: Path, data: bytes, kind: str, password: str | None, key_password: str | None
) -> Converted:
    """Convert the store at `path`; waits for keytool, up to a minute. Raises KeytoolMissing, ConversionFailed.

    Args:
        path: the file, which keytool reads.
        data: its content, so that a changed file is converted again.
        kind: `JKS` or `JCEKS`.
        password: of the store; None: a trust store is read without an integrity check.
        key_password: of the private key, if it differs.
    """
    del data
    program = find_keytool()
    started = time.monotonic()
    new_password = secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix="kraal-keytool-") as made:  # of mode 0700
        target = Path(made) / "store.p12"
        command = [
            *(str(program), *_JVM, "-importkeystore", "-noprompt", "-srckeystore", str(path.absolute())),
            *("-srcstoretype", kind, "-destkeystore", str(target), "-deststoretype", "PKCS12"),
            *("-deststorepass:env", _TARGET),
            *(() if password is None else ("-srcstorepass:env", _SOURCE)),
        ]
        environment = {**os.environ, _TARGET: new_password, _SOURCE: password or ""}
        # It asks for the store's password if that is not set, and for the password of each key that differs.
        answers = "\n" if password is None else f"{key_password or ''}\n" * _MAX_KEYS
        try:
            done = subprocess.run(
                command,
                input=answers,
                capture_output=True,
                text=True,
                env=environment,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise ConversionFailed(f"{program} failed: {type(exc).__name__}") from exc
        if done.returncode or not target.exists():
            raise _failure(done.stdout + done.stderr, f"{program} ended with code {done.returncode}")
        log.info("Converted %s store %s with keytool in %.1f s", kind, path, time.monotonic() - started)
        return Converted(target.read_bytes(), new_password)


def _failure(said: str, otherwise: str) -> ConversionFailed:
    """Return the error for keytool's output."""
    culprit = next((each for words, each in _CULPRITS.items() if words in said), Culprit.OTHER)
    lines = [line.strip() for line in said.splitlines() if line.startswith("keytool error:")]
    return ConversionFailed(lines[0][:_MAX_REASON_LENGTH] if lines else otherwise, culprit)
