"""Lists, uploads and removes objects with Hadoop's client in Spark's JVM, which has the worker's settings.

The functions must run on a job thread.

Objects appear atomically: each is uploaded from a local file with a single PUT. Objects are never renamed, because a
rename in an object store is a copy.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BUCKET_SLASHES: Final = 2
"""Number of slashes in the URL of a bucket."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in a store. `modified_ms` is in milliseconds since 1970."""

    path: str
    size: int
    modified_ms: int


def list_objects(spark: SparkSession, address: str, accept: Callable[[str], bool]) -> list[StoredObject]:
    """Return the non-empty objects directly below `address`, or those that match `address` if it is a pattern.

    `accept` filters by the full path. Raises Py4JJavaError with the error of the store.
    """
    objects = []
    for status in _list_statuses(spark, address):
        path = str(status.getPath().toString())
        if accept(path) and status.isFile() and (size := int(status.getLen())):
            objects.append(StoredObject(path, size, int(status.getModificationTime())))
    return objects


class ObjectFolder:
    """The objects directly below a URL; `spark` must be set before each use."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.spark: SparkSession | None = None

    def list_names(self) -> Iterable[str]:
        """Return the names of all objects; empty if the folder does not exist yet."""
        return [
            str(status.getPath().getName()) for status in _list_statuses(self._get_session(), self._address)
        ]

    def put(self, staged: Path, name: str) -> None:
        """Upload a local file as the object with this name, replacing an existing one."""
        spark = self._get_session()
        target = _make_path(spark, f"{self._address}/{name}")
        jvm: Any = spark._jvm
        source = f"file://{staged}"
        local_system, store_system = (
            _get_file_system(spark, source),
            _get_file_system(spark, self._address),
        )
        # Not copyFromLocalFile: it requires a LocalFileSystem, and Spark's is raw (`kraal.engine.session.settings`).
        delete, overwrite = False, True
        file_util = jvm.org.apache.hadoop.fs.FileUtil
        is_copied = file_util.copy(
            local_system,
            _make_path(spark, source),
            store_system,
            target,
            delete,
            overwrite,
            store_system.getConf(),
        )
        if not is_copied:
            raise OSError(f"{staged} could not be uploaded as {self._address}/{name}")

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        spark = self._get_session()
        _get_file_system(spark, self._address).delete(_make_path(spark, f"{self._address}/{name}"), False)  # noqa: FBT003

    def _get_session(self) -> SparkSession:
        assert self.spark is not None  # noqa: S101 - the sink sets it before each use
        return self.spark


def _list_statuses(spark: SparkSession, address: str) -> Iterable[Any]:
    system, path = _get_file_system(spark, address), _make_path(spark, address)
    if glob.has_magic(address):
        return system.globStatus(path) or ()
    return system.listStatus(path) if system.exists(path) else ()  # a folder without objects does not exist


def _make_path(spark: SparkSession, address: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(address if address.count("/") > _BUCKET_SLASHES else f"{address}/")


def _get_file_system(spark: SparkSession, address: str) -> Any:
    context: Any = spark.sparkContext
    return _make_path(spark, address).getFileSystem(context._jsc.hadoopConfiguration())
