"""The write path that passes a tail to the plugin without Spark. This takes milliseconds.

This path requires a plugin that accepts tables, and converters that return the bytes of a key or value unchanged, or as
UTF-8 text, or envelopes and a plugin that expects them (`envelopes`).
Records that are processed one by one are passed to such a plugin in the same form (`transformed`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.engine.columns.sink import find_format
from kraal.engine.sink.write_paths import GetSpark, Put, ReadBatch
from kraal.engine.task_plugins import Converters
from kraal.plugins.api import ColumnFormat, Schema, SinkTask
from kraal.plugins.model.capabilities import declares
from kraal.plugins.model.schema import OPTIONAL_BYTES, OPTIONAL_STRING

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.plugins.api import SinkValues

_SCHEMAS: Final = {ColumnFormat.TEXT: OPTIONAL_STRING, ColumnFormat.BYTES: OPTIONAL_BYTES}
COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "headers", "key", "value")
"""The columns of a sink's table, the same as those of a sink's DataFrame."""


@dataclass(frozen=True, slots=True)
class DirectWriter:
    """Passes a tail to the plugin unchanged. Implements `SinkWriter`."""

    key: Schema | None
    value: Schema | None
    values: SinkValues | None = None
    """`SinkTask.values` if the texts are envelopes; None if the converters return bytes or text."""

    @staticmethod
    def of(converters: Converters) -> DirectWriter | None:
        """Return a writer if the converters do not change keys and values, otherwise None."""
        key, value = (
            None if (column_format := find_format(converter)) is None else _SCHEMAS.get(column_format)
            for converter in (converters.key, converters.value)
        )
        return None if key is None or value is None else DirectWriter(key, value)

    def write(self, batch: ReadBatch, spark: GetSpark, put: Put) -> None:
        """Write the table through the plugin."""
        del spark
        assert batch.table is not None  # noqa: S101 - chosen for tails only
        table = batch.table.select(list(COLUMNS))
        for name, schema in (("key", self.key), ("value", self.value)):
            if schema is OPTIONAL_STRING or self.values is not None:
                table = as_text(table, name)
        put(None, self.key, self.value, values=self.values, records=batch.records, table=table)


def takes_tables(task: SinkTask) -> bool:
    """Return whether a plugin declares `takes_tables`, and no subclass of the declaring class overrides `write`."""
    return task.takes_tables and ("takes_tables" in vars(task) or declares(task, "takes_tables", "write"))


def takes_converted_tables(task: SinkTask) -> bool:
    """Return whether a plugin accepts tables of records that were processed one by one, as text."""
    return takes_tables(task) and task.values != "json"


def as_text(table: pa.Table, name: str) -> pa.Table:
    """Return the table with a binary column as strings; invalid UTF-8 is unchanged, as in Spark."""
    import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

    chunks = [chunk.view(pa.string()) for chunk in table[name].chunks]
    index = table.column_names.index(name)
    return table.set_column(index, name, pa.chunked_array(chunks, pa.string()))
