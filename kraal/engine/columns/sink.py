"""A sink's transforms as Spark column expressions, for backlogs whose records have one schema per topic.

A sink's schema comes with each record, so the schema of a topic is guessed from a sample record, and every other record
is compared with it. JSON in Connect's envelope counts as read only if writing the value gives the same text again,
byte for byte, and if the text before the payload equals the sample's: then Spark and Jackson cannot read the same text
differently. A Java function reads most such texts and no others (`json_scan`); Spark reads, and writes
again, only the others. Text and bytes always have the same schema. JSON without schemas is assumed to have the sample's
form, by the same comparison; a field that is null in the sample is assumed to be text.

A row that does not fit is in doubt, like one that a transform may refuse (`kraal.plugins.model.columns`): such a batch
is repeated record by record. So the column path needs no handling of `errors.*`: a batch without doubts has no errors,
and one with doubts goes where errors are handled. The next batches then take the record path directly, twice as many
each time, so that a topic of mixed records loses little.

A sink must not see rows of an abandoned batch. A sink that writes no output when its frame cannot be computed
(`SinkTask.all_or_nothing`) gets the frame directly; for any other the rows are computed and persisted before it is
called.

Rejected: VARIANT and a check of every field's type: twice the work, and numbers get other types. Both paths in
one plan, by row: transforms that route would have to agree on topics, and the order of records would be lost.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from kraal.engine.columns.functions import F
from kraal.engine.columns.json_scan import can_scan, scanned
from kraal.engine.columns.parts import SPARK_TYPES
from kraal.engine.columns.sink_formats import shown_column, shown_doubts
from kraal.engine.columns.source import DOUBT
from kraal.engine.failure_trace import root_cause
from kraal.engine.records.steps import Steps
from kraal.plugins.model.capabilities import declares
from kraal.plugins.model.columns import NOTHING, ByRecords, Columns, Expression, Part
from kraal.plugins.model.converter import ColumnFormat, Converter
from kraal.plugins.model.schema import OPTIONAL_BYTES, OPTIONAL_STRING, Field, Schema, Type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kraal.plugins.api import SinkValues

log = logging.getLogger(__name__)

Put = Callable[["DataFrame"], None]
"""Has the sink write a frame."""

_LOGICAL: Final = "org.apache.kafka.connect.data."
_JSON: Final = frozenset({ColumnFormat.JSON, ColumnFormat.JSON_ENVELOPE})
_SCHEMA: Final = '{"schema":'
_PAYLOAD: Final = ',"payload":'
_FRAME_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "headers")
_MAX_SKIPPED: Final = 64
_SPARK: Final[Mapping[Type, str]] = {**SPARK_TYPES, Type.BYTES: "binary"}


@dataclass(frozen=True, slots=True)
class Sample:
    """A record's key and value as read from Kafka."""

    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class SinkColumns:
    """The column path of one run. One thread at a time."""

    steps: Steps
    shown: SinkValues
    _samples: dict[str, Sample] = field(default_factory=dict)
    """Sample records by topic."""
    _skipped: int = 0
    """Number of following batches that take the record path."""
    _next: int = 1

    @staticmethod
    def of(steps: Steps, shown: SinkValues) -> SinkColumns | None:
        """Return the column path; None if no batch can have a column form."""
        headers = steps.headers
        any_header = headers.reads_any_header and declares(
            headers, "reads_any_header", "decode_header", "decode"
        )
        is_known = any_header and None not in _formats(steps)
        return SinkColumns(steps, shown) if is_known else None

    def write(self, raw: Callable[[], Mapping[str, DataFrame]], put: Put, *, all_or_nothing: bool) -> bool:
        """Have a batch written, which `raw` returns by topic; False: it needs the record path, and the sink got no row.

        Raises the sink's errors.
        """
        if self._skipped:
            self._skipped -= 1
            return False
        frame = self._frame(raw())
        wrote = frame is not None and _write_rows(frame, put, all_or_nothing=all_or_nothing)
        if wrote:
            self._next = 1
        else:
            self._samples, self._skipped = {}, self._next
            self._next = min(self._next * 2, _MAX_SKIPPED)
        return wrote

    def _frame(self, raw: Mapping[str, DataFrame]) -> DataFrame | None:
        """Return the rows of all topics for the sink, lazily."""
        frames = []
        for topic, rows in raw.items():
            sample = self._sample(topic, rows)
            frame = None if sample is None else self.frame(rows, sample, topic)
            if frame is None:
                log.debug(
                    "Processing the records of %s one by one: their schema or transforms do not support columns",
                    topic,
                )
                return None
            frames.append(frame)
        return reduce(type(frames[0]).unionAll, frames)

    def _sample(self, topic: str, rows: DataFrame) -> Sample | None:
        """Return a record from which to take the schemas; None if no record has a value."""
        if _JSON.isdisjoint(_formats(self.steps)):
            return Sample(None, None)
        if topic not in self._samples:
            row = rows.where("value is not null").select("key", "value").head()
            if row is not None:
                self._samples[topic] = Sample(*(None if data is None else bytes(data) for data in row))
        return self._samples.get(topic)

    def frame(self, raw: DataFrame, sample: Sample, topic: str) -> DataFrame | None:
        """Return one topic's frame for the sink, lazily; None if there is no column form."""
        steps = self.steps
        try:
            key = _part("key", steps.key, sample.key)
            value = _part("value", steps.value, sample.value)
            columns = Columns(
                topic=topic,
                key=key.part,
                value=value.part,
                has=frozenset(_FRAME_COLUMNS),
                doubts=(*key.doubts, *value.doubts),
            )
            out = steps.chain.columns(columns)
            if out is None or out.headers or out.dropped:
                return None
            return self._apply(raw, (key, value), out)
        except (ByRecords, ValueError):
            return None
        except Exception as exc:
            if type(exc).__name__ != "AnalysisException":
                raise
            return None

    def _apply(self, raw: DataFrame, parts: Iterable[_Read], out: Columns) -> DataFrame:
        timestamp = F.when(F.col("timestampType") >= 0, F.col("timestamp")).alias("timestamp")
        headers = F.when(F.size("headers") > 0, F.col("headers")).alias("headers")
        columns = [*map(F.col, _FRAME_COLUMNS[:3]), timestamp, headers]
        columns += [F.col("key"), F.col("value"), *(c for each in parts for c in each.columns())]
        raw = raw.select("*", *(scan for each in parts for scan in each.scans()))
        # A non-deterministic column stops the optimizer from reading the JSON again for the filter and later steps.
        read = raw.select(*columns, F.spark_partition_id().alias("_part"))
        doubt = F.col("_part") < 0
        for each in (*out.doubts, *shown_doubts(out.key), *shown_doubts(out.value)):
            doubt = doubt | each()
        sure = _sure(read, doubt)
        return sure.select(
            F.lit(out.topic).alias("topic"),
            *_FRAME_COLUMNS[1:],
            shown_column(out.key, self.shown).alias("key"),
            shown_column(out.value, self.shown).alias("value"),
        )


