"""The processing of a connector's records, step by step with retries, and the count of errors."""

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

MAX_LOGGED: Final = 1000
"""Maximum number of logged faults per batch, so that the result of a batch of bad records stays small."""

SLICE: Final = 4096
"""Number of records held as Python objects at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """A connector's converters and transforms, by the names that configs use. Can be pickled."""

    chain: Chain
    key: Converter
    value: Converter
    headers: HeaderConverter
    key_class: str
    value_class: str
    header_class: str
    tolerance: Tolerance = field(default_factory=Tolerance)


class RecordFailed(Exception):
    """A record cannot be processed, even after retries."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class TopicTrouble:
    """A topic that records are written to does not exist."""

    text: str
    passes: bool
    """Whether a retry may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The outcomes of the records of one part of a batch."""

    read: int = 0
    written: int = 0
    """Number of records that are passed on, without dead letters."""
    topics: frozenset[str] = frozenset()
    counts: ErrorCounts = NO_ERRORS
    faults: tuple[Fault, ...] = ()
    """Faults for the log, in order; at most `MAX_LOGGED`."""
    fatal: Fault | None = None
    """The fault that ended the pass early: later records were not processed."""
    trouble: TopicTrouble | None = None
    """The same for a topic."""

    def note(self) -> str:
        """Return the summary as the text of a row."""
        return json.dumps({"summary": {**asdict(self), "topics": sorted(self.topics)}})


def fault_note(fault: Fault) -> str:
    """Return a dead letter's fault as the text of its row."""
    return json.dumps({"fault": asdict(fault)})


def summed(notes: Iterable[str | None]) -> tuple[Summary, list[Fault]]:
    """Read the notes of a batch's parts: the sum of their summaries, and the faults of dead letters in order."""
    total, dead = Summary(), []
    for note in notes:
        if note is None:
            continue
        content = json.loads(note)
        if "fault" in content:
            dead.append(Fault(**content["fault"]))
            continue
        part = content["summary"]
        fatal, trouble = part["fatal"], part["trouble"]
        total = Summary(
            read=total.read + part["read"],
            written=total.written + part["written"],
            topics=total.topics | frozenset(part["topics"]),
            counts=total.counts + ErrorCounts(**part["counts"]),
            faults=(*total.faults, *(Fault(**each) for each in part["faults"])),
            fatal=total.fatal or (None if fatal is None else Fault(**fatal)),
            trouble=total.trouble or (None if trouble is None else TopicTrouble(**trouble)),
        )
    return total, dead


@dataclass(slots=True)
class PassResult:
    """The attempts of one pass and their counts. One thread."""

    tolerance: Tolerance
    wait: Callable[[float], None] = time.sleep
    read: int = 0
    written: int = 0
    topics: set[str] = field(default_factory=set)
    counts: ErrorCounts = NO_ERRORS
    faults: list[Fault] = field(default_factory=list)
    fatal: Fault | None = None
    trouble: TopicTrouble | None = None

    @property
    def over(self) -> bool:
        """Whether the pass is over."""
        return self.fatal is not None or self.trouble is not None

    def attempt(self, stage: Stage, class_name: str, topic: str, operation: Callable[[], T]) -> T:
        """Run one step, with retries while errors are retriable and time is left. Raises RecordFailed.

        Unlike in Java, an error that remains after the last retry counts like any other (docs/compat.md).
        """
        retries = Retries(self.tolerance, self.wait)
        while True:
            try:
                return operation()
            except Exception as exc:  # noqa: BLE001 - any error is tolerated if the config says so
                self._count(failures=1, last_error_ms=int(time.time() * 1000))
                error: BaseException = exc
                if isinstance(exc, StageFailed):
                    error, class_name = exc.error, exc.class_name
                if isinstance(error, RetriableError) and retries.again():
                    self._count(retries=1)
                    continue
                raise RecordFailed(
                    make_fault(error, stage=stage, class_name=class_name, topic=topic)
                ) from error

    def give_up(self, fault: Fault, *, dead_letter: bool) -> None:
        """Record that a record is skipped or ends the pass."""
        self._count(errors=1, dead_letters=int(dead_letter))
        if self.tolerance.logs:
            self._count(logged=1)
            if len(self.faults) < MAX_LOGGED:
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
            topics=frozenset(self.topics),
            counts=self.counts,
            faults=tuple(self.faults),
            fatal=self.fatal,
            trouble=self.trouble,
        )

    def _count(self, **more: int) -> None:
        self.counts += ErrorCounts(**more)


def slice_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Split batches so that at most `SLICE` records are Python objects at a time."""
    for batch in batches:
        for start in range(0, batch.num_rows, SLICE):
            yield batch.slice(start, SLICE)


def with_record(fault: Fault, **facts: Any) -> Fault:
    """Add the properties of the record that failed."""
    return replace(fault, **facts)
