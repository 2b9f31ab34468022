"""Dead letters: their headers, and their text and JSON forms.

Source: DeadLetterQueueReporter.populateContextHeaders (Kafka 4.4.0); KIP-298.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from typing_extensions import override

from kraal.core.printable import one_line, printable
from kraal.core.traces import last_cause

PREFIX: Final = "__connect.errors."
"""Prefix of Connect's error headers."""

_ERROR_HEADERS: Final = (
    ("topic", "topic"),
    ("partition", "partition"),
    ("offset", "offset"),
    ("connector.name", "connector"),
    ("task.id", "task"),
    ("stage", "stage"),
    ("class.name", "class"),
    ("exception.class.name", "exception"),
    ("exception.message", "message"),
    ("exception.stacktrace", "stacktrace"),
)
"""Headers without prefix, and their names in JSON."""
_NUMBERS: Final = ("partition", "offset", "task")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """Record of a dead letter queue topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    """Timestamp of the failed record, in milliseconds since the epoch."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    truncated: Mapping[str, int] = field(default_factory=dict)
    """Sizes in bytes of the parts that `truncate` shortened: `key`, `value`, `headers`, `error`."""

    @property
    def place(self) -> str:
        """Topic, partition and offset of the letter."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def own_headers(self) -> list[tuple[str, bytes | None]]:
        """Headers of the original record."""
        return [(name, value) for name, value in self.headers if not name.startswith(PREFIX)]

    @property
    def facts(self) -> dict[str, str | int | None]:
        """Values of Connect's error headers by their names in JSON; empty without such headers.

        The last of several equal headers counts; the others come from earlier failures.
        """
        context = {name: value for name, value in self.headers if name.startswith(PREFIX)}
        facts: dict[str, str | int | None] = {}
        for header, name in _ERROR_HEADERS:
            if PREFIX + header in context:
                data = context[PREFIX + header]
                text = None if data is None else data.decode("utf-8", "replace")
                is_number = text is not None and name in _NUMBERS and text.isascii() and text.isdecimal()
                facts[name] = int(text) if is_number and text is not None else text
        return facts

    def belongs_to(self, connector: str) -> bool:
        """Whether a connector may have written the letter: it contains its name, or no name."""
        return self.facts.get("connector", connector) == connector


@dataclass(frozen=True, slots=True)
class Target:
    """Target of a replay; if `partition` is None, Kafka's partitioner uses the key."""

    topic: str
    partition: int | None

    @override
    def __str__(self) -> str:
        """Return `topic` or `topic-partition`."""
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


def truncate(letter: DeadLetter, max_bytes: int) -> DeadLetter:
    """Truncate the key, the value, each error header and all own headers together to `max_bytes` each."""
    truncated: dict[str, int] = {}

    def cut(name: str, data: bytes | None) -> bytes | None:
        if data is None or len(data) <= max_bytes:
            return data
        truncated[name] = truncated.get(name, 0) + len(data)
        return _cut(data, max_bytes)

    errors = {name: value for name, value in letter.headers if name.startswith(PREFIX)}
    headers = [
        (name, cut("error", errors[name]))
        for name in (PREFIX + fact for fact, _ in _ERROR_HEADERS)
        if name in errors
    ]
    bytes_left = max_bytes
    for name, value in letter.own_headers:
        size = len(name.encode()) + len(value or b"")
        bytes_left -= size
        if bytes_left >= 0:
            headers.append((name, value))
        else:
            truncated["headers"] = truncated.get("headers", 0) + size
    key, value = cut("key", letter.key), cut("value", letter.value)
    return replace(letter, key=key, value=value, headers=headers, truncated=truncated)


def _cut(data: bytes, max_bytes: int) -> bytes:
    """Return the beginning of data; text is cut between characters."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data[:max_bytes]
    return data[:max_bytes].decode(errors="ignore").encode()


def as_json(letter: DeadLetter) -> dict[str, Any]:
    """Return a letter as JSON data; bytes that are not valid UTF-8 are encoded in a `…_base64` field."""
    error = letter.facts
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp_ms,
        **_bytes("key", letter.key),
        **_bytes("value", letter.value),
        "headers": [{"key": name, **_bytes("value", value)} for name, value in letter.own_headers],
        "error": error or None,
    }


def from_json(content: Mapping[str, Any]) -> DeadLetter:
    """Parse a letter from `as_json`, with the sizes of its truncated parts, if any."""
    names = {name: PREFIX + header for header, name in _ERROR_HEADERS}
    facts = (content["error"] or {}).items()
    errors = [(names[name], None if value is None else str(value).encode()) for name, value in facts]
    return DeadLetter(
        topic=content["topic"],
        partition=content["partition"],
        offset=content["offset"],
        timestamp_ms=content["timestamp"],
        key=_data("key", content),
        value=_data("value", content),
        headers=[*((each["key"], _data("value", each)) for each in content["headers"]), *errors],
        truncated=content.get("truncated", {}),
    )


def as_text(letter: DeadLetter, *, stack: bool) -> Iterator[str]:
    """Yield a letter as lines of text; control characters are escaped."""
    facts = letter.facts
    yield f"{letter.place}   {_moment(letter.timestamp_ms)}".rstrip()
    rows = [*_origin_headers(facts), ("key", _display(letter.key)), ("value", _display(letter.value))]
    rows += [("header", f"{name} = {_display(value)}") for name, value in letter.own_headers]
    for name, text in rows:
        yield f"  {name:<12}{one_line(text)}"
    if letter.truncated:
        sizes = ", ".join(f"{name} of {size:,} bytes" for name, size in letter.truncated.items())
        yield f"  {'truncated':<12}{sizes}"
    if stack:
        for line in str(facts.get("stacktrace") or "").splitlines():
            yield f"    {printable(line.expandtabs(2))}"


def _origin_headers(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not facts:
        yield "error", "unknown: errors.deadletterqueue.context.headers.enable was false"
        return
    source = str(facts.get("topic"))
    if "offset" in facts:
        source += f"-{facts.get('partition')}@{facts['offset']}"
    yield "from", source
    yield "connector", f"{facts.get('connector')}, task {facts.get('task')}"
    yield "failed at", f"{facts.get('stage')} of {facts.get('class')}"
    message = facts.get("message")
    yield "because", f"{facts.get('exception')}" + (f": {message}" if message else "")
    if cause := last_cause(str(facts.get("stacktrace"))):
        yield "caused by", cause


def _bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _data(name: str, content: Mapping[str, Any]) -> bytes | None:
    if f"{name}_base64" in content:
        return base64.b64decode(content[f"{name}_base64"])
    text = content[name]
    return None if text is None else str(text).encode()


def _display(data: bytes | None) -> str:
    return "null" if data is None else printable(data.decode("utf-8", "backslashreplace"))


def _moment(ms: int | None) -> str:
    if ms is None:
        return ""
    try:
        return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"
