"""Compacts the small files of an Iceberg table with pyiceberg, and deletes the files of snapshots that have expired."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.iceberg_files import RowWriter

log = logging.getLogger(__name__)

MIN_SMALL_FILES: Final = 4
"""Minimum number of small files in a partition that are worth a compaction."""
_SMALL_FRACTION: Final = 0.5
"""A file is small below this fraction of the target size."""
_TARGET_BYTES: Final = 128 * 1024 * 1024
"""Maximum size of the files that are compacted into one; they are in memory together."""
_MAX_AGE_MS: Final = 432_000_000
"""The default of `history.expire.max-snapshot-age-ms` in Iceberg: five days."""
_MAY_DELETE: Final = "gc.enabled"
"""Iceberg's property that is false if other tables may have the same files."""


def choose_files(tasks: Sequence[Any], spec_id: int) -> list[list[Any]]:
    """Return groups of scan tasks whose files are to be replaced by one file each."""
    partitions: dict[str, list[Any]] = {}
    for task in tasks:
        is_small = task.file.file_size_in_bytes < _SMALL_FRACTION * _TARGET_BYTES
        if is_small and not task.delete_files and task.file.spec_id == spec_id:
            partitions.setdefault(repr(task.file.partition), []).append(task)
    groups: list[list[Any]] = []
    for members in partitions.values():
        size, group = 0, list[Any]()
        for task in members:
            if size + task.file.file_size_in_bytes > _TARGET_BYTES:
                groups.append(group)
                size, group = 0, []
            size += task.file.file_size_in_bytes
            group.append(task)
        groups.append(group)
    return [group for group in groups if len(group) >= MIN_SMALL_FILES]


def compact_files(transaction: Any, table: Any, properties: Mapping[str, str]) -> int:
    """Replace groups of small files by one file each; return the number of replaced files."""
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - heavy
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - heavy

    groups = choose_files(list(table.scan().plan_files()), table.spec().spec_id)
    if not groups:
        return 0
    schema = table.schema()
    scan = ArrowScan(transaction.table_metadata, table.io, schema, AlwaysTrue())
    writer = RowWriter(transaction, table.io)
    for group in groups:
        writer.add(cast_table(scan.to_table(group), schema.as_arrow()))
        writer.flush()
    with transaction.update_snapshot(snapshot_properties=dict(properties)).overwrite() as update:
        for group in groups:
            for task in group:
                update.delete_data_file(task.file)
        for data_file in writer.files:
            update.append_data_file(data_file)
    return sum(map(len, groups))


def find_expiry(properties: Mapping[str, str]) -> datetime:
    """Return the time before which snapshots have expired, according to the properties of a table."""
    age_ms = int(properties.get("history.expire.max-snapshot-age-ms", _MAX_AGE_MS))
    return datetime.now(UTC) - timedelta(milliseconds=age_ms)


def delete_unused_files(before: Any, after: Any) -> int:
    """Delete the files of the snapshots of `before` that no snapshot of `after` has; return their number.

    `before` and `after` are versions of one table; `after` is later. A later version cannot contain the files again,
    because a commit only keeps files of the current snapshot, and otherwise adds new ones. Files that cannot be deleted
    are logged.
    """
    if after.properties.get(_MAY_DELETE, "true").lower() == "false":
        return 0
    remaining = after.snapshots()
    ids = {snapshot.snapshot_id for snapshot in remaining}
    expired = [snapshot for snapshot in before.snapshots() if snapshot.snapshot_id not in ids]
    if not expired:
        return 0
    unused = list_files(expired, after.io) - list_files(remaining, after.io)
    return sum(_delete(after.io, path) for path in sorted(unused))


def list_files(snapshots: Iterable[Any], io: Any) -> set[str]:
    """Return the paths of the manifest lists, manifests, data files and delete files of snapshots."""
    manifest_lists = {snapshot.manifest_list: snapshot for snapshot in snapshots}
    manifests = {
        manifest.manifest_path: manifest
        for snapshot in manifest_lists.values()
        for manifest in snapshot.manifests(io)
    }
    files = {
        entry.data_file.file_path
        for manifest in manifests.values()
        for entry in manifest.fetch_manifest_entry(io)
    }
    return {*manifest_lists, *manifests, *files}


def _delete(io: Any, path: str) -> bool:
    try:
        io.delete(path)
    except Exception as exc:  # noqa: BLE001 - the storage may raise anything, and the table is intact
        log.warning("Failed to delete %s, which no snapshot of the table has: %s", path, exc)
        return False
    return True
