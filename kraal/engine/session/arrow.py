"""`mapInArrow` without pandas: PySpark requires pandas, although `mapInArrow` does not use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """Return the result of `frame.mapInArrow(function, schema)`; `schema` is in DDL: `value string, n bigint`.

    The function need not consume all of its input: Spark still reuses the Python worker.

    Source: pyspark.sql.pandas.map_ops.PandasMapOpsMixin.mapInArrow (4.2.0), without its check for pandas.
    """
    from pyspark.sql import DataFrame as Frame  # noqa: PLC0415 - heavy; loaded after the start of Spark
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
    from pyspark.util import PythonEvalType  # noqa: PLC0415

    udf: Any = UserDefinedFunction(
        partial(_drain_input, function),
        returnType=schema,
        evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
        deterministic=True,
    )
    untyped_frame: Any = frame
    column = udf(*[frame[name] for name in frame.columns])
    return Frame(untyped_frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)  # noqa: SLF001, FBT003


def _drain_input(
    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Yield the function's output, then consume the rest of the input.

    Spark kills a Python worker that has input left. A new worker would take 0.3 s to start and import its modules.
    """
    yield from function(batches)
    for _ in batches:
        pass
