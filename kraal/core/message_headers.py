"""Headers of the messages that confluent-kafka consumes and produces.

confluent-kafka truncates header names at the first NUL (U+0000), both when it produces and when it consumes. Producers
can reject or replace such names. Consumers cannot detect truncation: neither `Message.headers` nor librdkafka's
`rd_kafka_header_get_all` returns the length of a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Any, Final

Headers = Sequence[tuple[str, bytes | None]]

_headers: Final[Callable[[Any], Headers | None]] = methodcaller("headers")
"""For a name that is not UTF-8, `Message.headers` returns a list with a missing element and leaves UnicodeDecodeError
set. CPython 3.11 raises SystemError then, except for calls that the interpreter has specialized (PEP 659); calls of a
`methodcaller` are always checked.
"""


def find_nul(names: Iterable[str]) -> str | None:
    """Return the first header name that contains NUL, or None."""
    return next((name for name in names if "\0" in name), None)


def nul_error(name: str, topic: str | None) -> str:
    """Return the error message for a record whose header name contains NUL."""
    record = "a record" if topic is None else f"a record for the topic {topic}"
    return (
        f"The header name {name!r} of {record} contains NUL, which cannot be written with exactly-once support; "
        "use a name without NUL"
    )


def replace_nul(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Replace NUL in header names by U+FFFD, so that confluent-kafka does not truncate them."""
    return [(name.replace("\0", "\ufffd"), value) for name, value in headers]


def read_headers(message: Any) -> Headers | None:
    """Return the headers of a message; None if a name is not valid UTF-8. Must be called only once per message."""
    try:
        return _headers(message) or ()
    except (UnicodeDecodeError, SystemError):  # the SystemError has the UnicodeDecodeError as its cause
        return None
