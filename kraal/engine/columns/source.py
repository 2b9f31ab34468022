"""A source's transforms as Spark column expressions: the column path.

If the schema of a batch is known before its job, and each stage of the chain has a column form for it, the transforms
become part of the plan that reads, converts and writes, and no record becomes a Python object. The resulting bytes are
the same as on the record path, but are produced several times faster. The path is chosen before the job of each batch,
because the schema is part of the batch. The choice takes microseconds. A batch takes the column path if

- errors are not tolerated, logged, retried or written as dead letters, which only the record path supports;
- its key and value have schemas of types that Spark columns represent as Connect does;
- each stage has a column form (`Transformation.columns`), and its predicate has the same result for all records;
- its converters have the same output for columns as record by record (`Converter.writes_columns_exactly`).

Whether a record fails is not known in advance. The column forms identify the rows that may fail (`Columns.doubts`, for
example a null that is not allowed), for which the job fails with Kraal's own message (`needs_record_path`).
JsonConverter's column form does the same. Such a batch is repeated record by record from its start: it fails with
Connect's message at the record at which Connect fails, or it succeeds. Records that were written before are duplicated,
as after any failure.

Rejected alternative: one plan that chooses a path for each row. Schemas would differ by row, and the order of records
would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kraal.config.connector.keys import PREDICATES, TRANSFORMS
from kraal.engine.columns.functions import F
from kraal.engine.columns.parts import make_column
from kraal.engine.columns.types import arrow_fits, check_types
from kraal.engine.kafka_io.writer import WritePlan
from kraal.engine.records.source_pass import Pairs
from kraal.engine.records.steps import Steps
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import Converter, SourceBatch
from kraal.plugins.model.capabilities import declares
from kraal.plugins.model.columns import NOTHING, ByRecords, Columns, Part
from kraal.plugins.model.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

DOUBT: Final = "Kraal: this batch must be transformed record by record"
_RAISED_ERROR_CLASS: Final = "USER_RAISED_EXCEPTION"
_EXTRA_COLUMNS: Final = frozenset({"topic", "partition", "timestamp", "headers"})
_UNCHANGED_COLUMNS: Final = ("topic", "partition", "timestamp")
"""Columns that no transform with a column form changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """A transform chain as columns, for batches of one form."""

    input_columns: Columns
    """The columns of the DataFrame before the transforms."""
    out: Columns
    """The columns after the transforms."""
    headers: Pairs
    """The headers to add to each record, as bytes."""
    identity: tuple[object, ...]
    """A key that is equal for plans with the same result."""

    def apply(self, frame: DataFrame) -> DataFrame:
        """Return the transformed DataFrame. Raises ByRecords if columns do not match their schemas."""
        check_types(frame.schema, self.input_columns)
        out = self.out
        if out.doubts:
            doubt = out.doubts[0]()
            for expression in out.doubts[1:]:
                doubt = doubt | expression()
            error = F.raise_error(F.lit(DOUBT)).cast("boolean")
            frame = frame.where(F.when(doubt, error).otherwise(F.lit(True)))  # noqa: FBT003 - Spark's literal
        columns: list[Column] = [F.col(name) for name in _UNCHANGED_COLUMNS if name in frame.columns]
        parts = (("key", out.key), ("value", out.value))
        columns += [make_column(part).alias(name) for name, part in parts if not part.is_nothing]
        headers = self._headers()
        if headers is not None:
            columns.append(headers.alias("headers"))
        return frame.select(*columns)

    def _headers(self) -> Column | None:
        added_headers = F.array(
            *[
                F.struct(F.lit(name).alias("key"), F.lit(value).cast("binary").alias("value"))
                for name, value in self.headers
            ]
        )
        if "headers" not in self.out.has:
            return added_headers if self.headers else None
        headers = F.col("headers")
        if self.out.dropped:
            names = sorted(self.out.dropped)
            headers = F.filter(headers, lambda header: ~header.getField("key").isin(*names))
        return (
            F.when(headers.isNull(), added_headers).otherwise(F.concat(headers, added_headers))
            if self.headers
            else headers
        )


