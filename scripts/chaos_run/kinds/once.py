"""Whether each record of a topic is in exactly one file of a folder, by the names and the content of the files."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from kraal.broker.records import BrokerRecord
from kraal.connectors.frames.range_files import RangeFile, parse


def range_files(folder: Path) -> list[RangeFile]:
    """Return the files of a folder, by partition and offset; none of a folder that does not exist."""
    with suppress(FileNotFoundError):
        files = [file for path in folder.iterdir() if (file := parse(path.name)) is not None]
        return sorted(files, key=lambda file: (file.place, file.span))
    return []


def contents(folder: Path) -> list[tuple[RangeFile, bytes]]:
    """Return all files with what is in them."""
    return [(file, (folder / file.name).read_bytes()) for file in range_files(folder)]


def ends(files: Iterable[RangeFile]) -> dict[int, int]:
    """Return where the files of each partition end."""
    end_offsets: dict[int, int] = {}
    for file in files:
        partition = file.place.partition
        end_offsets[partition] = max(end_offsets.get(partition, 0), file.span[1])
    return end_offsets


def behind(files: Iterable[RangeFile], wanted: Mapping[int, int]) -> str:
    """Say which partition has records that no file has yet; `wanted`: where each one ends. Empty when none has."""
    end_offsets = ends(files)
    for partition, end in sorted(wanted.items()):
        if end_offsets.get(partition, 0) < end:
            return f"files of partition {partition} end at {end_offsets.get(partition, 0)} of {end}"
    return ""


def faults(records: Sequence[BrokerRecord], files: Iterable[tuple[RangeFile, bytes]]) -> list[str]:
    """Return a sentence for each offset or file that breaks the promise that each record is in exactly one file."""
    values: dict[int, dict[int, bytes]] = {}
    for record in records:
        values.setdefault(record.partition, {})[record.offset] = record.value or b""
    by_partition: dict[int, list[tuple[RangeFile, bytes]]] = {partition: [] for partition in values}
    for file, content in files:
        by_partition.setdefault(file.place.partition, []).append((file, content))
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
