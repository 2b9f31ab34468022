"""A sink's transforms as Spark column expressions, for backlogs whose records have one schema per topic.

Each record of a sink has its own schema, so the schema of a topic is inferred from a sample record, and all other
records are compared with it. JSON in Connect's envelope counts as parsed only if writing the value results in the same
bytes, and if the bytes before the payload equal those of the sample. In this case, Spark and Jackson cannot parse the
document differently. A Java function parses most such documents, and no others (`json_scan`); Spark parses and rewrites
only the rest. Text and bytes always have the same schema. JSON without schemas is assumed to have the form of the
sample, and is compared in the same way; a field that is null in the sample is assumed to be a string.

A row with a different form is in doubt, like one that a transform may reject (`kraal.plugins.model.columns`): a batch
with such a row is repeated record by record. So the column path does not implement `errors.*`: a batch without doubts
has no errors, and the record path handles the errors of other batches. After a batch with doubts, further batches take
the record path directly, twice as many after each such batch, so that the overhead for a topic with mixed records is
small.

A sink must not receive rows of a batch that is repeated. A sink that has no output if its DataFrame cannot be computed
(`SinkTask.all_or_nothing`) receives the DataFrame directly; for any other sink, the rows are computed and persisted
first.

Rejected alternatives: VARIANT with a check of every field's type takes twice the time and changes the types of numbers.
A plan with both paths, chosen by row, would lose the order of records, and would require that both paths agree on the
topics that transforms set.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from kraal.engine.columns.functions import F
from kraal.engine.columns.json_scan import can_scan, scan_json
from kraal.engine.columns.parts import SPARK_TYPES
from kraal.engine.columns.sink_formats import make_sink_column, text_doubts
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
"""Calls the sink with a DataFrame."""
Observe = Callable[["DataFrame"], "DataFrame"]
"""Returns a DataFrame whose rows are counted when they are computed."""

ENVELOPE: Final = "json-envelope"
"""The `SinkTask.values` of sinks that require the schema of each record; it has no column form."""
_LOGICAL_PREFIX: Final = "org.apache.kafka.connect.data."
_JSON: Final = frozenset({ColumnFormat.JSON, ColumnFormat.JSON_ENVELOPE})
_SCHEMA: Final = '{"schema":'
_PAYLOAD: Final = ',"payload":'
_FRAME_COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "headers")
_MAX_SKIPS: Final = 64
"""Maximum number of batches that take the record path after a batch with doubts."""
_DDL_TYPES: Final[Mapping[Type, str]] = {**SPARK_TYPES, Type.BYTES: "binary"}


@dataclass(frozen=True, slots=True)
class Sample:
    """The key and value of a record, as read from Kafka."""

    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class SinkColumns:
    """The column path of one run. Not thread-safe."""

    steps: Steps
    value_form: SinkValues
    _samples: dict[str, Sample] = field(default_factory=dict)
    """Sample records by topic."""
    _remaining_skips: int = 0
    """Number of further batches that take the record path."""
    _next_skips: int = 1
    """Number of batches that take the record path after the next batch with doubts."""

    @staticmethod
    def of(steps: Steps, value_form: SinkValues) -> SinkColumns | None:
        """Return the column path for a connector; None if none of its batches can have a column form."""
        headers = steps.headers
        reads_any_header = headers.reads_any_header and declares(
            headers, "reads_any_header", "decode_header", "decode"
        )
        has_column_form = reads_any_header and None not in _formats(steps) and value_form != ENVELOPE
        return SinkColumns(steps, value_form) if has_column_form else None

    def write(
        self,
        read_topics: Callable[[], Mapping[str, DataFrame]],
        put: Put,
        *,
        all_or_nothing: bool,
        observe: Observe | None = None,
    ) -> bool:
        """Write a batch through the sink; return False if it must take the record path.

        If so, the sink has received no rows. `read_topics` returns a DataFrame for each topic of the batch, and
        `observe` counts the rows of these DataFrames when they are written. Raises the sink's errors.
        """
        if self._remaining_skips:
            self._remaining_skips -= 1
            return False
        frame = self._transform(read_topics(), observe)
        is_written = frame is not None and _write_rows(frame, put, all_or_nothing=all_or_nothing)
        if is_written:
            self._next_skips = 1
        else:
            self._samples, self._remaining_skips = {}, self._next_skips
            self._next_skips = min(self._next_skips * 2, _MAX_SKIPS)
        return is_written

    def _transform(self, raw: Mapping[str, DataFrame], observe: Observe | None) -> DataFrame | None:
        """Return the DataFrame of all topics for the sink; None if there is no column form."""
        frames = []
        for topic, rows in raw.items():
            sample = self._find_sample(topic, rows)
            frame = None if sample is None else self.frame(rows, sample, topic, observe)
            if frame is None:
                log.debug(
                    "Processing the records of %s one by one: their schema or transforms do not support columns",
                    topic,
                )
                return None
            frames.append(frame)
        return reduce(type(frames[0]).unionAll, frames)

    def _find_sample(self, topic: str, rows: DataFrame) -> Sample | None:
        """Return a sample record of a topic (empty without a JSON format), or None if no record has a value."""
        if _JSON.isdisjoint(_formats(self.steps)):
            return Sample(None, None)
        if topic not in self._samples:
            row = rows.where("value is not null").select("key", "value").head()
            if row is not None:
                self._samples[topic] = Sample(*(None if data is None else bytes(data) for data in row))
        return self._samples.get(topic)

    def frame(
        self, raw: DataFrame, sample: Sample, topic: str, observe: Observe | None = None
    ) -> DataFrame | None:
        """Return the DataFrame of one topic for the sink; None if there is no column form.

        `observe` counts the rows of `raw`.
        """
        steps = self.steps
        try:
            key = _read_part("key", steps.key, sample.key)
            value = _read_part("value", steps.value, sample.value)
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
            return self._apply(raw if observe is None else observe(raw), (key, value), out)
        except (ByRecords, ValueError):
            return None
        except Exception as exc:
            if type(exc).__name__ != "AnalysisException":
                raise
            return None

    def _apply(self, raw: DataFrame, parts: Iterable[_PartReading], out: Columns) -> DataFrame:
        timestamp = F.when(F.col("timestampType") >= 0, F.col("timestamp")).alias("timestamp")
        headers = F.when(F.size("headers") > 0, F.col("headers")).alias("headers")
        columns = [*map(F.col, _FRAME_COLUMNS[:3]), timestamp, headers]
        columns += [
            F.col("key"),
            F.col("value"),
            *(column for reading in parts for column in reading.columns()),
        ]
        raw = raw.select("*", *(scan for reading in parts for scan in reading.scans()))
        # A non-deterministic column prevents the optimizer from parsing the JSON repeatedly, as for the filter.
        parsed_frame = raw.select(*columns, F.spark_partition_id().alias("_part"))
        doubt = F.col("_part") < 0
        for expression in (*out.doubts, *text_doubts(out.key), *text_doubts(out.value)):
            doubt = doubt | expression()
        checked_frame = _fail_on_doubts(parsed_frame, doubt)
        return checked_frame.select(
            F.lit(out.topic).alias("topic"),
            *_FRAME_COLUMNS[1:],
            make_sink_column(out.key, self.value_form).alias("key"),
            make_sink_column(out.value, self.value_form).alias("value"),
        )


def _write_rows(frame: DataFrame, put: Put, *, all_or_nothing: bool) -> bool:
    """Write rows through the sink; return False if one is in doubt. Raises the errors of the sink and of Spark."""
    if all_or_nothing:
        return _run_unless_doubtful(lambda: put(frame))
    rows = frame.persist()
    try:
        if not _run_unless_doubtful(rows.count):
            return False
        put(rows)
    finally:
        rows.unpersist()
    return True


def _run_unless_doubtful(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception as exc:
        if DOUBT not in root_cause(exc):
            raise
        log.info(
            "Processing a batch of a sink record by record, because columns may not represent all its records"
        )
        return False
    return True


def _fail_on_doubts(frame: DataFrame, doubt: Column) -> DataFrame:
    """Return a DataFrame whose computation fails if a row is in doubt."""
    error = F.raise_error(F.lit(DOUBT)).cast("boolean")
    return frame.where(F.when(doubt, error).otherwise(F.lit(True)))  # noqa: FBT003 - Spark's literal


@dataclass(frozen=True, slots=True)
class _PartReading:
    """The expressions that read a key or value."""

    part: Part
    doubts: tuple[Expression, ...] = ()
    columns: Callable[[], list[Column]] = field(default=list)
    """Returns columns that are computed from the raw column once per row."""
    scans: Callable[[], list[Column]] = field(default=list)
    """Returns columns that are computed first, as input for `columns`."""


def _formats(steps: Steps) -> tuple[ColumnFormat | None, ...]:
    return find_format(steps.key), find_format(steps.value)


def find_format(converter: Converter) -> ColumnFormat | None:
    """Return the format that a converter reads, if the class that implements `decode` declares it."""
    return converter.column_format if declares(converter, "column_format", "decode") else None


def _read_part(name: str, converter: Converter, sample: bytes | None) -> _PartReading:
    def raw() -> Column:
        return F.col(name)

    column_format = find_format(converter)
    if column_format is ColumnFormat.TEXT:
        return _PartReading(
            Part(schema=OPTIONAL_STRING, expression=lambda: raw().cast("string"), as_read=True)
        )
    if column_format is ColumnFormat.BYTES:
        return _PartReading(Part(schema=OPTIONAL_BYTES, expression=raw))
    if column_format is None:
        raise ByRecords
    if sample is None:
        return _PartReading(NOTHING, (lambda: raw().isNotNull(),))
    return _read_json_part(name, converter, sample, raw, schemaless=column_format is ColumnFormat.JSON)


def _read_json_part(
    name: str, converter: Converter, sample: bytes, raw: Expression, *, schemaless: bool
) -> _PartReading:
    prefix = b"" if schemaless else _envelope_start(sample)
    try:
        schema, value = converter.decode("", sample)
    except Exception:  # noqa: BLE001 - the record path reports the error
        raise ByRecords from None
    if schemaless:
        schema = replace(_infer_schema(value), optional=False)
    if schema is None or (schemaless and schema.type is not Type.STRUCT):
        raise ByRecords
    ddl = _ddl_type(schema)
    scan_name, text_name, parsed_name = f"_{name}_scan", f"_{name}_text", f"_{name}"
    is_scannable = can_scan(schema)

    def scan_columns() -> list[Column]:
        return (
            [scan_json(raw(), prefix, "" if schemaless else "}", ddl).alias(scan_name)]
            if is_scannable
            else []
        )

    def is_unscanned() -> Column:
        return F.col(scan_name).isNull() if is_scannable else F.lit(True)  # noqa: FBT003 - Spark's literal

    def columns() -> list[Column]:
        payload = F.substring(raw(), len(prefix) + 1, 2**31 - 1).cast("string")
        envelope = F.concat(F.lit('{"payload":'), payload)
        matching_envelope = F.when(F.startswith(raw(), F.lit(prefix)), envelope)
        document = F.when(is_unscanned(), F.concat(envelope, F.lit("}")) if schemaless else matching_envelope)
        # The options prevent Spark from eliminating to_json(from_json(…)).
        parsed_document = F.from_json(document, f"struct<payload:{ddl}>", {"mode": "PERMISSIVE"})
        return [
            *([F.col(scan_name)] if is_scannable else []),
            document.alias(text_name),
            F.when(is_unscanned(), parsed_document).alias(parsed_name),
        ]

    def payload() -> Column:
        value = F.col(parsed_name).getField("payload")
        return F.coalesce(F.col(scan_name), value) if is_scannable else value

    def doubt() -> Column:
        rewritten_text = F.to_json(F.col(parsed_name), {"ignoreNullFields": "false"})
        is_same = F.coalesce(rewritten_text == F.col(text_name), F.lit(False))  # noqa: FBT003 - Spark's literal
        condition = is_unscanned() & ~is_same
        for doubt_condition in _doubt_conditions(payload(), schema):
            condition = condition | doubt_condition
        return condition

    sure = schema.default is not None or not schema.optional
    part = Part(schema=schema, expression=payload, sure=sure, schemaless=schemaless)
    return _PartReading(part, (doubt,), columns, scan_columns)


def _infer_schema(value: Any) -> Schema:
    """Return the schema of a JSON value without a schema. Raises ByRecords for an unsupported value."""
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


def _envelope_start(sample: bytes) -> bytes:
    """Return the start of an envelope, up to the payload. Raises ByRecords if the envelope is not in Java's form."""
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


