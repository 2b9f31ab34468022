"""Files named after the offsets they contain, `TOPIC+PARTITION+FIRST+LAST.ext`, so that redelivery adds no duplicates.

A batch that is delivered again after a crash may have different bounds. Before the offsets `[start, end)` of a
partition are published, `find_conflicts` returns the files that already contain some of them. Files wholly within the
range are replaced (removed once the new file has its name); records in a file that extends beyond the range are omitted
(`find_missing_span`). So each offset ends up in one file, no matter when a crash occurs: uncommitted records are
delivered again, and a file whose offsets are all in another file is then removed (`find_redundant`).

If the previous owner of a partition was frozen or disconnected, it may publish one more file while its successor
writes. The offsets of that file were not committed when the successor took over. Therefore, the successor lists the
files again immediately before each publication, until it is past all offsets that the previous owner's batch can
contain. No file is removed before its replacement exists, so a late owner can remove only files whose offsets are also
in another file.

Only `LocalFiles` and `RangeFolder` have side effects.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from kraal.config.connector.batches import DEFAULT_MAX_RECORDS
from kraal.plugins.api import RetriableError, TopicPartition

_NAME_PATTERN: Final = re.compile(
    r"(?P<topic>[\w.-]+)\+(?P<partition>\d+)\+(?P<first>\d+)\+(?P<last>\d+)(?P<suffix>\..*)?"
)
_OFFSET_DIGITS: Final = 20
"""Number of digits of offsets in names, so that names sort by offset."""

RANGE: Final = "__kraal_range"
"""The column with the index of a record's range within the batch."""

OFFSET: Final = "__kraal_offset"
"""The column with a record's offset, for rows that are staged before duplicates are removed."""

Span = tuple[int, int]
"""A range of offsets `[start, end)`."""


@dataclass(frozen=True, slots=True)
class RangeFile:
    """An existing file, described by its name."""

    name: str
    partition: TopicPartition
    span: Span


def format_file_name(partition: TopicPartition, span: Span, suffix: str) -> str:
    """Return the name of the file with these offsets; `suffix` is, for example, `.snappy.parquet`."""
    first, last = (f"{offset:0{_OFFSET_DIGITS}d}" for offset in (span[0], span[1] - 1))
    return f"{partition.topic}+{partition.partition}+{first}+{last}{suffix}"


def parse_file_name(name: str) -> RangeFile | None:
    """Parse a file name; return None if it is not the name of a range file."""
    match = _NAME_PATTERN.fullmatch(name)
    if match is None:
        return None
    span = (int(match["first"]), int(match["last"]) + 1)
    return RangeFile(name, TopicPartition(match["topic"], int(match["partition"])), span)


def find_missing_span(span: Span, files: Iterable[RangeFile]) -> Span | None:
    """Return `span` without the offsets in files that extend beyond `span`; None if no offsets remain."""
    start, end = span
    for file in files:
        first, stop = file.span
        if _is_within(file.span, span):
            continue
        if first <= start < stop:
            start = stop
        if first < end <= stop:
            end = first
    return (start, end) if start < end else None


def find_redundant(files: Sequence[RangeFile]) -> list[RangeFile]:
    """Return the files that another file fully covers. Of files with the same offsets, the first is not returned."""
    return [
        file
        for number, file in enumerate(files)
        if any(
            _is_within(file.span, other.span) and (file.span != other.span or position < number)
            for position, other in enumerate(files)
        )
    ]


def _is_within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Files(Protocol):
    """The storage of range files."""

    def list_names(self) -> Iterable[str]:
        """Return the names of all files."""

    def put(self, staged: Path, name: str) -> None:
        """Move a complete file to its final name atomically, replacing any existing file."""

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Files in a local directory. The methods raise OSError with the path."""

    folder: Path

    def list_names(self) -> Iterable[str]:
        """See Files."""
        return os.listdir(self.folder)  # noqa: PTH208 - names are all that is needed

    def put(self, staged: Path, name: str) -> None:
        """See Files."""
        staged.replace(self.folder / name)

    def remove(self, name: str) -> None:
        """See Files."""
        (self.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A complete file that is not published yet; `suffix` is, for example, `.snappy.parquet`."""

    path: Path
    suffix: str


