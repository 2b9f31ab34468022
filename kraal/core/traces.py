"""Root causes of failures, from the traces in statuses: Kraal's, Python's and Java's. Pure."""

from __future__ import annotations

from typing import Final

_JAVA_CAUSE: Final = "Caused by: "
_PYTHON: Final = "Traceback (most recent call last):"
_LONGEST: Final = 400
_MOST: Final = 1_000
"""Characters of a line that are looked at."""


def root_cause(trace: object) -> str:
    """Return the line of a trace that names the root cause, shortened; empty without a trace."""
    if not isinstance(trace, str):
        return ""
    found = _last_cause(trace)
    if not found:
        first, last = _line(trace.lstrip()), trace.rstrip().rpartition("\n")[2]
        found = _line(last.strip()) if first == _PYTHON else first
    return found if len(found) <= _LONGEST else found[: _LONGEST - 1] + "…"


def _last_cause(trace: str) -> str:
    """Return the last cause of a Java trace, searched from the end: a list has thousands of traces."""
    end = len(trace)
    while (at := trace.rfind(_JAVA_CAUSE, 0, end)) >= 0:
        end = trace.rfind("\n", 0, at) + 1
        line = _line(trace[end : at + len(_JAVA_CAUSE) + _MOST].lstrip())
        if line.startswith(_JAVA_CAUSE):
            return line.removeprefix(_JAVA_CAUSE)
    return ""


def _line(text: str) -> str:
    """Return the beginning of a text, to the end of its first line at most."""
    return next(iter(text[:_MOST].splitlines()), "").strip()
