"""A sink's transforms as Spark's column expressions, for backlogs whose records have one schema in each topic.

A sink's schema comes with each record, so that of a topic is guessed from one of its records, and every other one is
held against it. JSON in Connect's envelope counts as read only where writing what was read gives the same text again,
byte for byte, and where the text before the payload is the sample's: that leaves no room for Spark and Jackson to read
the same text differently. Most such texts are read by a function of ours, which reads no others (`json_scan`), and only
what it leaves is read by Spark's, and written again. Text and bytes have the same schema always. JSON without schemas
is taken to look as the sample does, by the same measure; a field that is null in the sample is taken for text.

A row that does not fit is in doubt, like one that a transform may refuse (`kraal.plugins.columns`): such a batch is
done again record by record. So `errors.*` need nothing of their own here: a batch without doubts has no errors, one
with them goes where they are handled. After it the next ones go by records at once, twice as many each time, so that a
topic of mixed records loses little.

A sink must not see rows of a batch that is given up. One that leaves nothing when its frame cannot be computed
(`SinkTask.all_or_nothing`) gets the frame as it is; for any other the rows are computed and kept (`persist`) before it
is asked.

Rejected: VARIANT and a look at every field's type: twice the work, and numbers come out in other types. Both ways in
one plan, by row: transforms that route would have to agree on topics, and the order of records would be lost.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from kraal.plugins.columns import NOTHING, ByRecords, Columns, Expression, Part
from kraal.plugins.schema import OPTIONAL_BYTES, OPTIONAL_STRING, Field, Schema, Type
from kraal.spark.column_parts import SPARK_TYPES
from kraal.spark.json_scan import can_scan, scanned
from kraal.spark.records.steps import Steps
from kraal.spark.sink_shown import shown_column, shown_doubts
from kraal.spark.source_columns import DOUBT
from kraal.spark.trace import root_cause

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kraal.plugins.api import SinkValues

log = logging.getLogger(__name__)

Put = Callable[["DataFrame"], None]
"""Has the sink write a frame."""

_CONNECT: Final = "org.apache.kafka.connect."
_JSON: Final = f"{_CONNECT}json.JsonConverter"
_TEXT: Final = f"{_CONNECT}storage.StringConverter"
_BYTES: Final = f"{_CONNECT}converters.ByteArrayConverter"
_HEADERS: Final = frozenset({f"{_CONNECT}storage.SimpleHeaderConverter", _TEXT, _BYTES})
"""They read any header."""
_SCHEMA: Final = '{"schema":'
_PAYLOAD: Final = ',"payload":'
_FRAME: Final = ("topic", "partition", "offset", "timestamp", "headers")
_MOST_PASSED_OVER: Final = 64
_SPARK: Final[Mapping[Type, str]] = {**SPARK_TYPES, Type.BYTES: "binary"}


@dataclass(frozen=True, slots=True)
class Sample:
    """A record's key and value as Kafka has them."""

    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class SinkColumns:
    """The column path of one run. One thread at a time."""

    steps: Steps
    shown: SinkValues
    _samples: dict[str, Sample] = field(default_factory=dict)
    """By topic."""
    _passed_over: int = 0
    """So many batches to come go by records."""
    _next: int = 1

    @staticmethod
    def of(steps: Steps, shown: SinkValues) -> SinkColumns | None:
        """Return it; None where no batch can have a column form."""
        known = steps.header_class in _HEADERS and all(
            name in {_TEXT, _BYTES} or (name == _JSON and _reads(converter))
            for name, converter in ((steps.key_class, steps.key), (steps.value_class, steps.value))
        )
        return SinkColumns(steps, shown) if known else None

    def write(self, raw: Callable[[], Mapping[str, DataFrame]], put: Put, *, all_or_nothing: bool) -> bool:
        """Have a batch written, which `raw` gives by topic; False: it must go record by record, and no row was shown.

        Raises what the sink raises.
        """
        if self._passed_over:
            self._passed_over -= 1
            return False
        frame = self._frame(raw())
        wrote = frame is not None and _put(frame, put, all_or_nothing=all_or_nothing)
        if wrote:
            self._next = 1
        else:
            self._samples, self._passed_over = {}, self._next
            self._next = min(self._next * 2, _MOST_PASSED_OVER)
        return wrote

    def _frame(self, raw: Mapping[str, DataFrame]) -> DataFrame | None:
        """Return all topics' rows for the sink, lazily."""
        frames = []
        for topic, rows in raw.items():
            sample = self._sample(topic, rows)
            frame = None if sample is None else self.frame(rows, sample, topic)
            if frame is None:
                log.debug(
                    "the records of %s go one by one: their schema or transforms have no columns", topic
                )
                return None
            frames.append(frame)
        return reduce(type(frames[0]).unionAll, frames)

    def _sample(self, topic: str, rows: DataFrame) -> Sample | None:
        """Return a record to take the schemas from; None where there is none that has a value."""
        if _JSON not in {self.steps.key_class, self.steps.value_class}:
            return Sample(None, None)
        if topic not in self._samples:
            row = rows.where("value is not null").select("key", "value").head()
            if row is not None:
                self._samples[topic] = Sample(*(None if data is None else bytes(data) for data in row))
        return self._samples.get(topic)

    def frame(self, raw: DataFrame, sample: Sample, topic: str) -> DataFrame | None:
        """Return what the sink is to write of one topic, lazily; None where there is no column form."""
        steps = self.steps
        try:
            key = _part("key", steps.key_class, steps.key, sample.key)
            value = _part("value", steps.value_class, steps.value, sample.value)
            given = Columns(
                topic=topic,
                key=key.part,
                value=value.part,
                has=frozenset(_FRAME),
                doubts=(*key.doubts, *value.doubts),
            )
            out = steps.chain.columns(given)
            if out is None or out.headers or out.dropped:
                return None
            return self._applied(raw, (key, value), out)
        except (ByRecords, ValueError):
            return None
        except Exception as exc:
            if type(exc).__name__ != "AnalysisException":
                raise
            return None

    def _applied(self, raw: DataFrame, parts: Iterable[_Read], out: Columns) -> DataFrame:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own convention; loaded when Spark is

        known = F.when(F.col("timestampType") >= 0, F.col("timestamp")).alias("timestamp")
        headers = F.when(F.size("headers") > 0, F.col("headers")).alias("headers")
        columns = [*map(F.col, _FRAME[:3]), known, headers]
        columns += [F.col("key"), F.col("value"), *(c for each in parts for c in each.columns())]
        raw = raw.select("*", *(scan for each in parts for scan in each.scans()))
        # What a plan cannot know stops the optimizer from reading the JSON anew for the filter and what follows.
        read = raw.select(*columns, F.spark_partition_id().alias("_part"))
        doubt = F.col("_part") < 0
        for each in (*out.doubts, *shown_doubts(out.key), *shown_doubts(out.value)):
            doubt = doubt | each()
        sure = _sure(read, doubt)
        return sure.select(
            F.lit(out.topic).alias("topic"),
            *_FRAME[1:],
            shown_column(out.key, self.shown).alias("key"),
            shown_column(out.value, self.shown).alias("value"),
        )


