"""Find the Java that runs Spark and the broker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from kraal.embedded.errors import JavaMissing

SUPPORTED = (17, 21)
"""The versions that Spark 4.2 supports."""

VECTOR_MODULE = "jdk.incubator.vector"
"""Spark starts Java with this module; runtimes that were trimmed with jlink lack it."""


def find_java() -> Path:
    """Return the `java` program of `JAVA_HOME`, or else of `PATH`.

    Raises JavaMissing when there is none, or it is not version 17 or 21, or it lacks the vector module.
    """
    java = _locate()
    release = _release(java)
    version = _major(release.get("JAVA_VERSION") or _ask_version(java))
    if version not in SUPPORTED:
        found = f"Java {version}" if version else "of an unknown version"
        raise JavaMissing(
            f"Kraal needs Java 17 or 21, but {java} is {found}; install one and set JAVA_HOME to it."
        )
    modules = release.get("MODULES", "").split()
    if modules and VECTOR_MODULE not in modules:
        raise JavaMissing(
            f"{java} lacks the module {VECTOR_MODULE}, which Spark needs; install a complete Java 17 or 21."
        )
    return java


def _locate() -> Path:
    if home := os.environ.get("JAVA_HOME"):
        java = Path(home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise JavaMissing(f"JAVA_HOME is {home}, but there is no program bin/java in it.")
        return java
    if found := shutil.which("java"):
        return Path(found)
    raise JavaMissing("Java was not found: install Java 17 or 21, or set JAVA_HOME to it.")


def _release(java: Path) -> dict[str, str]:
    """Read the `release` file that lies in every JDK; reading it takes no time, starting Java does."""
    try:
        text = (java.resolve().parent.parent / "release").read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(re.findall(r'^(\w+)="(.*)"$', text, flags=re.MULTILINE))


def _ask_version(java: Path) -> str:
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise JavaMissing(f"{java} does not run: {exc}") from exc
    match = re.search(r'version "([^"]+)"', done.stderr + done.stdout)
    return match[1] if match else ""


def _major(version: str) -> int | None:
    """Return 17 for "17.0.15", 8 for "1.8.0_402", None for what is no version."""
    match = re.match(r"(?:1\.)?(\d+)", version)
    return int(match[1]) if match else None


def main() -> int:
    """Print where Java is; return the exit code. Runs before packages are installed, so it imports none."""
    try:
        sys.stdout.write(f"{find_java()}\n")
    except JavaMissing as exc:
        sys.stderr.write(f"{exc}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
