"""`DataFrame.mapInArrow` without pandas.

PySpark 4.2 asks for pandas there, although neither the driver nor the Python process uses it; importing it would
cost every Python process half a second and 60 MB. So this makes the same call with the checks left out; PySpark's
version is pinned because of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa


def map_in_arrow(
    frame: DataFrame, function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: str
) -> DataFrame:
    """Return the frame of what `function` yields for each partition of `frame`; `schema` is DDL.

    `function` must be found by name in Spark's Python processes, or be pickled whole.
    """
    udf = UserDefinedFunction(function, returnType=schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column: Any = udf(*[frame[name] for name in frame.columns])
    java: Any = frame._jdf  # noqa: SLF001 - as PySpark's own mapInArrow does
    return DataFrame(java.mapInArrow(column._jc, False, None), frame.sparkSession)  # noqa: FBT003, SLF001
