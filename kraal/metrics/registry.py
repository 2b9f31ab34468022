"""The registry in which the components of a worker publish their metrics for scrapes.

Each entry has one writer: a task's actor for its metrics, the worker's actor for the running instances, membership for
the group's metrics. Published values are immutable, so readers need no lock; `TaskMetrics` is mutable, but has only
immutable fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from kraal.core.ids import ConnectorName, Instance, State, TaskId
from kraal.core.offsets import TopicPartition
from kraal.metrics.group import GroupMetrics, no_rebalance
from kraal.metrics.partition_lags import PartitionLags, next_lags
from kraal.metrics.stalls.work import Backlog, Step, Work, next_backlog, next_exact_backlog
from kraal.metrics.table_reports import TableReport
from kraal.metrics.task import TaskMetrics, Time
from kraal.metrics.windows import Sampled, Windows

_RESTART_S: Final = 10.0
"""Maximum duration of a restart of a task, for times that a restart does not reset."""


@dataclass(frozen=True, slots=True)
class Startups:
    """Results of connector or task startups. Source: WorkerMetricsGroup."""

    results: Sampled
    """1 for a successful startup, 0 for a failed one."""
    succeeded_count: int = 0
    failed_count: int = 0

    def add_startup(self, now_s: float, *, succeeded: bool) -> Startups:
        """Return a copy with one more startup."""
        return replace(
            self,
            results=self.results.record(int(succeeded), now_s),
            succeeded_count=self.succeeded_count + succeeded,
            failed_count=self.failed_count + (not succeeded),
        )


@dataclass(frozen=True, slots=True)
class InstanceState:
    """The current incarnation of an instance. Times are monotonic seconds."""

    started_s: float
    state: State | None = None
    """The latest reported state, if any."""
    state_s: float | None = None
    """Time of the latest report."""
    failure: str = ""
    """Reason why the latest attempt to generate task configs failed; empty if the attempt succeeded."""
    failing_since_s: float | None = None
    """Time of the first failure since the last success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentMetrics:
    """All published metrics."""

    plugin_versions: Mapping[Instance, str | None]
    """Plugin version of each instance that runs in this process, or has failed and was not removed."""
    tasks: Mapping[TaskId, TaskMetrics]
    partitions: Mapping[TaskId, int]
    backlogs: Mapping[TaskId, Backlog]
    """The backlogs of sink tasks that have reported one."""
    lags: Mapping[TaskId, PartitionLags]
    """The lags of the partitions of sink tasks that have reported them."""
    tables: Mapping[TaskId, Mapping[str, TableReport]]
    """The latest reports of sink tasks about their tables, by table."""
    steps: Mapping[TaskId, Step]
    """Each task's current step in the engine."""
    instance_states: Mapping[Instance, InstanceState]
    """The states of the instances of this worker."""
    no_partitions_s: Mapping[TaskId, float]
    """Monotonic time since which each task has had no partitions; only for tasks whose engine has reported this."""
    waiting_for_group_s: Mapping[TaskId, float]
    """Monotonic time since which the consumer of each sink task has waited for its group. A restart does not end it."""
    no_partitions_reasons: Mapping[TaskId, str]
    """Known reasons why sink tasks have no partitions."""
    connector_startups: Startups
    task_startups: Startups
    group: GroupMetrics | None
    """None in standalone mode."""


