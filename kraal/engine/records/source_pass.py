"""The pass over a source's records: transform and encode them, or turn them into dead letters.

The input has some of the columns in `COLUMNS`, and the output has the columns of `OUT`. A row with a `note` is not a
record (see `kraal.engine.records`). Dead letters are ordinary rows for the dead letter topic: the job that writes the
records also writes the dead letters, before the batch's offsets are stored.
Source: AbstractWorkerSourceTask.sendRecords, convertTransformedRecord (Kafka 4.4.0).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from kraal.core.message_headers import find_nul, nul_error, replace_nul
from kraal.engine.records.fault import Fault, Stage, dead_letter_headers
from kraal.engine.records.steps import PassResult, RecordFailed, Steps, slice_batches, with_record
from kraal.engine.records.topics import Gate, ensure_topics
from kraal.engine.records.values import json_text, read_times, read_values
from kraal.plugins.model.records import DataException, Header, Record
from kraal.plugins.model.schema import OPTIONAL_BYTES, Schema
from kraal.plugins.values.java_values import java_text

HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
OUT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("headers", HEADERS),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("note", pa.string()),
    ]
)
DDL: Final = (
    "topic string, partition int, headers array<struct<key:string,value:binary>>, key binary, value binary,"
    " note string"
)
COLUMNS: Final = ("topic", "partition", "timestamp", "headers", "key", "value")
"""The columns of a DataFrame that a pass reads."""

Pairs = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadTopic:
    """The dead letter topic of a task, and whether to add headers that describe the error."""

    name: str
    with_context: bool
    connector: str
    task: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePass:
    """The pass over one batch. Picklable."""

    steps: Steps
    topic: str | None
    """The topic of all records; None if the DataFrame has a `topic` column."""
    key_schema: Schema | None = None
    value_schema: Schema | None = None
    timestamp_ms: int | None = None
    """The timestamp of all records if the DataFrame has no `timestamp` column."""
    origin: str = ""
    """The source partition and offset of the batch, for log messages."""
    dead_topic: DeadTopic | None = None
    gate: Gate | None = None
    """Creates missing topics before records are sent to them; None if Kraal creates no topics."""
    refuses_nul: bool = False
    """Whether to fail records with a NUL in a header name, which librdkafka would truncate when it writes the rows."""
    wait: Callable[[float], None] = time.sleep

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batch's rows, then its summary. Consumes all of `batches`, even if the pass stops at a record."""
        pass_run = _PassRun(self)
        for part in slice_batches(batches):
            if not pass_run.result.is_over:
                rows = pass_run.process(part)
                if pass_run.result.topic_error is None:
                    yield rows
        yield pa.RecordBatch.from_pylist([{"note": pass_run.result.summary().note()}], OUT)


@dataclass(slots=True)
class _Rows:
    topics: list[str] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    headers: list[Pairs | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)

    def add(
        self, topic: str, partition: int | None, headers: Pairs | None, key: bytes | None, value: bytes | None
    ) -> None:
        self.topics.append(topic)
        self.partitions.append(partition)
        self.headers.append(headers)
        self.keys.append(key)
        self.values.append(value)

    def batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(
            [
                pa.array(self.topics, pa.string()),
                pa.array(self.partitions, pa.int32()),
                headers_array(self.headers),
                pa.array(self.keys, pa.binary()),
                pa.array(self.values, pa.binary()),
                pa.nulls(len(self.topics), pa.string()),
            ],
            schema=OUT,
        )


