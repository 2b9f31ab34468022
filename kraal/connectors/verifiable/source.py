"""A source that prints numbered records, for tests that count records. Source: VerifiableSourceTask (Kafka 4.3.0).

Each task counts separately: the key is the task id (INT32), the value is the sequence number (INT64), and the
offset is `{"id": task} -> {"seqno": n}`, where n is the number of the last record in Kafka. The task prints a
line for each record when it is created, and again, with `"committed":true`, when the record and its offset are stored.

A poll returns as many records as `throughput` allows so far. The records of a small batch are created and printed in
the poll. A large batch becomes a range that Spark generates in order. Its lines are printed on the job thread, which
may block on standard output.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
from typing_extensions import override

from kraal import __version__
from kraal.connectors.pass_through import PassThroughConnector
from kraal.connectors.verifiable.config import VERIFIABLE_SOURCE
from kraal.connectors.verifiable.lines import format_source_lines, write_stdout
from kraal.engine.columns.functions import F
from kraal.plugins.api import (
    ConfigDef,
    Offset,
    SourceBatch,
    SourcePartition,
    SourceReplay,
    SourceTask,
    TaskContext,
)
from kraal.plugins.model.schema import STRING, Field, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)

ID: Final = "id"
SEQNO: Final = "seqno"

MAX_WORKER_RECORDS: Final = 2_000
"""Maximum number of records to create in the worker."""

MAX_RECORDS: Final = 100_000
"""Maximum number of records in a batch (two lines per record, 20 MB in total)."""

INT32: Final = Schema(type=Type.INT32)
INT64: Final = Schema(type=Type.INT64)
COMPLETE_SCHEMA: Final = Schema(
    type=Type.STRUCT,
    fields=(
        Field(name="name", schema=STRING),
        Field(name="task", schema=INT32),
        Field(name="topic", schema=STRING),
        Field(name="time_ms", schema=INT64),
        Field(name="seqno", schema=INT64),
    ),
)
"""The schema of values with `complete.record.data`."""


class VerifiableSourceTask(SourceTask):
    """Generates numbered records. `clock` returns the monotonic time in seconds, `now_ms` the wall-clock time."""

    class_name = "org.apache.kafka.connect.tools.VerifiableSourceTask"

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._clock = clock
        self._now_ms = now_ms
        self._name = self._topic = ""
        self._task = 0
        self._throughput = 0
        self._is_complete = False
        self._start_s = 0.0
        self._first_seqno = self._next_seqno = 0
        """The first sequence number of this run, and the next sequence number to generate."""
        self._last_polled_range = range(0)
        """The records of the last poll, which are committed when the next poll is called."""
        self._pending_output: tuple[range, range, int] | None = None
        """The output that the next job prints: the committed range, the created range, and the creation time."""

    @override
    def start(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset], context: TaskContext
    ) -> None:
        self._name, self._topic = context.connector, config["topic"]
        try:
            self._task, self._throughput = int(config[ID]), int(config["throughput"])
        except (KeyError, ValueError) as exc:
            raise ValueError("Invalid VerifiableSourceTask configuration") from exc
        self._is_complete = config.get("complete.record.data", "").lower() == "true"
        seqno = _parse_seqno(offsets.get(SourcePartition.of({ID: self._task})))
        self._first_seqno = self._next_seqno = seqno + 1
        self._start_s = self._clock()
        log.info(
            "%s-%s produces to topic %s, beginning with seqno %s",
            self._name,
            self._task,
            self._topic,
            self._next_seqno,
        )

    @override
    def poll(self) -> SourceBatch | None:
        committed_range, self._last_polled_range = self._last_polled_range, range(0)
        sequence = range(self._next_seqno, self._next_seqno + self._count_due())
        time_ms = self._now_ms()
        if len(sequence) <= MAX_WORKER_RECORDS:
            self._print_lines(committed_range, sequence, time_ms)
        else:
            self._pending_output = (committed_range, sequence, time_ms)
        if not sequence:
            return None
        self._last_polled_range, self._next_seqno = sequence, sequence.stop
        if len(sequence) <= MAX_WORKER_RECORDS:
            batch = self._make_batch(sequence, table=self._make_table(sequence, time_ms))
        else:
            batch = self._make_batch(sequence, read=functools.partial(self._read, sequence, time_ms))
        return replace(batch, timestamp_ms=time_ms)

    def _make_batch(
        self,
        sequence: range,
        *,
        table: pa.Table | None = None,
        read: Callable[[SparkSession], DataFrame] | None = None,
    ) -> SourceBatch:
        return SourceBatch(
            offsets={SourcePartition.of({ID: self._task}): {SEQNO: sequence[-1]}},
            table=table,
            read=read,
            topic=self._topic,
            key_schema=INT32,
            value_schema=COMPLETE_SCHEMA if self._is_complete else INT64,
        )

    @override
    def read_range(
        self,
        spark: SparkSession,
        starts: Mapping[SourcePartition, Offset],
        ends: Mapping[SourcePartition, Offset] | None,
    ) -> SourceBatch | None:
        partition = SourcePartition.of({ID: self._task})
        first = _parse_seqno(starts.get(partition)) + 1
        stop = first + MAX_RECORDS if ends is None else _parse_seqno(ends.get(partition)) + 1
        if stop <= first:
            return None
        sequence = range(first, stop)
        return self._make_batch(sequence, read=functools.partial(self._read, sequence, 0))

    def _count_due(self) -> int:
        """Return how many records to generate now: those that `throughput` allows, up to `MAX_RECORDS`.

        The first record is always allowed. Source: ThroughputThrottler.
        """
        if self._throughput < 0:
            return MAX_RECORDS
        max_count = 1 + int((self._clock() - self._start_s) * self._throughput)
        return max(0, min(max_count - (self._next_seqno - self._first_seqno), MAX_RECORDS))

    def _print_lines(self, committed_range: range, sequence: range, time_ms: int) -> None:
        """Print the lines of the committed records and of the created records (`sequence`)."""
        format_lines = functools.partial(
            format_source_lines, name=self._name, task=self._task, topic=self._topic, time_ms=time_ms
        )
        texts = [
            format_lines(numbers, committed=is_committed)
            for numbers, is_committed in ((committed_range, True), (sequence, False))
            if numbers
        ]
        if texts:
            write_stdout(*texts)

    def _make_table(self, sequence: range, time_ms: int) -> pa.Table:
        numbers = pa.array(sequence, pa.int64())
        key = pa.repeat(pa.scalar(self._task, pa.int32()), len(sequence))
        if not self._is_complete:
            return pa.table({"key": key, "value": numbers})
        constants = (
            pa.scalar(self._name),
            pa.scalar(self._task, pa.int32()),
            pa.scalar(self._topic),
            pa.scalar(time_ms, pa.int64()),
        )
        columns = [*(pa.repeat(constant, len(sequence)) for constant in constants), numbers]
        value = pa.StructArray.from_arrays(columns, [field.name for field in COMPLETE_SCHEMA.fields])
        return pa.table({"key": key, "value": value})

    def _read(self, sequence: range, time_ms: int, spark: SparkSession) -> DataFrame:
        """Return the records in order. Prints the pending lines, but only once if the job is retried."""
        pending_output, self._pending_output = self._pending_output, None
        if pending_output is not None:
            self._print_lines(*pending_output)
        task, number = F.lit(self._task).cast("int"), F.col("id")
        value = number
        if self._is_complete:
            constants = (F.lit(self._name), task, F.lit(self._topic), F.lit(time_ms).cast("long"), number)
            names = (field.name for field in COMPLETE_SCHEMA.fields)
            value = F.struct(*(part.alias(name) for part, name in zip(constants, names, strict=True)))
        return spark.range(sequence.start, sequence.stop, 1, 1).select(
            task.alias("key"), value.alias("value")
        )


def _parse_seqno(offset: Offset | None) -> int:
    """Return the number of the last record in Kafka, -1 without a stored offset. Raises ValueError."""
    seqno = -1 if not offset else offset.get(SEQNO)
    if isinstance(seqno, bool) or not isinstance(seqno, int):
        raise ValueError(f"the field {SEQNO} of the stored offset is {seqno!r}, not an integer")
    return seqno


class VerifiableSourceConnector(PassThroughConnector):
    """Runs `tasks.max` tasks with consecutive ids."""

    kind = "source"
    version: ClassVar[str] = __version__
    config_def: ClassVar[ConfigDef] = VERIFIABLE_SOURCE
    task_class = VerifiableSourceTask

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        return [{**self._config, ID: str(number)} for number in range(max_tasks)]

    @classmethod
    @override
    def source_replay(cls, config: Mapping[str, str]) -> SourceReplay | None:
        """Return None with `complete.record.data`, because the records then contain the time of their creation."""
        is_complete = config.get("complete.record.data", "").strip().lower() == "true"
        return None if is_complete else SourceReplay(keeps_records=True)

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool:
        del config
        return True
