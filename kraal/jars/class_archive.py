"""Path of the class data sharing (CDS) archive, which halves the startup time of Spark's JVM."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from kraal.jars.directories import cache_dir, pyspark_jars
from kraal.jars.errors import JavaMissing
from kraal.jars.java import find_java


def archive_path() -> Path:
    """Return the archive's path for this Java and Spark installation; the file may not exist. Raises JavaMissing.

    Java uses an archive only with the jars from which the archive was created, and compares their modification times.
    """
    java = find_java().resolve()
    spark = find_spec("pyspark")
    newest_jar_ns = max((jar.stat().st_mtime_ns for jar in pyspark_jars("*.jar")), default=0)
    parts = [str(java), str(java.stat().st_mtime_ns)]
    parts += [str(spark and spark.origin), version("pyspark"), str(newest_jar_ns)]
    digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return cache_dir() / f"spark-classes-{digest}.jsa"


def existing_archive() -> Path | None:
    """Return the path of the archive if it exists, otherwise None."""
    with suppress(JavaMissing, OSError):
        path = archive_path()
        return path if path.is_file() else None
    return None