class _PassRun:
    """One execution of a pass."""

    def __init__(self, source_pass: SourcePass) -> None:
        self._pass = source_pass
        self._steps = source_pass.steps
        self.result = PassResult(source_pass.steps.tolerance, source_pass.wait)
        self._ensure = None if source_pass.gate is None else source_pass.gate.begin_pass()

    def process(self, part: pa.RecordBatch) -> pa.RecordBatch:
        rows = _Rows()
        result, source_pass = self.result, self._pass
        apply, encode_key, encode_value = (
            self._steps.chain.apply,
            self._steps.key.encode,
            self._steps.value.encode,
        )
        dead_letter_count = 0
        for record in read_records(part, source_pass):
            result.read += 1
            try:
                out = apply(record)
                if out is None:
                    result.dropped += 1
                    continue
                topic = out.topic
                headers = self._headers(out, record) if out.headers else None
                key = encode_key(topic, out.key_schema, out.key)
                value = encode_value(topic, out.value_schema, out.value)
            except Exception:  # noqa: BLE001 - the slow path finds the stage and counts the error
                dead_letter_count += self._step_by_step(record, rows)
                if result.fatal is not None:
                    break
                continue
            rows.add(topic, out.partition, headers, key, value)
            result.topics.add(topic)
        if None in rows.topics:
            raise ValueError("Topic cannot be null.")
        if self._ensure is not None:
            result.topic_error = ensure_topics(self._ensure, result.topics)
        if result.topic_error is None:
            result.written += len(rows.topics) - dead_letter_count
        return rows.batch()

    def _step_by_step(self, record: Record, rows: _Rows) -> int:
        """Process one record stage by stage; return the number of dead letters that were added."""
        steps, attempt = self._steps, self.result.attempt
        try:
            out = attempt(Stage.TRANSFORMATION, "", record.topic, lambda: steps.chain.apply(record))
            if out is None:
                self.result.dropped += 1
                return 0
            transformed = out
            headers = attempt(
                Stage.HEADER_CONVERTER,
                steps.header_class,
                record.topic,
                lambda: self._headers(transformed, record),
            )
            key = attempt(
                Stage.KEY_CONVERTER,
                steps.key_class,
                record.topic,
                lambda: steps.key.encode(transformed.topic, transformed.key_schema, transformed.key),
            )
            value = attempt(
                Stage.VALUE_CONVERTER,
                steps.value_class,
                record.topic,
                lambda: steps.value.encode(transformed.topic, transformed.value_schema, transformed.value),
            )
        except RecordFailed as exc:
            return self._skip(record, exc.fault, rows)
        rows.add(transformed.topic, transformed.partition, headers or None, key, value)
        self.result.topics.add(transformed.topic)
        return 0

    def _skip(self, record: Record, fault: Fault, rows: _Rows) -> int:
        dead_topic = self._pass.dead_topic
        described_fault = with_record(
            fault, record=f", where source record is = {format_source_record(record, self._pass.origin)}"
        )
        self.result.record_failure(described_fault, dead_letter=dead_topic is not None)
        if dead_topic is None:
            return 0
        pairs = [(header.key, header.value) for header in record.headers]
        if self._pass.refuses_nul:
            pairs = replace_nul(pairs)
        headers = dead_letter_headers(
            pairs, fault, dead_topic.connector, dead_topic.task, with_context=dead_topic.with_context
        )
        key = _encode_original(self._steps.key.encode, record.topic, record.key_schema, record.key)
        value = _encode_original(self._steps.value.encode, record.topic, record.value_schema, record.value)
        rows.add(dead_topic.name, None, headers or None, key, value)
        return 1

    def _headers(self, out: Record, record: Record) -> Pairs:
        """Encode a record's headers; headers that were read with the record are bytes already."""
        if self._pass.refuses_nul and (name := find_nul(header.key for header in out.headers)) is not None:
            raise DataException(nul_error(name, out.topic))
        encode, original_ids = self._steps.headers.encode_header, {id(header) for header in record.headers}
        return [
            (h.key, h.value if id(h) in original_ids else encode(out.topic, h.key, h.schema, h.value))
            for h in out.headers
        ]


def _encode_original(
    encode: Callable[[str, Schema | None, Any], bytes | None], topic: str, schema: Schema | None, value: Any
) -> bytes | None:
    """Return a dead letter's key or value: the converter's output, or plain JSON if the converter fails."""
    if value is None:
        return None
    try:
        return encode(topic, schema, value)
    except Exception:  # noqa: BLE001 - a second error must not lose the record
        return json_text(value, schema).encode()


def read_records(part: pa.RecordBatch, source_pass: SourcePass) -> Iterator[Record]:
    """Yield the records of a batch."""
    count = part.num_rows
    empty: list[Any] = [None] * count

    def column(name: str, schema: Schema | None = None) -> list[Any]:
        index = part.schema.get_field_index(name)
        return empty if index < 0 else read_values(part.column(index), schema)

    time_index = part.schema.get_field_index("timestamp")
    times = [source_pass.timestamp_ms] * count if time_index < 0 else read_times(part.column(time_index))
    topics = column("topic") if source_pass.topic is None else [source_pass.topic] * count
    header_lists = column("headers")
    rows = zip(
        topics,
        column("partition"),
        column("key", source_pass.key_schema),
        column("value", source_pass.value_schema),
        times,
        header_lists,
        strict=True,
    )
    for topic, partition, key, value, timestamp_ms, headers in rows:
        yield Record(
            topic=topic,
            partition=partition,
            key_schema=source_pass.key_schema,
            key=key,
            value_schema=source_pass.value_schema,
            value=value,
            timestamp_ms=timestamp_ms,
            headers=()
            if not headers
            else tuple(Header(h["key"], OPTIONAL_BYTES, h["value"]) for h in headers),
        )


def headers_array(headers: Sequence[Pairs | None]) -> pa.Array:
    """Return headers as an Arrow column."""
    if not any(headers):
        return pa.nulls(len(headers), HEADERS)
    return pa.array(
        [[{"key": k, "value": v} for k, v in pairs] if pairs else None for pairs in headers], HEADERS
    )


def format_source_record(record: Record, origin: str) -> str:
    """Return a source record as Java prints it. Source: SourceRecord.toString, ConnectRecord.toString."""

    def text(value: object) -> str:
        return "null" if value is None else str(value)

    def schema_text(schema: Schema | None) -> str:
        if schema is None:
            return "null"
        type_name = schema.type.name
        return f"Schema{{{type_name}}}" if schema.name is None else f"Schema{{{schema.name}:{type_name}}}"

    headers = ", ".join(
        f"ConnectHeader(key={h.key}, value={java_text(h.value)}, schema={schema_text(h.schema)})"
        for h in record.headers
    )
    return (
        f"SourceRecord{{{origin}}} ConnectRecord{{topic='{record.topic}', "
        f"kafkaPartition={text(record.partition)}, key={java_text(record.key)}, "
        f"keySchema={schema_text(record.key_schema)}, value={java_text(record.value)}, "
        f"valueSchema={schema_text(record.value_schema)}, timestamp={text(record.timestamp_ms)}, "
        f"headers=ConnectHeaders(headers={f'[{headers}]' if headers else ''})}}"
    )