def _write_rows(frame: DataFrame, put: Put, *, all_or_nothing: bool) -> bool:
    """Have the sink write the rows; False if one is in doubt. Raises the errors of the sink and of Spark."""
    if all_or_nothing:
        return _unless_doubtful(lambda: put(frame))
    rows = frame.persist()
    try:
        if not _unless_doubtful(rows.count):
            return False
        put(rows)
    finally:
        rows.unpersist()
    return True


def _unless_doubtful(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception as exc:
        if DOUBT not in root_cause(exc):
            raise
        log.info("Processing a batch of a sink record by record: its records differ in form")
        return False
    return True


def _sure(read: DataFrame, doubt: Column) -> DataFrame:
    """Fail on rows in doubt."""
    error = F.raise_error(F.lit(DOUBT)).cast("boolean")
    return read.where(F.when(doubt, error).otherwise(F.lit(True)))  # noqa: FBT003 - Spark's literal


@dataclass(frozen=True, slots=True)
class _Read:
    """How to read a key or value."""

    part: Part
    doubts: tuple[Expression, ...] = ()
    columns: Callable[[], list[Column]] = field(default=list)
    """Columns computed from the raw column, once per row."""
    scans: Callable[[], list[Column]] = field(default=list)
    """Columns computed before those, as input for `columns`."""


def _formats(steps: Steps) -> tuple[ColumnFormat | None, ...]:
    return find_format(steps.key), find_format(steps.value)


def find_format(converter: Converter) -> ColumnFormat | None:
    """Return the format that a converter reads, if its class says so of its own `decode`."""
    return converter.column_format if declares(converter, "column_format", "decode") else None


def _part(name: str, converter: Converter, sample: bytes | None) -> _Read:
    def raw() -> Column:
        return F.col(name)

    column_format = find_format(converter)
    if column_format is ColumnFormat.TEXT:
        return _Read(Part(schema=OPTIONAL_STRING, expression=lambda: raw().cast("string"), as_read=True))
    if column_format is ColumnFormat.BYTES:
        return _Read(Part(schema=OPTIONAL_BYTES, expression=raw))
    if column_format is None:
        raise ByRecords
    if sample is None:
        return _Read(NOTHING, (lambda: raw().isNotNull(),))
    return _json_part(name, converter, sample, raw, schemaless=column_format is ColumnFormat.JSON)


def _json_part(name: str, converter: Converter, sample: bytes, raw: Expression, *, schemaless: bool) -> _Read:
    prefix = b"" if schemaless else _before_payload(sample)
    try:
        schema, value = converter.decode("", sample)
    except Exception:  # noqa: BLE001 - the record path reports the error
        raise ByRecords from None
    if schemaless:
        schema = replace(_infer_schema(value), optional=False)
    if schema is None or (schemaless and schema.type is not Type.STRUCT):
        raise ByRecords
    kind = _kind(schema)
    scan, text, parsed = f"_{name}_scan", f"_{name}_text", f"_{name}"
    scans = can_scan(schema)

    def scanning() -> list[Column]:
        return [scanned(raw(), prefix, "" if schemaless else "}", kind).alias(scan)] if scans else []

    def unread() -> Column:
        return F.col(scan).isNull() if scans else F.lit(True)  # noqa: FBT003 - Spark's literal

    def columns() -> list[Column]:
        payload = F.substring(raw(), len(prefix) + 1, 2**31 - 1).cast("string")
        begun = F.concat(F.lit('{"payload":'), payload)
        as_sample = F.when(F.startswith(raw(), F.lit(prefix)), begun)
        document = F.when(unread(), F.concat(begun, F.lit("}")) if schemaless else as_sample)
        # Options stop Spark from treating one step as the inverse of the other.
        read = F.from_json(document, f"struct<payload:{kind}>", {"mode": "PERMISSIVE"})
        return [*([F.col(scan)] if scans else []), document.alias(text), F.when(unread(), read).alias(parsed)]

    def payload() -> Column:
        value = F.col(parsed).getField("payload")
        return F.coalesce(F.col(scan), value) if scans else value

    def doubt() -> Column:
        rewritten = F.to_json(F.col(parsed), {"ignoreNullFields": "false"})
        condition = unread() & ~F.coalesce(rewritten == F.col(text), F.lit(False))  # noqa: FBT003 - Spark's literal
        for each in _doubt_conditions(payload(), schema):
            condition = condition | each
        return condition

    sure = schema.default is not None or not schema.optional
    part = Part(schema=schema, expression=payload, sure=sure, schemaless=schemaless)
    return _Read(part, (doubt,), columns, scanning)


def _infer_schema(value: Any) -> Schema:
    """Return the schema that JSON without a schema appears to have. Raises ByRecords if there is none."""
    match value:
        case None | str():
            return OPTIONAL_STRING
        case bool():
            return Schema(type=Type.BOOLEAN, optional=True)
        case int():
            return Schema(type=Type.INT64, optional=True)
        case float():
            return Schema(type=Type.FLOAT64, optional=True)
        case dict():
            fields = tuple(Field(name=name, schema=_infer_schema(item)) for name, item in value.items())
            return Schema(type=Type.STRUCT, fields=fields, optional=True)
        case list():
            return Schema(type=Type.ARRAY, value=_infer_schema(value[0] if value else None), optional=True)
        case _:
            raise ByRecords


def _before_payload(sample: bytes) -> bytes:
    """Return an envelope's text up to the payload. Raises ByRecords if it differs from Java's form."""
    try:
        text = sample.decode()
        if not text.startswith(_SCHEMA):
            raise ByRecords
        _, end = json.JSONDecoder().raw_decode(text, len(_SCHEMA))
    except ValueError:
        raise ByRecords from None
    if not text.startswith(_PAYLOAD, end):
        raise ByRecords
    return text[: end + len(_PAYLOAD)].encode()


def _kind(schema: Schema) -> str:
    """Return the Spark type for reading. Raises ByRecords for types that Spark reads differently."""
    if schema.name is not None and schema.name.startswith(_LOGICAL):
        raise ByRecords
    if schema.type is Type.STRUCT and schema.fields:
        names = [f"`{each.name.replace('`', '``')}`:{_kind(each.schema)}" for each in schema.fields]
        return f"struct<{','.join(names)}>"
    if schema.type is Type.ARRAY and schema.value is not None and schema.value.type in _SPARK:
        return f"array<{_kind(schema.value)}>"
    if schema.type not in _SPARK:
        raise ByRecords
    return _SPARK[schema.type]


def _doubt_conditions(value: Column, schema: Schema) -> list[Column]:
    """Return conditions under which a value that is written back identically may differ in Connect."""
    conditions = []
    if schema.default is not None or not schema.optional:
        conditions.append(value.isNull())
    if schema.type in {Type.FLOAT32, Type.FLOAT64}:
        # `"NaN"` in quotes is text, so it becomes 0; and Java never reads -0.
        negative_zero = (value == F.lit(0)) & (value.cast("string") == "-0.0")
        strange = F.isnan(value) | (F.abs(value) == F.lit(float("inf"))) | negative_zero
        conditions.append(strange)
    if schema.type is Type.STRUCT:
        for each in schema.fields:
            conditions += [
                value.isNotNull() & doubt
                for doubt in _doubt_conditions(value.getField(each.name), each.schema)
            ]
    if schema.type is Type.ARRAY and schema.value is not None:
        element = schema.value
        if (
            element.type in {Type.FLOAT32, Type.FLOAT64}
            or not element.optional
            or element.default is not None
        ):

            def is_refused(item: Column) -> Column:
                is_doubtful = F.lit(False)  # noqa: FBT003 - Spark's literal
                for doubt in _doubt_conditions(item, element):
                    is_doubtful = is_doubtful | doubt
                return is_doubtful

            conditions.append(F.exists(value, is_refused))
    return conditions
