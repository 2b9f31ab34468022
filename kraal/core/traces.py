"""Extracts root causes of failures from the traces in statuses: Kraal's, Python's and Java's. Pure."""

from __future__ import annotations

import re
from typing import Final

_JAVA_CAUSE: Final = "Caused by: "
_PYTHON: Final = "Traceback (most recent call last):"
_OURS: Final = "  in "
"""Prefix of the second line of Kraal's traces, whose first line is the root cause."""
_POSITION: Final = re.compile(r"(?:.{0,2000}\n) at \[Source: .{0,400}\bline: (\d+), column: (\d+)\]")
"""Position of a parse error, which Jackson writes to the following line."""
_DEFAULT_MAX_LENGTH: Final = 400
"""Default maximum length of a root cause, for tables and pages."""
MAX_LENGTH: Final = 1_000
"""Maximum length of a root cause; the rest of a line is ignored."""


def root_cause(trace: object, max_length: int = _DEFAULT_MAX_LENGTH) -> str:
    """Return the line of a trace with the root cause, truncated to `max_length`; empty if there is no trace."""
    if not isinstance(trace, str):
        return ""
    cause = _find_kraal_cause(trace) or last_cause(trace)
    if not cause:
        first, last = _first_line(trace.lstrip()), trace.rstrip().rpartition("\n")[2]
        cause = _first_line(last.strip()) if first == _PYTHON else first
    return cause if len(cause) <= max_length else cause[: max_length - 1] + "…"


def last_cause(trace: str) -> str:
    """Return the last `Caused by:` of a Java trace, with the position of a parse error; empty if there is none."""
    end = len(trace)
    while (
        at := trace.rfind(_JAVA_CAUSE, 0, end)
    ) >= 0:  # from the end, because a list can have thousands of traces
        end = trace.rfind("\n", 0, at) + 1
        line = _first_line(trace[end : at + len(_JAVA_CAUSE) + MAX_LENGTH].lstrip())
        if line.startswith(_JAVA_CAUSE):
            position = _POSITION.match(trace, at)
            cause_text = line.removeprefix(_JAVA_CAUSE)
            return (
                cause_text if position is None else f"{cause_text} (line {position[1]}, column {position[2]})"
            )
    return ""


def _find_kraal_cause(trace: str) -> str:
    """Return the first line of one of Kraal's traces; empty for other traces."""
    end = trace.find("\n")
    return _first_line(trace) if trace.startswith(_OURS, end + 1) else ""


def _first_line(text: str) -> str:
    """Return the first line of a text, up to the maximum length."""
    return next(iter(text[:MAX_LENGTH].splitlines()), "").strip()
