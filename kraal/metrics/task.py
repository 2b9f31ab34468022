"""Metrics of a task since its last start.

`TaskMetrics` contains the published values; `TaskMeter` is the meter to which the task's actor
reports events.
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
    """Source of the current time."""

    def now(self) -> float:
        """Return the monotonic time in seconds."""

    def wall_ms(self) -> int:
        """Return the wall-clock time in milliseconds since the epoch."""


@dataclass(frozen=True, slots=True)
class StateTimes:
    """The time that an instance has spent in each state since its first state."""

    state: State | None = None
    since_s: float = 0.0
    before: Mapping[State, float] = field(default_factory=dict)
    """Seconds in each state before the current period."""

    def with_state(self, state: State, now_s: float) -> StateTimes:
        """Return a copy in another state."""
        if state is self.state:
            return self
        if self.state is None:
            return StateTimes(state, now_s)
        state_s = self.before.get(self.state, 0.0) + now_s - self.since_s
        return StateTimes(state, now_s, {**self.before, self.state: state_s})

    def ratio(self, state: State, now_s: float) -> float:
        """Return the fraction of time spent in `state`, from 0 to 1."""
        if self.state is None:
            return 0.0
        period_s = now_s - self.since_s
        total_s = period_s + sum(self.before.values())
        state_s = self.before.get(state, 0.0) + (period_s if state is self.state else 0.0)
        return state_s / total_s if total_s else 0.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Durations of one phase of a task's batches in this run: polls, writes or commits."""

    latest_ms: float | None = None
    """Duration of the latest occurrence in milliseconds; None if it did not occur or cannot be measured."""
    total_ms: float = 0.0
    count: int = 0

    def add_duration(self, seconds: float) -> Phase:
        """Return a copy with one more occurrence."""
        return self.add_occurrences(seconds * 1000, 1)

    def add_occurrences(self, total_ms: float, count: int) -> Phase:
        """Return a copy with `count` more occurrences of a total duration; their mean is the latest duration."""
        if not count:
            return self
        return Phase(total_ms / count, self.total_ms + total_ms, self.count + count)

    def mean_since(self, earlier: Phase) -> float | None:
        """Return the mean in milliseconds since an earlier state of this phase; None without occurrences since."""
        count = self.count - earlier.count
        return (self.total_ms - earlier.total_ms) / count if count else None


NO_PHASE: Final = Phase()


