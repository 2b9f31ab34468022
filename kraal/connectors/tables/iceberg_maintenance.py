"""Compacts the small files of an Iceberg table with pyiceberg.

The new files are written first, which may take longer than the time between two commits of the tasks. The commit that
replaces the old files is short, and can be repeated after a conflict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.connectors.tables.casts import cast_table
from kraal.connectors.tables.iceberg_expiry import delete_files
from kraal.connectors.tables.iceberg_files import RowWriter

MIN_SMALL_FILES: Final = 4
"""Minimum number of small files in a partition that are worth a compaction."""
_SMALL_FRACTION: Final = 0.5
"""A file is small below this fraction of the target size."""
_TARGET_BYTES: Final = 128 * 1024 * 1024
"""Maximum size of the files that are compacted into one; they are in memory together."""


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


@dataclass(frozen=True, slots=True)
class CompactedFiles:
    """New data files that contain the same rows as some of the table's data files."""

    old: Sequence[Any]
    new: Sequence[Any]


def compact_files(table: Any) -> list[CompactedFiles]:
    """Write new files for groups of small files, without a commit."""
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415 - heavy
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415 - heavy

    schema = table.schema()
    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    results: list[CompactedFiles] = []
    for group in choose_files(list(table.scan().plan_files()), table.spec().spec_id):
        writer = RowWriter(table.metadata, table.io)
        writer.add(cast_table(scan.to_table(group), schema.as_arrow()))
        writer.flush()
        results.append(CompactedFiles([task.file for task in group], writer.files))
    return results


def replace_files(
    transaction: Any, table: Any, compacted: list[CompactedFiles], properties: Mapping[str, str]
) -> int:
    """Add a snapshot with the new files in place of the old ones; return the number of replaced files.

    The table may have changed since the files were written. Where it no longer has one of the old files, or has deleted
    rows of them, the new files are deleted and removed from `compacted`.
    """
    from kraal.connectors.tables.iceberg_snapshots import ReplaceFiles  # noqa: PLC0415 - heavy

    tasks, spec_id = list(table.scan().plan_files()), table.spec().spec_id
    live = {task.file.file_path for task in tasks}
    unchanged = {task.file.file_path for task in tasks if not task.delete_files}
    usable, outdated = list[CompactedFiles](), list[CompactedFiles]()
    for files in compacted:
        is_usable = all(file.file_path in unchanged and file.spec_id == spec_id for file in files.old)
        (usable if is_usable else outdated).append(files)
    delete_files(table.io, {file.file_path for files in outdated for file in files.new} - live)
    compacted[:] = usable
    if usable:
        with ReplaceFiles(transaction, dict(properties)) as update:
            for files in usable:
                for file in files.old:
                    update.delete_data_file(file)
                for file in files.new:
                    update.append_data_file(file)
    return sum(len(files.old) for files in usable)
