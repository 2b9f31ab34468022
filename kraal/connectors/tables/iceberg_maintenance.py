"""Compacts the small files of an Iceberg table with pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kraal.connectors.tables.casts import cast_table
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
