"""Root causes of failures, from the traces in statuses: Kraal's, Python's and Java's. Pure."""

from __future__ import annotations

from typing import Final

_JAVA_CAUSE: Final = "Caused by: "
_PYTHON: Final = "Traceback (most recent call last):"
_LONGEST: Final = 400


def root_cause(trace: object) -> str:
    """Return the line of a trace that names the root cause, shortened; empty without a trace."""
    if not isinstance(trace, str):
        return ""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    if not lines:
        return ""
    causes = [line.removeprefix(_JAVA_CAUSE) for line in lines if line.startswith(_JAVA_CAUSE)]
    if causes:
        found = causes[-1]
    elif lines[0] == _PYTHON:
        found = lines[-1]
    else:
        found = lines[0]
    return found if len(found) <= _LONGEST else found[: _LONGEST - 1] + "…"
