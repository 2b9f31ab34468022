"""Explains in one line why Spark failed to start, for the log and for the statuses of waiting tasks."""

from __future__ import annotations

import re
from typing import Final

from kraal.core.errors import KraalError
from kraal.core.secrets import secrets
from kraal.engine.failure_trace import one_line, root_cause
from kraal.jars.errors import JavaMissing
from kraal.jars.java import find_java

_EXCEPTION: Final = re.compile(r'^Exception in thread "[^"]*" (?P<text>\S.*)$', re.MULTILINE)
_ROUTINE_LINE: Final = re.compile(
    r"^(?:\s|$|WARNING:|Picked up |NOTE: |Using Spark's default |Setting default log level |To adjust logging "
    r"|\d\d/\d\d/\d\d [\d:]+ )"
)
"""Matches lines that `spark-submit` and Java also print on a normal start."""
_MAX_LENGTH: Final = 500


def start_failure(error: BaseException) -> str:
    """Return why Spark failed to start: the message of a KraalError, else the innermost cause."""
    return one_line(str(error)) if isinstance(error, KraalError) else root_cause(error)


def find_java_problem() -> str | None:
    """Return the problem with this machine's Java and its solution; None if Spark can use this Java."""
    try:
        find_java()
    except JavaMissing as error:
        return str(error)
    return None


def describe_launcher_failure(code: int, output: str, java: str | None) -> str:
    """Return why `spark-submit` exited with `code` before Spark started.

    Args:
        code: the exit code.
        output: the output of `spark-submit`.
        java: the result of `find_java_problem`; a problem with Java is reported as the cause.
    """
    if java is not None:
        return java
    exception = _EXCEPTION.search(output)
    lines = (
        [exception["text"]]
        if exception
        else [line for line in output.splitlines() if not _ROUTINE_LINE.match(line)]
    )
    details = f": {secrets.scrub(lines[0].strip())[:_MAX_LENGTH]}" if lines else " and printed no error"
    return f"spark-submit ended with exit code {code}{details}"
