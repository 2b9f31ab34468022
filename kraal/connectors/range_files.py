"""Files named by what they hold: `TOPIC+PARTITION+FIRST+LAST.ext`, so that records that come again do no harm.

A batch that comes again after a kill may have other bounds than the first time. Before the offsets `[start, end)` of
a partition are put in place, `conflicts` says of the files that hold some of them already: those that lie wholly within
are replaced (removed just before the new one is renamed to its name), and of one that reaches beyond, its records are
passed over (`missing`). So each offset is in one file in the end, whatever was killed when: what is not committed comes
again. Pure but for the two classes at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from kraal.plugins.api import TopicPartition

_NAME: Final = re.compile(
    r"(?P<topic>[\w.-]+)\+(?P<partition>\d+)\+(?P<first>\d+)\+(?P<last>\d+)(?P<suffix>\..*)?"
)
_DIGITS: Final = 20
"""So that names sort as offsets do."""

RANGE: Final = "__kraal_range"
"""The column with the number of the range, among the batch's, that a record belongs to."""

OFFSET: Final = "__kraal_offset"
"""The column with a record's offset, beside `RANGE`, where rows are kept until it is known which of them are new."""

Span = tuple[int, int]
"""Offsets `[start, end)`."""


@dataclass(frozen=True, slots=True)
class RangeFile:
    """A file that is in place, by its name."""

    name: str
    place: TopicPartition
    span: Span


def name_of(place: TopicPartition, span: Span, suffix: str) -> str:
    """Return the name of the file that holds these offsets; `suffix` as `.snappy.parquet`."""
    first, last = (f"{offset:0{_DIGITS}d}" for offset in (span[0], span[1] - 1))
    return f"{place.topic}+{place.partition}+{first}+{last}{suffix}"


def parse(name: str) -> RangeFile | None:
    """Return what a name says; None for one that is not ours."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    span = (int(found["first"]), int(found["last"]) + 1)
    return RangeFile(name, TopicPartition(found["topic"], int(found["partition"])), span)


def missing(span: Span, files: Iterable[RangeFile]) -> Span | None:
    """Return what of `span` is to be written: all but what files that reach beyond it hold; None: nothing."""
    left, right = span
    for file in files:
        first, stop = file.span
        if _is_within(file.span, span):
            continue
        if first <= left < stop:
            left = stop
        if first < right <= stop:
            right = first
    return (left, right) if left < right else None


def replaced(span: Span, files: Iterable[RangeFile]) -> list[RangeFile]:
    """Return the files that a file of `span` takes the place of."""
    return [file for file in files if _is_within(file.span, span)]


def _is_within(inner: Span, outer: Span) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Files(Protocol):
    """Where such files lie."""

    def names(self) -> Iterable[str]:
        """Return the names of all files there."""

    def put(self, staged: Path, name: str) -> None:
        """Give a whole file its name, at once; one that has it is replaced."""

    def drop(self, name: str) -> None:
        """Remove a file; one that is gone is fine."""


@dataclass(frozen=True, slots=True)
class LocalFiles:
    """A directory. Raises OSError that names it."""

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


class RangeFolder:
    """A place with such files. Thread: one at a time; other tasks write files of other partitions."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._ends: dict[TopicPartition, int] = {}
        """Where what we wrote ends: a batch that begins there meets no older file."""

    def conflicts(self, ranges: Mapping[TopicPartition, Span]) -> dict[TopicPartition, list[RangeFile]]:
        """Return the files that hold some of these offsets. Lists all names, unless all of it is new."""
        unsure = {place for place, (start, _) in ranges.items() if self._ends.get(place) != start}
        found: dict[TopicPartition, list[RangeFile]] = {place: [] for place in ranges}
        if not unsure:
            return found
        for name in self._files.names():
            file = parse(name)
            if file is not None and file.place in unsure:
                start, end = ranges[file.place]
                if file.span[0] < end and start < file.span[1]:
                    found[file.place].append(file)
        return found

    def put(self, staged: Path, place: TopicPartition, span: Span, suffix: str) -> None:
        """Give a whole file its name."""
        self._files.put(staged, name_of(place, span, suffix))

    def drop(self, files: Sequence[RangeFile]) -> None:
        """Remove files; those that are gone are fine."""
        for file in files:
            self._files.drop(file.name)

    def written(
        self, ranges: Mapping[TopicPartition, Span], conflicts: Mapping[TopicPartition, Sequence[RangeFile]]
    ) -> None:
        """All of these are in place; what `conflicts` said before tells whether older files go on behind them."""
        for place, (_, end) in ranges.items():
            if any(file.span[1] > end for file in conflicts[place]):
                self._ends.pop(place, None)
            else:
                self._ends[place] = end