class MetricsRegistry:
    """The latest published metrics. `current` is thread-safe."""

    def __init__(
        self, time: Time, windows: Windows, *, in_group: bool, stall_timeout_s: float = 60.0
    ) -> None:
        """Create an empty registry.

        A task without progress for `stall_timeout_s` is stalled; 0 disables the detection.
        """
        self.stall_timeout_s = stall_timeout_s
        self.time = time
        self.windows = windows
        self.group = no_rebalance(windows, time.now()) if in_group else None
        """Written by membership."""
        self._plugin_versions: dict[Instance, str | None] = {}
        self._instance_states: dict[Instance, InstanceState] = {}
        """The states of the instances of this worker; all RUNNING instances are also in `_started_instances`."""
        self._started_instances: set[Instance] = set()
        """The instances that started successfully."""
        self._tasks: dict[TaskId, TaskMetrics] = {}
        self._partitions: dict[TaskId, int] = {}
        self._no_partitions_s: dict[TaskId, float] = {}
        self._waiting_for_group_s: dict[TaskId, float] = {}
        self._interrupted_waits: dict[TaskId, tuple[float, float]] = {}
        """The start and the end of the wait of each sink task that has stopped while it waited for its group."""
        self._backlogs: dict[TaskId, Backlog] = {}
        self._lags: dict[TaskId, PartitionLags] = {}
        self._tables: dict[TaskId, Mapping[str, TableReport]] = {}
        self._no_partitions_reasons: Mapping[TaskId, str] = {}
        self._work: dict[TaskId, Work] = {}
        self._connector_startups = Startups(Sampled(windows))
        self._task_startups = Startups(Sampled(windows))

    def current(self) -> CurrentMetrics:
        """Return the currently published metrics."""
        return CurrentMetrics(
            plugin_versions=self._plugin_versions.copy(),
            tasks=self._tasks.copy(),
            partitions=self._partitions.copy(),
            backlogs=self._backlogs.copy(),
            lags=self._lags.copy(),
            tables=self._tables.copy(),
            steps={t: step for t, work in self._work.copy().items() if (step := work.step) is not None},
            instance_states=self._instance_states.copy(),
            no_partitions_s=self._no_partitions_s.copy(),
            waiting_for_group_s=self._waiting_for_group_s.copy(),
            no_partitions_reasons=self._no_partitions_reasons,
            connector_startups=self._connector_startups,
            task_startups=self._task_startups,
            group=self.group,
        )

    # -- tasks ---------------------------------------------------------------------------------------------

    def publish(self, task: TaskId, task_metrics: TaskMetrics) -> None:
        """Publish a task's metrics. Called by the task's actor."""
        self._tasks[task] = task_metrics

    def record_partitions(self, task: TaskId, count: int | None) -> None:
        """Publish the number of a sink task's partitions; None while it waits for its consumer group.

        Called by one engine thread at a time.
        """
        now_s = self.time.now()
        self._partitions[task] = count or 0
        if count is None:
            since_s, end_s = self._interrupted_waits.pop(task, (now_s, now_s))
            self._waiting_for_group_s.setdefault(task, since_s if now_s - end_s < _RESTART_S else now_s)
        else:
            self._waiting_for_group_s.pop(task, None)
            self._interrupted_waits.pop(task, None)
        if count:
            self._no_partitions_s.pop(task, None)
        else:
            self._backlogs.pop(task, None)
            self._lags.pop(task, None)
            self._no_partitions_s.setdefault(task, self.time.now())

    def record_backlog(self, task: TaskId, records: int, *, exact: bool = False, paused: int = 0) -> None:
        """Publish the backlog of a sink task; see `Backlog`. Called by one thread at a time."""
        task_metrics = self._tasks.get(task)
        read_total = 0 if task_metrics is None else task_metrics.read_total
        before = self._backlogs.get(task)
        now_s = self.time.now()
        self._backlogs[task] = (
            next_exact_backlog(before, records, read_total, now_s, paused)
            if exact
            else next_backlog(before, records, read_total, now_s)
        )

    def record_ends(self, task: TaskId, partitions: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Publish the position and the end of each partition of a sink task. Called by one thread at a time."""
        self._lags[task] = next_lags(self._lags.get(task, {}), partitions, self.time.now())

    def record_table(self, task: TaskId, report: TableReport) -> TableReport | None:
        """Publish the state of a table that a sink task writes; return the previous report of the table, if any.

        Called by one thread at a time.
        """
        reports = self._tables.get(task, {})
        self._tables[task] = {**reports, report.table: report}
        return reports.get(report.table)

    def track(self, task: TaskId) -> Work:
        """Start to track a new run of a task; reports of earlier runs are ignored. Called by the task's actor."""
        work = self._work[task] = Work(self.time)
        return work

    def set_no_partitions_reasons(self, reasons: Mapping[TaskId, str]) -> None:
        """Publish the reasons why sink tasks have no partitions. Called by the stall watch's thread."""
        self._no_partitions_reasons = reasons

    # -- the worker's actor --------------------------------------------------------------------------------

    def record_start(self, instance: Instance) -> None:
        """Record the start of an instance."""
        self._discard_metrics(instance)
        self._plugin_versions[instance] = None
        self._instance_states[instance] = InstanceState(self.time.now())

    def record_task_configs(self, name: ConnectorName, failure: str | None) -> None:
        """Record that a connector generated task configs, or the reason for a failure."""
        instance_state = self._instance_states.get(name)
        if instance_state is None:
            return
        if failure is None:
            self._instance_states[name] = replace(instance_state, failure="", failing_since_s=None)
        else:
            since_s = (
                self.time.now() if instance_state.failing_since_s is None else instance_state.failing_since_s
            )
            self._instance_states[name] = replace(instance_state, failure=failure, failing_since_s=since_s)

    def record_state(self, instance: Instance, state: State, version: str | None) -> None:
        """Record a state that an instance reports; an unchanged state has no effect."""
        now_s = self.time.now()
        instance_state = self._instance_states.get(instance, InstanceState(now_s))
        if instance_state.state is state:
            return
        self._instance_states[instance] = replace(instance_state, state=state, state_s=now_s)
        self._plugin_versions[instance] = version or self._plugin_versions.get(instance)
        if instance in self._started_instances or state not in (State.RUNNING, State.FAILED):
            return
        succeeded = state is State.RUNNING
        if succeeded:
            self._started_instances.add(instance)
        if isinstance(instance, TaskId):
            self._task_startups = self._task_startups.add_startup(now_s, succeeded=succeeded)
        else:
            self._connector_startups = self._connector_startups.add_startup(now_s, succeeded=succeeded)

    def remove(self, instance: Instance) -> None:
        """Remove an instance that has stopped."""
        self._discard_metrics(instance)

    def _discard_metrics(self, instance: Instance) -> None:
        self._plugin_versions.pop(instance, None)
        self._instance_states.pop(instance, None)
        self._started_instances.discard(instance)
        if isinstance(instance, TaskId):
            self._tasks.pop(instance, None)
            self._partitions.pop(instance, None)
            self._no_partitions_s.pop(instance, None)
            since_s = self._waiting_for_group_s.pop(instance, None)
            if since_s is not None:
                self._interrupted_waits[instance] = (since_s, self.time.now())
            self._backlogs.pop(instance, None)
            self._lags.pop(instance, None)
            self._tables.pop(instance, None)
            self._work.pop(instance, None)
