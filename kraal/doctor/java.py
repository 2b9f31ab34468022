"""Checks of Java and of the archive from `kraal prepare`."""

from __future__ import annotations

from collections.abc import Iterator

from kraal.doctor.finding import Finding, Level, ok
from kraal.jars.class_archive import known_archive
from kraal.jars.errors import JavaMissing
from kraal.jars.java import find_java


def check_java() -> Iterator[Finding]:
    """Check the Java that would run Spark."""
    try:
        java = find_java()
    except JavaMissing as exc:
        yield Finding("java.version", Level.ERROR, str(exc), exc.hint)
        return
    yield ok("java.version", f"{java} can run Spark")
    archive = known_archive()
    if archive is None:
        what = "There is no archive of Spark's classes for this Java, so Spark starts in twice the time"
        yield Finding("java.prepared", Level.HINT, what, "Run `kraal prepare` once on this machine.")
    else:
        yield ok("java.prepared", f"Spark's classes are archived in {archive}")
