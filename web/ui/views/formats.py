"""Formatting of times, numbers and durations."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

UNKNOWN: Final = "\N{EN DASH}"
"""Placeholder for an unknown number."""
_MAX_MS: Final = 253_402_300_799_000
"""End of the year 9999."""
_UNITS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_MIN_ABBREVIATED_NUMBER: Final = 10_000
_DURATIONS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))


def iso(ms: float) -> str:
    """Format milliseconds since the epoch for the attribute `datetime`."""
    return _time(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc(ms: float) -> str:
    """Format milliseconds since the epoch in UTC, for browsers without JavaScript."""
    return _time(ms).strftime("%Y-%m-%d %H:%M:%S UTC")


def _time(ms: float) -> datetime:
    return datetime.fromtimestamp(min(max(ms, 0), _MAX_MS) / 1000, UTC)


def number(value: float | None) -> str:
    """Format a count or a rate: `0`, `0.25`, `7.5`, `9999`, `12.3k`, `1.5M`."""
    if value is None:
        return UNKNOWN
    if abs(value) < _MIN_ABBREVIATED_NUMBER:
        digits = 0 if value == int(value) or abs(value) >= 100 else 1 if abs(value) >= 1 else 2  # noqa: PLR2004
        return f"{value:.{digits}f}"
    size, unit = next((size, unit) for size, unit in _UNITS if abs(value) >= size)
    return f"{value / size:.1f}".removesuffix(".0") + unit


def duration(ms: float | None) -> str:
    """Format a duration: `850 ms`, `1.5 s`, `40 s`, `4 min`, `3 h`, `2 d`."""
    if ms is None:
        return UNKNOWN
    for size, unit in _DURATIONS:
        if ms >= 2 * size:
            return f"{ms / size:.0f} {unit}"
    if ms < 1000:  # noqa: PLR2004
        return f"{ms:.0f} ms"
    return f"{ms / 1000:.1f}".removesuffix(".0") + " s" if ms < 10_000 else f"{ms / 1000:.0f} s"  # noqa: PLR2004
