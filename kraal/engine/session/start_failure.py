"""Why Spark did not start, in one line for the log and for the statuses of tasks that wait."""

from __future__ import annotations

import re
from typing import Final

from kraal.core.errors import KraalError
from kraal.core.secrets import secrets
from kraal.engine.failure_trace import one_line, root_cause
from kraal.jars.errors import JavaMissing
from kraal.jars.java import find_java

_EXCEPTION: Final = re.compile(r'^Exception in thread "[^"]*" (?P<text>\S.*)$', re.MULTILINE)
_ROUTINE: Final = re.compile(
    r"^(?:\s|$|WARNING:|Picked up |NOTE: |Using Spark's default |Setting default log level |To adjust logging "
    r"|\d\d/\d\d/\d\d [\d:]+ )"
)
"""Lines that `spark-submit` and Java also print when they start without an error."""
_MAX_LENGTH: Final = 500


def start_failure(error: BaseException) -> str:
    """Return why Spark did not start: Kraal's own message if there is one, else the innermost cause."""
    return one_line(str(error)) if isinstance(error, KraalError) else root_cause(error)


def java_problem() -> str | None:
    """Return the problem with this machine's Java, and its fix; None if Spark can run on it."""
    try:
        find_java()
    except JavaMissing as missing:
        return str(missing)
    return None


def launcher_failure(code: int, output: str, java: str | None) -> str:
    """Return why `spark-submit` ended with `code` before Spark ran.

    `output` is its output; `java` the result of `java_problem`, which explains everything else if there is one.
    """
    if java is not None:
        return java
    thrown = _EXCEPTION.search(output)
    lines = [thrown["text"]] if thrown else [line for line in output.splitlines() if not _ROUTINE.match(line)]
    printed = f": {secrets.scrub(lines[0].strip())[:_MAX_LENGTH]}" if lines else " and printed no error"
    return f"spark-submit ended with exit code {code}{printed}"
