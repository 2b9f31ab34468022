"""What Spark can read as a source: files, tables over JDBC, Python Data Sources, formats that are only streams.

A task's `poll` only says that it is time to look; the looking (listing a directory, asking a database or a reader)
and the reading go on the job's thread, by `SourceBatch.discover`. How far a task has come moves when it is polled
again, for then the last batch is stored.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

from typing_extensions import override

from kraal import __version__
from kraal.config.spark_checks import FILE_FORMATS, JDBC, PYTHON, is_stream, local_path, options_of
from kraal.config.spark_source import SPARK_SOURCE
from kraal.connectors.kept_config import KeptConfig
from kraal.connectors.stream_checkpoint import query_in
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
"""In a task's config: its number and how many there are, `0/4`."""


class Reader(Protocol):
    """Finds and reads what is new of one task's share."""

    found: Any
    """What the last `discover` found; None: nothing."""

    def may_have_more(self) -> bool:
        """Tell in microseconds whether `discover` is worth a job."""

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Find the next batch; repeatable until `stored`. Job thread."""

    def stored(self) -> None:
        """Go on behind what was found last: it is in Kafka and its offsets are stored."""

    def close(self) -> None:
        """Let go of everything."""


class Resting(Protocol):
    """What a reader has besides that reads also between two looks."""

    @property
    def runs_on(self) -> bool:
        """Whether it does now. Any thread."""

    def rest(self) -> None:
        """End that, until the next `discover`. Job thread."""


class SparkSourceTask(SourceTask):
    """One share of files, of tables, or a whole Python Data Source or stream."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._stream: Resting | None = None
        """The reader, of a stream."""
        self._interval_s = 0.0
        self._due = 0.0

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        parsed = SPARK_SOURCE.parse(config)
        chosen = str(parsed["spark.format"])
        kind = JDBC if chosen == JDBC else "spark"
        # A stream's query looks by itself; whether it has something costs microseconds.
        self._interval_s = 0.0 if is_stream(chosen) else int(str(parsed[f"{kind}.poll.interval.ms"])) / 1000
        number, _, count = config.get(SHARE, "0/1").partition("/")
        share = (int(number), int(count))
        made = _reader(chosen)(parsed, options_of(config), share, offsets)
        self._reader, self._stream = made, made if is_stream(chosen) else None

    @override
    def poll(self) -> SourceBatch | None:
        reader = self._reader
        if reader is None:
            return None
        if reader.found is not None:
            reader.stored()
            self._due = 0.0  # where something was, there may be more
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


class SparkSourceConnector(KeptConfig):
    """Splits files by the hash of their names and tables by name; a Python Data Source or a stream has one task."""

    kind = "source"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = SPARK_SOURCE
    task_class = SparkSourceTask

    @override
    def check(self, config: Mapping[str, str]) -> None:
        SPARK_SOURCE.parse(config)
        options_of(config)

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
        """Nobody knows whether a Python Data Source or a stream reads again what it did; `bulk` reads all anew."""
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
    """Agree to a reset of a stream whose checkpoint is gone. Raises ValueError for all else."""
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
    """Return the class that reads a format; Spark's and Arrow's parts are loaded only here."""
    if chosen in FILE_FORMATS:
        from kraal.connectors.spark_files import FileReader  # noqa: PLC0415

        return FileReader
    if chosen == JDBC:
        from kraal.connectors.spark_jdbc import JdbcReader  # noqa: PLC0415

        return JdbcReader
    if is_stream(chosen):
        from kraal.connectors.spark_stream import StreamReader  # noqa: PLC0415

        return StreamReader
    from kraal.connectors.spark_python import PythonReader  # noqa: PLC0415

    return PythonReader
