"""Files named by the offsets they hold, `TOPIC+PARTITION+FIRST+LAST.ext`, so that redelivery causes no duplicates.

A batch that is delivered again after a crash may have different bounds. Before the offsets `[start, end)` of a
partition are put in place, `conflicts` returns the files that already hold some of them. Files wholly within the range
are replaced (removed after the new file has its name); records in a file that extends beyond the range are omitted
(`missing`). So each offset ends up in one file, whenever a crash occurs: uncommitted records are delivered again, and
a file with offsets that another file also has is then removed (`redundant`).

A former owner of a partition that was frozen or disconnected may put a last file in place while its successor writes.
That file has offsets that were not committed when the successor took over. So the successor lists the files again
immediately before it puts its own in place, until it is past all offsets that such a batch can hold. No file is removed
before its replacement exists, so a late owner can remove only files with offsets that another file also has.

Pure except for the two classes at the end.
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

_NAME: Final = re.compile(
    r"(?P<topic>[\w.-]+)\+(?P<partition>\d+)\+(?P<first>\d+)\+(?P<last>\d+)(?P<suffix>\..*)?"
)
_DIGITS: Final = 20
"""The width of offsets in names, so that names sort by offset."""

RANGE: Final = "__kraal_range"
"""The column with the index of the batch's range that a record belongs to."""

OFFSET: Final = "__kraal_offset"
"""The column with a record's offset, for rows that are stored until it is known which of them are new."""

Span = tuple[int, int]
"""Offsets `[start, end)`."""


@dataclass(frozen=True, slots=True)
class RangeFile:
    """An existing file, described by its name."""

    name: str
    place: TopicPartition
    span: Span


def make_name(place: TopicPartition, span: Span, suffix: str) -> str:
    """Return the name of the file that holds these offsets; `suffix` is like `.snappy.parquet`."""
    first, last = (f"{offset:0{_DIGITS}d}" for offset in (span[0], span[1] - 1))
    return f"{place.topic}+{place.partition}+{first}+{last}{suffix}"


def parse(name: str) -> RangeFile | None:
    """Parse a file name; return None for a foreign one."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    span = (int(match["first"]), int(match["last"]) + 1)
    return RangeFile(name, TopicPartition(match["topic"], int(match["partition"])), span)


def missing(span: Span, files: Iterable[RangeFile]) -> Span | None:
    """Return the part of `span` to write: without the offsets in files that extend beyond it; None for nothing."""
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


def redundant(files: Sequence[RangeFile]) -> list[RangeFile]:
    """Return the files that another file fully covers. Of two files with the same offsets, the first is kept."""
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
    """The storage of such files."""

    def names(self) -> Iterable[str]:
        """Return the names of all files."""

    def put(self, staged: Path, name: str) -> None:
        """Move a complete file to its name atomically; replace a file with that name."""

    def drop(self, name: str) -> None:
        """Remove a file if it exists."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """Files in a local directory. Raises OSError with its path."""

    folder: Path

    def names(self) -> Iterable[str]:
        """See Files."""
        return os.listdir(self.folder)  # noqa: PTH208 - names are all that is needed

    def put(self, staged: Path, name: str) -> None:
        """See Files."""
        staged.replace(self.folder / name)

    def drop(self, name: str) -> None:
        """See Files."""
        (self.folder / name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Staged:
    """A complete file to be put in place; `suffix` is like `.snappy.parquet`."""

    path: Path
    suffix: str


class RangeFolder:
    """A folder of such files. Threads: one at a time; other tasks write files of other partitions."""

    def __init__(self, files: Files, reach: int = DEFAULT_MAX_RECORDS) -> None:
        """Take the storage, and as `reach` the maximum number of offsets of a partition in a batch."""
        self._files = files
        self._reach = reach
        self._ends: dict[TopicPartition, int] = {}
        """The end of the offsets written by this task; a batch that starts there cannot conflict with older files."""
        self._first: dict[TopicPartition, int] = {}
        """The start of this task's first batch, and of a former owner's last batch."""

    def on_assigned(self) -> None:
        """Forget this task's writes after a new assignment, since other tasks may have written in between."""
        self._ends.clear()
        self._first.clear()

    def conflicts(self, ranges: Mapping[TopicPartition, Span]) -> dict[TopicPartition, list[RangeFile]]:
        """Return the files that hold some of these offsets. Lists all names unless all offsets are new."""
        unsure = {place for place, (start, _) in ranges.items() if self._ends.get(place) != start}
        return self._list(ranges, unsure)

    def put(
        self,
        staged: Mapping[TopicPartition, Staged],
        ranges: Mapping[TopicPartition, Span],
        conflicts: Mapping[TopicPartition, Sequence[RangeFile]],
        check_owned: Callable[[], None] = lambda: None,
    ) -> None:
        """Put the files of a batch in place and remove those that `conflicts` returned for it.

        `staged`: the files with the `missing` offsets, for ranges with records. `check_owned` is called before each
        step; its exceptions prevent the step. Raises RetriableError if other files appeared in the meantime; the batch
        must be staged again then.
        """
        for place, (start, _) in ranges.items():
            self._first.setdefault(place, start)
        near = {place for place, (start, _) in ranges.items() if start < self._first[place] + self._reach}
        now = {**conflicts, **self._list({place: ranges[place] for place in near}, near)}
        for place, span in ranges.items():
            if missing(span, now[place]) != missing(span, conflicts[place]):
                self._ends.pop(place, None)
                names = ", ".join(sorted({file.name for file in {*now[place]} - {*conflicts[place]}}))
                raise RetriableError(f"{place}: another task has put files in place meanwhile: {names}")
        for place, span in ranges.items():
            check_owned()
            self._publish(staged.get(place), place, span, now[place])
            if any(file.span[1] > span[1] for file in now[place]):
                self._ends.pop(place, None)
            else:
                self._ends[place] = span[1]

    def _publish(
        self, staged: Staged | None, place: TopicPartition, span: Span, there: Sequence[RangeFile]
    ) -> None:
        """Move a file to its name, then remove the files that it replaces if they still exist."""
        absent = missing(span, there)
        gone = {file.name for file in there if absent is not None and _is_within(file.span, span)}
        if staged is not None and absent is not None:
            new = RangeFile(make_name(place, absent, staged.suffix), place, absent)
            self._files.put(staged.path, new.name)
            gone -= {new.name}
            there = [new, *(file for file in there if file.name != new.name)]
        for name in sorted(gone | {file.name for file in redundant(there)}):
            self._files.drop(name)

    def _list(
        self, ranges: Mapping[TopicPartition, Span], unsure: Collection[TopicPartition]
    ) -> dict[TopicPartition, list[RangeFile]]:
        files: dict[TopicPartition, list[RangeFile]] = {place: [] for place in ranges}
        if not unsure:
            return files
        for name in self._files.names():
            file = parse(name)
            if file is not None and file.place in unsure:
                start, end = ranges[file.place]
                if file.span[0] < end and start < file.span[1]:
                    files[file.place].append(file)
        return files
