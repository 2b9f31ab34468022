"""A source for data that Spark can read: files, JDBC tables, Python Data Sources, streaming formats.

A task's `poll` only decides whether discovery is due. Discovery (listing a directory, querying a database or a reader)
and reading run on the job thread, in `SourceBatch.discover`. The task's position advances with the next poll, because
the last batch and its offsets are written by then.
"""

from __future__ import annotations

import operator
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
    parse_local_path,
    parse_options,
)
from kraal.connectors.spark.source_config import SPARK_SOURCE
from kraal.connectors.spark.stream_checkpoint import read_query_id
from kraal.plugins.api import (
    ConfigDef,
    Offset,
    SourceBatch,
    SourcePartition,
    SourceReplay,
    SourceTask,
    TaskContext,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARE: Final = "kraal.share"
"""The task config key for the task's index and the number of tasks, such as `0/4`."""
_WITHOUT_PAUSES: Final = {"spark.poll.interval.ms": "1", "jdbc.poll.interval.ms": "1"}
"""Settings of tasks that look for new data each time they are polled."""


_RAMP_UP: Final = "spark.option.rampUpTime"
"""An option of the format `rate`."""


class Reader(Protocol):
    """Discovers and reads the new data in one task's share."""

    next_position: Any
    """The position after the batch of the last `discover`; None if there was no batch."""

    def may_have_more(self) -> bool:
        """Return whether `discover` may return a batch; must be fast, because every poll calls it."""

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Return the batch at the current position, None if there is no new data. Runs on the job thread."""

    def advance(self) -> None:
        """Advance past the last batch. Must not be called before the batch and its offsets are written."""

    def close(self) -> None:
        """Release all resources."""


class RangeReader(Protocol):
    """An additional method of a reader whose records can be read again."""

    def read_range(
        self,
        spark: SparkSession,
        starts: Mapping[SourcePartition, Offset],
        ends: Mapping[SourcePartition, Offset] | None,
    ) -> SourceBatch | None:
        """Implement `SourceTask.read_range`."""


class BackgroundReader(Protocol):
    """Additional methods of a reader that reads in the background."""

    @property
    def runs_on(self) -> bool:
        """Whether the reader is reading. Thread-safe."""

    def rest(self) -> None:
        """Stop reading until the next `discover`. Runs on the job thread."""


class SparkSourceTask(SourceTask):
    """Reads a share of files or tables, or a whole Python Data Source or stream."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._stream: BackgroundReader | None = None
        """The reader if it reads a stream, otherwise None."""
        self._range_reader: RangeReader | None = None
        """The reader if it reads a Python Data Source or a stream, otherwise None."""
        self._interval_s = 0.0
        self._next_discovery_s = 0.0

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        parsed = SPARK_SOURCE.parse(config)
        spark_format = str(parsed["spark.format"])
        kind = JDBC if spark_format == JDBC else "spark"
        # A streaming query discovers data itself; polling it takes microseconds.
        self._interval_s = (
            0.0 if is_stream(spark_format) else int(str(parsed[f"{kind}.poll.interval.ms"])) / 1000
        )
        number, _, count = config.get(SHARE, "0/1").partition("/")
        share = (int(number), int(count))
        reader = _get_reader_class(spark_format)(parsed, parse_options(config), share, offsets)
        self._reader, self._stream = reader, reader if is_stream(spark_format) else None
        self._range_reader = reader if _has_ranges(spark_format) else None

    @override
    def poll(self) -> SourceBatch | None:
        reader = self._reader
        if reader is None:
            return None
        if reader.next_position is not None:
            reader.advance()
            self._next_discovery_s = 0.0  # more data may follow a batch
        now = time.monotonic()
        if now < self._next_discovery_s:
            return None
        self._next_discovery_s = now + self._interval_s
        return SourceBatch(offsets={}, discover=reader.discover) if reader.may_have_more() else None

    @override
    def read_range(
        self,
        spark: SparkSession,
        starts: Mapping[SourcePartition, Offset],
        ends: Mapping[SourcePartition, Offset] | None,
    ) -> SourceBatch | None:
        assert self._range_reader is not None  # noqa: S101 - see `SparkSourceConnector.source_replay`
        return self._range_reader.read_range(spark, starts, ends)

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
    """Distributes files by the hash of their paths, and tables by name; other sources have one task."""

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

    @classmethod
    @override
    def source_replay(cls, config: Mapping[str, str]) -> SourceReplay | None:
        """Return None for tables in bulk mode, because earlier rows may no longer exist.

        Also for streams whose records depend on how they are divided into batches: a proof reads them as one batch.
        """
        spark_format = config.get("spark.format", "").strip()
        if spark_format in FILE_FORMATS:
            return SourceReplay(
                offset_key=operator.itemgetter("position"), keeps_records=True, settings=_WITHOUT_PAUSES
            )
        if spark_format == JDBC and config.get("jdbc.mode", "").strip() != "bulk":
            return SourceReplay(offset_key=_offset_sort_key, keeps_records=False, settings=_WITHOUT_PAUSES)
        depends_on_batches = spark_format == "rate-micro-batch" or _RAMP_UP in config
        return (
            SourceReplay(keeps_records=True) if _has_ranges(spark_format) and not depends_on_batches else None
        )

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Return None for a Python Data Source, which may not be replayable; False for `bulk`, which rereads rows."""
        spark_format = config.get("spark.format", "").strip()
        if spark_format == PYTHON:
            return None
        return spark_format != JDBC or config.get("jdbc.mode", "").strip() != "bulk"

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        spark_format = config.get("spark.format", "")
        if is_stream(spark_format):
            return _check_stream_reset(
                spark_format, parse_local_path(config.get("checkpoint.location", "")), offsets
            )
        key = {JDBC: "table", PYTHON: "datasource"}.get(spark_format, "path")
        for partition, offset in offsets.items():
            if offset is not None and key not in partition.as_dict():
                raise ValueError(f"Partition objects should contain the key '{key}'")
        return True


def _has_ranges(spark_format: str) -> bool:
    """Return whether tasks read the records between two stored offsets again."""
    return spark_format == PYTHON or is_stream(spark_format)


def _offset_sort_key(offset: Offset) -> tuple[str, int]:
    """Return the sort key of an offset: the timestamp with nanoseconds, then the value of the incrementing column."""
    from kraal.connectors.jdbc.source import Mark  # noqa: PLC0415 - see _get_reader_class

    mark = Mark.of(offset)
    seconds, _, fraction = (mark.timestamp or "").partition(".")
    return f"{seconds}.{fraction:0<9}", mark.incrementing or 0


def _check_stream_reset(
    spark_format: str, checkpoint: str, offsets: Mapping[SourcePartition, Offset | None]
) -> bool:
    """Return True if all offsets are reset and the checkpoint has been deleted. Raises ValueError otherwise."""
    if any(offset is not None for offset in offsets.values()):
        raise ValueError(
            f"The position of a stream of spark.format={spark_format} is stored in its checkpoint, {checkpoint}: "
            "its offsets cannot be altered, only reset"
        )
    if read_query_id(checkpoint) is not None:
        raise ValueError(
            f"The position of a stream of spark.format={spark_format} is stored in its checkpoint: delete {checkpoint} "
            "first, then reset the offsets"
        )
    return True


def _get_reader_class(spark_format: str) -> Any:
    """Return the reader class of a format, with a deferred import of Spark and Arrow."""
    if spark_format in FILE_FORMATS:
        from kraal.connectors.spark.files import FileReader  # noqa: PLC0415

        return FileReader
    if spark_format == JDBC:
        from kraal.connectors.jdbc.source import JdbcReader  # noqa: PLC0415

        return JdbcReader
    if is_stream(spark_format):
        from kraal.connectors.spark.stream import StreamReader  # noqa: PLC0415

        return StreamReader
    from kraal.connectors.spark.python_source import PythonReader  # noqa: PLC0415

    return PythonReader
