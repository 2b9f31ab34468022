"""A source for data that Spark can read: files, tables over JDBC, Python Data Sources, streaming formats.

A task's `poll` only decides that discovery is due. Discovery (listing a directory, querying a database or a reader)
and reading happen on the job thread, in `SourceBatch.discover`. The task's position advances with the next poll
because the last batch is stored then.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from typing_extensions import override

from kraal import __version__
from kraal.connectors.pass_through import PassThroughConnector
from kraal.connectors.spark.checks import (
    FILE_FORMATS,
    JDBC,
    PYTHON,
    is_stream,
    list_paths,
    local_path,
    parse_options,
)
from kraal.connectors.spark.source_config import SPARK_SOURCE
from kraal.connectors.spark.stream_checkpoint import query_in
from kraal.plugins.api import (
    ConfigDef,
    Offset,
    SourceBatch,
    SourcePartition,
    SourceTask,
    TaskContext,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE: Final = "kraal.share"
"""The key in a task's config for its number and the number of tasks: `0/4`."""


class Reader(Protocol):
    """Discovers and reads new data in one task's share."""

    next_position: Any
    """The position after the batch of the last `discover`; None if there was no batch."""

    def may_have_more(self) -> bool:
        """Return, within microseconds, whether `discover` is worth a job."""

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Find the next batch; repeatable until `advance`. Job thread."""

    def advance(self) -> None:
        """Advance past the last batch, which is in Kafka and has its offsets stored."""

    def close(self) -> None:
        """Release all resources."""


class Resting(Protocol):
    """Additional methods of a reader that reads in the background."""

    @property
    def runs_on(self) -> bool:
        """Return whether it is reading now. Any thread."""

    def rest(self) -> None:
        """Stop reading until the next `discover`. Job thread."""


class SparkSourceTask(SourceTask):
    """Reads a share of files or tables, or a whole Python Data Source or stream."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._stream: Resting | None = None
        """The reader, if it is that of a stream."""
        self._interval_s = 0.0
        self._due = 0.0

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        parsed = SPARK_SOURCE.parse(config)
        chosen = str(parsed["spark.format"])
        kind = JDBC if chosen == JDBC else "spark"
        # A streaming query discovers data itself; asking it for a batch takes microseconds.
        self._interval_s = 0.0 if is_stream(chosen) else int(str(parsed[f"{kind}.poll.interval.ms"])) / 1000
        number, _, count = config.get(SHARE, "0/1").partition("/")
        share = (int(number), int(count))
        reader = _reader(chosen)(parsed, parse_options(config), share, offsets)
        self._reader, self._stream = reader, reader if is_stream(chosen) else None

    @override
    def poll(self) -> SourceBatch | None:
        reader = self._reader
        if reader is None:
            return None
        if reader.next_position is not None:
            reader.advance()
            self._due = 0.0  # there may be more after a batch
        now = time.monotonic()
        if now < self._due:
            return None
        self._due = now + self._interval_s
        return SourceBatch(offsets={}, discover=reader.discover) if reader.may_have_more() else None

    @property
    @override
    def runs_on(self) -> bool:
        return self._stream is not None and self._stream.runs_on

    @override
    def rest(self) -> None:
        if self._stream is not None:
            self._stream.rest()

    @override
    def stop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class SparkSourceConnector(PassThroughConnector):
    """Divides files by the hash of their names, and tables by name; a Python Data Source or a stream has one task."""

    kind = "source"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = SPARK_SOURCE
    task_class = SparkSourceTask

    @classmethod
    @override
    def shared_paths(cls, config: Mapping[str, str]) -> Mapping[str, str]:
        return list_paths(config, "path", "checkpoint.location")

    @override
    def check(self, config: Mapping[str, str]) -> None:
        SPARK_SOURCE.parse(config)
        parse_options(config)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        parsed = SPARK_SOURCE.parse(self._config)
        match str(parsed["spark.format"]):
            case "python":
                count = 1
            case stream if is_stream(stream):
                count = 1
            case "jdbc":
                tables = parsed["jdbc.tables"]
                count = min(max_tasks, len(tables) if isinstance(tables, (tuple, list)) else 1)
            case _:
                count = max_tasks
        return [{**self._config, SHARE: f"{number}/{count}"} for number in range(count)]

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Return None for a Python Data Source, which may not be repeatable; False for `bulk`, which rereads rows."""
        chosen = config.get("spark.format", "").strip()
        if chosen == PYTHON:
            return None
        return chosen != JDBC or config.get("jdbc.mode", "").strip() != "bulk"

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        chosen = config.get("spark.format", "")
        if is_stream(chosen):
            return _reset_of_stream(chosen, local_path(config.get("checkpoint.location", "")), offsets)
        key = {JDBC: "table", PYTHON: "datasource"}.get(chosen, "path")
        for partition, offset in offsets.items():
            if offset is not None and key not in partition.as_dict():
                raise ValueError(f"Partition objects should contain the key '{key}'")
        return True


def _reset_of_stream(chosen: str, checkpoint: str, offsets: Mapping[SourcePartition, Offset | None]) -> bool:
    """Accept a reset of a stream without a checkpoint. Raises ValueError otherwise."""
    if any(offset is not None for offset in offsets.values()):
        raise ValueError(
            f"How far a stream of spark.format={chosen} is read is in its checkpoint, {checkpoint}: its offsets cannot "
            "be altered, only reset"
        )
    if query_in(checkpoint) is not None:
        raise ValueError(
            f"How far a stream of spark.format={chosen} is read is in its checkpoint: delete {checkpoint} first, then "
            "reset the offsets"
        )
    return True


def _reader(chosen: str) -> Any:
    """Return the reader class of a format; imports Spark and Arrow only here."""
    if chosen in FILE_FORMATS:
        from kraal.connectors.spark.files import FileReader  # noqa: PLC0415

        return FileReader
    if chosen == JDBC:
        from kraal.connectors.jdbc.source import JdbcReader  # noqa: PLC0415

        return JdbcReader
    if is_stream(chosen):
        from kraal.connectors.spark.stream import StreamReader  # noqa: PLC0415

        return StreamReader
    from kraal.connectors.spark.python_source import PythonReader  # noqa: PLC0415

    return PythonReader
