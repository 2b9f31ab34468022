"""`mapInArrow` without pandas, which PySpark asks for although this path never uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """Return what `frame.mapInArrow(function, schema)` returns. `schema` is DDL: `value string, n bigint`.

    Source: pyspark.sql.pandas.map_ops.PandasMapOpsMixin.mapInArrow (4.2.0), less its check for pandas.
    """
    from pyspark.sql import DataFrame as Frame  # noqa: PLC0415 - loaded when Spark is
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
    from pyspark.util import PythonEvalType  # noqa: PLC0415

    udf: Any = UserDefinedFunction(
        function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF, deterministic=True
    )
    inner: Any = frame
    column = udf(*[frame[name] for name in frame.columns])
    return Frame(inner._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)  # noqa: SLF001, FBT003
