"""The headers of the messages that confluent-kafka consumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import methodcaller
from typing import Any, Final

Headers = Sequence[tuple[str, bytes | None]]

_headers: Final[Callable[[Any], Headers | None]] = methodcaller("headers")
"""For a name that is not UTF-8, `Message.headers` returns a list with a hole and leaves UnicodeDecodeError set. CPython
3.11 raises SystemError for it, except from a call in Python code that it has specialised (PEP 659); a `methodcaller` is
always checked.
"""


def headers_of(message: Any) -> Headers | None:
    """Return the headers of a message; None if a name is not valid UTF-8. Call once: they can be taken once."""
    try:
        return _headers(message) or ()
    except (UnicodeDecodeError, SystemError):  # the latter with the former as its cause
        return None
