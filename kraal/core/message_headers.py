"""The headers of the messages that confluent-kafka consumes and produces.

It passes a name to librdkafka, and returns it, as a string that ends at the first NUL (U+0000). A producer can refuse
or replace such a name before. A consumer cannot notice that a name was cut: neither `Message.headers` nor librdkafka's
`rd_kafka_header_get_all` returns its length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import methodcaller
from typing import Any, Final

Headers = Sequence[tuple[str, bytes | None]]

_headers: Final[Callable[[Any], Headers | None]] = methodcaller("headers")
"""For a name that is not UTF-8, `Message.headers` returns a list with a hole and leaves UnicodeDecodeError set. CPython
3.11 raises SystemError for it, except from a call in Python code that it has specialised (PEP 659); a `methodcaller` is
always checked.
"""


def find_nul(names: Iterable[str]) -> str | None:
    """Return the first header name with a NUL, which confluent-kafka would cut; None if no name has one."""
    return next((name for name in names if "\0" in name), None)


def nul_refusal(name: str, topic: str | None) -> str:
    """Return the error message for a record of a topic with such a header name."""
    record = "a record" if topic is None else f"a record for the topic {topic}"
    return (
        f"The header name {name!r} of {record} contains NUL, which cannot be written with exactly-once support; "
        "use a name without it"
    )


def without_nul(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Return headers whose names have U+FFFD in place of NUL, so that confluent-kafka does not cut them."""
    return [(name.replace("\0", "\ufffd"), value) for name, value in headers]


def read_headers(message: Any) -> Headers | None:
    """Return the headers of a message; None if a name is not valid UTF-8. Call once: they can be taken once."""
    try:
        return _headers(message) or ()
    except (UnicodeDecodeError, SystemError):  # the latter with the former as its cause
        return None
