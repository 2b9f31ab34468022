"""Checks, by names and contents of files, that each record of a topic is in exactly one file of a directory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kraal.broker.records import BrokerRecord
from kraal.connectors.frames.range_files import RangeFile, parse_file_name


def list_range_files(folder: Path) -> list[RangeFile]:
    """Return the files of a directory by partition and offset; empty if the directory does not exist."""
    with suppress(FileNotFoundError):
        files = [file for path in folder.iterdir() if (file := parse_file_name(path.name)) is not None]
        return sorted(files, key=lambda file: (file.partition, file.span))
    return []


def contents(folder: Path) -> list[tuple[RangeFile, bytes]]:
    """Return all files with their contents."""
    return [(file, (folder / file.name).read_bytes()) for file in list_range_files(folder)]


def ends(files: Iterable[RangeFile]) -> dict[int, int]:
    """Return the end offset of the files of each partition."""
    end_offsets: dict[int, int] = {}
    for file in files:
        partition = file.partition.partition
        end_offsets[partition] = max(end_offsets.get(partition, 0), file.span[1])
    return end_offsets


def behind(files: Iterable[RangeFile], wanted: Mapping[int, int]) -> str:
    """Return a message about a partition with records that are in no file; empty if there is none.

    `wanted`: the end offset of each partition.
    """
    end_offsets = ends(files)
    for partition, end in sorted(wanted.items()):
        if end_offsets.get(partition, 0) < end:
            return f"files of partition {partition} end at {end_offsets.get(partition, 0)} of {end}"
    return ""


def faults(records: Sequence[BrokerRecord], files: Iterable[tuple[RangeFile, bytes]]) -> list[str]:
    """Return a message for each violation of the guarantee that each record is in exactly one file."""
    values: dict[int, dict[int, bytes]] = {}
    for record in records:
        values.setdefault(record.partition, {})[record.offset] = record.value or b""
    by_partition: dict[int, list[tuple[RangeFile, bytes]]] = {partition: [] for partition in values}
    for file, content in files:
        by_partition.setdefault(file.partition.partition, []).append((file, content))
    errors = []
    for partition, there in sorted(by_partition.items()):
        there.sort(key=lambda each: each[0].span)
        expected = values.get(partition, {})
        errors += _misplaced(partition, [file for file, _ in there], max(expected, default=-1) + 1)
        errors += [
            f"{file.name} has other records than the topic"
            for file, content in there
            if content != b"".join(expected.get(offset, b"?") + b"\n" for offset in range(*file.span))
        ]
    return errors


def _misplaced(partition: int, files: Sequence[RangeFile], end: int) -> list[str]:
    spans = [(0, 0), *(file.span for file in files), (end, end)]
    errors, reached = [], 0
    for (_, _), (first, stop) in itertools.pairwise(spans):
        if first < reached:
            errors.append(
                f"partition {partition}: offsets {first} to {min(reached, stop) - 1} are in two files"
            )
        elif first > reached:
            errors.append(f"partition {partition}: offsets {reached} to {first - 1} are in no file")
        reached = max(reached, stop)
    return errors
