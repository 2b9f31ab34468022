"""Removes the files in the location of an Iceberg table that no version of the table has.

A commit that fails after its files were written leaves such files, and so does a worker that is killed. They are
removed when they are three days old, which is also the default of Iceberg's procedure `remove_orphan_files`. Younger
files may belong to a commit that has not finished.

Two tables may have the same location, for example after one was renamed and another one has its former name. Nothing is
removed if the location has metadata of another table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kraal.connectors.tables.iceberg_expiry import delete_files, list_files, may_delete

log = logging.getLogger(__name__)

MIN_AGE: Final = timedelta(days=3)
_DIRECTORIES: Final = ("data", "metadata")
_METADATA: Final = ".metadata.json"
_SUFFIXES: Final = (".parquet", ".avro", _METADATA)
"""The ends of the names of files that writers like this one create; other files are kept."""


@dataclass(frozen=True, slots=True)
class _File:
    location: str
    changed: datetime

    @property
    def name(self) -> str:
        return _get_name(self.location)


def remove_orphans(table: Any, load: Callable[[], Any], now: datetime | None = None) -> int:
    """Delete the files that are old enough and belong to no version; return their number.

    `load` returns the latest version of `table`, or None. Raises the errors of pyiceberg and of the storage.
    """
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - heavy

    if not isinstance(table.io, PyArrowFileIO) or not may_delete(table):
        return 0
    files = _list_files(table)
    latest = load()  # later than the list, so that it has all files that were committed before
    if latest is None or latest.metadata.table_uuid != table.metadata.table_uuid:
        return 0
    # Names contain a UUID. The rest of a path may be written in several ways, as with links and several servers.
    used = {_get_name(location) for location in _list_used_files(latest)}
    before = (now or datetime.now(UTC)) - MIN_AGE
    unused = [file for file in files if file.changed < before and file.name not in used]
    if _get_name(table.metadata_location) not in {file.name for file in files}:
        log.warning("%s: Not removing unused files: the location of the table has no metadata", table.name())
        return 0
    other = _find_other_table(latest, [file.location for file in files if file.name not in used])
    if other is not None:
        log.warning("%s: Not removing unused files: %s belongs to another table", table.name(), other)
        return 0
    return delete_files(table.io, [file.location for file in unused])


def _list_files(table: Any) -> list[_File]:
    """Return the files in the directories of a table."""
    from pyarrow.fs import FileSelector  # noqa: PLC0415 - heavy
    from pyiceberg.io.pyarrow import PyArrowFileIO  # noqa: PLC0415 - heavy

    files: list[_File] = []
    for directory in _DIRECTORIES:
        location = f"{table.location().rstrip('/')}/{directory}/"
        scheme, server, path = PyArrowFileIO.parse_location(location, table.io.properties)
        prefix = f"{path.rstrip('/')}/"
        selector = FileSelector(prefix.rstrip("/"), allow_not_found=True, recursive=True)
        files += [
            _File(location + found.path.removeprefix(prefix), found.mtime)
            for found in table.io.fs_by_scheme(scheme, server).get_file_info(selector)
            if found.is_file
            and found.path.startswith(prefix)
            and found.path.endswith(_SUFFIXES)
            and found.mtime is not None
        ]
    return files


def _list_used_files(table: Any) -> set[str]:
    metadata = table.metadata
    return {
        table.metadata_location,
        *(entry.metadata_file for entry in metadata.metadata_log),
        *(file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics)),
        *list_files(metadata.snapshots, table.io),
    }


def _find_other_table(table: Any, locations: Iterable[str]) -> str | None:
    """Return the location of a metadata file that belongs to another table or that cannot be read, or None."""
    from pyiceberg.serializers import FromInputFile  # noqa: PLC0415 - heavy

    for location in locations:
        if not location.endswith(_METADATA):
            continue
        try:
            metadata = FromInputFile.table_metadata(table.io.new_input(location))
        except FileNotFoundError:  # another maintenance has removed it
            continue
        except ValueError:
            return location
        if metadata.table_uuid != table.metadata.table_uuid:
            return location
    return None


def _get_name(location: str) -> str:
    return location.rpartition("/")[2]
