"""Path of the class archive (CDS) that halves the startup time of Spark's JVM."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from kraal.jars.errors import JavaMissing
from kraal.jars.java import find_java
from kraal.jars.places import cache_dir


def archive_path() -> Path:
    """Return the path for this Java and Spark; the file may not exist. Raises JavaMissing."""
    java = find_java().resolve()
    spark = find_spec("pyspark")
    parts = [str(java), str(java.stat().st_mtime_ns), str(spark and spark.origin), version("pyspark")]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache_dir() / f"spark-classes-{digest}.jsa"


def known_archive() -> Path | None:
    """Return the path if the file exists, else None."""
    with suppress(JavaMissing, OSError):
        path = archive_path()
        return path if path.is_file() else None
    return None
