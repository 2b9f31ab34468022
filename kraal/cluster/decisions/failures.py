"""Failure classification: determines from the trace whether a restart may fix a failure. Pure.

The first line of a trace is the root cause, `Type: message`, with the name of a Python or a Java class. Unknown
failures are treated as transient; the restart budget limits restarts if they persist.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final


class Failure(Enum):
    """Expected effect of a restart."""

    TRANSIENT = auto()
    """The cause may have disappeared: a missing file, an unreachable broker."""
    RECORD = auto()
    """Caused by one record or by the code that processes it; the failure after a restart shows which."""
    PERMANENT = auto()
    """Persists until an operator changes a config, installs a package or grants a permission."""


_PERMANENT_EXCEPTIONS: Final = frozenset(
    {
        # configs
        "BadRequest", "BadRequestException", "ConfigException", "ConfigInvalid", "InvalidConfigurationException",
        "PatternTooSlow",
        # classes
        "ClassNotFoundException", "ImportError", "ModuleNotFoundError", "NoClassDefFoundError",
        "NoSuchMethodError", "NotImplementedError", "PluginMissing", "UnsupportedOperationException",
        # memory: the heap of a worker's Spark (`kraal.engine.session.spark_heap_exhaustion`)
        "HeapExhausted",
        # permissions, including those of files
        "AccessDeniedException", "PermissionError",
    }
)  # fmt: skip
_SECURITY_EXCEPTION: Final = re.compile("Authori[sz]ation|Authentication")
"""Matches class names such as TopicAuthorizationException and SaslAuthenticationFailedError."""
_SECURITY_MESSAGE: Final = re.compile(
    r"(?:authori[sz]ation|authentication)[ _]failed|not authori[sz]ed|access denied", re.IGNORECASE
)
"""Matches messages of librdkafka and error codes of Kafka."""
_TOO_MANY_TASKS: Final = re.compile(
    r"The connector .* has generated \d+ tasks, which is greater than ", re.DOTALL
)

_RECORD_EXCEPTIONS: Final = frozenset(
    {
        "DataException", "LineTooLongError", "RecordTooLargeException", "SchemaException",
        "SerializationException", "UnicodeDecodeError",
    }
)  # fmt: skip
_CONVERSION_FAILED: Final = re.compile(
    r"The (?:key|value) of \S+-\d+@\d+ cannot be converted|: record \S+-\d+@\d+ failed at \w+_CONVERTER: "
)
_RECORD_POSITION: Final = re.compile(r": record \S+-\d+@\d+ failed at ")
"""Position of a sink's record; removed because the topic name may contain any words."""

_EXCEPTION_CLASS: Final = re.compile(r"(?:[A-Za-z_$][\w$]*\.)*(?P<name>[A-Za-z_$][\w$]*)(?::|$)")


def first_line(trace: str) -> str:
    """Return the first line of a trace, its root cause."""
    return trace.partition("\n")[0]


def classify(trace: str) -> Failure:
    """Return the expected effect of a restart after a failure with this trace."""
    line = first_line(trace)
    exception = _EXCEPTION_CLASS.match(line)
    name = "" if exception is None else exception["name"]
    message = _RECORD_POSITION.sub(": ", line, count=1)
    if (
        name in _PERMANENT_EXCEPTIONS
        or _SECURITY_EXCEPTION.search(name)
        or _SECURITY_MESSAGE.search(message)
        or _TOO_MANY_TASKS.match(line)
    ):
        return Failure.PERMANENT
    if name in _RECORD_EXCEPTIONS or _CONVERSION_FAILED.search(line):
        return Failure.RECORD
    return Failure.TRANSIENT
