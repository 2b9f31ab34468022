"""Spark's column functions as `F`, imported on first use, because workers import this package before Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["F"]

if TYPE_CHECKING:
    from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
else:

    class _Functions:
        def __getattr__(self, name: str) -> Any:
            from pyspark.sql import functions  # noqa: PLC0415 - see above

            function = getattr(functions, name)
            setattr(self, name, function)  # later uses do not call __getattr__
            return function

    F = _Functions()
