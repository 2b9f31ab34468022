"""The records of a batch, rewritten one by one so that the column form of their converters can read them all."""

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
    """Replaces keys and values with the results of `Converter.for_columns`. Can be pickled."""

    key: Converter
    value: Converter

    @property
    def changes(self) -> bool:
        """Whether a converter rewrites records at all."""
        return any(type(each).for_columns is not Converter.for_columns for each in (self.key, self.value))

    def table(self, table: pa.Table) -> pa.Table:
        """Return a tail, rewritten."""
        return cast("pa.Table", self._rewrite(table))

    def frame(self, raw: DataFrame) -> DataFrame:
        """Return a backlog, rewritten in Spark's Python processes."""
        return map_in_arrow(raw.select(*COLUMNS), self, _DDL)

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the batches, rewritten."""
        for part in slice_batches(batches):
            yield self._rewrite(part)

    def _rewrite(self, part: Any) -> Any:
        import pyarrow as pa  # noqa: PLC0415 - heavy; loaded with the first batch

        for name, converter in (("key", self.key), ("value", self.value)):
            at = part.schema.get_field_index(name)
            data = [_rewrite_value(converter.for_columns, each) for each in part.column(at).to_pylist()]
            part = part.set_column(at, name, pa.array(data, pa.binary()))
        return part


def _rewrite_value(rewrite: Callable[[bytes], bytes], data: bytes | None) -> bytes | None:
    return None if data is None else rewrite(data)