@dataclass(slots=True, kw_only=True)
class TaskMetrics:
    """The current metrics of a task. Durations in samples are milliseconds, as exported.

    The meter sets the fields, whose values are immutable, on the thread of the task's actor. Reads are thread-safe.
    """

    is_source: bool
    states: StateTimes = StateTimes()
    batch_size: Sampled
    records: Sampled
    """Written records per batch, for the rate."""
    records_total: int = 0
    batch_ms: Sampled
    """Durations of a source plugin's polls, or of writing a sink's batches, as in Connect's attributes."""
    poll: Phase = NO_PHASE
    """Polls that returned records, for sources only."""
    write: Phase = NO_PHASE
    """Writes; a write lasts from the end of a source's poll, or of a sink's read, until the batch is written."""
    commit: Phase = NO_PHASE
    """Successful offset commits; transactions commit as part of the writes."""
    commit_ms: Sampled
    """Durations of successful commits."""
    commit_results: Sampled
    """1 for a successful commit, 0 for a failed one."""
    commits: Sampled
    """1 for each successful commit."""
    commits_total: int = 0
    commit_number: int = 0
    """Number of attempted commits."""
    late_commits: Sampled
    late_commits_total: int = 0
    retries: int = 0
    last_error_ms: int = 0
    """Milliseconds since the epoch; 0 without errors."""
    read: Sampled
    """Read records per batch, including skipped records, for the rate."""
    read_total: int = 0
    errors: ErrorCounts = NO_ERRORS
    """Counts of record errors."""
    transaction_size: Sampled
    """Records per transaction of an exactly-once source."""
    batch_s: float | None = None
    """Time of the latest written batch, in monotonic seconds; None if this run has not written a batch."""
    write_path: str = ""
    """The write path of the latest batch, with the reason, as text."""
    committing_s: float | None = None
    """Start of the current offset commit, including retries; None if no commit is in progress."""
    commit_failure: str = ""
    """Error of the latest commit attempt; empty if it did not fail."""


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
    """Measures one incarnation of a task and publishes its metrics. Used on its actor's thread only."""

    def __init__(
        self,
        task: TaskId,
        *,
        is_source: bool,
        time: Time,
        windows: Windows,
        publish: Callable[[TaskId, TaskMetrics], None],
    ) -> None:
        """Create a meter. `publish` is called after each change, always with the same object."""
        self._task = task
        self._time = time
        self._publish = publish
        self._metrics = empty_metrics(windows, is_source=is_source)
        self._commit_began_s: float | None = None

    def record_state(self, state: State) -> None:
        """Record a state that the task reports."""
        self._set(states=self._metrics.states.with_state(state, self._time.now()))

    def record_batch(
        self,
        *,
        records: int,
        duration_s: float,
        poll_s: float,
        read: int | None = None,
        errors: ErrorCounts = NO_ERRORS,
        write_path: str = "",
        continuous: bool = False,
        batches: int = 1,
    ) -> None:
        """Record a written batch, or several at once.

        `records`: number of written records; `read`: number of records read, by default the same; `errors`: counts of
        failed records; `duration_s`: duration of the write; `poll_s`: duration of a source's poll; `write_path`: the
        write path, with the reason; `continuous`: the durations are the time since the last report, not durations of
        phases; `batches`: the number of batches, whose records and durations are summed.
        """
        records_read = records if read is None else read
        metrics, now_s = self._metrics, self._time.now()
        batch_duration_s = poll_s if metrics.is_source else duration_s
        self._set(
            batch_size=metrics.batch_size.record(records_read / batches, now_s),
            read=metrics.read.record(records_read, now_s),
            read_total=metrics.read_total + records_read,
            errors=metrics.errors if errors is NO_ERRORS else metrics.errors + errors,
            last_error_ms=max(metrics.last_error_ms, errors.last_error_ms),
            records=metrics.records.record(records, now_s),
            records_total=metrics.records_total + records,
            batch_ms=metrics.batch_ms.record(batch_duration_s * 1000 / batches, now_s),
            poll=metrics.poll.add_occurrences(
                poll_s * 1000, batches if metrics.is_source and not continuous else 0
            ),
            write=metrics.write.add_occurrences(duration_s * 1000, 0 if continuous else batches),
            batch_s=now_s,
            write_path=write_path,
        )

    def record_commit_start(self) -> None:
        """Record the start of an offset commit."""
        self._commit_began_s = now_s = self._time.now()
        since_s = self._metrics.committing_s
        self._set(
            commit_number=self._metrics.commit_number + 1, committing_s=now_s if since_s is None else since_s
        )

    def record_commit(self) -> None:
        """Record a successful commit. No-op unless a commit is in progress."""
        if self._commit_began_s is None:
            return
        commit_duration_s = self._time.now() - self._commit_began_s
        self._set(commit=self._metrics.commit.add_duration(commit_duration_s))
        self._count_commit(commit_duration_s)

    def record_phases(self, *, poll: Phase, write: Phase, commit: Phase) -> None:
        """Add the phases of a continuous run since its last report."""
        metrics = self._metrics
        self._set(
            poll=metrics.poll.add_occurrences(poll.total_ms, poll.count),
            write=metrics.write.add_occurrences(write.total_ms, write.count),
            commit=metrics.commit.add_occurrences(commit.total_ms, commit.count),
        )

    def _count_commit(self, commit_duration_s: float) -> None:
        metrics, now_s = self._metrics, self._time.now()
        self._commit_began_s = None
        self._set(
            commit_ms=metrics.commit_ms.record(commit_duration_s * 1000, now_s),
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
        """Record the failure of the task; `errors`: error counts of its last batch."""
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

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self._metrics, name, value)
        self._publish(self._task, self._metrics)
