"""A source's transforms as Spark's column expressions: the static path.

Where the schema of a batch is known before its job, and every stage of the chain has a column form for it, the
transforms become part of the plan that reads, converts and writes, and no record is ever an object of Python's. The
same bytes come out as record by record, some times faster. The choice is made for each batch, before its job, for the
schema comes with the batch; it takes microseconds. A batch goes by columns when

- errors are not tolerated, logged, retried or buried: only the record path can do anything about them;
- its key and its value have schemas of types that Spark's columns hold as Connect does;
- each stage has a column form (`Transformation.columns`), and what its predicate says is the same for all records;
- its converters write what is left as they do record by record (`_exact`).

What cannot be known before: whether a record fails. The forms name the rows where it might (`Columns.doubts`: a null
where none may be), and the job then fails with a sentence of ours (`is_doubt`). So does JsonConverter's own column
form. Such a batch is done again, record by record, from its beginning: it fails with Connect's words at the record
where Connect fails, or it does not fail. What the job had written by then is in Kafka twice, as after any failure.

Rejected: one plan with both ways in it, by row. Schemas would differ by row, and the order of records would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kraal.config.connector import PREDICATES, TRANSFORMS
from kraal.plugins.api import SourceBatch
from kraal.plugins.columns import NOTHING, ByRecords, Columns, Part
from kraal.plugins.records import DATE, DECIMAL, TIMESTAMP
from kraal.plugins.schema import Schema, Type
from kraal.spark.column_parts import column_of
from kraal.spark.kafka_writer import WritePlan
from kraal.spark.plugins import Converters
from kraal.spark.records.source_pass import Pairs
from kraal.spark.records.steps import Steps
from kraal.spark.source_types import check_types

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

DOUBT: Final = "Kraal: only record by record can this batch be transformed"
_RAISED: Final = "USER_RAISED_EXCEPTION"
_OTHERS: Final = frozenset({"topic", "partition", "timestamp", "headers"})
_KEPT: Final = ("topic", "partition", "timestamp")
"""No transform with a column form changes these of a single record."""

_JSON: Final = "org.apache.kafka.connect.json.JsonConverter"
_PLAIN: Final[Mapping[str, frozenset[Type]]] = {
    "org.apache.kafka.connect.storage.StringConverter": frozenset(
        {Type.STRING, Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.BOOLEAN, Type.BYTES}
    ),
    "org.apache.kafka.connect.converters.ByteArrayConverter": frozenset({Type.BYTES}),
}
"""Converters whose columns are exact for these types, where the schema has no name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """What a batch's chain comes to."""

    given: Columns
    """The batch as it was read."""
    out: Columns
    headers: Pairs
    """What is added to each record's headers, as bytes."""
    identity: tuple[object, ...]
    """Equal for batches whose frames it turns alike."""

    def applied(self, frame: DataFrame) -> DataFrame:
        """Return the frame after the transforms, lazily. Raises ByRecords for columns that are not as their schemas."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own convention; loaded when Spark is

        check_types(frame.schema, self.given)
        out = self.out
        if out.doubts:
            doubt = out.doubts[0]()
            for each in out.doubts[1:]:
                doubt = doubt | each()
            error = F.raise_error(F.lit(DOUBT)).cast("boolean")
            frame = frame.where(F.when(doubt, error).otherwise(F.lit(True)))  # noqa: FBT003 - Spark's literal
        columns: list[Column] = [F.col(name) for name in _KEPT if name in frame.columns]
        parts = (("key", out.key), ("value", out.value))
        columns += [column_of(part).alias(name) for name, part in parts if not part.is_nothing]
        headers = self._headers()
        if headers is not None:
            columns.append(headers.alias("headers"))
        return frame.select(*columns)

    def _headers(self) -> Column | None:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

        added = F.array(
            *[
                F.struct(F.lit(name).alias("key"), F.lit(value).cast("binary").alias("value"))
                for name, value in self.headers
            ]
        )
        if "headers" not in self.out.has:
            return added if self.headers else None
        own = F.col("headers")
        if self.out.dropped:
            names = sorted(self.out.dropped)
            own = F.filter(own, lambda header: ~header.getField("key").isin(*names))
        return F.when(own.isNull(), added).otherwise(F.concat(own, added)) if self.headers else own


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The column path of one run."""

    steps: Steps
    converters: Converters
    identity: tuple[object, ...]
    """Equal for tasks whose transforms and header converters do the same."""

    @staticmethod
    def of(steps: Steps, converters: Converters, config: Mapping[str, str]) -> SourceColumns:
        """Make it for a connector's config, which is resolved."""
        prefixes = (TRANSFORMS, PREDICATES, "header.converter")
        own = tuple(sorted((name, text) for name, text in config.items() if name.startswith(prefixes)))
        return SourceColumns(steps, converters, own)

    def plan(self, batch: SourceBatch, names: frozenset[str]) -> tuple[WritePlan, str | None] | None:
        """Return how a batch with these columns is written, and every record's topic; None: record by record.

        The plan lacks its options. Any thread.
        """
        given = given_by(batch, names)
        out = None if given is None else self.steps.chain.columns(given)
        if given is None or out is None:
            return None
        steps = self.steps
        if not (_exact(steps.key_class, out.key.schema) and _exact(steps.value_class, out.value.schema)):
            return None
        try:
            headers = [
                (h.key, steps.headers.encode_header(out.topic or "", h.key, h.schema, h.value))
                for h in out.headers
            ]
        except Exception:  # noqa: BLE001 - the record path says what it is
            return None
        fixed = tuple(sorted(map(repr, out.fixed)))
        read = (repr(given.key.schema), repr(given.value.schema), tuple(sorted(given.has)))
        transforms = ColumnPlan(
            given=given, out=out, headers=headers, identity=(*self.identity, fixed, *read)
        )
        plan = WritePlan(
            converters=self.converters,
            options={},
            key_schema=out.key.schema,
            value_schema=out.value.schema,
            transforms=transforms,
        )
        return plan, out.topic


