"""How Spark compares: NaN is itself and above all numbers, 0 and -0 are one, texts go by their bytes."""

from __future__ import annotations

from typing import Any


def compare(left: Any, right: Any) -> int:
    """Return less than, equal to or more than 0, as `left` is to `right`, both of one family or both numbers."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if left != left or right != right:  # noqa: PLR0124 - NaN alone is not itself
            return int(left != left) - int(right != right)  # noqa: PLR0124 - the same
    return int(left > right) - int(left < right)
