"""Recent metrics of each task for charts: a sample every five seconds, for ten minutes.

One thread samples the registry, so tasks send no messages, and samples survive the death of any actor. Each task has
one array of a fixed size; the total size is bounded. A missing sample is a gap. The samples of a task that has moved to
another worker are kept until the last sample is ten minutes old.
"""

from __future__ import annotations

import logging
import math
import threading
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

from kraal.core.ids import ConnectorName, State, TaskId
from kraal.metrics.stalls.detection import task_progress
from kraal.metrics.task import NO_PHASE, Phase

if TYPE_CHECKING:
    from kraal.metrics.registry import MetricsRegistry
    from kraal.metrics.task import TaskMetrics

log = logging.getLogger(__name__)

STEP_S: Final = 5.0
STEP_MS: Final = 5000
SAMPLES: Final = 120
RECENT: Final = 24
"""Number of samples in a connector's recent rate: two minutes."""
MAX_BYTES: Final = 16 * 1024 * 1024
TASK_BYTES: Final = 3400
"""Memory of one task: its samples and the state for the next sample."""
COLUMNS: Final = ("records_per_second", "poll_ms", "write_ms", "commit_ms", "backlog_records")

Values = Sequence[float | None]
"""One value for each sample, oldest first; None for a gap or a missing value."""
_ZERO_RATES: Final[Values] = (0,) * RECENT
ChangeListener = Callable[[frozenset[ConnectorName]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """The samples of a connector's tasks on this worker."""

    start_ms: int
    """Start of the first sample in milliseconds since the epoch, a multiple of the step."""
    count: int
    """Number of samples, the same for all columns."""
    tasks: Mapping[int, Mapping[str, Values]]
    """The columns of each task by its number."""

    @staticmethod
    def merge(base: Samples, remaining: Iterable[Samples]) -> Samples:
        """Merge the samples of several workers at the times of `base`; the first value is kept. Pure."""
        tasks = {
            task: {name: [*values] for name, values in columns.items()}
            for task, columns in base.tasks.items()
        }
        for other in remaining:
            shift = (other.start_ms - base.start_ms) // STEP_MS
            for task, columns in other.tasks.items():
                merged_columns = tasks.setdefault(task, {name: [None] * base.count for name in COLUMNS})
                for name in COLUMNS:
                    _fill_gaps(merged_columns[name], columns[name], shift)
        return Samples(start_ms=base.start_ms, count=base.count, tasks=dict(sorted(tasks.items())))


def _fill_gaps(column: list[float | None], values: Values, shift: int) -> None:
    """Fill gaps in `column` with the values of another worker, which start `shift` samples later."""
    for index in range(max(shift, 0), min(len(column), len(values) + shift)):
        if column[index] is None:
            column[index] = values[index - shift]


class _Ring:
    """The samples of one task, and its metrics at the latest sample."""

    __slots__ = (
        "_commit", "_poll", "_records", "_task_metrics", "_was_stalled", "_write",
        "last_active", "last_gap", "last_present", "values",
    )  # fmt: skip

    def __init__(self, number: int) -> None:
        self.values = array("f", [math.nan]) * (SAMPLES * len(COLUMNS))
        """The concatenated columns."""
        self.last_present = self.last_active = self.last_gap = number
        """Numbers of the latest samples with the task, with changed metrics or a stall, and without the task."""
        self._was_stalled = False
        self._task_metrics: TaskMetrics | None = None
        self._records = 0
        self._poll = self._write = self._commit = NO_PHASE

    def take(
        self,
        number: int,
        task_metrics: TaskMetrics,
        backlog: int | None,
        elapsed_s: float,
        *,
        is_stalled: bool,
    ) -> None:
        """Take one sample."""
        if task_metrics is not self._task_metrics:  # the task was restarted and counts from zero
            self._task_metrics = task_metrics
            self._records = 0
            self._poll = self._write = self._commit = NO_PHASE
        values, at = self.values, number % SAMPLES
        total, previous_total = task_metrics.records_total, self._records
        values[at] = (total - previous_total) / elapsed_s
        poll, write, commit = task_metrics.poll, task_metrics.write, task_metrics.commit
        values[at + SAMPLES] = math.nan if poll is self._poll else _mean(poll, self._poll)
        values[at + 2 * SAMPLES] = math.nan if write is self._write else _mean(write, self._write)
        values[at + 3 * SAMPLES] = math.nan if commit is self._commit else _mean(commit, self._commit)
        before = values[(number - 1) % SAMPLES + 4 * SAMPLES]
        values[at + 4 * SAMPLES] = math.nan if backlog is None else backlog
        if (
            total != previous_total
            or write is not self._write
            or _differ(values[at + 4 * SAMPLES], before)
            or is_stalled
            or self._was_stalled
        ):
            self.last_active = number
        self._was_stalled = is_stalled
        self._records, self._poll, self._write, self._commit = total, poll, write, commit
        self.last_present = number

    def skip(self, number: int) -> None:
        """Record a gap for this sample."""
        self.last_gap, at = number, number % SAMPLES
        for column in range(len(COLUMNS)):
            self.values[at + column * SAMPLES] = math.nan

    def leave(self) -> None:
        """Record that the task has left this worker."""
        self._task_metrics = None

    def column(self, column: int, first: int, count: int) -> list[float]:
        """Return `count` values of a column starting at sample `first`; NaN for gaps."""
        begin = column * SAMPLES
        at = first % SAMPLES
        until = at + count
        values = self.values[begin + at : begin + min(until, SAMPLES)].tolist()
        return values + self.values[begin : begin + until - SAMPLES].tolist() if until > SAMPLES else values


class Series:
    """The samples of this worker's tasks. `sample` is called by one thread; other methods are thread-safe."""

    def __init__(self, metrics: MetricsRegistry, max_bytes: int = MAX_BYTES) -> None:
        """Create the series. `max_bytes`: memory limit for all tasks; tasks beyond the limit have no samples."""
        self._metrics = metrics
        self._max_tasks = max_bytes // TASK_BYTES
        self._lock = threading.Lock()
        self._rings: dict[TaskId, _Ring] = {}
        self._first = self._number = self._current_number()
        """Numbers of the first sample, which is a gap, and of the latest sample; number * step is the sample's time."""
        self._sampled_s = metrics.time.now()
        self._zero_ms = self._current_zero_ms()
        """Wall-clock time of sample 1, a multiple of the step."""
        self._recent: tuple[int, Mapping[ConnectorName, Values]] = (-1, {})
        """The number of the latest sample in the recent rates, and the rates."""
        self._listeners: tuple[ChangeListener, ...] = ()
        self._has_warned = False

    # -- the sampler ---------------------------------------------------------------------------------------

    def due_in_s(self) -> float:
        """Return the seconds until the next sample is due."""
        return max(0.0, (self._number + 1) * STEP_S - self._metrics.time.now())

    def sample(self) -> None:
        """Take one sample of each task if it is due, and notify the listeners."""
        current = self._metrics.current()
        with self._lock:
            number, now_s = self._current_number(), self._metrics.time.now()
            if number <= self._number:
                return
            elapsed_s, self._sampled_s = max(now_s - self._sampled_s, 0.001), now_s
            skipped_numbers = range(max(self._number + 1, number - SAMPLES), number)
            self._number = number
            for skipped_number in skipped_numbers:
                self._skip(skipped_number)
            self._follow_wall_clock()
            removed_tasks = self._skip_removed(current.tasks, number)
            for task, task_metrics in current.tasks.items():
                ring = self._rings.get(task) or self._new_ring(task, number, removed_tasks)
                if ring is not None:
                    is_running = task_metrics.states.state is State.RUNNING
                    backlog = current.backlogs.get(task) if is_running else None
                    state = task_metrics.states.state or State.UNASSIGNED
                    is_stalled = task_progress(
                        current, task, state, now_s, self._metrics.stall_timeout_s
                    ).stalled
                    records = None if backlog is None else backlog.records
                    ring.take(number, task_metrics, records, elapsed_s, is_stalled=is_stalled)
            changed_connectors = self._changed_connectors() if self._listeners else frozenset()
        for listener in self._listeners if changed_connectors else ():
            listener(changed_connectors)

    def listen(self, on_change: ChangeListener) -> Callable[[], None]:
        """Call `on_change` after each sample with the connectors whose metrics changed.

        Returns a function that removes the listener. `on_change` is called on the sampler's thread, only if there are
        changed connectors, and must not block.
        """
        with self._lock:
            self._listeners = (*self._listeners, on_change)

        def end() -> None:
            with self._lock:
                self._listeners = tuple(listener for listener in self._listeners if listener is not on_change)

        return end

    # -- readers -------------------------------------------------------------------------------------------

    def of(self, name: ConnectorName, since_ms: int | None = None) -> Samples:
        """Return the samples of a connector's tasks since `since_ms`, by default all."""
        with self._lock:
            first = max(self._first, self._number - SAMPLES) + 1
            start_ms = self._zero_ms + (first - 1) * STEP_MS
            if since_ms is not None and since_ms > start_ms:
                skipped_count = min(-((start_ms - since_ms) // STEP_MS), self._number - first + 1)
                first, start_ms = first + skipped_count, start_ms + skipped_count * STEP_MS
            count = max(self._number - first + 1, 0)
            tasks = {
                task.task: {
                    column: _round(
                        ring.column(at, first, count), whole=at == COLUMNS.index("backlog_records")
                    )
                    for at, column in enumerate(COLUMNS)
                }
                for task, ring in self._rings.items()
                if task.connector == name
            }
        return Samples(start_ms=start_ms, count=count, tasks=dict(sorted(tasks.items())))

    def recent(self) -> Mapping[ConnectorName, Values]:
        """Return the total records per second of each connector on this worker for the last `RECENT` samples."""
        with self._lock:
            if self._recent[0] != self._number:
                self._recent = self._number, self._recent_rates()
            return self._recent[1]

    @property
    def bytes_used(self) -> int:
        """Maximum memory use of the samples."""
        return len(self._rings) * TASK_BYTES

    # -- called with the lock held -------------------------------------------------------------------------

    def _current_number(self) -> int:
        return int(self._metrics.time.now() // STEP_S)

    def _current_zero_ms(self) -> int:
        time = self._metrics.time
        return int(time.wall_ms() - time.now() * 1000) // STEP_MS * STEP_MS

    def _follow_wall_clock(self) -> None:
        """Adjust to a change of the wall clock; ignore small corrections."""
        zero_ms = self._current_zero_ms()
        if abs(zero_ms - self._zero_ms) > STEP_MS:
            self._zero_ms = zero_ms

    def _skip(self, number: int) -> None:
        for ring in self._rings.values():
            ring.skip(number)

    def _skip_removed(self, current_tasks: Collection[TaskId], number: int) -> list[TaskId]:
        """Record a gap for each removed task, and drop tasks with gaps only.

        Return the remaining removed tasks, the earliest removed last.
        """
        removed_tasks: list[TaskId] = []
        for task in [task for task in self._rings if task not in current_tasks]:
            ring = self._rings[task]
            if number - ring.last_present >= SAMPLES:
                del self._rings[task]
            else:
                ring.leave()
                ring.skip(number)
                removed_tasks.append(task)
        return sorted(removed_tasks, key=lambda task: self._rings[task].last_present, reverse=True)

    def _new_ring(self, task: TaskId, number: int, removed_tasks: list[TaskId]) -> _Ring | None:
        """Add a task. If all rings are in use, evict the earliest removed task, the last of `removed_tasks`.

        Return None if there is no removed task.
        """
        if len(self._rings) >= self._max_tasks:
            if not removed_tasks:
                self._warn()
                return None
            del self._rings[removed_tasks.pop()]
        ring = self._rings[task] = _Ring(number)
        return ring

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "Keeping recent metrics for only %d tasks; charts are unavailable for the rest",
                self._max_tasks,
            )

    def _changed_connectors(self) -> frozenset[ConnectorName]:
        oldest = self._number - RECENT
        return frozenset(task.connector for task, ring in self._rings.items() if ring.last_active >= oldest)

    def _recent_rates(self) -> dict[ConnectorName, Values]:
        first = self._number - RECENT + 1
        rates: dict[ConnectorName, Values] = {}
        for task, ring in self._rings.items():
            is_quiet = max(ring.last_active, ring.last_gap) < first
            values = _ZERO_RATES if is_quiet else _round(ring.column(0, first, RECENT))
            total = rates.get(task.connector)
            rates[task.connector] = values if total is None else add_values(total, values)
        return rates


class Sampler:
    """Context manager of the thread that takes the samples of a series."""

    def __init__(self, series: Series, pause_s: float = STEP_S) -> None:
        """Create the sampler. `pause_s`: delay after an error."""
        self._series = series
        self._pause_s = pause_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        """Start the thread."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread, and wait for a sample in progress."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._series.due_in_s()):
            try:
                self._series.sample()
            except Exception:
                log.warning("Failed to sample the metrics of tasks", exc_info=True)
                self._closed.wait(self._pause_s)


def add_values(one: Values, other: Values) -> list[float | None]:
    """Add values of the same samples; a gap in one operand is treated as 0. Pure."""
    return [b if a is None else a if b is None else round(a + b, 2) for a, b in zip(one, other, strict=True)]


def _mean(phase: Phase, previous_phase: Phase) -> float:
    mean_ms = phase.mean_since(previous_phase)
    return math.nan if mean_ms is None else mean_ms


def _differ(one: float, other: float) -> bool:
    return one != other and not (math.isnan(one) and math.isnan(other))


def _round(values: Iterable[float], *, whole: bool = False) -> list[float | None]:
    digits = None if whole else 2
    return [None if math.isnan(value) else round(value, digits) if value else 0 for value in values]
