"""A dead letter as its headers tell it, for people and for programs, and where it goes when it is replayed.

Source: DeadLetterQueueReporter.populateContextHeaders (Kafka 4.3.0); KIP-298.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from typing_extensions import override

from kraal.client.text import one_line, printable
from kraal.errors import KraalError

PREFIX: Final = "__connect.errors."
"""How the names of Connect's headers begin."""

_FACTS: Final = (
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
"""Headers without their prefix, and what JSON calls them."""
_CAUSE: Final = "Caused by: "
"""How a line of a stack trace begins that names a cause; the last is the one to see to."""
_NUMBERS: Final = ("partition", "offset", "task")


class CannotReplay(KraalError):
    """A letter does not say where it belongs, or belongs where there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A record of a dead-letter topic."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    """Of the record that could not be handled; since 1970."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    @property
    def place(self) -> str:
        """Where the letter is."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def own_headers(self) -> list[tuple[str, bytes | None]]:
        """The headers that the record had before it failed."""
        return [(name, value) for name, value in self.headers if not name.startswith(PREFIX)]

    @property
    def facts(self) -> dict[str, str | int | None]:
        """What Connect's headers say, by JSON's names; empty for a letter without them.

        Of a header that comes twice the last counts: the others are of an earlier life.
        """
        said = {name: value for name, value in self.headers if name.startswith(PREFIX)}
        found: dict[str, str | int | None] = {}
        for header, name in _FACTS:
            if PREFIX + header in said:
                data = said[PREFIX + header]
                text = None if data is None else data.decode("utf-8", "replace")
                is_number = text is not None and name in _NUMBERS and text.isascii() and text.isdecimal()
                found[name] = int(text) if is_number and text is not None else text
        return found

    def is_of(self, connector: str) -> bool:
        """Whether a connector may have written it: its name is in it, or none is."""
        return self.facts.get("connector", connector) == connector


@dataclass(frozen=True, slots=True)
class Target:
    """Where a letter is written to; `partition` None: Kafka's partitioner decides by the key."""

    topic: str
    partition: int | None

    @override
    def __str__(self) -> str:
        """Return what people read."""
        return self.topic if self.partition is None else f"{self.topic}-{self.partition}"


def target_of(letter: Letter, to: str | None, partitions: Mapping[str, int]) -> Target:
    """Decide where a letter is replayed to: the partition it came from, or the topic `to`.

    `partitions`: how many each topic has. In the partition that it came from it is behind the records of its key; a
    record of a source had none yet, and one whose partition is gone goes by its key. Raises CannotReplay.
    """
    facts = letter.facts
    topic = facts.get("topic") if to is None else to
    if not isinstance(topic, str) or not topic:
        raise CannotReplay(
            f"{letter.place} does not say from which topic it came, because it has no header {PREFIX}topic"
            " (errors.deadletterqueue.context.headers.enable was false): give --to TOPIC"
        )
    if topic not in partitions:
        why = f"the topic {topic} of {letter.place}" if to is None else f"the topic {topic}"
        raise CannotReplay(f"{why} does not exist")
    if topic == letter.topic:
        raise CannotReplay(
            f"{letter.place} would be replayed into the dead-letter topic itself: give --to TOPIC"
        )
    partition = facts.get("partition") if to is None else None
    there = isinstance(partition, int) and partition < partitions[topic]
    return Target(topic, partition if there and isinstance(partition, int) else None)


def as_json(letter: Letter) -> dict[str, Any]:
    """Return a letter as JSON data; bytes that are no UTF-8 text are base64, under a name that says so."""
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


def as_text(letter: Letter, *, stack: bool) -> Iterator[str]:
    """Yield the lines that people read of a letter; nothing in them moves a cursor."""
    facts = letter.facts
    yield f"{letter.place}   {_moment(letter.timestamp_ms)}".rstrip()
    rows = [*_told(facts), ("key", _shown(letter.key)), ("value", _shown(letter.value))]
    rows += [("header", f"{name} = {_shown(value)}") for name, value in letter.own_headers]
    for name, text in rows:
        yield f"  {name:<12}{one_line(text)}"
    if stack:
        for line in str(facts.get("stacktrace") or "").splitlines():
            yield f"    {printable(line.expandtabs(2))}"


def _told(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if not facts:
        yield "why", "nobody said: errors.deadletterqueue.context.headers.enable was false"
        return
    source = str(facts.get("topic"))
    if "offset" in facts:
        source += f"-{facts.get('partition')}@{facts['offset']}"
    yield "from", source
    yield "connector", f"{facts.get('connector')}, task {facts.get('task')}"
    yield "failed at", f"{facts.get('stage')} of {facts.get('class')}"
    message = facts.get("message")
    yield "because", f"{facts.get('exception')}" + (f": {message}" if message else "")
    if causes := [line for line in str(facts.get("stacktrace")).splitlines() if line.startswith(_CAUSE)]:
        yield "caused by", causes[-1].removeprefix(_CAUSE)


def _bytes(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def _shown(data: bytes | None) -> str:
    return "null" if data is None else printable(data.decode("utf-8", "backslashreplace"))


def _moment(ms: int | None) -> str:
    if ms is None:
        return ""
    try:
        return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat(sep=" ", timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{ms} ms since 1970"
