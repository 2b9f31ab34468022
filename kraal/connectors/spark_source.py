"""What Spark can read as a source: files, tables over JDBC, Python Data Sources.

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
from kraal.config.spark_checks import FILE_FORMATS, JDBC, PYTHON, options_of
from kraal.config.spark_source import SPARK_SOURCE
from kraal.connectors.kept_config import KeptConfig
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


class SparkSourceTask(SourceTask):
    """One share of files, of tables, or a whole Python Data Source."""

    def __init__(self) -> None:
        self._reader: Reader | None = None
        self._interval_s = 0.0
        self._due = 0.0

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        parsed = SPARK_SOURCE.parse(config)
        kind = JDBC if parsed["spark.format"] == JDBC else "spark"
        self._interval_s = int(str(parsed[f"{kind}.poll.interval.ms"])) / 1000
        number, _, count = config.get(SHARE, "0/1").partition("/")
        share = (int(number), int(count))
        self._reader = _reader(str(parsed["spark.format"]))(parsed, options_of(config), share, offsets)

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

    @override
    def stop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class SparkSourceConnector(KeptConfig):
    """Splits files by the hash of their names and tables by name; a Python Data Source has one task."""

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
        match parsed["spark.format"]:
            case "python":
                count = 1
            case "jdbc":
                tables = parsed["jdbc.tables"]
                count = min(max_tasks, len(tables) if isinstance(tables, (tuple, list)) else 1)
            case _:
                count = max_tasks
        return [{**self._config, SHARE: f"{number}/{count}"} for number in range(count)]

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Nobody knows whether a Python Data Source reads an offset again as it did; `bulk` reads all anew."""
        chosen = config.get("spark.format", "").strip()
        if chosen == PYTHON:
            return None
        return chosen != JDBC or config.get("jdbc.mode", "").strip() != "bulk"

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        key = {JDBC: "table", PYTHON: "datasource"}.get(config.get("spark.format", ""), "path")
        for partition, offset in offsets.items():
            if offset is not None and key not in partition.as_dict():
                raise ValueError(f"Partition objects should contain the key '{key}'")
        return True


def _reader(chosen: str) -> Any:
    """Return the class that reads a format; Spark's and Arrow's parts are loaded only here."""
    if chosen in FILE_FORMATS:
        from kraal.connectors.spark_files import FileReader  # noqa: PLC0415

        return FileReader
    if chosen == JDBC:
        from kraal.connectors.spark_jdbc import JdbcReader  # noqa: PLC0415

        return JdbcReader
    from kraal.connectors.spark_python import PythonReader  # noqa: PLC0415

    return PythonReader
