"""What went wrong with one record: in a log line, in a dead letter's headers, in a task's trace.

Source: Stage, ProcessingContext, LogReporter, DeadLetterQueueReporter (Kafka 4.3.0).
"""

from __future__ import annotations

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Final

from kraal.metrics.errors import NO_ERRORS, ErrorCounts

_JAVA_ERRORS: Final = "org.apache.kafka.connect.errors"
_JAVA_NAMES: Final = {"DataException": "DataException", "RetriableError": "RetriableException"}
_FRAMES: Final = 12
_CAUSES: Final = 10
_MESSAGE: Final = 2000
"""Characters of a message that a trace quotes; a converter's may hold the whole record."""

PREFIX: Final = "__connect.errors."
"""How the names of a dead letter's headers begin."""


class Stage(StrEnum):
    """Where a record was when it failed."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    TASK_PUT = "TASK_PUT"
    """Of a sink: its plugin said that it cannot write the record (KIP-610)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One record's failure, as text: it travels from Spark's Python processes."""

    stage: str
    class_name: str
    """The class that was at work, by the name that configs use."""
    exception: str
    """The exception's class, Java's where it has one."""
    message: str | None
    stack: str
    topic: str
    partition: int | None = None
    offset: int | None = None
    """Where a sink's record was read; None: a source's record."""
    record: str = ""
    """The record as a log line shows it when it may."""


def fault_of(error: BaseException, *, stage: Stage, class_name: str, topic: str) -> Fault:
    """Describe an error; the record's own facts are added by whoever knows them."""
    return Fault(
        stage=stage,
        class_name=class_name,
        exception=class_of(error),
        message=str(error) or None,
        stack=stack_of(error),
        topic=topic,
    )


def class_of(error: BaseException) -> str:
    """Return the name of an exception's class: Java's where it has one, else Python's."""
    cls = type(error)
    known = getattr(cls, "java_class", None)
    if known is not None:
        return str(known)
    if cls.__name__ in _JAVA_NAMES and cls.__module__.startswith("kraal."):
        return f"{_JAVA_ERRORS}.{_JAVA_NAMES[cls.__name__]}"
    return f"{cls.__module__}.{cls.__qualname__}"


def stack_of(error: BaseException) -> str:
    """Return the stack as Java prints one: innermost frame first, causes after it; files without their directories."""
    lines: list[str] = []
    link: BaseException | None = error
    for depth in range(_CAUSES):
        if link is None:
            break
        head = f"{class_of(link)}: {str(link)[:_MESSAGE]}" if str(link) else class_of(link)
        lines.append(f"Caused by: {head}" if depth else head)
        frames = traceback.extract_tb(link.__traceback__)[-_FRAMES:]
        lines += [f"\tat {f.name}({PurePath(f.filename).name}:{f.lineno})" for f in reversed(frames)]
        link = link.__cause__
    return "\n".join(lines)


def log_text(fault: Fault, task: str, *, shows_record: bool) -> str:
    """Return what the log says of a fault, in Connect's words. Source: LogReporter.message."""
    record = fault.record if shows_record else ""
    return f"Error encountered in task {task}. Executing stage '{fault.stage}' with class '{fault.class_name}'{record}."


def headers_of(fault: Fault, connector: str, task: int) -> Sequence[tuple[str, bytes | None]]:
    """Return what a dead letter's headers tell, in Java's order.

    A source's record was in no partition yet and has no offset; those headers are left out.
    Source: DeadLetterQueueReporter.populateContextHeaders.
    """
    place = [("topic", fault.topic)]
    if fault.offset is not None:
        place += [("partition", str(fault.partition)), ("offset", str(fault.offset))]
    pairs: list[tuple[str, str | None]] = [
        *place,
        ("connector.name", connector),
        ("task.id", str(task)),
        ("stage", fault.stage),
        ("class.name", fault.class_name),
        ("exception.class.name", fault.exception),
        ("exception.message", fault.message),
        ("exception.stacktrace", fault.stack),
    ]
    return [(PREFIX + name, None if text is None else text.encode()) for name, text in pairs]


def place_of(fault: Fault) -> str:
    """Return where the record was, for people."""
    return fault.topic if fault.offset is None else f"{fault.topic}-{fault.partition}@{fault.offset}"


class ToleranceExceeded(Exception):
    """A record could not be handled, and errors are not tolerated. Source: RetryWithToleranceOperator."""

    TEXT: Final = "Tolerance exceeded in error handler"

    def __init__(self, fault: Fault, counts: ErrorCounts = NO_ERRORS) -> None:
        super().__init__(f"{self.TEXT}: {fault.exception}: {fault.message}")
        self.fault = fault
        self.counts = counts
        """Of the batch that it ended."""

    @property
    def root(self) -> str:
        """The first line of a task's trace: the cause."""
        first, *_ = self.fault.stack.split("\n", 1)
        return first

    @property
    def text(self) -> str:
        """The rest of the trace: Connect's own words, where it was, and the cause's stack."""
        fault = self.fault
        return (
            f"{_JAVA_ERRORS}.ConnectException: {self.TEXT}\n"
            f"\tat stage {fault.stage} of {fault.class_name}, record {place_of(fault)}\n"
            f"Caused by: {fault.stack}"
        )
