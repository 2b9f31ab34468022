"""Where the parts of a worker publish their numbers, for scrapes to take.

Each entry has one writer: a task's actor its own numbers, the worker's actor what lives here, membership the
group's. Entries are immutable and are replaced whole, so a reader needs no lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kraal.ids import Instance, State, TaskId
from kraal.metrics.group import GroupNumbers, no_rebalance
from kraal.metrics.task import TaskNumbers, Time
from kraal.metrics.windows import Sampled, Windows


@dataclass(frozen=True, slots=True)
class Startups:
    """How starts of connectors, or of tasks, ended. Source: WorkerMetricsGroup."""

    results: Sampled
    """1 for a start that succeeded, 0 for one that failed."""
    succeeded: int = 0
    failed: int = 0

    def ended(self, now_s: float, *, well: bool) -> Startups:
        """Return the same with one start more."""
        return replace(
            self,
            results=self.results.record(int(well), now_s),
            succeeded=self.succeeded + well,
            failed=self.failed + (not well),
        )


class Work:
    """How long one life of a task has been at one step. Called by one thread of the engine at a time."""

    __slots__ = ("_time", "since_s")

    def __init__(self, time: Time) -> None:
        self._time = time
        self.since_s: float | None = None
        """When the step began, monotonic; None: nothing is being done."""

    def __call__(self, *, busy: bool) -> None:
        """A step begins, or is tried again; or it has ended. `TaskSpec.working`."""
        if not busy:
            self.since_s = None
        elif self.since_s is None:
            self.since_s = self._time.now()


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """All that was published, at one moment."""

    living: Mapping[Instance, str | None]
    """What runs in this process, or has failed and was not taken away, with the version of its plugin."""
    tasks: Mapping[TaskId, TaskNumbers]
    partitions: Mapping[TaskId, int]
    working: Mapping[TaskId, float]
    """Since when tasks have been at one step of their work in the engine; monotonic seconds."""
    connector_startups: Startups
    task_startups: Startups
    group: GroupNumbers | None
    """None in standalone."""


class Board:
    """Holds what was published last. `picture` may be called by any thread."""

    def __init__(self, time: Time, windows: Windows, *, in_group: bool, stall_s: float = 300.0) -> None:
        """`stall_s`: how long a step of a task may take before the task counts as stalled; 0: for ever."""
        self.stall_s = stall_s
        self.time = time
        self.windows = windows
        self.group = no_rebalance(windows) if in_group else None
        """Written by membership."""
        self._living: dict[Instance, str | None] = {}
        self._states: dict[Instance, State] = {}
        """The latest of each that lives; no RUNNING among them is forgotten in `_up`."""
        self._up: set[Instance] = set()
        """Those whose start has succeeded."""
        self._tasks: dict[TaskId, TaskNumbers] = {}
        self._partitions: dict[TaskId, int] = {}
        self._work: dict[TaskId, Work] = {}
        self._connector_startups = Startups(Sampled(windows))
        self._task_startups = Startups(Sampled(windows))

    def picture(self) -> Picture:
        """Return what is published now."""
        return Picture(
            living=self._living.copy(),
            tasks=self._tasks.copy(),
            partitions=self._partitions.copy(),
            working={
                t: since for t, work in self._work.copy().items() if (since := work.since_s) is not None
            },
            connector_startups=self._connector_startups,
            task_startups=self._task_startups,
            group=self.group,
        )

    # -- tasks ---------------------------------------------------------------------------------------------

    def publish(self, task: TaskId, numbers: TaskNumbers) -> None:
        """Take over a task's numbers. The task's actor."""
        self._tasks[task] = numbers

    def has_partitions(self, task: TaskId, count: int) -> None:
        """Take over how many partitions a sink's task has. One thread of the engine at a time."""
        self._partitions[task] = count

    def follow(self, task: TaskId) -> Work:
        """Begin to follow a life of a task; what an earlier one still says counts for nothing. The task's actor."""
        work = self._work[task] = Work(self.time)
        return work

    # -- the worker's actor --------------------------------------------------------------------------------

    def started(self, instance: Instance) -> None:
        """A life of an instance begins."""
        self._forget(instance)
        self._living[instance] = None

    def changed(self, instance: Instance, state: State, version: str | None) -> None:
        """An instance that lives says how it is; saying the same again counts for nothing."""
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

    def gone(self, instance: Instance) -> None:
        """The life of an instance is over."""
        self._forget(instance)

    def _forget(self, instance: Instance) -> None:
        self._living.pop(instance, None)
        self._states.pop(instance, None)
        self._up.discard(instance)
        if isinstance(instance, TaskId):
            self._tasks.pop(instance, None)
            self._partitions.pop(instance, None)
            self._work.pop(instance, None)
