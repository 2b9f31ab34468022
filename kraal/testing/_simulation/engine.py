"""A fake engine: the complete engine protocol without Spark, driven by a test.

`feed` supplies a task with records; each `next()` processes at most ten records. Offsets are counts:
`{"task": "name-0"} -> {"position": n}`; commits of sinks are stored in `committed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from actors.instances.plugin_calls import format_trace
from kraal.core.errors import Fenced, KraalError
from kraal.core.ids import Config, ConnectorName, Instance, TaskId, TopicName
from kraal.core.offsets import Offset, SourcePartition, TopicPartition
from kraal.engine.api import (
    BatchDone,
    Committed,
    EngineReady,
    EngineStarting,
    EngineState,
    Failed,
    Held,
    Opened,
    RunEvent,
    Stopped,
    TaskSpec,
    Waiting,
)
from kraal.ledger.counts import BatchEntry, Counts, Range, RangeStart
from kraal.testing._simulation.topics import Topics

if TYPE_CHECKING:
    from kraal.engine.api import Run
    from kraal.metrics.stalls.down_parts import DownPart
    from kraal.metrics.thread_pools import PoolState

_BATCH_SIZE = 10
"""Maximum number of records per batch."""


def make_partition(task: TaskId) -> SourcePartition:
    """Return the only source partition of a task in the fake engine."""
    return SourcePartition.of({"task": str(task)})


@dataclass(slots=True)
class Outside:
    """State shared by all workers: source records, written records, and committed sink offsets."""

    supply: dict[TaskId, int] = field(default_factory=dict)
    written: dict[TaskId, list[int]] = field(default_factory=dict)
    committed: dict[TaskId, int] = field(default_factory=dict)
    topics: Topics = field(default_factory=Topics)
    """Topics of the tasks of real plugins."""
    plugin_offsets: dict[tuple[ConnectorName, TopicPartition], int] = field(default_factory=dict)
    """Offsets committed by sinks of real plugins."""


class FakeEngine:
    """An engine for tests that works on the caller's thread and sends events immediately."""

    def __init__(self, *, outside: Outside | None = None) -> None:
        """Create the engine. `outside`: state shared with the engines of other workers; by default not shared."""
        self._state: EngineState = EngineReady()
        self._topic = "fake"
        self._listeners: list[Callable[[EngineState], None]] = []
        self._runs: dict[TaskId, FakeRun] = {}
        outside = outside or Outside()
        self._supply = outside.supply
        self._open_errors: dict[TaskId, str] = {}
        self._hanging: set[TaskId] = set()
        self.committed = outside.committed
        """Committed positions of sinks, from which they restart."""
        self.written = outside.written
        """Numbers of all written records in order, including duplicates."""
        self.opened: list[TaskId] = []
        """All opened tasks, in order."""

    # -- faults and input records ---------------------------------------------------------------------------

    def feed(self, task: TaskId, records: int) -> None:
        """Supply a task with more records."""
        self._supply[task] = self._supply.get(task, 0) + records
        self.poll_now(task)

    def poll_now(self, task: TaskId) -> None:
        """Make the task's open run process the available records."""
        run = self._runs.get(task)
        if run is not None:
            run.poll_now()

    def fail(self, task: TaskId, trace: str) -> None:
        """Fail the task's open run."""
        self._runs[task].fail(trace)

    def hang(self, task: TaskId, *, hangs: bool = True) -> None:
        """Make later batches of the task hang; with `hangs=False`, let them continue."""
        if hangs:
            self._hanging.add(task)
        else:
            self._hanging.discard(task)
            self.poll_now(task)

    def retry(self, task: TaskId, reason: str) -> None:
        """Make the task's open run report a retry."""
        self._runs[task].retry(reason)

    def fail_opening(self, task: TaskId, trace: str | None) -> None:
        """Make later attempts to open the task fail with this trace; None makes them succeed again."""
        if trace is None:
            self._open_errors.pop(task, None)
        else:
            self._open_errors[task] = trace

    def lose(self, reason: str = "Spark's JVM ended") -> None:
        """Simulate the loss of Spark: all runs fail, and new runs wait for `recover`."""
        self._change(EngineStarting(reason))
        for run in list(self._runs.values()):
            run.fail(reason, engine_lost=True)

    def recover(self) -> None:
        """Simulate the recovery of Spark: waiting runs open."""
        self._change(EngineReady())
        for run in list(self._runs.values()):
            run.begin()

    def find_run(self, task: TaskId) -> FakeRun | None:
        """Return the task's open run; None if there is none."""
        return self._runs.get(task)

    @property
    def running(self) -> frozenset[TaskId]:
        """Tasks with an open run."""
        return frozenset(self._runs)

    # -- Engine --------------------------------------------------------------------------------------------

    @property
    def state(self) -> EngineState:
        """Whether jobs can run now."""
        return self._state

    def pools(self) -> Sequence[PoolState]:
        """Return an empty sequence, because this engine has no threads."""
        return ()

    def down(self) -> Sequence[DownPart]:
        """Return an empty sequence, because this engine has no components."""
        return ()

    def listen(self, changed: Callable[[EngineState], None]) -> None:
        """Call `changed` whenever the availability changes."""
        self._listeners.append(changed)

    def open(
        self, spec: TaskSpec, offsets: Mapping[SourcePartition, Offset], report: Callable[[RunEvent], None]
    ) -> Run:
        """Open one task; an earlier run of the same task is cancelled first."""
        previous_run = self._runs.pop(spec.task, None)
        if previous_run is not None:
            previous_run.cancel()
        position = offsets.get(make_partition(spec.task), {}).get(
            "position", self.committed.get(spec.task, 0)
        )
        if not isinstance(position, int):
            text = f"a stored position must be a number, not {position!r}"
            raise KraalError(text)
        run = self.make_run(spec, position, report)
        self._runs[spec.task] = run
        self.opened.append(spec.task)
        run.begin()
        return run

    def is_ready_for(self, connectors: Iterable[Config]) -> bool:
        """Return whether the engine is up."""
        del connectors
        return isinstance(self._state, EngineReady)

    def waiting_reason(self) -> str | None:
        """Return why the engine is not ready; None if it is ready."""
        state = self._state
        return state.reason if isinstance(state, EngineStarting) else None

    def abandon(self, instance: Instance) -> None:
        """Cancel a task's open run."""
        run = self._runs.get(instance) if isinstance(instance, TaskId) else None
        if run is not None:
            run.cancel()

    def make_run(self, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]) -> FakeRun:
        """Create a run that starts at `position`."""
        return FakeRun(self, spec, position, report)

    def close(self, timeout_s: float) -> None:
        """Cancel all runs."""
        del timeout_s
        for run in list(self._runs.values()):
            run.cancel()

    # -- for runs -------------------------------------------------------------------------------------------

    def open_error(self, task: TaskId) -> str | None:
        """Return the trace with which opening the task fails; None if it succeeds."""
        return self._open_errors.get(task)

    def hangs(self, task: TaskId) -> bool:
        """Return whether batches of the task hang."""
        return task in self._hanging

    def take(self, task: TaskId, position: int) -> range:
        """Return the range of the next records from `position`."""
        return range(position, min(self._supply.get(task, 0), position + _BATCH_SIZE))

    def on_written(self, task: TaskId, records: range) -> frozenset[TopicName]:
        """Store records as written; return their topics."""
        self.written.setdefault(task, []).extend(records)
        return frozenset({TopicName(self._topic)})

    def on_closed(self, run: FakeRun) -> None:
        """Remove a run that has ended."""
        if self._runs.get(run.task) is run:
            del self._runs[run.task]

    def _change(self, state: EngineState) -> None:
        self._state = state
        for listener in self._listeners:
            listener(state)


