"""The interface of the engine, which runs the batches of tasks.

`kraal.engine.engine` implements it with Spark, and `kraal.testing` provides a fake.

A task actor opens a `Run` and requests one batch after another; the run calls `report` with events, on any thread, and
the actor turns each event into a message to itself. So actors never block on Spark, and the engine may combine small
batches of several tasks into one job.

    open(spec, offsets) ──► Opened
    next()              ──► BatchDone | Failed           (once there is data)
    commit(offsets)     ──► Committed | Failed           (sinks only, after BatchDone; actors store sources' offsets)
    hold()              ──► Held                         (pause: a running batch ends and is reported first)
    stop()              ──► Stopped                      (a running batch ends and is reported first)
    cancel()            ──► Stopped                      (a running batch is abandoned; it may still have written)

In *batch* mode, each `next()` results in one batch; a *continuous* run may report `BatchDone` without a request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from kraal.core.ids import Config, Instance, TaskId, TopicName
from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.ledger.counts import BatchEntry
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.metrics.stalls.down_parts import DownPart
from kraal.metrics.table_reports import TableReport, ignore_report
from kraal.metrics.task import NO_PHASE, Phase
from kraal.metrics.thread_pools import PoolState
from kraal.proof.result import ProofResult

if TYPE_CHECKING:
    import pyarrow as pa

    from kraal.plugins.api import SourceBatch
    from kraal.plugins.model.keyed_source import KeyedSource
    from kraal.plugins.model.target import ReadableTarget


class StepReporter(Protocol):
    """Receives the start and end of each step of a run: a poll, a batch, a commit. Thread-safe; returns at once."""

    def __call__(self, *, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
        """Record that a step starts or is retried (`busy`), or that the current step has ended (not `busy`).

        Args:
            busy: whether a step is in progress.
            step: `poll`, `batch` or `commit`; empty for the current step.
            failure: why the latest attempt failed.
            progress: whether the current step, if any, has made progress.
        """


class ReportBacklog(Protocol):
    """Receives a sink task's backlog: the number of offsets from the task's positions to the ends of its partitions.

    Thread-safe; returns at once.
    """

    def __call__(self, records: int, *, exact: bool = False, paused: int = 0) -> None:
        """Receive a backlog.

        Args:
            records: the backlog.
            exact: whether `records` excludes transaction markers.
            paused: the number of partitions that the plugin has paused.
        """


class Transactions(Protocol):
    """The transactional producer of an exactly-once source task (KIP-618). Not thread-safe; methods block.

    A method that fails aborts the open transaction. It raises StoreUnavailable if a retry may succeed, Fenced if the
    producer was fenced by a newer task, and StoreError otherwise.
    """

    @property
    def is_open(self) -> bool:
        """Whether there are uncommitted records."""

    def write(
        self,
        topic: str | None,
        columns: Mapping[str, Sequence[Any]],
        offset_callbacks: Mapping[int, Callable[[int], None]] | None = None,
    ) -> None:
        """Send records.

        `columns` must contain `value`, and may contain `topic`, `key`, `headers`, `partition` and `timestamp`.
        `offset_callbacks` maps row numbers to functions that receive the offsets of these rows before `commit`
        returns. Sources that track offsets pass such functions.
        """

    def commit(self, offsets: Mapping[SourcePartition, Offset | None]) -> int:
        """Commit the records together with the offsets; return the number of records."""

    def cancel(self) -> None:
        """Make blocking calls return promptly. Thread-safe."""

    def close(self) -> None:
        """Abort the open transaction, and close the connection."""


class RemoteChain(Protocol):
    """The transforms and converters of one run, in another process on this machine. Picklable."""

    def source_pass(
        self, local: Any, batch: SourceBatch, cancelled: threading.Event | None
    ) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return a function that processes a batch in place of `local`, a `SourcePass` whose steps are not used.

        `cancelled` stops a pass in this process; `cancelled` must be None if the pass will be pickled.
        """

    def sink_pass(
        self, local: Any, cancelled: threading.Event | None
    ) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
        """Return a function that processes a batch of a sink in place of `local`, a `SinkPass`."""


def _ignore_step(*, busy: bool, step: str = "", failure: str = "", progress: bool = False) -> None:
    del busy, step, failure, progress


