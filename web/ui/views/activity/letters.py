"""Dead letters of a connector: what failed, where and why, and the replay of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kraal.core.ids import Json
from kraal.core.printable import counted
from kraal.core.traces import root_cause
from web.ui.views.commands import Confirmation, Result
from web.ui.views.copy_as import Request
from web.ui.views.json_values import mapping, maps, number, text, whole
from web.ui.views.texts import listed

SHOWN: Final = 20
MOST_SHOWN: Final = 100
MOST_REPLAYED: Final = 10_000
"""Maximum number of letters that one request replays."""
_SHORT: Final = 80
TOPIC_KEY: Final = "errors.deadletterqueue.topic.name"


@dataclass(frozen=True, slots=True)
class Bytes:
    """A key, a value or a header's value."""

    text: str
    """As text; base64 of bytes that are not text."""
    kind: str
    """`text`, `base64` or `null`."""
    full: int | None = None
    """Full size in bytes if only its beginning is there."""

    @property
    def is_short(self) -> bool:
        """Whether it fits on a line."""
        return len(self.text) <= _SHORT and "\n" not in self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A record that a connector could not process."""

    place: str
    """`topic-partition@offset` of the letter."""
    ms: int | None
    """Timestamp of the failed record."""
    origin: str
    """`topic-partition@offset` of the failed record; empty if not known."""
    task: int | None
    stage: str
    class_name: str
    """The converter, transform or connector that failed."""
    exception: str
    message: str
    cause: str
    """Root cause, where it says more than the message."""
    trace: str
    explained: bool
    """Whether the letter has headers that tell what failed."""
    key: Bytes
    value: Bytes
    headers: Sequence[tuple[str, Bytes]]
    """Those of the failed record."""
    more_headers: bool
    """Whether headers are missing because they are too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """What the page shows, the newest first."""

    topic: str
    letters: int | None
    left: int | None
    """Letters that were not yet replayed."""
    searched: int | None
    """Offsets that were searched for letters of this connector; None if all were."""
    shown: Sequence[Letter]
    causes: Sequence[tuple[str, int]]
    """Exceptions among the letters shown, with their numbers, the most frequent first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a replay would do."""

    total: int
    written: Sequence[tuple[str, int]]
    """Topics and numbers of records, sorted."""
    start: Mapping[str, int]
    """By partition, the offset of the first letter; empty if the worker does not tell."""


def letters_of(answer: object) -> Letters:
    """Return the letters of `GET …/dead-letters`."""
    found = mapping(answer)
    shown = [_letter(each) for each in maps(found.get("shown"))]
    shown.sort(key=lambda letter: letter.ms or 0, reverse=True)
    causes = Counter(letter.exception for letter in shown if letter.exception)
    return Letters(
        topic=text(found, "topic"),
        letters=whole(found, "letters"),
        left=whole(found, "left_to_replay"),
        searched=_searched(found),
        shown=shown,
        causes=causes.most_common(5),
    )


def limit_of(typed: str) -> int:
    """Return how many letters to replay, as typed; empty: as many as one request can. Raises ValueError."""
    if not typed.strip():
        return MOST_REPLAYED
    if not (typed.strip().isascii() and typed.strip().isdecimal()) or len(typed) > 9:  # noqa: PLR2004
        raise ValueError("Enter a whole number of records.")
    if not 1 <= int(typed) <= MOST_REPLAYED:
        raise ValueError(f"One replay writes 1 to {MOST_REPLAYED:,} records.")
    return int(typed)


def replay_request(
    name: str, limit: int, *, dry_run: bool, start: Mapping[str, int] | None = None
) -> Request:
    """Return the request that replays letters, or only tells what it would do.

    `start`, of a preview: the worker refuses the request if these letters have been replayed since.
    """
    body: dict[str, Json] = {"limit": limit, "dry_run": dry_run}
    if start:
        body["from"] = {**start}
    return Request(method="POST", segments=("connectors", name, "dead-letters", "replay"), body=body)


