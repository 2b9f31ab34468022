"""Dead letters of a connector with the causes of failure, and their replay. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.ids import Json
from kraal.core.printable import format_count
from kraal.core.traces import root_cause
from web.ui.views.commands import Confirmation, Result
from web.ui.views.copy_as import Request
from web.ui.views.json_values import get_integer, mapping, maps, number, text
from web.ui.views.texts import join_names

DEFAULT_SHOWN: Final = 20
MAX_SHOWN: Final = 100
MAX_REPLAYED: Final = 10_000
"""Maximum number of letters that one request replays."""
_MAX_SHORT_LENGTH: Final = 80
TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"


@dataclass(frozen=True, slots=True)
class Bytes:
    """A key, a value or a header's value."""

    text: str
    """Content as text, or in base64 if it is not text."""
    kind: str
    """`text`, `base64` or `null`."""
    full_size: int | None = None
    """Full size in bytes if the content is truncated."""

    @property
    def is_short(self) -> bool:
        """Whether the content fits on one line."""
        return len(self.text) <= _MAX_SHORT_LENGTH and "\n" not in self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A record that a connector could not process."""

    position: str
    """`topic-partition@offset` of the letter."""
    ms: int | None
    """Timestamp of the failed record."""
    origin: str
    """`topic-partition@offset` of the failed record; empty if unknown."""
    task: int | None
    stage: str
    class_name: str
    """Class of the converter, transform or connector that failed."""
    exception: str
    message: str
    cause: str
    """Root cause; empty if it only repeats the message."""
    trace: str
    has_error_headers: bool
    """Whether the record has headers that describe the failure."""
    key: Bytes
    value: Bytes
    headers: Sequence[tuple[str, Bytes]]
    """Headers of the failed record."""
    has_omitted_headers: bool
    """Whether headers were omitted because they are too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetters:
    """Content of the dead letters page, newest letters first."""

    topic: str
    letters: int | None
    remaining: int | None
    """Number of letters not yet replayed."""
    searched_count: int | None
    """Number of offsets searched for this connector's letters; None if the whole topic was searched."""
    latest: Sequence[DeadLetter]
    causes: Sequence[tuple[str, int]]
    """The five most frequent exceptions in these letters, with their counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Result of a dry run or a replay."""

    total: int
    topic_counts: Sequence[tuple[str, int]]
    """Topics and counts of records, sorted."""
    start: Mapping[str, int]
    """Offset of the first letter by partition; empty if the worker does not report it."""


def parse_letters(response: object) -> DeadLetters:
    """Parse `GET …/dead-letters`."""
    content = mapping(response)
    letters = [_parse_letter(letter) for letter in maps(content.get("shown"))]
    letters.sort(key=lambda letter: letter.ms or 0, reverse=True)
    causes = Counter(letter.exception for letter in letters if letter.exception)
    return DeadLetters(
        topic=text(content, "topic"),
        letters=get_integer(content, "letters"),
        remaining=get_integer(content, "left_to_replay"),
        searched_count=_count_searched(content),
        latest=letters,
        causes=causes.most_common(5),
    )


def parse_limit(text: str) -> int:
    """Parse the number of letters to replay; an empty text means the maximum. Raises ValueError."""
    if not text.strip():
        return MAX_REPLAYED
    if not (text.strip().isascii() and text.strip().isdecimal()) or len(text) > 9:  # noqa: PLR2004
        raise ValueError("Enter a whole number of records.")
    if not 1 <= int(text) <= MAX_REPLAYED:
        raise ValueError(f"One replay writes 1 to {MAX_REPLAYED:,} records.")
    return int(text)


def replay_request(
    name: str, limit: int, *, dry_run: bool, start: Mapping[str, int] | None = None
) -> Request:
    """Return the request for a replay or a dry run.

    The worker rejects the request if the letters at `start`, which a preview returned, have been replayed since.
    """
    body: dict[str, Json] = {"limit": limit, "dry_run": dry_run}
    if start:
        body["from"] = {**start}
    return Request(method="POST", segments=("connectors", name, "dead-letters", "replay"), body=body)


