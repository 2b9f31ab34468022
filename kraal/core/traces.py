"""Root causes of failures, from the traces in statuses: Kraal's, Python's and Java's. Pure."""

from __future__ import annotations

import re
from typing import Final

_JAVA_CAUSE: Final = "Caused by: "
_PYTHON: Final = "Traceback (most recent call last):"
_OURS: Final = "  in "
"""Start of the second line of a trace that Kraal wrote; its first line is the root cause."""
_POSITION: Final = re.compile(r"(?:.{0,2000}\n) at \[Source: .{0,400}\bline: (\d+), column: (\d+)\]")
"""Position of a parse error, which Jackson writes into the following line."""
_SHORT: Final = 400
"""Default maximum length of a root cause, for tables and pages."""
MAX_LENGTH: Final = 1_000
"""Maximum length of a line that is looked at, and of a root cause."""


def root_cause(trace: object, longest: int = _SHORT) -> str:
    """Return the line of a trace that names the root cause, shortened to `longest`; empty without a trace."""
    if not isinstance(trace, str):
        return ""
    cause = _own_cause(trace) or last_cause(trace)
    if not cause:
        first, last = _line(trace.lstrip()), trace.rstrip().rpartition("\n")[2]
        cause = _line(last.strip()) if first == _PYTHON else first
    return cause if len(cause) <= longest else cause[: longest - 1] + "…"


def last_cause(trace: str) -> str:
    """Return the last `Caused by:` of a trace in Java's form, with a parser's position in a text; empty without one."""
    end = len(trace)
    while (at := trace.rfind(_JAVA_CAUSE, 0, end)) >= 0:  # from the end: a list has thousands of traces
        end = trace.rfind("\n", 0, at) + 1
        line = _line(trace[end : at + len(_JAVA_CAUSE) + MAX_LENGTH].lstrip())
        if line.startswith(_JAVA_CAUSE):
            place = _POSITION.match(trace, at)
            cause_text = line.removeprefix(_JAVA_CAUSE)
            return cause_text if place is None else f"{cause_text} (line {place[1]}, column {place[2]})"
    return ""


def _own_cause(trace: str) -> str:
    """Return the first line of a trace of Kraal's; empty if it is another's."""
    end = trace.find("\n")
    return _line(trace) if trace.startswith(_OURS, end + 1) else ""


def _line(text: str) -> str:
    """Return the beginning of a text, to the end of its first line at most."""
    return next(iter(text[:MAX_LENGTH].splitlines()), "").strip()