def start_as_text(start: Mapping[str, int]) -> str:
    """Return offsets by partition for a field of a form: `0:17 3:5`."""
    return " ".join(f"{partition}:{offset}" for partition, offset in start.items())


def start_of(typed: str) -> dict[str, int]:
    """Return the offsets by partition in such a field. Raises ValueError."""
    pairs = (each.partition(":") for each in typed.split())
    return {str(int(partition)): int(offset) for partition, _, offset in pairs}


def preview_of(answer: object) -> Preview:
    """Return what a dry run answered."""
    written = mapping(mapping(answer).get("written"))
    counts = [(topic, count) for topic in sorted(written) if (count := whole(written, topic))]
    found = mapping(mapping(answer).get("from"))
    start = {partition: offset for partition in found if (offset := whole(found, partition)) is not None}
    return Preview(total=sum(count for _, count in counts), written=counts, start=start)


def confirmation(name: str, preview: Preview, limit: int) -> Confirmation:
    """Return what is asked before a replay of at most `limit` letters."""
    topics = listed([f"{topic} ({count:,})" for topic, count in preview.written])
    rest = ["More letters may be left: they stay for another replay."] if preview.total >= limit else []
    return Confirmation(
        question=f"Replay {counted(preview.total, 'dead letter')} of {name}?",
        effects=(
            f"They are written again to {topics}, without the headers of the error.",
            "Other readers of these topics get them again, too.",
            "A record that fails again becomes a new dead letter.",
            "What is replayed is remembered: the next replay continues after it.",
            *rest,
        ),
        button="Replay",
        dangerous=False,
    )


def replayed(name: str, body: Json) -> Result:
    """Return what became of a replay."""
    done = preview_of(body)
    topics = listed([f"{topic} ({count:,})" for topic, count in done.written])
    told = (
        f"{counted(done.total, 'record')} written to {topics}"
        if done.total
        else "there was nothing left to replay"
    )
    left = whole(mapping(body), "left_to_replay")
    return Result(name=name, done=True, text=f"{told}; {left:,} left" if left else told)


def _searched(found: Mapping[str, Any]) -> int | None:
    searched, letters = whole(found, "searched"), whole(found, "letters")
    return searched if searched is not None and letters is not None and searched < letters else None


def _letter(found: Mapping[str, Any]) -> Letter:
    error = mapping(found.get("error"))
    cut = mapping(found.get("truncated"))
    trace = text(error, "stacktrace")
    message = text(error, "message")
    cause = root_cause(trace)
    timestamp = number(found, "timestamp")
    return Letter(
        place=_place(found),
        ms=None if timestamp is None else int(timestamp),
        origin=_place(error) if text(error, "topic") else "",
        task=whole(error, "task"),
        stage=text(error, "stage"),
        class_name=text(error, "class"),
        exception=text(error, "exception"),
        message=message,
        cause="" if message and message in cause else cause,
        trace=trace,
        explained=bool(error),
        key=_bytes(found, "key", whole(cut, "key")),
        value=_bytes(found, "value", whole(cut, "value")),
        headers=[(text(header, "key"), _bytes(header, "value")) for header in maps(found.get("headers"))],
        more_headers="headers" in cut,
    )


def _place(found: Mapping[str, Any]) -> str:
    partition, offset = whole(found, "partition"), whole(found, "offset")
    if partition is None or offset is None:
        return text(found, "topic")
    return f"{text(found, 'topic')}-{partition}@{offset}"


def _bytes(found: Mapping[str, Any], name: str, full: int | None = None) -> Bytes:
    if isinstance(found.get(f"{name}_base64"), str):
        return Bytes(found[f"{name}_base64"], "base64", full)
    if isinstance(found.get(name), str):
        return Bytes(found[name], "text", full)
    return Bytes("", "null")