class FakeRun:
    """One run of a task in the fake engine."""

    def __init__(
        self, engine: FakeEngine, spec: TaskSpec, position: int, report: Callable[[RunEvent], None]
    ) -> None:
        self.task = spec.task
        self.spec = spec
        """The spec that the task was opened with."""
        self._engine = engine
        self._position = position
        self._report = report
        self._start_reason = RangeStart.RESUMED
        self._is_opened = False
        self._is_ended = False
        self._is_batch_requested = False

    def begin(self) -> None:
        """Open the run if Spark is available."""
        if self._is_opened or self._is_ended:
            return
        if isinstance(self._engine.state, EngineStarting):
            self._report(Waiting(self._engine.state.reason))
            return
        error = self._engine.open_error(self.task)
        if error is not None:
            self.fail(error)
            return
        try:
            self.open_plugin()
        except Exception as raised:  # noqa: BLE001 - any error of a plugin fails its task
            self.fail(format_trace(raised))

    def open_plugin(self) -> None:
        """Open the run. Subclasses may raise any error of a plugin."""
        self._is_opened = True
        self.spec.assigned(1)  # for a sink, as if its topic had one partition per task
        self._report(Opened(version="1.0"))

    def poll_now(self) -> None:
        """Run one batch if one was requested and records are available."""
        records = self._engine.take(self.task, self._position)
        may_read = self.spec.lease() and self.spec.may_read()
        if not self._is_batch_requested or not records or self._is_ended or not may_read:
            return
        if self._engine.hangs(self.task):
            self.spec.working(busy=True, step="batch")
            return
        self._is_batch_requested = False
        self.spec.working(busy=False)
        offsets: dict[SourcePartition, Offset] = {make_partition(self.task): {"position": records.stop}}
        transactions, size = self.spec.transactions, None
        if transactions is not None:
            try:
                transactions.commit(offsets)
            except Fenced as error:
                self.fail(format_trace(error))
                return
            offsets, size = {}, len(records)
        self._position = records.stop
        topics = self._engine.on_written(self.task, records)
        event = BatchDone(
            offsets=offsets,
            records=len(records),
            topics=topics,
            duration_s=0.0,
            transaction=size,
            write_path="in the simulation: without Spark",
            entry=self._make_entry(records),
        )
        self._report(event)

    def _make_entry(self, records: range) -> BatchEntry:
        reason, self._start_reason = self._start_reason, RangeStart.NEXT
        counts = Counts(read=len(records), written=len(records))
        return BatchEntry(
            counts=counts, ranges={make_partition(self.task): Range(records.start, records.stop, reason)}
        )

    def fail(self, trace: str, *, engine_lost: bool = False) -> None:
        """Fail this run."""
        self._end(Failed(trace=trace, engine_lost=engine_lost))

    def retry(self, reason: str) -> None:
        """Report that the run is retrying."""
        self._report(Waiting(reason, retry=True))

    def await_engine(self, reason: str) -> None:
        """Report that a batch waits for an engine that failed to start; `end_wait` follows."""
        self._report(Waiting(reason, engine_failed=True))

    def end_wait(self) -> None:
        """Report that the engine has started."""
        self._report(Opened(version="1.0"))

    def next(self) -> None:
        """Request another batch."""
        self._is_batch_requested = True
        self.poll_now()

    def hold(self) -> None:
        """Withdraw the request for a batch."""
        self._is_batch_requested = False
        if not self._is_ended:
            self._report(Held())

    def commit(self, offsets: Mapping[SourcePartition, Offset]) -> None:
        """Commit a sink's offsets."""
        position = offsets[make_partition(self.task)]["position"]
        if isinstance(position, int) and self.spec.lease():
            self._engine.committed[self.task] = position
            self._report(Committed())

    def stop(self) -> None:
        """Stop gracefully."""
        self._end(Stopped(clean=True))

    def stop_if_idle(self) -> bool:
        """Stop if a batch is requested; return whether the run stops."""
        if self._is_ended or not self._is_batch_requested:
            return False
        self._is_batch_requested = False
        self.stop()
        return True

    def cancel(self) -> None:
        """Stop immediately."""
        self._end(Stopped(clean=False))

    def _end(self, event: RunEvent) -> None:
        if self._is_ended:
            return
        self._is_ended = True
        self._is_batch_requested = False
        self.spec.assigned(None)
        self.spec.working(busy=False)
        self._engine.on_closed(self)
        self.on_ended()
        self._report(event)

    def on_ended(self) -> None:
        """Release the resources of `open_plugin`; no-op by default."""
