"""Spark's column functions as `F`, imported on first use, because workers import this package before Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["F", "select_column"]

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
else:

    class _Functions:
        def __getattr__(self, name: str) -> Any:
            from pyspark.sql import functions  # noqa: PLC0415 - see above

            function = getattr(functions, name)
            setattr(self, name, function)  # later uses do not call __getattr__
            return function

    F = _Functions()


def select_column(name: str) -> Column:
    """Return the column with exactly this name, which may contain special characters."""
    return F.col("`" + name.replace("`", "``") + "`")
