"""Checks, by file names and contents, that each record of a topic is in exactly one file of a directory."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kraal.broker.records import BrokerRecord
from kraal.connectors.frames.range_files import RangeFile, parse_file_name


def list_range_files(directory: Path) -> list[RangeFile]:
    """Return the files of a directory, sorted by partition and offset; empty if the directory does not exist."""
    with suppress(FileNotFoundError):
        files = [file for path in directory.iterdir() if (file := parse_file_name(path.name)) is not None]
        return sorted(files, key=lambda file: (file.partition, file.span))
    return []


def read_files(directory: Path) -> list[tuple[RangeFile, bytes]]:
    """Return the files of a directory with their contents."""
    return [(file, (directory / file.name).read_bytes()) for file in list_range_files(directory)]


def get_file_ends(files: Iterable[RangeFile]) -> dict[int, int]:
    """Return the highest end offset of the files of each partition."""
    end_offsets: dict[int, int] = {}
    for file in files:
        partition = file.partition.partition
        end_offsets[partition] = max(end_offsets.get(partition, 0), file.span[1])
    return end_offsets


def describe_lag(files: Iterable[RangeFile], end_offsets: Mapping[int, int]) -> str:
    """Return a message about a partition whose last records are in no file; empty if there is none.

    `end_offsets`: the end offset of each partition.
    """
    file_ends = get_file_ends(files)
    for partition, end in sorted(end_offsets.items()):
        if file_ends.get(partition, 0) < end:
            return f"files of partition {partition} end at {file_ends.get(partition, 0)} of {end}"
    return ""


def find_violations(records: Sequence[BrokerRecord], files: Iterable[tuple[RangeFile, bytes]]) -> list[str]:
    """Return a message for each violation of the guarantee that each record is in exactly one file."""
    values: dict[int, dict[int, bytes]] = {}
    for record in records:
        values.setdefault(record.partition, {})[record.offset] = record.value or b""
    by_partition: dict[int, list[tuple[RangeFile, bytes]]] = {partition: [] for partition in values}
    for file, content in files:
        by_partition.setdefault(file.partition.partition, []).append((file, content))
    errors = []
    for partition, partition_files in sorted(by_partition.items()):
        partition_files.sort(key=lambda entry: entry[0].span)
        expected = values.get(partition, {})
        errors += _find_misplaced(
            partition, [file for file, _ in partition_files], max(expected, default=-1) + 1
        )
        errors += [
            f"{file.name} does not contain the records of the topic"
            for file, content in partition_files
            if content != b"".join(expected.get(offset, b"?") + b"\n" for offset in range(*file.span))
        ]
    return errors


def _find_misplaced(partition: int, files: Sequence[RangeFile], end: int) -> list[str]:
    spans = [(0, 0), *(file.span for file in files), (end, end)]
    errors, next_offset = [], 0
    for (_, _), (first, stop) in itertools.pairwise(spans):
        if first < next_offset:
            errors.append(
                f"partition {partition}: offsets {first} to {min(next_offset, stop) - 1} are in two files"
            )
        elif first > next_offset:
            errors.append(f"partition {partition}: offsets {next_offset} to {first - 1} are in no file")
        next_offset = max(next_offset, stop)
    return errors
