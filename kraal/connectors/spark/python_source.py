"""A source that drives the stream reader of a Python Data Source without a streaming query.

The reader implements Spark's interface `pyspark.sql.datasource.DataSourceStreamReader` (4.2.0). `latestOffset` and
`partitions` are called in the worker, on a job thread. `read` is called in Spark's Python processes, in one Spark task
per partition. The stored offset is the reader's own JSON: `{"datasource": "package.module:Class"} -> {"offset": "…"}`.
A `SimpleDataSourceStreamReader` is read in the worker because its data is small.
"""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812 - Spark's own convention

from kraal.connectors.frames.columns import Layout
from kraal.connectors.frames.schema import parse_struct
from kraal.plugins.api import Offset, SourceBatch, SourcePartition
from kraal.plugins.importing import IMPORT_LOCK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource

_MAX_ROWS: Final = 4096
"""Maximum number of rows in an Arrow batch."""


def load_data_source_class(name: str) -> type[DataSource]:
    """Import `package.module:Class`. Raises ValueError if this fails, or if the class is not a Python Data Source."""
    from pyspark.sql.datasource import DataSource  # noqa: PLC0415 - not in Spark's Python processes

    module, _, attribute = name.partition(":")
    try:
        with IMPORT_LOCK:
            cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as exc:
        raise ValueError(f"the Python Data Source {name} cannot be imported: {exc}") from exc
    if not (isinstance(cls, type) and issubclass(cls, DataSource)):
        raise ValueError(
            f"{name} is not a Python Data Source: it is not a subclass of pyspark.sql.datasource.DataSource"
        )
    return cls


