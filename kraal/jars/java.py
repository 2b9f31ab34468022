"""Finds the Java runtime for Spark and the broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from kraal.core.errors import format_with_hint
from kraal.jars.errors import JavaMissing

SUPPORTED = (17, 21, 25)
"""Java versions that Spark 4.2 supports."""

VECTOR_MODULE = "jdk.incubator.vector"
"""Module that Spark requires; runtimes that were created with jlink may lack it."""

_INSTALL_HINT = "Install Java 17, 21 or 25, and set JAVA_HOME to it."


def find_java() -> Path:
    """Return the path of `java` in `JAVA_HOME` or `PATH`.

    Raises JavaMissing if Java is not installed, is not version 17, 21 or 25, or lacks the vector module.
    """
    java = _locate_java()
    release = _read_release(java)
    version = _parse_major_version(release.get("JAVA_VERSION") or _run_version(java))
    if version not in SUPPORTED:
        description = f"Java {version}" if version else "of an unknown version"
        raise JavaMissing(
            f"Kraal requires Java 17, 21 or 25, but {java} is {description}.", hint=_INSTALL_HINT
        )
    modules = release.get("MODULES", "").split()
    if modules and VECTOR_MODULE not in modules:
        raise JavaMissing(
            f"{java} lacks the module {VECTOR_MODULE}, which Spark requires.",
            hint="Install a complete Java 17, 21 or 25, and set JAVA_HOME to it.",
        )
    return java


def java_version() -> str:
    """Return the version of the installed Java, such as "17.0.15"; "" if it is unknown. Raises JavaMissing."""
    java = _locate_java()
    return _read_release(java).get("JAVA_VERSION") or _run_version(java)


def _locate_java() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise JavaMissing(
                f"JAVA_HOME is {home}, which does not contain bin/java.",
                hint="Set JAVA_HOME to the directory of a Java 17, 21 or 25.",
            )
        return java
    if path_java := shutil.which("java"):
        return Path(path_java)
    raise JavaMissing("Java was not found; Kraal requires Java 17, 21 or 25.", hint=_INSTALL_HINT)


def _read_release(java: Path) -> dict[str, str]:
    """Read the `release` file of a JDK, which is faster than starting Java."""
    try:
        text = (java.resolve().parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="(.*)"$', text, flags=re.MULTILINE))


def _run_version(java: Path) -> str:
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise JavaMissing(f"Failed to run {java}: {exc}", hint=_INSTALL_HINT) from exc
    match = re.search(r'version "([^"]+)"', result.stderr + result.stdout)
    return match[1] if match else ""


def _parse_major_version(version: str) -> int | None:
    """Return the major version: 17 for "17.0.15", 8 for "1.8.0_402", None for an invalid version."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else None


def main() -> int:
    """Print the path of Java; return the exit code.

    Runs before installation, so this module must not import third-party packages.
    """
    try:
        sys.stdout.write(f"{find_java()}\n")
    except JavaMissing as exc:
        sys.stderr.write(f"{format_with_hint(exc)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