def _ddl_type(schema: Schema) -> str:
    """Return the Spark DDL type of a schema. Raises ByRecords for types that Spark parses differently from Connect."""
    if schema.name is not None and schema.name.startswith(_LOGICAL_PREFIX):
        raise ByRecords
    if schema.type is Type.STRUCT and schema.fields:
        members = [f"`{item.name.replace('`', '``')}`:{_ddl_type(item.schema)}" for item in schema.fields]
        return f"struct<{','.join(members)}>"
    if schema.type is Type.ARRAY and schema.value is not None and schema.value.type in _DDL_TYPES:
        return f"array<{_ddl_type(schema.value)}>"
    if schema.type not in _DDL_TYPES:
        raise ByRecords
    return _DDL_TYPES[schema.type]


def _doubt_conditions(value: Column, schema: Schema) -> list[Column]:
    """Return conditions under which Connect may parse a value differently though Spark rewrites it identically."""
    conditions = []
    if schema.default is not None or not schema.optional:
        conditions.append(value.isNull())
    if schema.type in {Type.FLOAT32, Type.FLOAT64}:
        # Connect parses the string "NaN" as 0, and never returns -0.
        negative_zero = (value == F.lit(0)) & (value.cast("string") == "-0.0")
        is_special = F.isnan(value) | (F.abs(value) == F.lit(float("inf"))) | negative_zero
        conditions.append(is_special)
    if schema.type is Type.STRUCT:
        for member in schema.fields:
            conditions += [
                value.isNotNull() & doubt
                for doubt in _doubt_conditions(value.getField(member.name), member.schema)
            ]
    if schema.type is Type.ARRAY and schema.value is not None:
        element = schema.value
        if (
            element.type in {Type.FLOAT32, Type.FLOAT64}
            or not element.optional
            or element.default is not None
        ):

            def has_doubt(item: Column) -> Column:
                is_doubtful = F.lit(False)  # noqa: FBT003 - Spark's literal
                for doubt in _doubt_conditions(item, element):
                    is_doubtful = is_doubtful | doubt
                return is_doubtful

            conditions.append(F.exists(value, has_doubt))
    return conditions
