"""Processes the records of a connector stage by stage, with retries, and counts errors."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kraal.engine.records.fault import Fault, Stage, make_fault
from kraal.engine.records.tolerance import Retries, Tolerance
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.plugins.api import Converter, HeaderConverter, RetriableError
from kraal.plugins.transform_chain import Chain, StageFailed

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

MAX_LOGGED_FAULTS: Final = 1000
"""Maximum number of faults that one pass returns for the log, so that its summary stays small."""

MAX_SLICE_ROWS: Final = 4096
"""Maximum number of records that exist as Python objects at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The transforms and converters of a connector, and the converters' class names as in the config. Picklable."""

    chain: Chain
    key: Converter
    value: Converter
    headers: HeaderConverter
    key_class: str
    value_class: str
    header_class: str
    tolerance: Tolerance = field(default_factory=Tolerance)


class RecordFailed(Exception):
    """A record could not be processed, even after retries."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class TopicError:
    """The failure to look up or create a topic that records are written to."""

    text: str
    is_retriable: bool
    """Whether a retry may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The outcomes of a batch's records, or of a part of them."""

    read: int = 0
    written: int = 0
    """Number of records in the output, without dead letters."""
    dropped: int = 0
    """Number of records that a transform dropped."""
    topics: frozenset[str] = frozenset()
    counts: ErrorCounts = NO_ERRORS
    faults: tuple[Fault, ...] = ()
    """Faults for the log, in order; at most `MAX_LOGGED_FAULTS` per pass."""
    fatal: Fault | None = None
    """The fault at which the pass stopped: later records were not processed."""
    topic_error: TopicError | None = None
    """The topic error at which the pass stopped."""

    def note(self) -> str:
        """Return the summary in the format of the column `note`."""
        return json.dumps({"summary": {**asdict(self), "topics": sorted(self.topics)}})


def fault_note(fault: Fault) -> str:
    """Return the fault of a dead letter in the format of the column `note`."""
    return json.dumps({"fault": asdict(fault)})


def merge_notes(notes: Iterable[str | None]) -> tuple[Summary, list[Fault]]:
    """Parse the notes of a batch; return the sum of its summaries, and the faults of its dead letters in order."""
    total, dead_letter_faults = Summary(), []
    for note in notes:
        if note is None:
            continue
        content = json.loads(note)
        if "fault" in content:
            dead_letter_faults.append(Fault(**content["fault"]))
            continue
        part = content["summary"]
        fatal, topic_error = part["fatal"], part["topic_error"]
        total = Summary(
            read=total.read + part["read"],
            written=total.written + part["written"],
            dropped=total.dropped + part["dropped"],
            topics=total.topics | frozenset(part["topics"]),
            counts=total.counts + ErrorCounts(**part["counts"]),
            faults=(*total.faults, *(Fault(**fields) for fields in part["faults"])),
            fatal=total.fatal or (None if fatal is None else Fault(**fatal)),
            topic_error=total.topic_error or (None if topic_error is None else TopicError(**topic_error)),
        )
    return total, dead_letter_faults


@dataclass(slots=True)
class PassResult:
    """The result of one pass so far. Not thread-safe."""

    tolerance: Tolerance
    wait: Callable[[float], None] = time.sleep
    read: int = 0
    written: int = 0
    dropped: int = 0
    topics: set[str] = field(default_factory=set)
    counts: ErrorCounts = NO_ERRORS
    faults: list[Fault] = field(default_factory=list)
    fatal: Fault | None = None
    topic_error: TopicError | None = None

    @property
    def is_over(self) -> bool:
        """Whether the pass has stopped."""
        return self.fatal is not None or self.topic_error is not None

    def attempt(self, stage: Stage, class_name: str, topic: str, operation: Callable[[], T]) -> T:
        """Run one stage, and retry it after a retriable error until `errors.retry.timeout`. Raises RecordFailed.

        Unlike in Java, an error after the last retry counts like any other (docs/compat.md).
        """
        retries = Retries(self.tolerance, self.wait)
        while True:
            try:
                return operation()
            except Exception as exc:  # noqa: BLE001 - the config may tolerate any error
                self._count(failures=1, last_error_ms=int(time.time() * 1000))
                error: BaseException = exc
                if isinstance(exc, StageFailed):
                    error, class_name = exc.error, exc.class_name
                if isinstance(error, RetriableError) and retries.wait_for_retry():
                    self._count(retries=1)
                    continue
                raise RecordFailed(
                    make_fault(error, stage=stage, class_name=class_name, topic=topic)
                ) from error

    def record_failure(self, fault: Fault, *, dead_letter: bool) -> None:
        """Count a record that cannot be processed; it is skipped, or stops the pass."""
        self._count(errors=1, dead_letters=int(dead_letter))
        if self.tolerance.logs:
            self._count(logged=1)
            if len(self.faults) < MAX_LOGGED_FAULTS:
                self.faults.append(fault)
        if self.tolerance.all:
            self._count(skipped=1)
        else:
            self.fatal = fault

    def summary(self) -> Summary:
        """Return the summary of the pass."""
        return Summary(
            read=self.read,
            written=self.written,
            dropped=self.dropped,
            topics=frozenset(self.topics),
            counts=self.counts,
            faults=tuple(self.faults),
            fatal=self.fatal,
            topic_error=self.topic_error,
        )

    def _count(self, **increments: int) -> None:
        self.counts += ErrorCounts(**increments)


def slice_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield slices of at most `MAX_SLICE_ROWS` records."""
    for batch in batches:
        for start in range(0, batch.num_rows, MAX_SLICE_ROWS):
            yield batch.slice(start, MAX_SLICE_ROWS)


def with_record(fault: Fault, **properties: Any) -> Fault:
    """Return the fault with properties of the record that failed."""
    return replace(fault, **properties)