def given_by(batch: SourceBatch, names: frozenset[str]) -> Columns | None:
    """Return a batch as the chain's first stage sees it; None where it goes by records."""
    if batch.topic is None and "topic" not in names:
        return None
    parts = {}
    for name, schema in (("key", batch.key_schema), ("value", batch.value_schema)):
        if (schema is None) is (name in names):
            return None
        parts[name] = NOTHING if schema is None else _as_read(name, schema)
    return Columns(
        topic=batch.topic,
        key=parts["key"],
        value=parts["value"],
        has=names & _OTHERS,
        timestamp_ms=batch.timestamp_ms,
    )


def _as_read(name: str, schema: Schema) -> Part:
    def column() -> Column:
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as above

        return F.col(name)

    return Part(schema=schema, expression=column, as_read=True)


def _exact(converter: str, schema: Schema | None) -> bool:
    """Tell whether a converter writes columns of this schema as it does values."""
    if schema is None:
        return True
    if converter == _JSON:
        return _json_exact(schema)
    return schema.name is None and schema.type in _PLAIN.get(converter, frozenset())


def _json_exact(schema: Schema) -> bool:
    if schema.name in {DECIMAL, DATE, TIMESTAMP}:
        return True
    if schema.name is not None and schema.name.startswith("org.apache.kafka.connect.data."):
        return False
    within = [field.schema for field in schema.fields]
    within += [each for each in (schema.key, schema.value) if each is not None]
    return all(map(_json_exact, within))


def with_options(plan: WritePlan, options: Mapping[str, str]) -> WritePlan:
    """Return the plan with the producer's options."""
    return replace(plan, options=options)


def is_doubt(error: BaseException) -> bool:
    """Tell whether a batch that failed by columns is to be done again record by record.

    True for rows in doubt, for what a converter's columns raise, and for what cannot be planned at all.
    """
    if isinstance(error, (ByRecords, ValueError)) or type(error).__name__ == "AnalysisException":
        return True
    return _RAISED in str(error)
