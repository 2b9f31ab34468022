"""Status information in addition to Connect's states: automatic restarts, and instances without progress. Pure.

The information is available only on the worker that runs an instance. It is not written to the internal topics, which
Java workers also read.
`kraal.metrics.stalls.causes` decides which instances are stalled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from kraal.cluster.decisions.auto_restart import (
    FailureHistory,
    explain_no_restart,
    is_supervised,
    restarts_in_window,
)
from kraal.cluster.views.rest import shown_state, task_state
from kraal.config.connector.auto_restart import AutoRestart, parse_policy
from kraal.core.ids import ConnectorName, Instance, Json, State, TaskId
from kraal.core.secrets import secrets
from kraal.metrics.stalls.causes import ConnectorFacts, Stall, TaskFacts, connector_stall, task_stall
from kraal.metrics.stalls.down_parts import DownPart, find_group_outage
from kraal.metrics.thread_pools import PoolState, unhealthy_reason

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.metrics.registry import CurrentMetrics, InstanceState, MetricsRegistry


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a task."""

    step_s: float | None = None
    """Time spent in the current step or offset commit; None if there is neither."""
    batch_age_s: float | None = None
    """Time since the latest batch was written; None if this run has written no batch."""
    write_path: str | None = None
    """The write path of the latest batch, with the reason."""
    stall: Stall | None = None

    @property
    def stalled(self) -> bool:
        """Whether the task is stalled."""
        return self.stall is not None

    @property
    def cause(self) -> str | None:
        """The cause of the stall, without secrets."""
        return None if self.stall is None else secrets.scrub(self.stall.cause)


def task_progress(
    current: CurrentMetrics,
    task: TaskId,
    state: State,
    now_s: float,
    stall_timeout_s: float,
    trace: str | None = None,
) -> Progress:
    """Return the progress of a task of this worker; `state` and `trace` are the values in the REST API."""
    task_metrics, step = current.tasks.get(task), current.steps.get(task)
    starts_s = (
        None if step is None else step.since_s,
        None if task_metrics is None else task_metrics.committing_s,
    )
    since_s = min((start_s for start_s in starts_s if start_s is not None), default=None)
    batch_s = None if task_metrics is None else task_metrics.batch_s
    return Progress(
        step_s=None if since_s is None else max(now_s - since_s, 0.0),
        batch_age_s=None if batch_s is None else max(now_s - batch_s, 0.0),
        write_path=None if task_metrics is None else task_metrics.write_path or None,
        stall=task_stall(_task_facts(current, task, state, trace), now_s, stall_timeout_s),
    )


def _task_facts(current: CurrentMetrics, task: TaskId, state: State, trace: str | None) -> TaskFacts:
    instance_state, task_metrics = current.instance_states.get(task), current.tasks.get(task)
    is_sink = task_metrics is not None and not task_metrics.is_source
    return TaskFacts(
        state=state,
        trace=trace,
        started_s=None if instance_state is None else instance_state.started_s,
        reported_state=None if instance_state is None else instance_state.state,
        reported_s=None if instance_state is None else instance_state.state_s,
        step=current.steps.get(task),
        committing_s=None if task_metrics is None else task_metrics.committing_s,
        commit_failure="" if task_metrics is None else task_metrics.commit_failure,
        read_total=0 if task_metrics is None else task_metrics.read_total,
        backlog=current.backlogs.get(task),
        partitions=current.partitions.get(task, 0),
        no_partitions_reason=current.no_partitions_reasons.get(task, ""),
        waiting_for_group_since_s=current.waiting_for_group_s.get(task),
        no_partitions_since_s=_no_partitions_since_s(current, task, instance_state) if is_sink else None,
    )


def _no_partitions_since_s(
    current: CurrentMetrics, task: TaskId, instance_state: InstanceState | None
) -> float | None:
    """Return the time since which a running sink task has had no partitions; None if it has partitions."""
    if instance_state is None or instance_state.state_s is None or current.partitions.get(task):
        return None
    return max(instance_state.state_s, current.no_partitions_s.get(task, instance_state.state_s))


