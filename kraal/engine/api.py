"""The interface of the engine, which runs tasks' batches. Spark implements it; `kraal.testing` has a fake.

A task actor opens a `Run` and asks it for one batch after another; the run answers with events through the `report`
callback, from any thread, and the actor turns each event into a message. So actors never wait for Spark, and the
engine may run pending small batches of several tasks as one job.

    open(spec, offsets) ──► Opened
    next()              ──► BatchDone | Failed           (once there is data; nothing runs meanwhile)
    commit(offsets)     ──► Committed | Failed           (sinks: after BatchDone; sources: the actor stores)
    hold()              ──► Held                         (pause: a running batch ends and is reported first)
    stop()              ──► Stopped                      (a running batch ends and is reported first)
    cancel()            ──► Stopped                      (a running batch is abandoned; it may still have written)

The *batch* engine answers each `next()` with one batch; a *continuous* one may report `BatchDone` without a request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kraal.core.ids import Config, Instance, TaskId, TopicName
from kraal.core.offsets import Offset, SourcePartition
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.metrics.stalls.down_parts import DownPart
from kraal.metrics.task import NO_PHASE, Phase
from kraal.metrics.thread_pools import PoolState

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.plugins.api import SourceBatch


class Working(Protocol):
    """Records how long a run has been at one step: a poll, a batch, a commit. Any thread, returns at once."""

    def __call__(self, *, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
        """Record that a step starts or is retried (`busy`), or that it has ended.

        `step`: `poll`, `batch` or `commit`; empty: unchanged. `failure`: why the latest attempt failed. `progress`: the
        current step, if there is one, has made progress.
        """


class ReportBacklog(Protocol):
    """Receives how many records (offsets) are between a sink's position and the end of its partitions.

    Any thread, returns at once.
    """

    def __call__(self, records: int, *, exact: bool = False, paused: int = 0) -> None:
        """Receive a backlog. `exact`: markers of transactions do not count; `paused`: partitions the plugin paused."""


class Transactions(Protocol):
    """The transactional writer of an exactly-once source task (KIP-618). One thread at a time; calls block.

    Before a method raises, it aborts all that is not committed. It raises StoreUnavailable if a retry may succeed,
    Fenced if a newer task writes, and StoreError otherwise.
    """

    @property
    def is_open(self) -> bool:
        """Whether there are uncommitted records."""

    def write(
        self,
        topic: str | None,
        columns: Mapping[str, Sequence[Any]],
        placed: Mapping[int, Callable[[int], None]] | None = None,
    ) -> None:
        """Send records: `value`, and, where present, `topic`, `key`, `headers`, `partition`, `timestamp`.

        `placed`: functions that receive the offsets of some records, by their place in the columns, before `commit`
        returns; for plugins whose tasks track offsets.
        """

    def commit(self, offsets: Mapping[SourcePartition, Offset | None]) -> int:
        """Commit the records together with the offsets; return the number of records."""

    def give_up(self) -> None:
        """Make blocking calls end soon. Any thread."""

    def close(self) -> None:
        """Abort the open transaction, and close the connection."""


class RemoteChain(Protocol):
    """The transforms and converters of one run, in another process on this machine. Can be pickled."""

    def source_pass(
        self, local: Any, batch: SourceBatch, cancelled: threading.Event | None
    ) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return a function that processes a batch in place of `local`, a `SourcePass` whose steps are not used.

        `cancelled` ends a pass in this process; it is None if the pass will be pickled.
        """

    def sink_pass(
        self, local: Any, cancelled: threading.Event | None
    ) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return a function that processes a sink's batches in place of `local`, a `SinkPass`."""


