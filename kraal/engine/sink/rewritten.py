"""Rewrites the records of a batch one by one, so that the column form of their converters can read all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from kraal.engine.records.steps import slice_batches
from kraal.engine.session.arrow import map_in_arrow
from kraal.engine.sink.direct import COLUMNS
from kraal.plugins.api import Converter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_DDL: Final = (
    "topic string, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key:string,value:binary>>, key binary, value binary"
)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Replaces keys and values with the results of `Converter.for_columns`. Picklable."""

    key: Converter
    value: Converter

    @property
    def has_rewrites(self) -> bool:
        """Whether a converter rewrites records."""
        return any(
            type(converter).for_columns is not Converter.for_columns for converter in (self.key, self.value)
        )

    def table(self, table: pa.Table) -> pa.Table:
        """Return the rewritten records of a tail."""
        return cast("pa.Table", self._rewrite(table))

    def frame(self, raw: DataFrame) -> DataFrame:
        """Return the records of a backlog, which are rewritten in Spark's Python workers."""
        return map_in_arrow(raw.select(*COLUMNS), self, _DDL)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rewritten batches."""
        for part in slice_batches(batches):
            yield self._rewrite(part)

    def _rewrite(self, part: Any) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        for name, converter in (("key", self.key), ("value", self.value)):
            index = part.schema.get_field_index(name)
            data = [_rewrite_value(converter.for_columns, value) for value in part.column(index).to_pylist()]
            part = part.set_column(index, name, pa.array(data, pa.binary()))
        return part


def _rewrite_value(rewrite: Callable[[bytes], bytes], data: bytes | None) -> bytes | None:
    return None if data is None else rewrite(data)
