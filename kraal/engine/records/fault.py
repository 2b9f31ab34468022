"""The failure of a record, formatted for the log, for a dead letter's headers and for a task's trace.

Source: Stage, ProcessingContext, LogReporter, DeadLetterQueueReporter (Kafka 4.4.0).
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Final

from kraal.core.traces import last_cause
from kraal.metrics.errors import NO_ERRORS, ErrorCounts

_JAVA_ERRORS: Final = "org.apache.kafka.connect.errors"
_JAVA_NAMES: Final = {"DataException": "DataException", "RetriableError": "RetriableException"}
_MAX_FRAMES: Final = 12
_MAX_CAUSES: Final = 10
_MAX_MESSAGE_LENGTH: Final = 2000
"""Maximum length of a message quoted in a trace; a converter's message may contain the whole record."""
_MAX_LENGTH_BEFORE_CAUSE: Final = 160
"""Maximum length of a message that is followed by the innermost cause in the first line of a trace."""

PREFIX: Final = "__connect.errors."
"""The prefix of the names of a dead letter's error headers."""


class Stage(StrEnum):
    """The processing stage in which a record failed."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TASK_PUT = "TASK_PUT"
    """The sink task reported the record (KIP-610)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The failure of one record, as text so that Spark's Python workers can return it."""

    stage: str
    class_name: str
    """The name of the failed class, as in the config."""
    exception: str
    """The name of the exception's class: Java's name if there is one, else Python's."""
    message: str | None
    stack: str
    topic: str
    partition: int | None = None
    offset: int | None = None
    """The record's offset in Kafka; None for a source record."""
    record: str = ""
    """The record as included in the log message, if enabled."""


def make_fault(error: BaseException, *, stage: Stage, class_name: str, topic: str) -> Fault:
    """Return the fault for an error; the caller adds the properties of the record (`with_record`)."""
    return Fault(
        stage=stage,
        class_name=class_name,
        exception=format_class(error),
        message=str(error) or None,
        stack=format_stack(error),
        topic=topic,
    )


def format_class(error: BaseException) -> str:
    """Return the name of an exception's class: Java's name if there is one, else Python's."""
    cls = type(error)
    java_class = getattr(cls, "java_class", None)
    if java_class is not None:
        return str(java_class)
    if cls.__name__ in _JAVA_NAMES and cls.__module__.startswith("kraal."):
        return f"{_JAVA_ERRORS}.{_JAVA_NAMES[cls.__name__]}"
    return f"{cls.__module__}.{cls.__qualname__}"


def format_stack(error: BaseException) -> str:
    """Return the stack trace in Java's format: innermost frame first, then causes; file names without directories."""
    lines: list[str] = []
    link: BaseException | None = error
    for depth in range(_MAX_CAUSES):
        if link is None:
            break
        head = f"{format_class(link)}: {str(link)[:_MAX_MESSAGE_LENGTH]}" if str(link) else format_class(link)
        lines.append(f"Caused by: {head}" if depth else head)
        frames = traceback.extract_tb(link.__traceback__)[-_MAX_FRAMES:]
        lines += [f"\tat {f.name}({PurePath(f.filename).name}:{f.lineno})" for f in reversed(frames)]
        link = link.__cause__
    return "\n".join(lines)


def format_log_message(fault: Fault, task: str, *, shows_record: bool) -> str:
    """Return Connect's log message for a fault. Source: LogReporter.message."""
    record = fault.record if shows_record else ""
    return f"Error encountered in task {task}. Executing stage '{fault.stage}' with class '{fault.class_name}'{record}."


def dead_letter_headers(
    record_headers: Iterable[tuple[str, bytes | None]],
    fault: Fault,
    connector: str,
    task: int,
    *,
    with_context: bool,
) -> list[tuple[str, bytes | None]]:
    """Return a dead letter's headers: those of the record and, if `with_context`, the error headers in Java's order.

    Unlike in Java, error headers that the record already has are dropped, because a producer could otherwise forge the
    target of a replay. A source record has no partition or offset yet, so the headers for these are omitted.
    Source: DeadLetterQueueReporter.populateContextHeaders.
    """
    headers = [(name, value) for name, value in record_headers if not name.startswith(PREFIX)]
    return [*headers, *_make_context_headers(fault, connector, task)] if with_context else headers


def _make_context_headers(fault: Fault, connector: str, task: int) -> Sequence[tuple[str, bytes | None]]:
    location = [("topic", fault.topic)]
    if fault.offset is not None:
        location += [("partition", str(fault.partition)), ("offset", str(fault.offset))]
    pairs: list[tuple[str, str | None]] = [
        *location,
        ("connector.name", connector),
        ("task.id", str(task)),
        ("stage", fault.stage),
        ("class.name", fault.class_name),
        ("exception.class.name", fault.exception),
        ("exception.message", fault.message),
        ("exception.stacktrace", fault.stack),
    ]
    return [(PREFIX + name, None if text is None else text.encode()) for name, text in pairs]


def format_location(fault: Fault) -> str:
    """Return the record's coordinates, `topic-partition@offset`; for a source record, only the topic."""
    return fault.topic if fault.offset is None else f"{fault.topic}-{fault.partition}@{fault.offset}"


class ToleranceExceeded(Exception):
    """A record failed, and errors are not tolerated. Source: RetryWithToleranceOperator."""

    TEXT: Final = "Tolerance exceeded in error handler"

    def __init__(self, fault: Fault, counts: ErrorCounts = NO_ERRORS) -> None:
        super().__init__(f"{self.TEXT}: {fault.exception}: {fault.message}")
        self.fault = fault
        self.counts = counts
        """The record errors of the failed batch."""

    @property
    def root(self) -> str:
        """The first line of a task's trace: the error, the coordinates of a sink's record, and the innermost cause."""
        fault = self.fault
        first_line, *_ = fault.stack.split("\n", 1)
        message = first_line.removeprefix(fault.exception).strip(": ")
        location = "" if fault.offset is None else f"record {format_location(fault)} failed at {fault.stage}"
        cause = last_cause(fault.stack)
        if cause and (cause.partition(": ")[2] or cause) in message:
            cause = ""
        if cause and len(message) > _MAX_LENGTH_BEFORE_CAUSE:
            message = f"{message[: _MAX_LENGTH_BEFORE_CAUSE - 1]}…"
        return ": ".join(filter(None, (fault.exception, location, message, cause)))

    @property
    def text(self) -> str:
        """The rest of the trace: Connect's message, the record's coordinates, and the cause's stack trace."""
        fault = self.fault
        return (
            f"{_JAVA_ERRORS}.ConnectException: {self.TEXT}\n"
            f"\tat stage {fault.stage} of {fault.class_name}, record {format_location(fault)}\n"
            f"Caused by: {fault.stack}"
        )
