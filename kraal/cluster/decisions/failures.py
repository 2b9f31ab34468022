"""Failure classification: whether a restart may cure a failure, judged by its trace. Pure.

The first line of a trace is the root cause, `Type: message`, with the name of a Python or a Java class. Unknown
failures count as temporary; the restart budget ends those that persist.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final


class Failure(Enum):
    """Expected effect of a restart."""

    PASSING = auto()
    """The cause may have disappeared: a missing file, an unreachable broker."""
    RECORD = auto()
    """Caused by one record. The record itself or its processing may be at fault: a restart shows which."""
    LASTING = auto()
    """Persists until an operator changes a config, installs something, or grants a permission."""


_LASTING: Final = frozenset(
    {
        # configs
        "BadRequest", "BadRequestException", "ConfigException", "ConfigInvalid", "InvalidConfigurationException",
        "PatternTooSlow",
        # classes
        "ClassNotFoundException", "ImportError", "ModuleNotFoundError", "NoClassDefFoundError",
        "NoSuchMethodError", "NotImplementedError", "PluginMissing", "UnsupportedOperationException",
        # memory: the heap of a worker's Spark (`kraal.engine.session.heap_exhaustion`)
        "HeapExhausted",
        # permissions, including those of files
        "AccessDeniedException", "PermissionError",
    }
)  # fmt: skip
_REFUSAL: Final = re.compile("Authori[sz]ation|Authentication")
"""Part of class names: TopicAuthorizationException, SaslAuthenticationFailedError."""
_REFUSED: Final = re.compile(
    r"(?:authori[sz]ation|authentication)[ _]failed|not authori[sz]ed|access denied", re.IGNORECASE
)
"""In librdkafka's messages and Kafka's error codes."""
_TOO_MANY_TASKS: Final = re.compile(
    r"The connector .* has generated \d+ tasks, which is greater than ", re.DOTALL
)

_OF_RECORDS: Final = frozenset(
    {
        "DataException", "LineTooLongError", "RecordTooLargeException", "SchemaException",
        "SerializationException", "UnicodeDecodeError",
    }
)  # fmt: skip
_UNREADABLE: Final = re.compile(
    r"The (?:key|value) of \S+-\d+@\d+ cannot be converted|: record \S+-\d+@\d+ failed at \w+_CONVERTER: "
)
_PLACE: Final = re.compile(r": record \S+-\d+@\d+ failed at ")
"""Place of a sink's record, whose topic may have any name."""

_TYPE: Final = re.compile(r"(?:[A-Za-z_$][\w$]*\.)*(?P<name>[A-Za-z_$][\w$]*)(?::|$)")


def first_line(trace: str) -> str:
    """Return the first line of a trace, its root cause."""
    return trace.partition("\n")[0]


def classify(trace: str) -> Failure:
    """Return the expected effect of a restart after a failure with this trace."""
    line = first_line(trace)
    found = _TYPE.match(line)
    name = "" if found is None else found["name"]
    said = _PLACE.sub(": ", line, count=1)
    if name in _LASTING or _REFUSAL.search(name) or _REFUSED.search(said) or _TOO_MANY_TASKS.match(line):
        return Failure.LASTING
    if name in _OF_RECORDS or _UNREADABLE.search(line):
        return Failure.RECORD
    return Failure.PASSING
