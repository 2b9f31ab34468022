"""Which failures a restart may cure, by the traces that statuses have. Pure.

The first line of a trace is the root cause, `Type: message`, with the name of a Python or a Java class. What is not
known here may pass: the budget of restarts ends what does not.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final


class Failure(Enum):
    """What to expect of a restart."""

    PASSING = auto()
    """It may be gone by then: a file that is missing, a broker that is away."""
    RECORD = auto()
    """It is one record's. Whoever wrote it may have been at fault, or what looked at it: a restart shows."""
    LASTING = auto()
    """It stays until somebody changes a config, installs something, or gives a permission."""


_LASTING: Final = frozenset(
    {
        # configs
        "BadRequest", "BadRequestException", "ConfigException", "ConfigInvalid", "InvalidConfigurationException",
        # classes
        "ClassNotFoundException", "ImportError", "ModuleNotFoundError", "NoClassDefFoundError",
        "NoSuchMethodError", "NotImplementedError", "UnsupportedOperationException",
        # memory: the heap of a worker's Spark (`kraal.spark.heap`)
        "HeapExhausted",
        # permissions, of files too
        "AccessDeniedException", "PermissionError",
    }
)  # fmt: skip
_REFUSAL: Final = re.compile("Authori[sz]ation|Authentication")
"""In the name of a class: TopicAuthorizationException, SaslAuthenticationFailedError."""
_REFUSED: Final = re.compile(
    r"(?:authori[sz]ation|authentication)[ _]failed|not authori[sz]ed|access denied", re.IGNORECASE
)
"""In librdkafka's sentences, and in Kafka's codes."""
_TOO_MANY_TASKS: Final = re.compile(
    r"The connector .* has generated \d+ tasks, which is greater than ", re.DOTALL
)

_OF_RECORDS: Final = frozenset(
    {
        "DataException", "LineTooLongError", "RecordTooLargeException", "SchemaException",
        "SerializationException", "UnicodeDecodeError",
    }
)  # fmt: skip
_UNREADABLE: Final = re.compile(r"The (?:key|value) of \S+-\d+@\d+ cannot be converted")

_TYPE: Final = re.compile(r"(?:[A-Za-z_$][\w$]*\.)*(?P<name>[A-Za-z_$][\w$]*)(?::|$)")


def first_line(trace: str) -> str:
    """Return the root cause, which a trace begins with."""
    return trace.partition("\n")[0]


def judge(trace: str) -> Failure:
    """Say what to expect of a restart after a failure with this trace."""
    line = first_line(trace)
    found = _TYPE.match(line)
    name = "" if found is None else found["name"]
    if name in _LASTING or _REFUSAL.search(name) or _REFUSED.search(line) or _TOO_MANY_TASKS.match(line):
        return Failure.LASTING
    if name in _OF_RECORDS or _UNREADABLE.search(line):
        return Failure.RECORD
    return Failure.PASSING
