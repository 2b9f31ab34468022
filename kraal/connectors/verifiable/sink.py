"""A sink that prints each record, for tests that count records. Source: VerifiableSinkTask (Kafka 4.3.0).

Each record is printed when its batch arrives, and again, with `"flushed":true`, before its offset is committed. Spark
formats the lines; no record passes through a Python loop.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from kraal import __version__
from kraal.connectors.pass_through import PassThroughConnector
from kraal.connectors.verifiable.config import VERIFIABLE_SINK
from kraal.connectors.verifiable.lines import add_flushed, generate_sink_output, join_lines, write_stdout
from kraal.engine.columns.functions import F
from kraal.plugins.api import ConfigDef, SinkBatch, SinkTask, TaskContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ID: Final = "id"

MAX_WORKER_RECORDS: Final = 500
"""Maximum number of records in a batch whose lines are fetched at once."""


class VerifiableSinkTask(SinkTask):
    """Prints the task's share of the records."""

    class_name = "org.apache.kafka.connect.tools.VerifiableSinkTask"

    def __init__(self) -> None:
        self._name = ""
        self._task = 0

    @override
    def start(self, config: Mapping[str, str], context: TaskContext) -> None:
        self._name = context.connector
        try:
            self._task = int(config[ID])
        except (KeyError, ValueError) as exc:
            raise ValueError("Invalid VerifiableSinkTask configuration") from exc

    @override
    def write(self, batch: SinkBatch) -> None:
        lines = make_lines(batch.frame, self._name, self._task, time.time_ns() // 1_000_000)
        if sum(end - start for start, end in batch.ranges.values()) <= MAX_WORKER_RECORDS:
            chunks = [chunk for chunk in lines.toArrow().column(0).chunks if len(chunk)]
            batch.check_owned()
            write_stdout(*map(join_lines, chunks), *(join_lines(add_flushed(chunk)) for chunk in chunks))
            return
        from kraal.engine.session.arrow import map_in_arrow  # noqa: PLC0415 - not in Spark's Python processes

        pieces = map_in_arrow(lines, generate_sink_output, "put binary, flushed binary")
        for piece in pieces.toLocalIterator(prefetchPartitions=False):
            batch.check_owned()
            write_stdout(piece["put"], piece["flushed"])


class VerifiableSinkConnector(PassThroughConnector):
    """Runs `tasks.max` tasks with consecutive ids."""

    kind = "sink"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = VERIFIABLE_SINK
    task_class = VerifiableSinkTask

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{**self._config, ID: str(number)} for number in range(max_tasks)]


def make_lines(frame: DataFrame, name: str, task: int, time_ms: int) -> DataFrame:
    """Return a frame with one string column: the line of each record, without a line end."""
    fields = (
        F.col("key").alias("task"),
        F.col("value").alias("seqno"),
        F.col("offset"),
        F.lit(time_ms).cast("long").alias("time_ms"),
        F.lit(name).alias("name"),
        F.col("topic"),
        F.lit(task).cast("int").alias("sinkTask"),
    )
    return frame.select(F.to_json(F.struct(*fields), {"ignoreNullFields": "false"}).alias("line"))
