"""Dead letters: their headers, and their formats as text and JSON.

Source: DeadLetterQueueReporter.populateContextHeaders (Kafka 4.4.0); KIP-298.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from typing_extensions import override

from kraal.core.printable import join_lines, printable
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
_NUMERIC_FIELDS: Final = ("partition", "offset", "task")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record of a dead letter queue topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    """Timestamp of the failed record, in milliseconds since the epoch."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    truncated: Mapping[str, int] = field(default_factory=dict)
    """Original sizes in bytes of the truncated parts: `key`, `value`, `headers`, `error`."""

    @property
    def position(self) -> str:
        """The topic, partition and offset of the dead letter, formatted for messages."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def original_headers(self) -> list[tuple[str, bytes | None]]:
        """The headers of the original record."""
        return [(name, value) for name, value in self.headers if not name.startswith(PREFIX)]

    @property
    def error_fields(self) -> dict[str, str | int | None]:
        """The values of Connect's error headers by their names in JSON; empty if there are none.

        Of several headers with the same name, the last one applies; the others describe earlier failures.
        """
        error_headers = {name: value for name, value in self.headers if name.startswith(PREFIX)}
        fields: dict[str, str | int | None] = {}
        for header, name in _ERROR_HEADERS:
            if PREFIX + header in error_headers:
                data = error_headers[PREFIX + header]
                text = None if data is None else data.decode("utf-8", "replace")
                is_number = (
                    text is not None and name in _NUMERIC_FIELDS and text.isascii() and text.isdecimal()
                )
                fields[name] = int(text) if is_number and text is not None else text
        return fields

    def belongs_to(self, connector: str) -> bool:
        """Return whether a connector may have written the dead letter: its connector header is equal or missing."""
        return self.error_fields.get("connector", connector) == connector


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a replay; if `partition` is None, Kafka's partitioner selects one by the key."""

    topic: str
    partition: int | None

    @override
    def __str__(self) -> str:
        """Return `topic` or `topic-partition`."""
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


def truncate(letter: DeadLetter, max_bytes: int) -> DeadLetter:
    """Truncate the key, the value and each error header to `max_bytes`.

    The other headers are kept as long as their total size is at most `max_bytes`; the rest are dropped.
    """
    truncated: dict[str, int] = {}

    def truncate_part(name: str, data: bytes | None) -> bytes | None:
        if data is None or len(data) <= max_bytes:
            return data
        truncated[name] = truncated.get(name, 0) + len(data)
        return _truncate_bytes(data, max_bytes)

    error_headers = {name: value for name, value in letter.headers if name.startswith(PREFIX)}
    headers = [
        (name, truncate_part("error", error_headers[name]))
        for name in (PREFIX + header for header, _ in _ERROR_HEADERS)
        if name in error_headers
    ]
    bytes_left = max_bytes
    for name, value in letter.original_headers:
        size = len(name.encode()) + len(value or b"")
        bytes_left -= size
        if bytes_left >= 0:
            headers.append((name, value))
        else:
            truncated["headers"] = truncated.get("headers", 0) + size
    key, value = truncate_part("key", letter.key), truncate_part("value", letter.value)
    return replace(letter, key=key, value=value, headers=headers, truncated=truncated)


def _truncate_bytes(data: bytes, max_bytes: int) -> bytes:
    """Truncate data; text is truncated at a character boundary."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return data[:max_bytes]
    return data[:max_bytes].decode(errors="ignore").encode()


def to_json_object(letter: DeadLetter) -> dict[str, Any]:
    """Return a dead letter as JSON data; bytes that are not valid UTF-8 are in a `…_base64` field."""
    error = letter.error_fields
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp": letter.timestamp_ms,
        **_encode_bytes("key", letter.key),
        **_encode_bytes("value", letter.value),
        "headers": [
            {"key": name, **_encode_bytes("value", value)} for name, value in letter.original_headers
        ],
        "error": error or None,
    }


def from_json(content: Mapping[str, Any]) -> DeadLetter:
    """Parse the JSON data of a dead letter, including the sizes of truncated parts."""
    names = {name: PREFIX + header for header, name in _ERROR_HEADERS}
    fields = (content["error"] or {}).items()
    error_headers = [(names[name], None if value is None else str(value).encode()) for name, value in fields]
    return DeadLetter(
        topic=content["topic"],
        partition=content["partition"],
        offset=content["offset"],
        timestamp_ms=content["timestamp"],
        key=_decode_bytes("key", content),
        value=_decode_bytes("value", content),
        headers=[
            *((header["key"], _decode_bytes("value", header)) for header in content["headers"]),
            *error_headers,
        ],
        truncated=content.get("truncated", {}),
    )


def format_text(letter: DeadLetter, *, stack: bool) -> Iterator[str]:
    """Yield the lines of a dead letter formatted as text, with control characters escaped."""
    fields = letter.error_fields
    yield f"{letter.position}   {_format_time(letter.timestamp_ms)}".rstrip()
    rows = [
        *_describe_origin(fields),
        ("key", _format_bytes(letter.key)),
        ("value", _format_bytes(letter.value)),
    ]
    rows += [("header", f"{name} = {_format_bytes(value)}") for name, value in letter.original_headers]
    for name, text in rows:
        yield f"  {name:<12}{join_lines(text)}"
    if letter.truncated:
        sizes = ", ".join(f"{name} of {size:,} bytes" for name, size in letter.truncated.items())
        yield f"  {'truncated':<12}{sizes}"
    if stack:
        for line in str(fields.get("stacktrace") or "").splitlines():
            yield f"    {printable(line.expandtabs(2))}"


def _describe_origin(fields: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not fields:
        yield "error", "unknown: errors.deadletterqueue.context.headers.enable was false"
        return
    source = str(fields.get("topic"))
    if "offset" in fields:
        source += f"-{fields.get('partition')}@{fields['offset']}"
    yield "from", source
    yield "connector", f"{fields.get('connector')}, task {fields.get('task')}"
    yield "failed at", f"{fields.get('stage')} of {fields.get('class')}"
    message = fields.get("message")
    yield "because", f"{fields.get('exception')}" + (f": {message}" if message else "")
    if cause := last_cause(str(fields.get("stacktrace"))):
        yield "caused by", cause


def _encode_bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _decode_bytes(name: str, content: Mapping[str, Any]) -> bytes | None:
    if f"{name}_base64" in content:
        return base64.b64decode(content[f"{name}_base64"])
    text = content[name]
    return None if text is None else str(text).encode()


def _format_bytes(data: bytes | None) -> str:
    return "null" if data is None else printable(data.decode("utf-8", "backslashreplace"))


def _format_time(ms: int | None) -> str:
    if ms is None:
        return ""
    try:
        return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"
