"""Python data sources for tests: a source of numbers, and a folder as the target."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
    SimpleDataSourceStreamReader,
    WriterCommitMessage,
)
from pyspark.sql.types import Row, StructType
from typing_extensions import override


class Span(InputPartition):
    """A partition with the numbers `[start, end)`."""

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end


class NumbersReader(DataSourceStreamReader):
    """A reader of the numbers below the number in the file `limit`. Writes the committed offset next to this file."""

    def __init__(self, limit: str) -> None:
        self._limit = limit

    @override
    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    @override
    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
        return {"next": int(Path(self._limit).read_text("ascii"))}

    @override
    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [Span(start["next"], end["next"])]

    @override
    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Span)
        for number in range(partition.start, partition.end):
            yield number, Row(half=number // 2), os.getpid()

    @override
    def commit(self, end: dict[str, int]) -> None:
        Path(f"{self._limit}.committed").write_text(json.dumps(end), "ascii")


class Numbers(DataSource):
    """The data source with the reader `NumbersReader`."""

    @override
    def schema(self) -> str:
        return "n bigint, parts struct<half: bigint>, pid int"

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return NumbersReader(self.options["limit"])


class RepeatableNumbersReader(NumbersReader):
    """A reader of numbers that returns equal rows in each process."""

    @override
    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        assert isinstance(partition, Span)
        return ((number,) for number in range(partition.start, partition.end))


class RepeatableNumbers(DataSource):
    """The data source with the reader `RepeatableNumbersReader`."""

    @override
    def schema(self) -> str:
        return "n bigint"

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return RepeatableNumbersReader(self.options["limit"])


class SixNumbersReader(SimpleDataSourceStreamReader):
    """A reader of six numbers, two at a time."""

    @override
    def initialOffset(self) -> dict[str, int]:
        return {"next": 0}

    @override
    def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[int]], dict[str, int]]:
        end = {"next": min(start["next"] + 2, 6)}
        return self.readBetweenOffsets(start, end), end

    @override
    def readBetweenOffsets(self, start: dict[str, int], end: dict[str, int]) -> Iterator[tuple[int]]:
        return ((number,) for number in range(start["next"], end["next"]))


class SixNumbers(DataSource):
    """The data source with the reader `SixNumbersReader`."""

    @override
    def schema(self) -> str:
        return "n bigint"

    @override
    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        return SixNumbersReader()


@dataclass
class WrittenFile(WriterCommitMessage):
    """A commit message with the name of the written file."""

    name: str


class FolderWriter(DataSourceWriter):
    """A writer of rows as the lines of a file."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    @override
    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        path = Path(self._folder, uuid.uuid4().hex)
        path.write_text("".join(f"{tuple(row)}\n" for row in iterator), "utf-8")
        return WrittenFile(path.name)


class Folder(DataSource):
    """The data source with the writer `FolderWriter`."""

    @override
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        return FolderWriter(self.options["folder"])
