"""Converts the rows of small batches to the form that a lane sends: bytes, with a batch number."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kraal.core.message_headers import find_nul, nul_error
from kraal.plugins.api import ColumnFormat, Converter, Schema
from kraal.plugins.model.capabilities import declares
from kraal.plugins.model.records import DataException
from kraal.plugins.model.schema import Type

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.engine.kafka_io.coalescing import PendingBatch
    from kraal.engine.kafka_io.writer import WritePlan

MAX_ROWS: Final = 1000
"""Maximum number of records of a batch that goes through a lane."""
MAX_BYTES: Final = 1 << 20
"""Maximum size of a batch that goes through a lane, in bytes."""
_REQUIRED_COLUMNS: Final = ("topic", "value")
_COLUMNS: Final = (*_REQUIRED_COLUMNS, "key", "headers", "partition", "timestamp")
_UNCONVERTED_COLUMNS: Final = frozenset({"topic", "headers", "partition"})
"""Columns that are never converted."""
_PLAIN_TYPES: Final = {
    ColumnFormat.TEXT: (Type.STRING, "string"),
    ColumnFormat.BYTES: (Type.BYTES, "binary"),
}
"""By format, the schema type and the type of columns whose bytes a converter writes unchanged."""


def is_plain(table: pa.Table, plan: WritePlan) -> bool:
    """Return whether the table's keys and values are the bytes to write, so that they need not be converted."""
    if plan.transforms is not None:
        return False
    if plan.converters is None:
        return True
    types = {field.name: str(field.type) for field in table.schema}
    return types.keys() <= _UNCONVERTED_COLUMNS | {"key", "value"} and all(
        _is_unconverted(converter, schema, types.get(name))
        for name, converter, schema in (
            ("key", plan.converters.key, plan.key_schema),
            ("value", plan.converters.value, plan.value_schema),
        )
    )


def _is_unconverted(converter: Converter, schema: Schema | None, column_type: str | None) -> bool:
    """Return whether a converter writes a column unchanged, including null; without a column, all values are null."""
    column_format = converter.column_format
    if not declares(converter, "column_format", "encode", "from_connect"):
        column_format = None  # a subclass may write another format
    plain_types = None if column_format is None else _PLAIN_TYPES.get(column_format)
    if plain_types is None or (column_type is not None and column_type != plain_types[1]):
        return False
    return (
        schema is None
        if column_type is None
        else schema is not None and (schema.type, schema.name) == (plain_types[0], None)
    )


def is_small(row_count: int, size: int) -> bool:
    """Return whether a batch of `row_count` records and `size` bytes is small enough for a lane."""
    return row_count <= MAX_ROWS and size <= MAX_BYTES


def write_stream(batches: Iterable[tuple[int, PendingBatch]]) -> bytes:
    """Serialize batches that need no conversion to one Arrow IPC stream, with the number of each row's batch."""
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

    value_batches: list[tuple[int, PendingBatch]] = []
    parts = []
    for number, batch in batches:
        if batch.topic is not None and batch.table.column_names == ["value"]:
            value_batches.append((number, batch))
        else:
            parts.append(_add_number(number, batch.with_topic()))
    if value_batches:
        parts.insert(0, _make_value_table(value_batches))
    table = pa.concat_tables(parts, promote_options="default")
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())


def _make_value_table(batches: Sequence[tuple[int, PendingBatch]]) -> pa.Table:
    """Return the rows of batches that contain only values and have a single topic each."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    numbers, topics, chunks = [], [], []
    for number, batch in batches:
        column = batch.table["value"]
        numbers += [number] * len(column)
        topics += [batch.topic] * len(column)
        chunks += [chunk.view(pa.binary()) for chunk in column.chunks]
    columns = [
        pa.array(numbers, pa.int64()),
        pa.array(topics, pa.string()),
        pa.chunked_array(chunks, pa.binary()),
    ]
    return pa.table(columns, names=["batch", "topic", "value"])


def _add_number(number: int, table: pa.Table) -> pa.Table:
    """Return a table with the number of its batch, and keys and values as binary columns."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    table = as_bytes(table)
    numbers = pa.repeat(pa.scalar(number, pa.int64()), table.num_rows)
    return table.add_column(0, pa.field("batch", pa.int64()), numbers)


def as_bytes(table: pa.Table) -> pa.Table:
    """Return a plain table with keys and values as binary columns."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    for index, name in enumerate(table.column_names):
        if name in {"key", "value"}:
            column = table[name]
            if pa.types.is_string(column.type):
                column = pa.chunked_array([chunk.view(pa.binary()) for chunk in column.chunks], pa.binary())
            else:  # binary, or untyped because all values are null
                column = column.cast(pa.binary())
            table = table.set_column(index, pa.field(name, pa.binary()), column)
    return table


def python_columns(part: pa.RecordBatch | pa.Table) -> dict[str, list[Any]]:
    """Return columns as lists for confluent-kafka. Omits optional columns whose values are all null.

    Raises DataException for a header name that librdkafka would truncate. If errors are tolerated, the record path has
    already skipped the records with these names.
    """
    columns: dict[str, list[Any]] = {}
    for name in _COLUMNS:
        index = part.schema.get_field_index(name)
        if index >= 0 and (name in _REQUIRED_COLUMNS or part.column(index).null_count < part.num_rows):
            columns[name] = part.column(index).to_pylist()
    if "headers" in columns:
        columns["headers"] = [
            [(header["key"], header["value"]) for header in headers] if headers else None
            for headers in columns["headers"]
        ]
        for row, pairs in enumerate(columns["headers"]):
            if pairs and (invalid_name := find_nul(name for name, _ in pairs)) is not None:
                topic = columns["topic"][row] if "topic" in columns else None
                raise DataException(nul_error(invalid_name, topic))
    return columns
