"""Where the archive of Spark's classes is on this machine, which lets its JVM start in half the time."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from kraal.embedded.errors import JavaMissing
from kraal.embedded.java import find_java
from kraal.embedded.places import cache_dir


def archive_path() -> Path:
    """Return the file for this Java and this Spark, which may not be there. Raises JavaMissing."""
    java = find_java().resolve()
    spark = find_spec("pyspark")
    parts = [str(java), str(java.stat().st_mtime_ns), str(spark and spark.origin), version("pyspark")]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache_dir() / f"spark-classes-{digest}.jsa"


def known_archive() -> Path | None:
    """Return the file if it is there."""
    with suppress(JavaMissing, OSError):
        path = archive_path()
        return path if path.is_file() else None
    return None