def _ignore_step(*, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
    del busy, step, failure, progress


def _ignore_backlog(records: int, *, exact: bool = False, paused: int = 0) -> None:
    del records, exact, paused


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """The description of a task for a run; its configs are resolved (no `${…}` left)."""

    task: TaskId
    task_config: Mapping[str, str] = field(repr=False)
    connector_config: Mapping[str, str] = field(repr=False)
    lease: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Whether this worker may still write and commit for the task; asked before each job and commit."""
    may_read: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Whether the task may take more records: false once its config or target state has changed; asked before each
    poll. Records already read are still written and committed. Any thread, returns at once."""
    assigned: Callable[[int], None] = field(default=lambda _: None, compare=False)
    """Called with the number of partitions of a sink task whenever it changes; any thread, returns at once."""
    backlog: ReportBacklog = field(default=_ignore_backlog, compare=False)
    """Receives the backlog of a sink task."""
    working: Working = field(default=_ignore_step, compare=False)
    """Receives the start and end of each step."""
    transactions: Transactions | None = field(default=None, compare=False, repr=False)
    """For exactly-once sources: the run stores its offsets through it, and closes it."""
    chain: RemoteChain | None = field(default=None, compare=False, repr=False)
    """Transforms and converts the records in place of the config's plugins; None: the plugins do."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run cannot continue yet; `reason` is for people, e.g. "Spark is starting"."""

    reason: str
    retry: bool = False
    """An error occurred and the step will be retried; each retry is one such event."""
    engine_failed: bool = False
    """An open run waits because the engine failed to start: the task is UNASSIGNED until `Opened` follows again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The plugin is open at its stored offsets: the task is RUNNING. A batch that needs Spark may still wait for it."""

    version: str | None
    """The plugin's version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """One batch is written. `offsets` are to be stored (a source) or passed to `commit` (a sink: opaque)."""

    offsets: Mapping[SourcePartition, Offset]
    records: int
    """Number of records written."""
    topics: frozenset[TopicName]
    """Topics written (source, after transforms) or read and decoded (sink, before them) in this batch (KIP-558)."""
    duration_s: float
    poll_s: float = 0.0
    """Sources: how long the plugin took to find the batch."""
    read: int | None = None
    """Number of records before transforms dropped some and errors others; None: same as `records`."""
    errors: ErrorCounts = NO_ERRORS
    """The errors of skipped records."""
    transaction: int | None = None
    """Number of records in the transaction that was committed with the batch; None: no transaction."""
    way: str = ""
    """How the batch was carried out, and why, for people; empty if there was no choice."""
    continuous: bool = False
    """The run writes all the time: `duration_s` is the time since its last report, not that of a write."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """How long the phases of a run that writes and commits by itself took, since the last such event."""

    poll: Phase = NO_PHASE
    write: Phase = NO_PHASE
    commit: Phase = NO_PHASE


@dataclass(frozen=True, slots=True)
class Held:
    """No batch runs or is requested: the task is paused until the next `next()`."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The offsets given to `commit` are stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run is over and closed. `trace` starts with the root cause."""

    trace: str
    engine_lost: bool = False
    """Spark died during the run: the worker restarts such tasks when the engine is up again."""
    errors: ErrorCounts = NO_ERRORS
    """The record errors of the failed batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The run is over and closed. `clean`: nothing was abandoned, so every write was reported."""

    clean: bool


RunEvent = Waiting | Opened | BatchDone | Timed | Held | Committed | Failed | Stopped


class Run(Protocol):
    """One start of one task in the engine. Methods return at once; any thread; one caller."""

    def next(self) -> None:
        """Ask for one more batch."""

    def hold(self) -> None:
        """Pause: withdraw a `next()` without a batch, let a running batch end; then report `Held`.

        A sink stays a member of its consumer group, with its partitions paused.
        """

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit the offsets of a BatchDone if the lease holds (sinks only)."""

    def stop(self) -> None:
        """End gracefully. Withdraws a `next()` without a batch."""

    def cancel(self) -> None:
        """End now. Stopped is the only event that follows.

        After `Failed`, remove the remaining diagnostics of the run, such as MBeans; no event follows then.
        """


class FailedRun:
    """A run that failed to open; `Failed` is already reported."""

    def next(self) -> None:
        """No-op: there are no batches."""

    def hold(self) -> None:
        """No-op: nothing runs."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """No-op: nothing was read."""

    def stop(self) -> None:
        """No-op: nothing is open."""

    def cancel(self) -> None:
        """No-op: nothing is open."""


@dataclass(frozen=True, slots=True)
class EngineStarting:
    """Spark is starting; `reason` is why it is not up: first start, or the end of the last session."""

    reason: str
    out_of_memory: bool = False
    """Whether the last JVM ended because its heap was exhausted."""


@dataclass(frozen=True, slots=True)
class EngineReady:
    """Spark is up and warm."""


EngineState = EngineStarting | EngineReady


class Engine(Protocol):
    """Runs tasks."""

    @property
    def state(self) -> EngineState:
        """Whether jobs can run now."""

    def pools(self) -> Sequence[PoolState]:
        """Return the stuck calls of each thread pool. Any thread; returns at once."""

    def down(self) -> Sequence[DownPart]:
        """Return the parts that tasks need and that are down, such as Spark. Any thread; returns at once."""

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` with every later state, from any thread."""

    def ready_for(self, connectors: Iterable[Config]) -> bool:
        """Start the engine for the tasks of these connectors, unless it was started, and return whether it is up.

        The configs are as written. Any thread; returns at once.
        """

    def waits_for(self) -> str | None:
        """Return why a started part is not up, for people; None if all are. Any thread; returns at once."""

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Open one task; returns at once, `Opened` or `Failed` follows.

        An open run of the same task, whose actor has died, is cancelled and over before this one opens.
        """

    def abandon(self, instance: Instance) -> None:
        """End the remaining runs of a task whose actor has died or of a stopped connector; returns at once."""

    def close(self, timeout_s: float) -> None:
        """Cancel all runs and end Spark; blocks at most `timeout_s`."""