def _connector_facts(snapshot: Snapshot, current: CurrentMetrics, name: ConnectorName) -> ConnectorFacts:
    instance_state, entry = current.instance_states.get(name), snapshot.config.connectors.get(name)
    statuses = snapshot.status.statuses.get(name)
    status = None if statuses is None else statuses.connector
    return ConnectorFacts(
        state=shown_state(snapshot, name, State.UNASSIGNED if status is None else status.state),
        trace=None if status is None else status.trace,
        started_s=None if instance_state is None else instance_state.started_s,
        reported_state=None if instance_state is None else instance_state.state,
        reported_s=None if instance_state is None else instance_state.state_s,
        has_configs=entry is None or (bool(entry.tasks or entry.tasks_version) and not entry.inconsistent),
        failure="" if instance_state is None else instance_state.failure,
        failing_since_s=None if instance_state is None else instance_state.failing_since_s,
    )


def connector_stalls(
    snapshot: Snapshot,
    current: CurrentMetrics,
    now_s: float,
    stall_timeout_s: float,
    only: ConnectorName | None = None,
) -> Iterator[tuple[ConnectorName, Stall | None]]:
    """Yield the connector instances of this worker in order, with their stalls; with `only`, just that connector."""
    instances = current.plugin_versions if only is None else {only}.intersection(current.plugin_versions)
    for name in sorted(instance for instance in instances if not isinstance(instance, TaskId)):
        yield name, connector_stall(_connector_facts(snapshot, current, name), now_s, stall_timeout_s)


def progress(
    snapshot: Snapshot, current: CurrentMetrics, now_s: float, stall_timeout_s: float
) -> Iterator[tuple[TaskId, Progress]]:
    """Yield the progress of each task of this worker, sorted by name and number."""
    tasks = [instance for instance in current.plugin_versions if isinstance(instance, TaskId)]
    for task in sorted(tasks):
        state, trace = task_state(snapshot, task), task_trace(snapshot, task)
        yield task, task_progress(current, task, state, now_s, stall_timeout_s, trace)


def task_trace(snapshot: Snapshot, task: TaskId) -> str | None:
    """Return the trace in a task's status."""
    statuses = snapshot.status.statuses.get(task.connector)
    status = None if statuses is None else statuses.tasks.get(task.task)
    return None if status is None else status.trace


