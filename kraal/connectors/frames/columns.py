"""Converts columns to records: selects the columns of key, topic and value, and derives their schemas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from kraal.connectors.frames.schema import make_struct_schema, to_connect_column, to_schema
from kraal.engine.columns.functions import F, select_column
from kraal.plugins.api import Offset, Schema, SourceBatch, SourcePartition

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The mapping of a source's columns to records."""

    topic: str | None
    topic_column: str | None
    key_columns: Sequence[str]
    value_column: str | None

    @staticmethod
    def of(parsed: Mapping[str, Any]) -> Layout:
        """Create the layout from a parsed config."""
        return Layout(
            topic=parsed["topic"],
            topic_column=parsed["topic.column"],
            key_columns=tuple(parsed["key.columns"]),
            value_column=parsed["value.column"],
        )

    def make_batch(
        self,
        frame: DataFrame,
        offsets: Mapping[SourcePartition, Offset],
        *,
        declared_schema: T.StructType | None = None,
        topic: str | None = None,
    ) -> SourceBatch:
        """Return a batch for a lazy frame of columns.

        `declared_schema` is the user's schema, which determines the nullable columns. `topic` overrides the topic of
        the config. Raises ValueError with the column's name if a column is missing or has no Connect type.
        """
        struct = frame.schema if declared_schema is None else declared_schema
        fields_by_name = {field.name: field for field in struct.fields}
        reserved_names = [*self.key_columns, *filter(None, [self.topic_column, self.value_column])]
        if missing_names := [name for name in reserved_names if name not in fields_by_name]:
            raise ValueError(
                f"column {missing_names[0]} does not exist; existing columns are {', '.join(fields_by_name)}"
            )
        columns: list[Column] = []
        if self.topic_column is not None:
            columns.append(self._make_topic_column().alias("topic"))
        key_schema: Schema | None = None
        if self.key_columns:
            key, key_schema = _select_part(
                fields_by_name, self.key_columns, is_single=len(self.key_columns) == 1
            )
            columns.append(key.alias("key"))
        if self.value_column is not None:
            value, value_schema = _select_part(fields_by_name, [self.value_column], is_single=True)
        else:
            value, value_schema = _select_part(
                fields_by_name,
                [name for name in fields_by_name if name not in reserved_names],
                is_single=False,
            )
        columns.append(value.alias("value"))
        return SourceBatch(
            offsets=offsets,
            read=partial(_select, frame, columns),
            topic=topic or self.topic,
            key_schema=key_schema,
            value_schema=value_schema,
        )

    def _make_topic_column(self) -> Column:
        """Return the column with the topic; a record without a topic fails the job."""
        column = self.topic_column or ""
        topic = select_column(column).cast("string")
        error = F.raise_error(F.lit(f"the column {column} of a row is null, so the record has no topic"))
        return F.coalesce(topic, error.cast("string"))


def make_schemaless_batch(
    frame: DataFrame, offsets: Mapping[SourcePartition, Offset], topic: str | None
) -> SourceBatch:
    """Return a batch for a frame with a VARIANT column `value`."""
    return SourceBatch(offsets=offsets, read=lambda _: frame, topic=topic)


def _select_part(
    fields_by_name: Mapping[str, T.StructField], names: Sequence[str], *, is_single: bool
) -> tuple[Column, Schema]:
    """Return a column and its schema: the only named column if `is_single`, else a struct of the named columns."""
    if is_single:
        field = fields_by_name[names[0]]
        schema = to_schema(field.dataType, field.name, optional=field.nullable)
        return to_connect_column(select_column(field.name), field.dataType), schema
    if not names:
        raise ValueError("no column remains for the value; all columns belong to the key or the topic")
    fields = [fields_by_name[name] for name in names]
    columns = [to_connect_column(select_column(f.name), f.dataType).alias(f.name) for f in fields]
    return F.struct(*columns), make_struct_schema(T.StructType(fields))


def _select(frame: DataFrame, columns: Sequence[Column], _: object) -> DataFrame:
    return frame.select(*columns)