def _ignore_backlog(records: int, *, exact: bool = False, paused: int = 0) -> None:
    del records, exact, paused


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSpec:
    """The description of a task for a run; `${…}` references in its configs are resolved."""

    task: TaskId
    task_config: Mapping[str, str] = field(repr=False)
    connector_config: Mapping[str, str] = field(repr=False)
    lease: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Returns whether this worker may still write and commit for the task; called before each job and commit."""
    may_read: Callable[[], bool] = field(default=lambda: True, compare=False)
    """Returns whether the task may read more records: False once its config or target state has changed. Called before
    each poll; records already read are still written and committed. Thread-safe; returns at once."""
    assigned: Callable[[int | None], None] = field(default=lambda _: None, compare=False)
    """Called with the number of assigned partitions of a sink task when it changes, and with None when the task waits
    for its consumer group or ends. Thread-safe; returns at once."""
    backlog: ReportBacklog = field(default=_ignore_backlog, compare=False)
    """Receives the backlog of a sink task."""
    ends: Callable[[Mapping[TopicPartition, tuple[int, int]]], None] = field(
        default=lambda _: None, compare=False
    )
    """Receives the position and the end of each partition of a sink task, before and after each batch. Thread-safe;
    returns at once."""
    report_table: Callable[[TableReport], None] = field(default=ignore_report, compare=False)
    """Receives the state of a table that a sink task writes. Thread-safe; returns at once."""
    working: StepReporter = field(default=_ignore_step, compare=False)
    """Receives the start and end of each step."""
    transactions: Transactions | None = field(default=None, compare=False, repr=False)
    """The producer of an exactly-once source task, which also stores the offsets; the run closes it."""
    counts_records: bool = False
    """Whether to count the records of each batch for the ledger."""
    chain: RemoteChain | None = field(default=None, compare=False, repr=False)
    """Transforms and converts records in another process; None if this process does so."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """The run cannot continue yet; `reason` is a message for users, such as "Spark is starting"."""

    reason: str
    retry: bool = False
    """Whether a step failed and will be retried; each retry is reported by one event."""
    engine_failed: bool = False
    """Whether an open run waits because the engine failed to start: the task is UNASSIGNED until the next `Opened`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """The plugin was started at the stored offsets: the task is RUNNING. A batch may still wait for Spark."""

    version: str | None
    """The plugin's version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """A batch was written. The actor stores a source's `offsets`, and passes a sink's `offsets` to `commit`."""

    offsets: Mapping[SourcePartition, Offset]
    records: int
    """Number of records written."""
    topics: frozenset[TopicName]
    """Topics that a source has written to, or original topics of records that a sink has decoded (KIP-558)."""
    duration_s: float
    poll_s: float = 0.0
    """For sources, the duration of the poll that returned the batch."""
    batches: int = 1
    """Number of batches that this report sums, including their durations."""
    read: int | None = None
    """Number of records before transforms and error handling dropped some; None if equal to `records`."""
    errors: ErrorCounts = NO_ERRORS
    """The errors of skipped records."""
    transaction: int | None = None
    """Number of records in the transaction that was committed with the batch; None if none was committed."""
    write_path: str = ""
    """The write path of the batch and the reason for it, as a message for users; empty if there was no choice."""
    continuous: bool = False
    """Whether the run writes continuously: `duration_s` is then the time since its last report."""
    entry: BatchEntry | None = None
    """The entry for the ledger, to record once the offsets are stored; None if the batch is not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimes:
    """The phases of a continuous run since the run's previous `PhaseTimes` event."""

    poll: Phase = NO_PHASE
    write: Phase = NO_PHASE
    commit: Phase = NO_PHASE


@dataclass(frozen=True, slots=True)
class Counted:
    """Records were delivered whose offsets the run itself has stored. Runs of Java tasks report this in any phase."""

    entry: BatchEntry
    """The entry for the ledger."""


@dataclass(frozen=True, slots=True)
class Held:
    """No batch is running or requested: the task is paused until the next `next()`."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The offsets passed to `commit` are committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The run has failed and is closed. `trace` starts with the root cause."""

    trace: str
    engine_lost: bool = False
    """Whether Spark or the plugins' JVM exited during the run. The task is restarted once that process is up again."""
    errors: ErrorCounts = NO_ERRORS
    """The record errors of the failed batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The run was stopped and is closed. `clean` is False if a batch was abandoned; it may have been written."""

    clean: bool


RunEvent = Waiting | Opened | BatchDone | PhaseTimes | Counted | Held | Committed | Failed | Stopped