class PythonReader:
    """Drives the stream reader of one Python Data Source."""

    def __init__(
        self,
        parsed: Mapping[str, Any],
        options: Mapping[str, str],
        share: tuple[int, int],
        offsets: Mapping[SourcePartition, Offset],
    ) -> None:
        del share  # the reader's own partitions provide the parallelism
        self._name = str(parsed["spark.python.datasource"])
        self._source = load_data_source_class(self._name)(dict(options))
        self._ddl: str | None = parsed["spark.schema"]
        self._layout = Layout.of(parsed)
        self._partition = SourcePartition.of({"datasource": self._name})
        self._reader: Any = None
        self._schema = T.StructType()
        self._start = self._parse_stored_offset(offsets)
        self._offset_to_commit: Any = None
        self.next_position: Any = None

    def may_have_more(self) -> bool:
        """Return True, since only the reader can detect new rows."""
        return True

    def advance(self) -> None:
        """Advance past the last batch. Must not be called before the batch is in Kafka."""
        self._start = self._offset_to_commit = self.next_position
        self.next_position = None

    def discover(self, spark: SparkSession) -> SourceBatch | None:
        """Return the rows up to the reader's latest offset; None if there are no new rows."""
        self.next_position = None
        if self._reader is None:
            self._open_reader()
        if self._offset_to_commit is not None:
            self._reader.commit(self._offset_to_commit)
            self._offset_to_commit = None
        if self._start is None:
            self._start = self._reader.initialOffset()
        is_simple = not hasattr(self._reader, "latestOffset")
        rows, end = self._reader.read(self._start) if is_simple else ((), self._read_latest_offset())
        if end == self._start:
            return None
        offsets: dict[SourcePartition, Offset] = {self._partition: {"offset": json.dumps(end)}}
        frame = self._make_rows_frame(spark, rows) if is_simple else self._make_frame(spark, end)
        batch = self._layout.make_batch(frame, offsets)
        self.next_position = end
        return batch

    def read_range(
        self,
        spark: SparkSession,
        starts: Mapping[SourcePartition, Offset],
        ends: Mapping[SourcePartition, Offset] | None,
    ) -> SourceBatch | None:
        """See `SourceTask.read_range`. Requests no commit of the reader."""
        if self._reader is None:
            self._open_reader()
        self._start = self._parse_stored_offset(starts)
        if ends is None:
            return self.discover(spark)
        end = self._parse_stored_offset(ends)
        if self._start is None:
            self._start = self._reader.initialOffset()
        if end is None or end == self._start:
            return None
        if hasattr(self._reader, "latestOffset"):
            frame = self._make_frame(spark, end)
        else:
            frame = self._make_rows_frame(spark, self._reader.readBetweenOffsets(self._start, end))
        return self._layout.make_batch(frame, {self._partition: {"offset": json.dumps(end)}})

    def close(self) -> None:
        """Stop and release the reader."""
        if self._reader is not None and hasattr(self._reader, "stop"):
            self._reader.stop()
        self._reader = None

    def _parse_stored_offset(self, offsets: Mapping[SourcePartition, Offset]) -> Any:
        text = (offsets.get(self._partition) or {}).get("offset")
        try:
            return None if text is None else json.loads(str(text))
        except ValueError as exc:
            raise ValueError(f"the stored offset of {self._name} is not valid JSON: {text}") from exc

    def _open_reader(self) -> None:
        from pyspark.errors import PySparkNotImplementedError  # noqa: PLC0415 - not in Spark's Python processes

        schema: Any = self._ddl or self._source.schema()
        self._schema = parse_struct(schema) if isinstance(schema, str) else schema
        for make_reader in (self._source.streamReader, self._source.simpleStreamReader):
            try:
                self._reader = make_reader(self._schema)
            except (PySparkNotImplementedError, NotImplementedError):
                continue
            return
        raise ValueError(f"the Python Data Source {self._name} has no stream reader")

    def _read_latest_offset(self) -> Any:
        """Return the reader's latest offset. Before Spark 4.2, `latestOffset` had no parameters."""
        get_latest_offset = self._reader.latestOffset
        if not inspect.signature(get_latest_offset).parameters:
            return get_latest_offset()
        return get_latest_offset(self._start, self._reader.getDefaultReadLimit())

    def _make_frame(self, spark: SparkSession, end: Any) -> DataFrame:
        """Return the lazy frame of the rows between the last offset and `end`."""
        from kraal.engine.session.arrow import map_in_arrow  # noqa: PLC0415 - not in Spark's Python processes

        parts = list(self._reader.partitions(self._start, end))
        count = max(1, len(parts))
        indexes = spark.range(0, count, 1, count)
        read = partial(read_partitions, self._reader, parts, _to_arrow_schema(self._schema))
        return map_in_arrow(indexes, read, _format_ddl(self._schema))

    def _make_rows_frame(self, spark: SparkSession, rows: Iterable[Any]) -> DataFrame:
        batches = list(_to_arrow_batches(rows, _to_arrow_schema(self._schema)))
        return spark.createDataFrame(pa.Table.from_batches(batches, _to_arrow_schema(self._schema))).coalesce(
            1
        )


def read_partitions(
    reader: Any, parts: list[Any], schema: pa.Schema, indexes: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the partitions with these indexes; runs in Spark's Python processes."""
    for batch in indexes:
        for index in batch.column(0).to_pylist():
            if index < len(parts):
                yield from _to_arrow_batches(reader.read(parts[index]), schema)


def _to_arrow_batches(rows: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield rows as Arrow batches; existing Arrow batches are only cast to the schema."""
    source = iter(rows)
    for first in source:
        if isinstance(first, pa.RecordBatch):
            yield first.cast(schema)
            continue
        chunk = [first, *islice((row for row in source), _MAX_ROWS - 1)]
        columns = [
            pa.array([_to_arrow_value(row[index]) for row in chunk], field.type)
            for index, field in enumerate(schema)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _to_arrow_value(value: Any) -> Any:
    """Convert a value for Arrow: nested rows become dicts."""
    return value.asDict(recursive=True) if isinstance(value, T.Row) else value


def _to_arrow_schema(struct: T.StructType) -> pa.Schema:
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - not in Spark's Python processes

    return to_arrow_schema(T.StructType([T.StructField(f.name, f.dataType) for f in struct.fields]))


def _format_ddl(struct: T.StructType) -> str:
    return ", ".join(f"`{f.name.replace('`', '``')}` {f.dataType.simpleString()}" for f in struct.fields)
