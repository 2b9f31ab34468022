"""The registry in which the components of a worker publish their metrics for scrapes.

Each entry has one writer: a task's actor for its own metrics, the worker's actor for the running instances, membership
for the group's. Entries are immutable and replaced as a whole, so readers need no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kraal.core.ids import Instance, State, TaskId
from kraal.metrics.group import GroupNumbers, no_rebalance
from kraal.metrics.task import TaskNumbers, Time
from kraal.metrics.windows import Sampled, Windows


@dataclass(frozen=True, slots=True)
class Startups:
    """The results of starts of connectors, or of tasks. Source: WorkerMetricsGroup."""

    results: Sampled
    """1 for a start that succeeded, 0 for one that failed."""
    succeeded: int = 0
    failed: int = 0

    def ended(self, now_s: float, *, well: bool) -> Startups:
        """Return a copy with one more start."""
        return replace(
            self,
            results=self.results.record(int(well), now_s),
            succeeded=self.succeeded + well,
            failed=self.failed + (not well),
        )


class Work:
    """The start time of the current step of one run of a task. Called by one thread of the engine at a time."""

    __slots__ = ("_time", "since_s")

    def __init__(self, time: Time) -> None:
        self._time = time
        self.since_s: float | None = None
        """The start of the step, in monotonic seconds; None if the task is idle."""

    def __call__(self, *, busy: bool) -> None:
        """Record the start or retry of a step, or its end. See `TaskSpec.working`."""
        if not busy:
            self.since_s = None
        elif self.since_s is None:
            self.since_s = self._time.now()


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMetrics:
    """All published metrics at one moment."""

    living: Mapping[Instance, str | None]
    """The instances that run in this process, or failed and were not removed, with their plugins' versions."""
    tasks: Mapping[TaskId, TaskNumbers]
    partitions: Mapping[TaskId, int]
    backlogs: Mapping[TaskId, int]
    """Records (offsets) between a sink task's position and the end of its partitions, where known."""
    working: Mapping[TaskId, float]
    """The start of each task's current step in the engine; monotonic seconds."""
    connector_startups: Startups
    task_startups: Startups
    group: GroupNumbers | None
    """None in standalone mode."""


class MetricsRegistry:
    """The latest published metrics. `current` may be called by any thread."""

    def __init__(self, time: Time, windows: Windows, *, in_group: bool, stall_s: float = 300.0) -> None:
        """Create an empty registry. `stall_s`: duration of a step after which a task counts as stalled; 0: never."""
        self.stall_s = stall_s
        self.time = time
        self.windows = windows
        self.group = no_rebalance(windows) if in_group else None
        """Written by membership."""
        self._living: dict[Instance, str | None] = {}
        self._states: dict[Instance, State] = {}
        """The latest state of each running instance; all that are RUNNING are also in `_up`."""
        self._up: set[Instance] = set()
        """The instances that started successfully."""
        self._tasks: dict[TaskId, TaskNumbers] = {}
        self._partitions: dict[TaskId, int] = {}
        self._backlogs: dict[TaskId, int] = {}
        self._work: dict[TaskId, Work] = {}
        self._connector_startups = Startups(Sampled(windows))
        self._task_startups = Startups(Sampled(windows))

    def current(self) -> CurrentMetrics:
        """Return the currently published metrics."""
        return CurrentMetrics(
            living=self._living.copy(),
            tasks=self._tasks.copy(),
            partitions=self._partitions.copy(),
            backlogs=self._backlogs.copy(),
            working={
                t: since for t, work in self._work.copy().items() if (since := work.since_s) is not None
            },
            connector_startups=self._connector_startups,
            task_startups=self._task_startups,
            group=self.group,
        )

    # -- tasks ---------------------------------------------------------------------------------------------

    def publish(self, task: TaskId, numbers: TaskNumbers) -> None:
        """Publish a task's metrics. Called by the task's actor."""
        self._tasks[task] = numbers

    def has_partitions(self, task: TaskId, count: int) -> None:
        """Publish the number of a sink task's partitions. Called by one thread of the engine at a time."""
        self._partitions[task] = count
        if not count:
            self._backlogs.pop(task, None)

    def has_backlog(self, task: TaskId, records: int) -> None:
        """Publish how many records a sink task is behind. Called by one thread of the engine at a time."""
        self._backlogs[task] = records

    def follow(self, task: TaskId) -> Work:
        """Track a new run of a task; reports of earlier runs are ignored. Called by the task's actor."""
        work = self._work[task] = Work(self.time)
        return work

    # -- the worker's actor --------------------------------------------------------------------------------

    def started(self, instance: Instance) -> None:
        """Record the start of an instance."""
        self._forget(instance)
        self._living[instance] = None

    def changed(self, instance: Instance, state: State, version: str | None) -> None:
        """Record the state of a running instance; an unchanged state has no effect."""
        if self._states.get(instance) is state:
            return
        self._states[instance] = state
        self._living[instance] = version or self._living.get(instance)
        if instance in self._up or state not in (State.RUNNING, State.FAILED):
            return
        well = state is State.RUNNING
        if well:
            self._up.add(instance)
        now_s = self.time.now()
        if isinstance(instance, TaskId):
            self._task_startups = self._task_startups.ended(now_s, well=well)
        else:
            self._connector_startups = self._connector_startups.ended(now_s, well=well)

    def remove(self, instance: Instance) -> None:
        """Record the end of an instance."""
        self._forget(instance)

    def _forget(self, instance: Instance) -> None:
        self._living.pop(instance, None)
        self._states.pop(instance, None)
        self._up.discard(instance)
        if isinstance(instance, TaskId):
            self._tasks.pop(instance, None)
            self._partitions.pop(instance, None)
            self._backlogs.pop(instance, None)
            self._work.pop(instance, None)
