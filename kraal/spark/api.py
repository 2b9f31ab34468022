"""The engine: what runs tasks' batches. Spark is one implementation, `kraal.testing` has a fake.

A task actor opens a `Run` and asks it for one batch after another; everything the run has to say comes back as
an event through the `report` callback, from any thread, and the actor turns it into a message. So actors never
wait for Spark, and the engine may run pending small batches of several tasks as one job.

    open(spec, offsets) ──► Opened
    next()              ──► BatchDone | Failed           (when there is something; nothing runs meanwhile)
    commit(offsets)     ──► Committed | Failed           (sinks: after BatchDone; sources: the actor stores)
    hold()              ──► Held                         (pause: a running batch ends and is reported first)
    stop()              ──► Stopped                      (a running batch ends and is reported first)
    cancel()            ──► Stopped                      (a running batch is given up; it may still have written)

The *batch* engine answers each `next()` with one batch; a *continuous* one may report `BatchDone` unasked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kraal.ids import TaskId, TopicName
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.offsets import Offset, SourcePartition


class Working(Protocol):
    """Hears how long a run has been at one step: a poll, a batch, a commit. Any thread, returns at once."""

    def __call__(self, *, busy: bool) -> None:
        """A step begins, or is tried again; or it has ended."""


class Transactions(Protocol):
    """What writes for a source task that delivers exactly once (KIP-618). One thread at a time; calls block.

    What raises has taken back all that was not committed: StoreAway when the same may be done again, Fenced when a
    newer task writes, StoreError for anything else.
    """

    @property
    def is_open(self) -> bool:
        """Whether there are records that are not committed yet."""

    def write(self, topic: str | None, columns: Mapping[str, Sequence[Any]]) -> None:
        """Send records: `value`, and of `topic`, `key`, `headers`, `partition`, `timestamp` what there is."""

    def commit(self, offsets: Mapping[SourcePartition, Offset | None]) -> int:
        """Commit them with the offsets; return how many there were."""

    def give_up(self) -> None:
        """End what blocks, soon. Any thread."""

    def close(self) -> None:
        """Take back what is not committed, and let go of the connection."""


def _nobody_asks(*, busy: bool) -> None:
    del busy


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """Everything a run needs to know; what an engine is given has resolved configs (no `${…}` left)."""

    task: TaskId
    task_config: Mapping[str, str] = field(repr=False)
    connector_config: Mapping[str, str] = field(repr=False)
    lease: Callable[[], bool] = field(default=lambda: True, compare=False)
    """True while this worker may still write and commit for the task; asked before each job and commit."""
    assigned: Callable[[int], None] = field(default=lambda _: None, compare=False)
    """Told how many partitions a sink's task has, whenever that changes; any thread, returns at once."""
    working: Working = field(default=_nobody_asks, compare=False)
    """Hears what the run is at."""
    transactions: Transactions | None = field(default=None, compare=False, repr=False)
    """A source's, with exactly-once support: the run stores its offsets by them, and closes them."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run cannot go on yet; `reason` is for people, e.g. "Spark is starting"."""

    reason: str
    retry: bool = False
    """Something has failed and will be tried again; there is one such event for each time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The plugin is open at its stored offsets and Spark is up: the task is RUNNING."""

    version: str | None
    """The plugin's version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """One batch is written. `offsets` is what to store (a source) or to `commit` (a sink: opaque)."""

    offsets: Mapping[SourcePartition, Offset]
    records: int
    """How many were written."""
    topics: frozenset[TopicName]
    """Topics written (source, after transforms) or read and decoded (sink, before them) in this batch (KIP-558)."""
    duration_s: float
    poll_s: float = 0.0
    """A source: how long the plugin took to find the batch."""
    read: int | None = None
    """How many there were before transforms dropped some and errors others; None: `records`."""
    errors: ErrorCounts = NO_ERRORS
    """What went wrong with records that were left out."""
    transaction: int | None = None
    """So many records had the transaction that was committed with it; None: there was none."""


@dataclass(frozen=True, slots=True)
class Held:
    """Nothing runs and nothing was asked for: the task is paused until the next `next()`."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The offsets given to `commit` are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run is over and closed. `trace` starts with the root cause."""

    trace: str
    engine_lost: bool = False
    """Spark died under it: the worker restarts such tasks when the engine is up again."""
    errors: ErrorCounts = NO_ERRORS
    """Of the batch that failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The run is over and closed. `clean`: nothing was given up, so all written was reported."""

    clean: bool


RunEvent = Waiting | Opened | BatchDone | Held | Committed | Failed | Stopped


class Run(Protocol):
    """One start of one task in the engine. Methods return at once; any thread; one caller."""

    def next(self) -> None:
        """Ask for one more batch."""

    def hold(self) -> None:
        """Pause: withdraw a `next()` that found nothing yet, let a running batch end; then `Held`.

        A sink stays a member of its consumer group, its partitions paused.
        """

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Sinks: commit what a BatchDone reported, if the lease holds."""

    def stop(self) -> None:
        """End gracefully. Withdraws a `next()` that found nothing yet."""

    def cancel(self) -> None:
        """End now. No event but Stopped comes after it."""


@dataclass(frozen=True, slots=True)
class EngineStarting:
    """Spark is coming up; `reason` says why it is not there: first start, or what ended the last one."""

    reason: str
    out_of_memory: bool = False
    """The last JVM has just ended because its heap was exhausted."""


@dataclass(frozen=True, slots=True)
class EngineReady:
    """Spark is up and warm."""


EngineState = EngineStarting | EngineReady


class Engine(Protocol):
    """Runs tasks."""

    @property
    def state(self) -> EngineState:
        """Whether jobs can run now."""

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` with every later state, from any thread."""

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Open one task; returns at once, `Opened` or `Failed` follows.

        A run of the same task that is still open is cancelled, and over, before this one opens: its actor died.
        """

    def abandon(self, task: TaskId) -> None:
        """Cancel what is still open of a task whose actor has died; returns at once, nothing is reported."""

    def close(self, timeout_s: float) -> None:
        """Cancel what runs and end Spark; blocks at most `timeout_s`."""