def start_as_text(start: Mapping[str, int]) -> str:
    """Format offsets by partition for a form field, such as `0:17 3:5`."""
    return " ".join(f"{partition}:{offset}" for partition, offset in start.items())


def parse_start(text: str) -> dict[str, int]:
    """Parse the text of `start_as_text`. Raises ValueError."""
    pairs = (word.partition(":") for word in text.split())
    return {str(int(partition)): int(offset) for partition, _, offset in pairs}


def parse_preview(response: object) -> Preview:
    """Parse the response to a replay or a dry run."""
    topic_counts = mapping(mapping(response).get("written"))
    counts = [(topic, count) for topic in sorted(topic_counts) if (count := get_integer(topic_counts, topic))]
    start_offsets = mapping(mapping(response).get("from"))
    start = {
        partition: offset
        for partition in start_offsets
        if (offset := get_integer(start_offsets, partition)) is not None
    }
    return Preview(total=sum(count for _, count in counts), topic_counts=counts, start=start)


def confirmation(name: str, preview: Preview, limit: int) -> Confirmation:
    """Return the confirmation of a replay of at most `limit` letters."""
    topics = join_names([f"{topic} ({count:,})" for topic, count in preview.topic_counts])
    remaining_effects = ["Remaining letters are left for another replay."] if preview.total >= limit else []
    return Confirmation(
        question=f"Replay {format_count(preview.total, 'dead letter')} of {name}?",
        effects=(
            f"They are written to {topics} again, without the error headers.",
            "Other consumers of these topics receive them again, too.",
            "A record that fails again becomes a new dead letter.",
            "The offsets are committed, and the next replay continues after these records.",
            *remaining_effects,
        ),
        button="Replay",
        is_dangerous=False,
    )


def describe_replay(name: str, body: Json) -> Result:
    """Return the result of a replay."""
    outcome = parse_preview(body)
    topics = join_names([f"{topic} ({count:,})" for topic, count in outcome.topic_counts])
    summary = (
        f"{format_count(outcome.total, 'record')} written to {topics}"
        if outcome.total
        else "there was nothing left to replay"
    )
    remaining_count = get_integer(mapping(body), "left_to_replay")
    return Result(
        name=name, done=True, text=f"{summary}; {remaining_count:,} left" if remaining_count else summary
    )


def _count_searched(content: Mapping[str, Any]) -> int | None:
    searched, letters = get_integer(content, "searched"), get_integer(content, "letters")
    return searched if searched is not None and letters is not None and searched < letters else None


def _parse_letter(content: Mapping[str, Any]) -> DeadLetter:
    error = mapping(content.get("error"))
    truncated_sizes = mapping(content.get("truncated"))
    trace = text(error, "stacktrace")
    message = text(error, "message")
    cause = root_cause(trace)
    timestamp = number(content, "timestamp")
    return DeadLetter(
        position=_format_position(content),
        ms=None if timestamp is None else int(timestamp),
        origin=_format_position(error) if text(error, "topic") else "",
        task=get_integer(error, "task"),
        stage=text(error, "stage"),
        class_name=text(error, "class"),
        exception=text(error, "exception"),
        message=message,
        cause="" if message and message in cause else cause,
        trace=trace,
        has_error_headers=bool(error),
        key=_parse_bytes(content, "key", get_integer(truncated_sizes, "key")),
        value=_parse_bytes(content, "value", get_integer(truncated_sizes, "value")),
        headers=[
            (text(header, "key"), _parse_bytes(header, "value")) for header in maps(content.get("headers"))
        ],
        has_omitted_headers="headers" in truncated_sizes,
    )


def _format_position(content: Mapping[str, Any]) -> str:
    partition, offset = get_integer(content, "partition"), get_integer(content, "offset")
    if partition is None or offset is None:
        return text(content, "topic")
    return f"{text(content, 'topic')}-{partition}@{offset}"


def _parse_bytes(content: Mapping[str, Any], name: str, full_size: int | None = None) -> Bytes:
    if isinstance(content.get(f"{name}_base64"), str):
        return Bytes(content[f"{name}_base64"], "base64", full_size)
    if isinstance(content.get(name), str):
        return Bytes(content[name], "text", full_size)
    return Bytes("", "null")
