"""Conversion of key stores in Java's formats, JKS and JCEKS, to PKCS12 with Java's keytool.

keytool writes the result, encrypted with a one-time password, to a file in a directory that only this user can access.
Passwords are passed to keytool in its environment and through a pipe, never on its command line. Results are
cached.
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
"""Names of store formats by the first four bytes of a store."""

_TIMEOUT_S: Final = 60.0
_MAX_KEYS: Final = 20
_MAX_REASON_LENGTH: Final = 200
_JVM_OPTIONS: Final = ("-J-Xmx64m", "-J-XX:+UseSerialGC", "-J-XX:TieredStopAtLevel=1", "-J-Duser.language=en")
_SOURCE_PASSWORD_VARIABLE, _TARGET_PASSWORD_VARIABLE = "KRAAL_SOURCE_STORE", "KRAAL_TARGET_STORE"


class KeytoolMissing(Exception):
    """Raised if keytool is not installed."""


class Culprit(StrEnum):
    """The input that made a conversion fail."""

    STORE = "password of the store"
    KEY = "password of the key"
    OTHER = "something else"


class ConversionFailed(Exception):
    """Raised if keytool fails to convert a store. Contains keytool's message."""

    def __init__(self, reason: str, culprit: Culprit = Culprit.OTHER) -> None:
        super().__init__(reason)
        self.culprit = culprit


_CULPRITS: Final = {
    "password was incorrect": Culprit.STORE,
    "Cannot recover key": Culprit.KEY,
    "Too many failures": Culprit.KEY,
}
"""Culprits by phrases in the English output of keytool."""


@dataclass(frozen=True, slots=True)
class ConvertedStore:
    """A PKCS12 store and its password."""

    data: bytes = field(repr=False)
    password: str = field(repr=False)


def find_keytool() -> Path:
    """Return the path of keytool in `JAVA_HOME` or `PATH`. Raises KeytoolMissing with the reason."""
    if home := os.environ.get("JAVA_HOME"):
        keytool = Path(home) / "bin" / "keytool"
        if not os.access(keytool, os.X_OK):
            raise KeytoolMissing(f"JAVA_HOME is {home}, which does not contain bin/keytool")
        return keytool
    if path_keytool := shutil.which("keytool"):
        return Path(path_keytool)
    if java := shutil.which("java"):
        sibling = Path(java).resolve().with_name("keytool")
        if os.access(sibling, os.X_OK):
            return sibling
    raise KeytoolMissing("keytool is not installed: install Java, or set JAVA_HOME")


@lru_cache(maxsize=16)
def to_pkcs12(
    path: Path, data: bytes, kind: str, password: str | None, key_password: str | None
) -> ConvertedStore:
    """Convert the store at `path`. Blocks for up to a minute. Raises KeytoolMissing, ConversionFailed.

    Args:
        path: the file that keytool reads.
        data: the content of the file, so that a changed file is converted again.
        kind: `JKS` or `JCEKS`.
        password: the store's password; None to read a trust store without an integrity check.
        key_password: the private key's password, if it differs from the store's.
    """
    del data
    keytool = find_keytool()
    start_time = time.monotonic()
    new_password = secrets.token_hex(32)
    with tempfile.TemporaryDirectory(prefix="kraal-keytool-") as directory:  # has mode 0700
        target = Path(directory) / "store.p12"
        command = [
            *(
                str(keytool),
                *_JVM_OPTIONS,
                "-importkeystore",
                "-noprompt",
                "-srckeystore",
                str(path.absolute()),
            ),
            *("-srcstoretype", kind, "-destkeystore", str(target), "-deststoretype", "PKCS12"),
            *("-deststorepass:env", _TARGET_PASSWORD_VARIABLE),
            *(() if password is None else ("-srcstorepass:env", _SOURCE_PASSWORD_VARIABLE)),
        ]
        environment = {
            **os.environ,
            _TARGET_PASSWORD_VARIABLE: new_password,
            _SOURCE_PASSWORD_VARIABLE: password or "",
        }
        # keytool prompts for a missing store password, and for each key password that differs from the store's.
        responses = "\n" if password is None else f"{key_password or ''}\n" * _MAX_KEYS
        try:
            result = subprocess.run(
                command,
                input=responses,
                capture_output=True,
                text=True,
                env=environment,
                timeout=_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise ConversionFailed(f"{keytool} failed: {type(exc).__name__}") from exc
        if result.returncode or not target.exists():
            raise _parse_failure(
                result.stdout + result.stderr, f"{keytool} exited with code {result.returncode}"
            )
        log.info("Converted %s store %s with keytool in %.1f s", kind, path, time.monotonic() - start_time)
        return ConvertedStore(target.read_bytes(), new_password)


def _parse_failure(output: str, default: str) -> ConversionFailed:
    """Return the error for keytool's output; `default` is the message if the output has none."""
    culprit = next((candidate for phrase, candidate in _CULPRITS.items() if phrase in output), Culprit.OTHER)
    lines = [line.strip() for line in output.splitlines() if line.startswith("keytool error:")]
    return ConversionFailed(lines[0][:_MAX_REASON_LENGTH] if lines else default, culprit)
