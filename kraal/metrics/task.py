"""Metrics of a task since its last start.

`TaskMetrics` are the published values; `TaskMeter` belongs to the task's actor, which reports events to it.
Source: WorkerTask.TaskMetricsGroup, AbstractWorkerSourceTask.SourceTaskMetricsGroup,
WorkerSinkTask.SinkTaskMetricsGroup, ErrorHandlingMetrics, StateTracker (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from kraal.core.ids import State, TaskId
from kraal.metrics.errors import NO_ERRORS, ErrorCounts
from kraal.metrics.windows import Sampled, Windows


class Time(Protocol):
    """A source of the current time."""

    def now(self) -> float:
        """Return monotonic seconds."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class StateTimes:
    """The time that an instance has spent in each state since its first state."""

    state: State | None = None
    since_s: float = 0.0
    before: Mapping[State, float] = field(default_factory=dict)
    """Seconds in each state before the current period."""

    def changed(self, state: State, now_s: float) -> StateTimes:
        """Return a copy in another state."""
        if state is self.state:
            return self
        if self.state is None:
            return StateTimes(state, now_s)
        stay_s = self.before.get(self.state, 0.0) + now_s - self.since_s
        return StateTimes(state, now_s, {**self.before, self.state: stay_s})

    def ratio(self, state: State, now_s: float) -> float:
        """Return the fraction of time spent in `state`, from 0 to 1."""
        if self.state is None:
            return 0.0
        stay_s = now_s - self.since_s
        total_s = stay_s + sum(self.before.values())
        wanted_s = self.before.get(state, 0.0) + (stay_s if state is self.state else 0.0)
        return wanted_s / total_s if total_s else 0.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Durations of one phase of a task's batches in this run: polls, writes or commits."""

    latest_ms: float | None = None
    """Milliseconds of the latest occurrence; None: it did not run, or cannot be measured."""
    total_ms: float = 0.0
    count: int = 0

    def took(self, seconds: float) -> Phase:
        """Return a copy with one more occurrence."""
        return self.more(seconds * 1000, 1)

    def more(self, total_ms: float, count: int) -> Phase:
        """Return a copy with `count` more, which took `total_ms` together; the latest is their mean."""
        if not count:
            return self
        return Phase(total_ms / count, self.total_ms + total_ms, self.count + count)

    def mean_since(self, earlier: Phase) -> float | None:
        """Return the mean in milliseconds since an earlier state of this phase; None if it did not run since."""
        count = self.count - earlier.count
        return (self.total_ms - earlier.total_ms) / count if count else None


NO_PHASE: Final = Phase()


@dataclass(slots=True, kw_only=True)
class TaskMetrics:
    """The current metrics of a task. Times in samples are milliseconds, as exported.

    Its meter sets the fields, whose values are immutable, on the thread of the task's actor; any thread may read them.
    """

    is_source: bool
    states: StateTimes = StateTimes()
    batch_size: Sampled
    records: Sampled
    """Records by batch, for the rate."""
    records_total: int = 0
    batch_ms: Sampled
    """Duration of polls of a source's plugin, or of writing a sink's batch, as Connect's attributes have it."""
    poll: Phase = NO_PHASE
    """Polls that returned records; of sources only."""
    write: Phase = NO_PHASE
    """From the poll of a source, or the read of a sink, until the batch is written."""
    commit: Phase = NO_PHASE
    """Successful offset commits; transactions commit as part of the writes."""
    commit_ms: Sampled
    """Durations of successful commits."""
    commit_results: Sampled
    """1 for a commit that succeeded, 0 for one that failed."""
    commits: Sampled
    """1 for each commit that succeeded."""
    commits_total: int = 0
    commit_number: int = 0
    """Number of attempted commits."""
    late_commits: Sampled
    late_commits_total: int = 0
    retries: int = 0
    last_error_ms: int = 0
    """Milliseconds since the epoch; 0 for never."""
    read: Sampled
    """Records by batch before any were skipped, for the rate."""
    read_total: int = 0
    errors: ErrorCounts = NO_ERRORS
    """Counts of record errors."""
    transaction_size: Sampled
    """Records by transaction of an exactly-once source."""
    batch_s: float | None = None
    """The time when the latest batch was written, in monotonic seconds; None if this run has written none."""
    way: str = ""
    """The execution mode of the latest batch, with the reason, as text."""
    committing_s: float | None = None
    """The start of the current offset commit, including retries; None: no commit is in progress."""
    commit_failure: str = ""
    """Why the latest commit attempt failed; empty if it did not."""


def empty_metrics(windows: Windows, *, is_source: bool) -> TaskMetrics:
    """Return the metrics of a task that has not written a batch yet."""
    empty = Sampled(windows)
    return TaskMetrics(
        is_source=is_source,
        batch_size=empty,
        records=empty,
        batch_ms=empty,
        commit_ms=empty,
        commit_results=empty,
        commits=empty,
        late_commits=empty,
        read=empty,
        transaction_size=empty,
    )