def _put(frame: DataFrame, put: Put, *, all_or_nothing: bool) -> bool:
    """Have the sink write the rows; False where one is in doubt. Raises what the sink and Spark raise."""
    if all_or_nothing:
        return _unless_doubtful(lambda: put(frame))
    kept = frame.persist()
    try:
        if not _unless_doubtful(kept.count):
            return False
        put(kept)
    finally:
        kept.unpersist()
    return True


def _unless_doubtful(action: Callable[[], object]) -> bool:
    try:
        action()
    except Exception as exc:
        if DOUBT not in root_cause(exc):
            raise
        log.info("a batch of a sink goes record by record: not all of its records are as the first one")
        return False
    return True


def _sure(read: DataFrame, doubt: Column) -> DataFrame:
    """Fail on rows in doubt."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    error = F.raise_error(F.lit(DOUBT)).cast("boolean")
    return read.where(F.when(doubt, error).otherwise(F.lit(True)))  # noqa: FBT003 - Spark's literal


@dataclass(frozen=True, slots=True)
class _Read:
    """How a key or value is read."""

    part: Part
    doubts: tuple[Expression, ...] = ()
    columns: Callable[[], list[Column]] = field(default=list)
    """What is made of the raw column, once a row."""
    scans: Callable[[], list[Column]] = field(default=list)
    """What is made of it before, for `columns` to look at."""


def _part(name: str, of_class: str, converter: Any, sample: bytes | None) -> _Read:
    def raw() -> Column:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

        return F.col(name)

    if of_class == _TEXT:
        if converter.decode("", b"\xc3\xa9\xff") != (OPTIONAL_STRING, "\u00e9\ufffd"):
            raise ByRecords  # another encoding
        return _Read(Part(schema=OPTIONAL_STRING, expression=lambda: raw().cast("string"), as_read=True))
    if of_class == _BYTES:
        return _Read(Part(schema=OPTIONAL_BYTES, expression=raw))
    if of_class != _JSON:
        raise ByRecords
    if sample is None:
        return _Read(NOTHING, (lambda: raw().isNotNull(),))
    return _json_part(name, converter, sample, raw)


def _json_part(name: str, converter: Any, sample: bytes, raw: Expression) -> _Read:
    schemaless = converter.reads_plain
    prefix = b"" if schemaless else _before_payload(sample)
    try:
        schema, value = converter.decode("", sample)
    except Exception:  # noqa: BLE001 - what it is, the record path says
        raise ByRecords from None
    if schemaless:
        schema = replace(_look(value), optional=False)
    if schema is None or (schemaless and schema.type is not Type.STRUCT):
        raise ByRecords
    kind = _kind(schema)
    scan, text, parsed = f"_{name}_scan", f"_{name}_text", f"_{name}"
    scans = can_scan(schema)

    def scanning() -> list[Column]:
        return [scanned(raw(), prefix, "" if schemaless else "}", kind).alias(scan)] if scans else []

    def unread() -> Column:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

        return F.col(scan).isNull() if scans else F.lit(True)  # noqa: FBT003 - Spark's literal

    def columns() -> list[Column]:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

        rest = F.substring(raw(), len(prefix) + 1, 2**31 - 1).cast("string")
        begun = F.concat(F.lit('{"payload":'), rest)
        as_sample = F.when(F.startswith(raw(), F.lit(prefix)), begun)
        whole = F.when(unread(), F.concat(begun, F.lit("}")) if schemaless else as_sample)
        # Options keep Spark from taking one step for the other's undoing.
        read = F.from_json(whole, f"struct<payload:{kind}>", {"mode": "PERMISSIVE"})
        return [*([F.col(scan)] if scans else []), whole.alias(text), F.when(unread(), read).alias(parsed)]

    def payload() -> Column:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

        found = F.col(parsed).getField("payload")
        return F.coalesce(F.col(scan), found) if scans else found

    def doubt() -> Column:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

        again = F.to_json(F.col(parsed), {"ignoreNullFields": "false"})
        found = unread() & ~F.coalesce(again == F.col(text), F.lit(False))  # noqa: FBT003 - Spark's literal
        for each in _refused(payload(), schema):
            found = found | each
        return found

    sure = schema.default is not None or not schema.optional
    part = Part(schema=schema, expression=payload, sure=sure, schemaless=schemaless)
    return _Read(part, (doubt,), columns, scanning)


def _reads(converter: Any) -> bool:
    return bool(getattr(converter, "opens_envelopes", False) or getattr(converter, "reads_plain", False))


def _look(value: Any) -> Schema:
    """Return the schema that JSON without one looks as if it had. Raises ByRecords for what has no such look."""
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
            fields = tuple(Field(name=name, schema=_look(item)) for name, item in value.items())
            return Schema(type=Type.STRUCT, fields=fields, optional=True)
        case list():
            return Schema(type=Type.ARRAY, value=_look(value[0] if value else None), optional=True)
        case _:
            raise ByRecords


def _before_payload(sample: bytes) -> bytes:
    """Return an envelope's text up to the payload. Raises ByRecords where it is not as Java writes it."""
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
    """Return Spark's type of what is read. Raises ByRecords for types that Spark reads otherwise."""
    if schema.name is not None and schema.name.startswith(f"{_CONNECT}data."):
        raise ByRecords
    if schema.type is Type.STRUCT and schema.fields:
        names = [f"`{each.name.replace('`', '``')}`:{_kind(each.schema)}" for each in schema.fields]
        return f"struct<{','.join(names)}>"
    if schema.type is Type.ARRAY and schema.value is not None and schema.value.type in _SPARK:
        return f"array<{_kind(schema.value)}>"
    if schema.type not in _SPARK:
        raise ByRecords
    return _SPARK[schema.type]


def _refused(value: Column, schema: Schema) -> list[Column]:
    """Return where a value that was read as it is written may still be another one for Connect."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

    found = []
    if schema.default is not None or not schema.optional:
        found.append(value.isNull())
    if schema.type in {Type.FLOAT32, Type.FLOAT64}:
        # `"NaN"` in quotes is a text, so 0; and there is no -0 in what Java reads.
        negative_zero = (value == F.lit(0)) & (value.cast("string") == "-0.0")
        strange = F.isnan(value) | (F.abs(value) == F.lit(float("inf"))) | negative_zero
        found.append(strange)
    if schema.type is Type.STRUCT:
        for each in schema.fields:
            found += [value.isNotNull() & doubt for doubt in _refused(value.getField(each.name), each.schema)]
    if schema.type is Type.ARRAY and schema.value is not None:
        element = schema.value
        if (
            element.type in {Type.FLOAT32, Type.FLOAT64}
            or not element.optional
            or element.default is not None
        ):

            def is_refused(item: Column) -> Column:
                whole = F.lit(False)  # noqa: FBT003 - Spark's literal
                for doubt in _refused(item, element):
                    whole = whole | doubt
                return whole

            found.append(F.exists(value, is_refused))
    return found