class Run(Protocol):
    """One execution of one task, from its start to its end.

    Methods may be called on any thread, but not concurrently. They return at once.
    """

    def next(self) -> None:
        """Request one batch."""

    def hold(self) -> None:
        """Pause: withdraw a pending `next()`, let a running batch end, then report `Held`.

        A sink stays a member of its consumer group, with its partitions paused.
        """

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit the offsets of a BatchDone if the lease is valid (sinks only)."""

    def stop(self) -> None:
        """Stop gracefully; withdraws a pending `next()`."""

    def stop_if_idle(self) -> bool:
        """Stop if a `next()` is pending and no batch is being read or written; return whether the run stops.

        If it does not, call `hold()` first, so that the offsets of a batch in progress are stored before the stop.
        """

    def cancel(self) -> None:
        """Cancel the run. Stopped is the only event that follows.

        After `Failed`, this only removes the remaining diagnostics of the run, such as MBeans; no event follows.
        """


class FailedRun:
    """A run that failed to open and has already reported `Failed`."""

    def next(self) -> None:
        """No-op: there are no batches."""

    def hold(self) -> None:
        """No-op: no batch is running."""

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """No-op: there are no batches."""

    def stop(self) -> None:
        """No-op: nothing is open."""

    def stop_if_idle(self) -> bool:
        """Return False: nothing is open."""
        return False

    def cancel(self) -> None:
        """No-op: nothing is open."""


@dataclass(frozen=True, slots=True)
class EngineStarting:
    """Spark is starting. `reason` is a message for users, which contains the cause if the last session has ended."""

    reason: str
    out_of_memory: bool = False
    """Whether the last JVM ended because its heap was exhausted."""


@dataclass(frozen=True, slots=True)
class EngineReady:
    """Spark is up, or starts on demand."""


EngineState = EngineStarting | EngineReady


class Engine(Protocol):
    """The interface through which actors run tasks."""

    @property
    def state(self) -> EngineState:
        """The current state."""

    def pools(self) -> Sequence[PoolState]:
        """Return the state of each thread pool, with its stuck calls. Thread-safe; returns at once."""

    def down(self) -> Sequence[DownPart]:
        """Return the parts that tasks require and that are down, such as Spark. Thread-safe; returns at once."""

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` with each new state, possibly on another thread."""

    def is_ready_for(self, connectors: Iterable[Config]) -> bool:
        """Start the engine for the tasks of these connectors if necessary; return whether these tasks can run.

        `${…}` references in the configs need not be resolved. Thread-safe; returns at once.
        """

    def waiting_reason(self) -> str | None:
        """Return why a started part is not up, as a message for users; None if all started parts are up.

        Thread-safe; returns at once.
        """

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Open a task. Returns at once; `Opened` or `Failed` follows.

        A previous run of the same task, whose actor has died, is cancelled and ends before this one opens.
        """

    def abandon(self, instance: Instance) -> None:
        """Cancel the remaining runs of a task whose actor has died, or stop a hanging connector. Returns at once."""

    def close(self, timeout_s: float) -> None:
        """Cancel all runs and stop Spark; blocks for about `timeout_s` at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceProofInput:
    """The tasks of a source to prove, and its stored offsets."""

    task_configs: Sequence[Mapping[str, str]]
    """The resolved configs of the tasks."""
    read_offsets: Callable[[], Mapping[SourcePartition, Offset]]
    """Returns the stored offsets. Blocks; raises KraalError."""
    is_started: bool = True
    """Whether the connector is neither paused nor stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRequest:
    """What a proof compares."""

    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The committed offsets of a sink's consumer group."""
    source: SourceProofInput | None = None
    """None for a sink."""
    max_age_ms: int | None = None
    """The maximum age of a sink's first record to compare; None to compare all records."""
    sample_percent: float | None = None
    """The share of a sink's records to compare, in percent; None to compare all of them."""


class Proof(Protocol):
    """The proof of one connector's delivery."""

    def run(self, request: ProofRequest) -> ProofResult:
        """Compare the target of a sink with its topics, or the topics of a source with the source. Blocks.

        Raises SparkUnavailable while Spark starts, NotComparable for a target that cannot be compared, and the
        errors of plugins, of Spark and of Kafka's clients.
        """

    def cancel(self) -> None:
        """Cancel the proof. Thread-safe; returns at once."""


@runtime_checkable
class ProvingEngine(Protocol):
    """An engine that can prove the delivery of connectors."""

    def open_proof(self, spec: TaskSpec, target: ReadableTarget | None = None) -> Proof:
        """Prepare a proof. `spec` must have the resolved config of the connector, and needs no task config.

        `target` is that of a sink in Java; a connector in Python opens its own. Raises ConfigInvalid.
        """

    def open_keyed_proof(self, spec: TaskSpec, source: KeyedSource) -> Proof:
        """Prepare a proof of a source whose topics contain the last state of each row; `spec` is as for `open_proof`.

        Raises ConfigInvalid.
        """
