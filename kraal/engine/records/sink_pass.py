"""The pass over a sink's records: decode, transform, and convert to the form that the sink expects.

The input has the columns of Spark's Kafka reader, and the output has the columns of `OUT`. A row with a `note` is not a
record (see `kraal.engine.records`): a dead letter has the bytes, headers and timestamp as read from Kafka, and its
fault as the note. As in WorkerSinkTask.convertAndTransformRecord (Kafka 4.4.0), the topic that a record was read from
becomes active once the key, value and headers are decoded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import pyarrow as pa

from kraal.engine.records.fault import Fault, Stage
from kraal.engine.records.source_pass import HEADERS, Pairs, headers_array
from kraal.engine.records.steps import PassResult, RecordFailed, Steps, fault_note, slice_batches, with_record
from kraal.engine.records.values import json_text, read_times
from kraal.plugins.api import Converter, SinkValues
from kraal.plugins.model.records import Header, Record
from kraal.plugins.model.schema import Schema
from kraal.plugins.values.java_values import java_text

OUT: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("headers", HEADERS),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("note", pa.string()),
    ]
)
DDL: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key:string,value:binary>>, key binary, value binary, note string"
)
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestampType", "headers", "key", "value")
"""The input columns of a pass; `timestampType` is Kafka's id, -1 for none."""

_TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPass:
    """The pass over one batch. Picklable."""

    steps: Steps
    value_form: SinkValues
    """`text` for keys and values as Java prints them, with bytes unchanged; `json-envelope` for JSON with schemas;
    otherwise plain JSON."""
    writes_dead_letters: bool = False
    """Whether skipped records are written as dead letters."""
    envelope: Converter | None = None
    """The converter that writes keys and values with their schemas, for `json-envelope`."""
    wait: Callable[[float], None] = time.sleep

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batch's rows, then its summary. Consumes all of `batches`, even if the pass stops at a record."""
        pass_run = _PassRun(self)
        for part in slice_batches(batches):
            if pass_run.result.fatal is None:
                yield pass_run.process(part)
        yield pa.RecordBatch.from_pylist([{"note": pass_run.result.summary().note()}], OUT)


@dataclass(frozen=True, slots=True)
class RawRecord:
    """A record as read from Kafka."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    timestamp_type: int | None
    headers: Pairs
    key: bytes | None
    value: bytes | None

    @property
    def text(self) -> str:
        """The record as included in log messages. Source: LogReporter.Sink."""
        type_id, timestamp = self.timestamp_type, ""
        if type_id is not None and 0 <= type_id < len(_TIMESTAMP_TYPES):
            timestamp = f", timestamp={self.timestamp_ms}, timestampType={_TIMESTAMP_TYPES[type_id]}"
        return (
            f", where consumed record is {{topic='{self.topic}', partition={self.partition}, "
            f"offset={self.offset}{timestamp}}}"
        )


@dataclass(slots=True)
class _Rows:
    topics: list[str] = field(default_factory=list)
    partitions: list[int | None] = field(default_factory=list)
    offsets: list[int | None] = field(default_factory=list)
    times: list[int | None] = field(default_factory=list)
    headers: list[Pairs | None] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    notes: list[str | None] = field(default_factory=list)

    def add(
        self,
        record: Record | RawRecord,
        headers: Pairs,
        key: bytes | None,
        value: bytes | None,
        note: str | None = None,
    ) -> None:
        timestamp_ms = record.timestamp_ms
        self.topics.append(record.topic)
        self.partitions.append(record.partition)
        self.offsets.append(record.offset)
        self.times.append(None if timestamp_ms is None else timestamp_ms * 1000)
        self.headers.append(headers)
        self.keys.append(key)
        self.values.append(value)
        self.notes.append(note)

    def batch(self) -> pa.RecordBatch:
        columns = (self.topics, self.partitions, self.offsets, self.times)
        arrays = [pa.array(column, OUT.field(index).type) for index, column in enumerate(columns)]
        last_columns = (self.keys, self.values, self.notes)
        arrays += [
            headers_array(self.headers),
            *(pa.array(c, OUT.field(5 + index).type) for index, c in enumerate(last_columns)),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=OUT)


class _PassRun:
    """One execution of a pass."""

    def __init__(self, sink_pass: SinkPass) -> None:
        self._steps = sink_pass.steps
        self._writes_dead_letters = sink_pass.writes_dead_letters
        self._render = _choose_render(sink_pass)
        self.result = PassResult(sink_pass.steps.tolerance, sink_pass.wait)

    def process(self, part: pa.RecordBatch) -> pa.RecordBatch:
        rows, result = _Rows(), self.result
        steps = self._steps
        apply, decode_key, decode_value = steps.chain.apply, steps.key.decode, steps.value.decode
        for raw in raw_records(part):
            result.read += 1
            try:
                key_schema, key = decode_key(raw.topic, raw.key)
                value_schema, value = decode_value(raw.topic, raw.value)
                record = _make_record(raw, key_schema, key, value_schema, value, self._headers(raw))
                out = apply(record)
                row = None if out is None else self._row(raw, record, out)
            except Exception:  # noqa: BLE001 - the slow path finds the stage and counts the error
                self._step_by_step(raw, rows)
                if result.fatal is not None:
                    break
                continue
            result.topics.add(raw.topic)
            if row is None:
                result.dropped += 1
            else:
                result.written += 1
                rows.add(*row)
        return rows.batch()

    def _row(
        self, raw: RawRecord, record: Record, out: Record
    ) -> tuple[Record, Pairs, bytes | None, bytes | None]:
        """Return a record in the sink's form; headers that no transform has changed keep their bytes."""
        headers = raw.headers if out.headers is record.headers else self._encode(out)
        render = self._render
        return out, headers, render(out.key_schema, out.key), render(out.value_schema, out.value)

    def _step_by_step(self, raw: RawRecord, rows: _Rows) -> None:
        """Process one record stage by stage."""
        steps, attempt, topic = self._steps, self.result.attempt, raw.topic
        try:
            key_schema, key = attempt(
                Stage.KEY_CONVERTER, steps.key_class, topic, lambda: steps.key.decode(topic, raw.key)
            )
            value_schema, value = attempt(
                Stage.VALUE_CONVERTER, steps.value_class, topic, lambda: steps.value.decode(topic, raw.value)
            )
            headers = attempt(Stage.HEADER_CONVERTER, steps.header_class, topic, lambda: self._headers(raw))
            record = _make_record(raw, key_schema, key, value_schema, value, headers)
            self.result.topics.add(topic)
            out = attempt(Stage.TRANSFORMATION, "", topic, lambda: steps.chain.apply(record))
            if out is None:
                self.result.dropped += 1
                return
            transformed = out
            # A transform may have set headers that the converter cannot encode.
            row = attempt(
                Stage.HEADER_CONVERTER, steps.header_class, topic, lambda: self._row(raw, record, transformed)
            )
        except RecordFailed as exc:
            self._skip(raw, exc.fault, rows)
            return
        self.result.written += 1
        rows.add(*row)

    def _skip(self, raw: RawRecord, fault: Fault, rows: _Rows) -> None:
        located_fault = with_record(fault, partition=raw.partition, offset=raw.offset, record=raw.text)
        self.result.record_failure(located_fault, dead_letter=self._writes_dead_letters)
        if self._writes_dead_letters:
            rows.add(raw, raw.headers, raw.key, raw.value, fault_note(located_fault))

    def _headers(self, raw: RawRecord) -> tuple[Header, ...]:
        decode = self._steps.headers.decode_header
        return tuple(Header(name, *decode(raw.topic, name, data)) for name, data in raw.headers)

    def _encode(self, out: Record) -> Pairs:
        encode = self._steps.headers.encode_header
        return [(h.key, encode(out.topic, h.key, h.schema, h.value)) for h in out.headers]


