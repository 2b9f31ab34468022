"""The registry in which the components of a worker publish their metrics for scrapes.

Each entry has one writer: a task's actor for its own metrics, the worker's actor for the running instances, membership
for the group's. Entries are immutable and replaced as a whole, so readers need no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kraal.core.ids import ConnectorName, Instance, State, TaskId
from kraal.metrics.group import GroupMetrics, no_rebalance
from kraal.metrics.stalls.work import Backlog, Step, Work, next_backlog, next_exact_backlog
from kraal.metrics.task import TaskMetrics, Time
from kraal.metrics.windows import Sampled, Windows


@dataclass(frozen=True, slots=True)
class Startups:
    """The results of starts of connectors, or of tasks. Source: WorkerMetricsGroup."""

    results: Sampled
    """1 for a start that succeeded, 0 for one that failed."""
    succeeded: int = 0
    failed: int = 0

    def add_start(self, now_s: float, *, well: bool) -> Startups:
        """Return a copy with one more start."""
        return replace(
            self,
            results=self.results.record(int(well), now_s),
            succeeded=self.succeeded + well,
            failed=self.failed + (not well),
        )


@dataclass(frozen=True, slots=True)
class Life:
    """The current incarnation of an instance. Times are monotonic seconds."""

    started_s: float
    state: State | None = None
    """The latest state that it reported; None: none yet."""
    state_s: float | None = None
    """When it reported that state."""
    refusal: str = ""
    """Why a connector made no task configs in the latest attempt; empty if it made some."""
    refused_s: float | None = None
    """Since when a connector has made none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMetrics:
    """All published metrics at one moment."""

    living: Mapping[Instance, str | None]
    """The instances that run in this process, or failed and were not removed, with their plugins' versions."""
    tasks: Mapping[TaskId, TaskMetrics]
    partitions: Mapping[TaskId, int]
    backlogs: Mapping[TaskId, Backlog]
    """The backlogs of sink tasks, where known."""
    steps: Mapping[TaskId, Step]
    """Each task's current step in the engine."""
    lives: Mapping[Instance, Life]
    """Those of the living instances."""
    no_partitions_s: Mapping[TaskId, float]
    """Since when each task has had no partition, in monotonic seconds, if its engine has reported so."""
    unassigned: Mapping[TaskId, str]
    """Why sink tasks without partitions have none, where there is a reason."""
    connector_startups: Startups
    task_startups: Startups
    group: GroupMetrics | None
    """None in standalone mode."""


class MetricsRegistry:
    """The latest published metrics. `current` may be called by any thread."""

    def __init__(self, time: Time, windows: Windows, *, in_group: bool, stall_s: float = 60.0) -> None:
        """Create an empty registry. `stall_s`: time without progress after which a task is stalled; 0: never."""
        self.stall_s = stall_s
        self.time = time
        self.windows = windows
        self.group = no_rebalance(windows) if in_group else None
        """Written by membership."""
        self._living: dict[Instance, str | None] = {}
        self._lives: dict[Instance, Life] = {}
        """Those of the living instances; all that are RUNNING are also in `_up`."""
        self._up: set[Instance] = set()
        """The instances that started successfully."""
        self._tasks: dict[TaskId, TaskMetrics] = {}
        self._partitions: dict[TaskId, int] = {}
        self._no_partitions_s: dict[TaskId, float] = {}
        self._backlogs: dict[TaskId, Backlog] = {}
        self._unassigned: Mapping[TaskId, str] = {}
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
            steps={t: step for t, work in self._work.copy().items() if (step := work.step) is not None},
            lives=self._lives.copy(),
            no_partitions_s=self._no_partitions_s.copy(),
            unassigned=self._unassigned,
            connector_startups=self._connector_startups,
            task_startups=self._task_startups,
            group=self.group,
        )

    # -- tasks ---------------------------------------------------------------------------------------------

    def publish(self, task: TaskId, task_metrics: TaskMetrics) -> None:
        """Publish a task's metrics. Called by the task's actor."""
        self._tasks[task] = task_metrics

    def has_partitions(self, task: TaskId, count: int) -> None:
        """Publish the number of a sink task's partitions. Called by one thread of the engine at a time."""
        self._partitions[task] = count
        if count:
            self._no_partitions_s.pop(task, None)
        else:
            self._backlogs.pop(task, None)
            self._no_partitions_s.setdefault(task, self.time.now())

    def has_backlog(self, task: TaskId, records: int, *, exact: bool = False, paused: int = 0) -> None:
        """Publish how many records a sink task is behind, see `Backlog`. Called by one thread at a time."""
        task_metrics = self._tasks.get(task)
        read_total = 0 if task_metrics is None else task_metrics.read_total
        before = self._backlogs.get(task)
        now_s = self.time.now()
        self._backlogs[task] = (
            next_exact_backlog(before, records, read_total, now_s, paused)
            if exact
            else next_backlog(before, records, read_total, now_s)
        )

    def follow(self, task: TaskId) -> Work:
        """Track a new run of a task; reports of earlier runs are ignored. Called by the task's actor."""
        work = self._work[task] = Work(self.time)
        return work

    def set_unassigned(self, reasons: Mapping[TaskId, str]) -> None:
        """Publish why sink tasks without partitions have none. Called by the thread that watches for stalls."""
        self._unassigned = reasons

    # -- the worker's actor --------------------------------------------------------------------------------

    def record_start(self, instance: Instance) -> None:
        """Record the start of an instance."""
        self._forget(instance)
        self._living[instance] = None
        self._lives[instance] = Life(self.time.now())

    def record_task_configs(self, name: ConnectorName, refusal: str | None) -> None:
        """Record that a connector made task configs, or why it made none."""
        life = self._lives.get(name)
        if life is None:
            return
        if refusal is None:
            self._lives[name] = replace(life, refusal="", refused_s=None)
        else:
            since_s = self.time.now() if life.refused_s is None else life.refused_s
            self._lives[name] = replace(life, refusal=refusal, refused_s=since_s)

    def record_state(self, instance: Instance, state: State, version: str | None) -> None:
        """Record the state of a running instance; an unchanged state has no effect."""
        now_s = self.time.now()
        life = self._lives.get(instance, Life(now_s))
        if life.state is state:
            return
        self._lives[instance] = replace(life, state=state, state_s=now_s)
        self._living[instance] = version or self._living.get(instance)
        if instance in self._up or state not in (State.RUNNING, State.FAILED):
            return
        well = state is State.RUNNING
        if well:
            self._up.add(instance)
        if isinstance(instance, TaskId):
            self._task_startups = self._task_startups.add_start(now_s, well=well)
        else:
            self._connector_startups = self._connector_startups.add_start(now_s, well=well)

    def remove(self, instance: Instance) -> None:
        """Record the end of an instance."""
        self._forget(instance)

    def _forget(self, instance: Instance) -> None:
        self._living.pop(instance, None)
        self._lives.pop(instance, None)
        self._up.discard(instance)
        if isinstance(instance, TaskId):
            self._tasks.pop(instance, None)
            self._partitions.pop(instance, None)
            self._no_partitions_s.pop(instance, None)
            self._backlogs.pop(instance, None)
            self._work.pop(instance, None)
