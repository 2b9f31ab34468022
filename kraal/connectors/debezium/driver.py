"""Loads a JDBC driver from the directory of a Java plugin, if Spark has none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile, ZipFile

from kraal.plugins.api import NotComparable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def load_driver(spark: SparkSession, class_name: str, plugin: Path) -> None:
    """Add the jar with a driver to Spark, for the current thread and the executors. Raises NotComparable."""
    jvm: Any = spark._jvm
    thread = jvm.java.lang.Thread.currentThread()
    try:
        thread.getContextClassLoader().loadClass(class_name)
    except Exception as error:
        if getattr(error, "java_exception", None) is None:
            raise
    else:
        return
    jar = find_jar(plugin, class_name)
    if jar is None:
        raise NotComparable(
            f"neither spark.jars nor {plugin} contains the JDBC driver {class_name}; add its jar to spark.jars"
        )
    spark.sql(f'ADD JAR "{jar}"')


def find_jar(plugin: Path, class_name: str) -> Path | None:
    """Return the jar of a plugin (a directory or a jar) that contains a class; None if there is none."""
    entry = class_name.replace(".", "/") + ".class"
    # A jar that is named like the package is read first; the others of a plugin are many.
    package = class_name.split(".")[-2]
    paths = [plugin] if plugin.is_file() else plugin.glob("**/*.jar")
    jars = sorted(paths, key=lambda path: (package not in path.name, path.name))
    return next((jar for jar in jars if _contains(jar, entry)), None)


def _contains(jar: Path, entry: str) -> bool:
    try:
        with ZipFile(jar) as archive:
            return entry in archive.NameToInfo
    except (BadZipFile, OSError):
        return False