def _make_record(
    raw: RawRecord,
    key_schema: Schema | None,
    key: Any,
    value_schema: Schema | None,
    value: Any,
    headers: tuple[Header, ...],
) -> Record:
    return Record(
        topic=raw.topic,
        partition=raw.partition,
        key_schema=key_schema,
        key=key,
        value_schema=value_schema,
        value=value,
        timestamp_ms=raw.timestamp_ms,
        headers=headers,
        offset=raw.offset,
    )


def raw_records(part: pa.RecordBatch | pa.Table) -> Iterator[RawRecord]:
    """Yield the records of a table with `COLUMNS`; `timestampType` is optional."""
    count = part.num_rows
    index = part.schema.get_field_index("timestampType")
    timestamp_types: list[Any] = [None] * count if index < 0 else part.column(index).to_pylist()
    rows = zip(
        part.column("topic").to_pylist(),
        part.column("partition").to_pylist(),
        part.column("offset").to_pylist(),
        read_times(part.column("timestamp")),
        timestamp_types,
        part.column("headers").to_pylist(),
        part.column("key").to_pylist(),
        part.column("value").to_pylist(),
        strict=True,
    )
    for topic, partition, offset, timestamp_ms, timestamp_type, headers, key, value in rows:
        pairs = [(header["key"], header["value"]) for header in headers] if headers else ()
        has_timestamp = timestamp_type is None or timestamp_type >= 0
        time_ms = timestamp_ms if has_timestamp else None
        yield RawRecord(topic, partition, offset, time_ms, timestamp_type, pairs, key, value)


def _choose_render(sink_pass: SinkPass) -> Callable[[Schema | None, Any], bytes | None]:
    """Return the function that converts keys and values to the form that the sink expects."""
    if sink_pass.envelope is not None:
        return partial(sink_pass.envelope.encode, "")
    return _text if sink_pass.value_form == "text" else _json


def _text(schema: Schema | None, value: Any) -> bytes | None:
    """Return a value as Java prints it; bytes are unchanged, because Java would print their identity hash.

    An unpaired surrogate becomes `?`, as when Java encodes a String.
    """
    del schema
    if value is None or isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else java_text(value)).encode("utf-8", "replace")


def _json(schema: Schema | None, value: Any) -> bytes | None:
    """Return a value as JSON; an unpaired surrogate becomes `?`, as in `_text`."""
    return None if value is None else json_text(value, schema).encode("utf-8", "replace")
