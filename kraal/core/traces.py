"""Extraction of root causes from the traces in statuses, which come from Kraal, Python or Java. Pure."""

from __future__ import annotations

import re
from typing import Final

_JAVA_CAUSE: Final = "Caused by: "
_PYTHON_HEADER: Final = "Traceback (most recent call last):"
_KRAAL_LOCATION: Final = "  in "
"""Prefix of the second line of Kraal's traces, whose first line is the root cause."""
_POSITION: Final = re.compile(r"(?:.{0,2000}\n) at \[Source: .{0,400}\bline: (\d+), column: (\d+)\]")
"""Position of a parse error, which Jackson writes to the following line."""
_DEFAULT_MAX_LENGTH: Final = 400
"""Default maximum length of a root cause, for tables and pages."""
MAX_LENGTH: Final = 1_000
"""Maximum length of a root cause; the rest of a line is ignored."""


def root_cause(trace: object, max_length: int = _DEFAULT_MAX_LENGTH) -> str:
    """Return the line of a trace that contains the root cause, truncated to `max_length`; empty without a trace."""
    if not isinstance(trace, str):
        return ""
    cause = _find_kraal_cause(trace) or last_cause(trace)
    if not cause:
        first_line, last_line = _first_line(trace.lstrip()), trace.rstrip().rpartition("\n")[2]
        cause = _first_line(last_line.strip()) if first_line == _PYTHON_HEADER else first_line
    return cause if len(cause) <= max_length else cause[: max_length - 1] + "…"


def last_cause(trace: str) -> str:
    """Return the last cause in a Java trace, with the position if it is a parse error; empty without causes."""
    end = len(trace)
    # Search backwards, which is faster for long traces; a list may contain thousands of traces.
    while (start := trace.rfind(_JAVA_CAUSE, 0, end)) >= 0:
        end = trace.rfind("\n", 0, start) + 1
        line = _first_line(trace[end : start + len(_JAVA_CAUSE) + MAX_LENGTH].lstrip())
        if line.startswith(_JAVA_CAUSE):
            position = _POSITION.match(trace, start)
            cause_text = line.removeprefix(_JAVA_CAUSE)
            return (
                cause_text if position is None else f"{cause_text} (line {position[1]}, column {position[2]})"
            )
    return ""


def _find_kraal_cause(trace: str) -> str:
    """Return the first line of one of Kraal's traces; empty for other traces."""
    end = trace.find("\n")
    return _first_line(trace) if trace.startswith(_KRAAL_LOCATION, end + 1) else ""


def _first_line(text: str) -> str:
    """Return the first line of a text, up to the maximum length."""
    return next(iter(text[:MAX_LENGTH].splitlines()), "").strip()
