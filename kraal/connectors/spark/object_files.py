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


def list_objects(spark: SparkSession, url: str, accept: Callable[[str], bool]) -> list[StoredObject]:
    """Return the non-empty objects directly below `url`, or those that match `url` if it is a pattern.

    `accept` filters by the full path. Raises Py4JJavaError with the error of the store.
    """
    objects = []
    for status in _list_statuses(spark, url):
        path = str(status.getPath().toString())
        if accept(path) and status.isFile() and (size := int(status.getLen())):
            objects.append(StoredObject(path, size, int(status.getModificationTime())))
    return objects


class ObjectFolder:
    """The objects directly below a URL; `spark` must be set before each use."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.spark: SparkSession | None = None

    def list_names(self) -> Iterable[str]:
        """Return the names of all objects; empty if the folder does not exist yet."""
        return [str(status.getPath().getName()) for status in _list_statuses(self._get_session(), self._url)]

    def put(self, staged: Path, name: str) -> None:
        """Upload a local file as the object with this name, replacing an existing one."""
        spark = self._get_session()
        target = _make_path(spark, f"{self._url}/{name}")
        jvm: Any = spark._jvm
        source = f"file://{staged}"
        local_system, store_system = (
            _get_file_system(spark, source),
            _get_file_system(spark, self._url),
        )
        # Not copyFromLocalFile: it requires a LocalFileSystem; Spark's is a raw one (`kraal.engine.session.settings`).
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
            raise OSError(f"{staged} could not be uploaded as {self._url}/{name}")

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        spark = self._get_session()
        _get_file_system(spark, self._url).delete(_make_path(spark, f"{self._url}/{name}"), False)  # noqa: FBT003

    def _get_session(self) -> SparkSession:
        assert self.spark is not None  # noqa: S101 - the sink sets it before each use
        return self.spark


def _list_statuses(spark: SparkSession, url: str) -> Iterable[Any]:
    system, path = _get_file_system(spark, url), _make_path(spark, url)
    if glob.has_magic(url):
        return system.globStatus(path) or ()
    return system.listStatus(path) if system.exists(path) else ()  # a folder without objects does not exist


def _make_path(spark: SparkSession, url: str) -> Any:
    jvm: Any = spark._jvm
    return jvm.org.apache.hadoop.fs.Path(url if url.count("/") > _BUCKET_SLASHES else f"{url}/")


def _get_file_system(spark: SparkSession, url: str) -> Any:
    context: Any = spark.sparkContext
    return _make_path(spark, url).getFileSystem(context._jsc.hadoopConfiguration())
