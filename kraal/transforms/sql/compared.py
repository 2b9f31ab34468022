"""Spark's comparison: NaN equals itself and exceeds all numbers, 0 equals -0, strings compare by bytes."""

from __future__ import annotations

from typing import Any


def compare(left: Any, right: Any) -> int:
    """Return a number below, equal to or above 0, as `left` compares to `right`; both of one family or numbers."""
    if isinstance(left, float) or isinstance(right, float):
        left, right = float(left), float(right)
        if left != left or right != right:  # noqa: PLR0124 - only NaN differs from itself
            return int(left != left) - int(right != right)  # noqa: PLR0124 - the same
    return int(left > right) - int(left < right)
