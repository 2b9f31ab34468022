"""The way of a tail that reaches the plugin without Spark: for plugins that take tables, in milliseconds.

Keys and values must be the bytes or the UTF-8 text that Kafka has, so that the table holds what the column form of the
converters would give. Records that pass one by one reach such a plugin in the same form (`transformed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.engine.columns.sink import find_format
from kraal.engine.sink.ways import GetSpark, Put, ReadBatch
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import ColumnFormat, Schema, SinkTask
from kraal.plugins.model.capabilities import declares
from kraal.plugins.model.schema import OPTIONAL_BYTES, OPTIONAL_STRING

if TYPE_CHECKING:
    import pyarrow as pa

_SCHEMAS: Final = {ColumnFormat.TEXT: OPTIONAL_STRING, ColumnFormat.BYTES: OPTIONAL_BYTES}
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "headers", "key", "value")
"""The columns of a sink's table, as of its frame."""


@dataclass(frozen=True, slots=True)
class Direct:
    """Passes a tail unchanged. Implements `SinkWay`."""

    key: Schema
    value: Schema

    @staticmethod
    def of(converters: Converters) -> Direct | None:
        """Return the way if the converters read keys and values unchanged."""
        key, value = (
            None if (column_format := find_format(each)) is None else _SCHEMAS.get(column_format)
            for each in (converters.key, converters.value)
        )
        return None if key is None or value is None else Direct(key, value)

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> None:
        """Have the plugin write the table."""
        del spark
        assert batch.table is not None  # noqa: S101 - chosen for tails only
        table = batch.table.select(list(COLUMNS))
        for name, schema in (("key", self.key), ("value", self.value)):
            if schema is OPTIONAL_STRING:
                table = as_text(table, name)
        put(None, self.key, self.value, records=batch.records, table=table)


def takes_tables(task: SinkTask) -> bool:
    """Whether a plugin takes tables: it declares so, and no subclass overrides the `write` of that declaration."""
    return task.takes_tables and ("takes_tables" in vars(task) or declares(task, "takes_tables", "write"))


def takes_passed_tables(task: SinkTask) -> bool:
    """Whether a plugin takes tables of records that passed one by one: strings, as Java prints the values."""
    return takes_tables(task) and task.values != "json"


def as_text(table: pa.Table, name: str) -> pa.Table:
    """Return the table with a binary column as strings; invalid UTF-8 stays, as in Spark."""
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

    chunks = [chunk.view(pa.string()) for chunk in table[name].chunks]
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.chunked_array(chunks, pa.string()))