class TaskMeter:
    """Measures one incarnation of a task, and publishes its metrics. Thread: the task's actor."""

    def __init__(
        self,
        task: TaskId,
        *,
        is_source: bool,
        time: Time,
        windows: Windows,
        publish: Callable[[TaskId, TaskMetrics], None],
    ) -> None:
        """`publish` receives the metrics after each change, always the same object."""
        self._task = task
        self._time = time
        self._publish = publish
        self._metrics = empty_metrics(windows, is_source=is_source)
        self._commit_began_s: float | None = None

    def record_state(self, state: State) -> None:
        """Record a state that the task reports."""
        self._set(states=self._metrics.states.changed(state, self._time.now()))

    def record_batch(
        self,
        *,
        records: int,
        duration_s: float,
        poll_s: float,
        read: int | None = None,
        errors: ErrorCounts = NO_ERRORS,
        way: str = "",
        continuous: bool = False,
    ) -> None:
        """Record a written batch. `duration_s`: of the job; `poll_s`: of a source's poll; `way`: the execution mode.

        `read` records (None: as many) became `records`, which were written; `errors` counts the failed ones.
        `continuous`: the times are those since the last report, so they are not durations of phases.
        """
        records_read = records if read is None else read
        metrics, now_s = self._metrics, self._time.now()
        took_s = poll_s if metrics.is_source else duration_s
        self._set(
            batch_size=metrics.batch_size.record(records_read, now_s),
            read=metrics.read.record(records_read, now_s),
            read_total=metrics.read_total + records_read,
            errors=metrics.errors if errors is NO_ERRORS else metrics.errors + errors,
            last_error_ms=max(metrics.last_error_ms, errors.last_error_ms),
            records=metrics.records.record(records, now_s),
            records_total=metrics.records_total + records,
            batch_ms=metrics.batch_ms.record(took_s * 1000, now_s),
            poll=metrics.poll.took(poll_s) if metrics.is_source and not continuous else metrics.poll,
            write=metrics.write if continuous else metrics.write.took(duration_s),
            batch_s=now_s,
            way=way,
        )

    def record_commit_start(self) -> None:
        """Record the start of an offset commit."""
        self._commit_began_s = now_s = self._time.now()
        since_s = self._metrics.committing_s
        self._set(
            commit_number=self._metrics.commit_number + 1, committing_s=now_s if since_s is None else since_s
        )

    def record_commit(self) -> None:
        """Record a successful commit. No effect unless a commit is in progress."""
        if self._commit_began_s is None:
            return
        took_s = self._time.now() - self._commit_began_s
        self._set(commit=self._metrics.commit.took(took_s))
        self._count_commit(took_s)

    def record_phases(self, *, poll: Phase, write: Phase, commit: Phase) -> None:
        """Add the phases of a continuous run since its last report."""
        metrics = self._metrics
        self._set(
            poll=metrics.poll.more(poll.total_ms, poll.count),
            write=metrics.write.more(write.total_ms, write.count),
            commit=metrics.commit.more(commit.total_ms, commit.count),
        )

    def _count_commit(self, took_s: float) -> None:
        metrics, now_s = self._metrics, self._time.now()
        self._commit_began_s = None
        self._set(
            commit_ms=metrics.commit_ms.record(took_s * 1000, now_s),
            commit_results=metrics.commit_results.record(1, now_s),
            commits=metrics.commits.record(1, now_s),
            commits_total=metrics.commits_total + 1,
            committing_s=None,
            commit_failure="",
        )

    def record_transaction(self, records: int) -> None:
        """Record a committed transaction, which includes the offsets."""
        self.record_commit_start()
        self._count_commit(0.0)
        self._set(transaction_size=self._metrics.transaction_size.record(records, self._time.now()))

    def record_commit_failure(self, why: str = "") -> None:
        """Record a failed commit that is retried."""
        self._count_failed_commit()
        self._set(commit_failure=why)
        self.record_commit_start()
        self.record_retry()

    def record_late_commit(self) -> None:
        """Record the response to a commit that had already timed out."""
        metrics = self._metrics
        self._set(
            late_commits=metrics.late_commits.record(1, self._time.now()),
            late_commits_total=metrics.late_commits_total + 1,
        )

    def record_retry(self) -> None:
        """Record a failure that is retried."""
        self._set(retries=self._metrics.retries + 1, last_error_ms=self._time.wall_ms())

    def record_failure(self, errors: ErrorCounts = NO_ERRORS) -> None:
        """Record the failure of the task; `errors` are those of its last batch."""
        self._count_failed_commit()
        self._set(
            last_error_ms=self._time.wall_ms(),
            committing_s=None,
            commit_failure="",
            errors=self._metrics.errors + errors,
        )

    def _count_failed_commit(self) -> None:
        if self._commit_began_s is not None:
            self._commit_began_s = None
            self._set(commit_results=self._metrics.commit_results.record(0, self._time.now()))

    def _set(self, **parts: Any) -> None:
        for name, value in parts.items():
            setattr(self._metrics, name, value)
        self._publish(self._task, self._metrics)