@dataclass(frozen=True, slots=True)
class SourceColumns:
    """The column path of one run."""

    steps: Steps
    converters: Converters
    identity: tuple[object, ...]
    """A key that is equal for tasks whose transforms and header converters behave the same."""

    @staticmethod
    def of(steps: Steps, converters: Converters, config: Mapping[str, str]) -> SourceColumns:
        """Create the column path for a resolved connector config."""
        prefixes = (TRANSFORMS, PREDICATES, "header.converter")
        identity = tuple(sorted((name, text) for name, text in config.items() if name.startswith(prefixes)))
        return SourceColumns(steps, converters, identity)

    def plan(self, batch: SourceBatch, names: frozenset[str]) -> tuple[WritePlan, str | None] | None:
        """Return the plan and the topic for a batch with these columns; None if the batch must take the record path.

        The plan has no producer options. Thread-safe.
        """
        input_columns = make_input_columns(batch, names)
        out = None if input_columns is None else self.steps.chain.columns(input_columns)
        if input_columns is None or out is None:
            return None
        steps = self.steps
        if not (
            _converts_exactly(steps.key, out.key.schema) and _converts_exactly(steps.value, out.value.schema)
        ):
            return None
        try:
            headers = [
                (h.key, steps.headers.encode_header(out.topic or "", h.key, h.schema, h.value))
                for h in out.headers
            ]
        except Exception:  # noqa: BLE001 - the record path reports the error
            return None
        fixed_properties = tuple(sorted(map(repr, out.fixed)))
        input_identity = (
            repr(input_columns.key.schema),
            repr(input_columns.value.schema),
            tuple(sorted(input_columns.has)),
        )
        transforms = ColumnPlan(
            input_columns=input_columns,
            out=out,
            headers=headers,
            identity=(*self.identity, fixed_properties, *input_identity),
        )
        plan = WritePlan(
            converters=self.converters,
            options={},
            key_schema=out.key.schema,
            value_schema=out.value.schema,
            transforms=transforms,
        )
        return plan, out.topic


def make_input_columns(batch: SourceBatch, names: frozenset[str]) -> Columns | None:
    """Return a batch as input for the first stage of the chain; None if the batch must take the record path."""
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
        has=names & _EXTRA_COLUMNS,
        timestamp_ms=batch.timestamp_ms,
    )


def _as_read(name: str, schema: Schema) -> Part:
    return Part(schema=schema, expression=lambda: F.col(name), as_read=True)


def converts_identically(converters: Converters, batch: SourceBatch, table: pa.Table) -> bool:
    """Return whether converting a table record by record, without transforms, has the same result as by columns."""
    names = frozenset(table.column_names)
    parts = (("key", converters.key, batch.key_schema), ("value", converters.value, batch.value_schema))
    return "timestamp" not in names and all(
        name not in names
        if schema is None
        else name in names
        and _converts_exactly(converter, schema)
        and arrow_fits(table.schema.field(name).type, schema)
        for name, converter, schema in parts
    )


def _converts_exactly(converter: Converter, schema: Schema | None) -> bool:
    """Return whether a converter has the same output for columns of this schema as for single values."""
    return schema is None or (
        declares(converter, "writes_columns_exactly", "encode", "from_connect")
        and converter.writes_columns_exactly(schema)
    )


def with_options(plan: WritePlan, options: Mapping[str, str]) -> WritePlan:
    """Return the plan with the producer's options."""
    return replace(plan, options=options)


def needs_record_path(error: BaseException) -> bool:
    """Return whether a batch that failed on the column path must be repeated record by record.

    True for rows in doubt, for errors of a converter's columns, and for frames that Spark cannot plan.
    """
    if isinstance(error, (ByRecords, ValueError)) or type(error).__name__ == "AnalysisException":
        return True
    return _RAISED_ERROR_CLASS in str(error)