@dataclass(frozen=True, slots=True)
class StallDetection:
    """Detects stalls from published metrics. Thread-safe; sends no messages."""

    metrics: MetricsRegistry
    policy: AutoRestart
    """The worker's restart policy."""
    pools: Callable[[], Sequence[PoolState]] = tuple
    """Returns the states of the thread pools, including stuck calls."""
    down_parts: Callable[[], Sequence[DownPart]] = tuple
    """Returns the components that are down."""

    def unhealthy_reason(self) -> str | None:
        """Return the reason why `GET /health` fails although the herder responds; None if the check succeeds."""
        return unhealthy_reason(self.pools())

    def status(self, snapshot: Snapshot, name: ConnectorName) -> dict[str, Json]:
        """Return the fields that `GET /connectors/{c}/status?expand=supervision` adds for instances of this worker.

        The keys are `policy`, `connector` (if its instance runs on this worker) and `tasks`. The connector and each
        task contain `worker_id`.
        """
        now_s = self.metrics.time.now()
        current = self.metrics.current()
        entry = snapshot.config.connectors.get(name)
        policy = self.policy if entry is None else parse_policy(entry.config, self.policy)
        response: dict[str, Json] = {"policy": _policy(policy)}
        worker_field: dict[str, Json] = {"worker_id": snapshot.worker_id}
        if name in current.plugin_versions:
            [(_, stall)] = connector_stalls(snapshot, current, now_s, self.metrics.stall_timeout_s, name)
            restarts = _restarts(policy, name, snapshot.watched.get(name), now_s)
            response["connector"] = worker_field | restarts | _stall(stall)
        tasks: list[Json] = []
        for task in sorted(
            instance
            for instance in current.plugin_versions
            if isinstance(instance, TaskId) and instance.connector == name
        ):
            state, trace = task_state(snapshot, task), task_trace(snapshot, task)
            progress_of_task = task_progress(current, task, state, now_s, self.metrics.stall_timeout_s, trace)
            tasks.append(
                {
                    "id": task.task,
                    **worker_field,
                    **_restarts(policy, task, snapshot.watched.get(task), now_s),
                    **_stall(progress_of_task.stall),
                    "step_ms": _ms(progress_of_task.step_s),
                    "last_batch_age_ms": _ms(progress_of_task.batch_age_s),
                    "last_batch_way": progress_of_task.write_path,
                }
            )
        response["tasks"] = tasks
        return response

    def stalled_tasks(self, snapshot: Snapshot) -> list[Json]:
        """Return the stalled tasks of this worker for `GET /health`."""
        now_s = self.metrics.time.now()
        all_progress = progress(snapshot, self.metrics.current(), now_s, self.metrics.stall_timeout_s)
        return [
            {
                "connector": task.connector,
                "task": task.task,
                "cause": progress_of_task.cause,
                "stalled_ms": _ms(now_s - progress_of_task.stall.since_s),
                "step_ms": _ms(progress_of_task.step_s),
                "last_batch_age_ms": _ms(progress_of_task.batch_age_s),
            }
            for task, progress_of_task in all_progress
            if progress_of_task.stall is not None
        ]

    def stalled_connectors(self, snapshot: Snapshot) -> list[Json]:
        """Return the stalled connector instances of this worker for `GET /health`."""
        now_s = self.metrics.time.now()
        return [
            {
                "connector": name,
                "cause": secrets.scrub(stall.cause),
                "stalled_ms": _ms(now_s - stall.since_s),
            }
            for name, stall in connector_stalls(
                snapshot, self.metrics.current(), now_s, self.metrics.stall_timeout_s
            )
            if stall is not None
        ]

    def causes(self, snapshot: Snapshot) -> dict[str, tuple[str, str]]:
        """Return the kind and cause of each stall, by subject: connectors, then tasks, then failed components."""
        now_s, stall_timeout_s, current = (
            self.metrics.time.now(),
            self.metrics.stall_timeout_s,
            self.metrics.current(),
        )
        stalls = chain(
            (
                (f"connector {name}", stall)
                for name, stall in connector_stalls(snapshot, current, now_s, stall_timeout_s)
            ),
            (
                (f"task {task}", progress_of_task.stall)
                for task, progress_of_task in progress(snapshot, current, now_s, stall_timeout_s)
            ),
        )
        causes = {
            subject: (stall.kind.value, secrets.scrub(stall.cause))
            for subject, stall in stalls
            if stall is not None
        }
        return causes | {
            f"worker's {part['part']}": ("down", str(part["why"])) for part in self.components_down()
        }

    def components_down(self) -> list[dict[str, Json]]:
        """Return the components of this worker that have been down longer than the stall timeout, for `GET /health`."""
        now_s, stall_timeout_s = self.metrics.time.now(), self.metrics.stall_timeout_s
        return [
            {"part": part.name, "why": secrets.scrub(part.why), "down_ms": _ms(now_s - part.since_s)}
            for part in (*self.down_parts(), *find_group_outage(self.metrics))
            if 0 < stall_timeout_s < now_s - part.since_s
        ]


def _policy(policy: AutoRestart) -> dict[str, Json]:
    return {
        "restart": policy.scope.value,
        "max": policy.max_restarts,
        "window_ms": round(policy.window_s * 1000),
        "backoff_ms": round(policy.backoff_s * 1000),
    }


def _restarts(
    policy: AutoRestart, instance: Instance, history: FailureHistory | None, now_s: float
) -> dict[str, Json]:
    given_up = None if history is None else history.given_up
    return {
        "supervised": is_supervised(policy, instance),
        "restarts": 0 if history is None else history.total,
        "restarts_in_window": 0
        if history is None
        else len(restarts_in_window(policy, history.restarts, now_s)),
        "last_restart_ms": None if history is None else history.restarted_ms,
        "next_restart_ms": None if history is None else history.due_ms,
        "given_up": None if given_up is None else given_up.value,
        "why": None if given_up is None else explain_no_restart(policy, given_up),
    }


def _stall(stall: Stall | None) -> dict[str, Json]:
    cause = None if stall is None else secrets.scrub(stall.cause)
    return {"stalled": stall is not None, "stall_cause": cause}


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