class RangeFolder:
    """A folder of range files. Not thread-safe; other tasks write files of other partitions."""

    def __init__(self, files: Files, max_offsets: int = DEFAULT_MAX_RECORDS) -> None:
        """Use `files` as the storage; `max_offsets`: maximum number of a partition's offsets in a batch."""
        self._files = files
        self._max_offsets = max_offsets
        self._ends: dict[TopicPartition, int] = {}
        """The end of the offsets that this task wrote; a batch that starts there cannot conflict with older files."""
        self._first_offsets: dict[TopicPartition, int] = {}
        """The start of this task's first batch, at which an uncommitted batch of the previous owner also starts."""

    def on_assigned(self) -> None:
        """Reset the state after a new assignment, since other tasks may have written in between."""
        self._ends.clear()
        self._first_offsets.clear()

    def find_conflicts(self, ranges: Mapping[TopicPartition, Span]) -> dict[TopicPartition, list[RangeFile]]:
        """Return the files that contain some of these offsets. Lists all names unless all offsets are new."""
        unchecked_partitions = {tp for tp, (start, _) in ranges.items() if self._ends.get(tp) != start}
        return self._list_conflicts(ranges, unchecked_partitions)

    def publish(
        self,
        staged_files: Mapping[TopicPartition, StagedFile],
        ranges: Mapping[TopicPartition, Span],
        conflicts: Mapping[TopicPartition, Sequence[RangeFile]],
        check_owned: Callable[[], None] = lambda: None,
    ) -> None:
        """Move the files of a batch to their final names, and remove the files that they replace.

        `conflicts` is the result of `find_conflicts` for these ranges. `staged_files` contains a file for each range
        with records; the file has the offsets of `find_missing_span`. `check_owned` is called before each partition is
        published; its exceptions prevent the publication. Raises RetriableError if other files appeared in the
        meantime; the batch must then be staged again.
        """
        for tp, (start, _) in ranges.items():
            self._first_offsets.setdefault(tp, start)
        may_conflict = {
            tp for tp, (start, _) in ranges.items() if start < self._first_offsets[tp] + self._max_offsets
        }
        current_conflicts = {
            **conflicts,
            **self._list_conflicts({tp: ranges[tp] for tp in may_conflict}, may_conflict),
        }
        for tp, span in ranges.items():
            if find_missing_span(span, current_conflicts[tp]) != find_missing_span(span, conflicts[tp]):
                self._ends.pop(tp, None)
                names = ", ".join(sorted({file.name for file in {*current_conflicts[tp]} - {*conflicts[tp]}}))
                raise RetriableError(f"{tp}: another task has written files in the meantime: {names}")
        for tp, span in ranges.items():
            check_owned()
            self._publish(staged_files.get(tp), tp, span, current_conflicts[tp])
            if any(file.span[1] > span[1] for file in current_conflicts[tp]):
                self._ends.pop(tp, None)
            else:
                self._ends[tp] = span[1]

    def _publish(
        self,
        staged_file: StagedFile | None,
        tp: TopicPartition,
        span: Span,
        existing_files: Sequence[RangeFile],
    ) -> None:
        """Move the staged file, if any, to its final name; then remove replaced and redundant files."""
        span_to_write = find_missing_span(span, existing_files)
        obsolete_names = {
            file.name for file in existing_files if span_to_write is not None and _is_within(file.span, span)
        }
        if staged_file is not None and span_to_write is not None:
            new_file = RangeFile(format_file_name(tp, span_to_write, staged_file.suffix), tp, span_to_write)
            self._files.put(staged_file.path, new_file.name)
            obsolete_names -= {new_file.name}
            existing_files = [new_file, *(file for file in existing_files if file.name != new_file.name)]
        for name in sorted(obsolete_names | {file.name for file in find_redundant(existing_files)}):
            self._files.remove(name)

    def _list_conflicts(
        self, ranges: Mapping[TopicPartition, Span], unchecked_partitions: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[RangeFile]]:
        files: dict[TopicPartition, list[RangeFile]] = {tp: [] for tp in ranges}
        if not unchecked_partitions:
            return files
        for name in self._files.list_names():
            file = parse_file_name(name)
            if file is not None and file.partition in unchecked_partitions:
                start, end = ranges[file.partition]
                if file.span[0] < end and start < file.span[1]:
                    files[file.partition].append(file)
        return files
