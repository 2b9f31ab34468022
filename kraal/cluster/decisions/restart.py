"""Restart requests, and plans of the instances to restart, based on stored statuses (KIP-745). Pure.

Source: KIP-745; RestartRequest, RestartPlan, AbstractHerder.buildRestartPlan (Kafka 4.4.0).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kraal.cluster.state.statuses import ConnectorStatuses, StatusState, status_fields
from kraal.core.ids import ConnectorName, Instance, Json, State, TaskId
from kraal.core.records import Entry
from kraal.protocol.records import RestartRecord, encode
from kraal.protocol.status_records import Status


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartRequest:
    """A user's restart request. Without options, only the connector instance is restarted, at once."""

    name: ConnectorName
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the request has no KIP-745 options. No record is then written, and the response is 204."""
        return not self.include_tasks and not self.only_failed

    @property
    def impact(self) -> int:
        """Scope of the request, from 0 to 3: restarting instances in all states outweighs including tasks."""
        return 2 * (not self.only_failed) + self.include_tasks


def higher_impact(pending_request: RestartRequest, new_request: RestartRequest) -> RestartRequest:
    """Return the request with the larger scope; the pending one in case of a tie."""
    return new_request if new_request.impact > pending_request.impact else pending_request


def restart_entry(request: RestartRequest) -> Entry:
    """Create the record of a restart request, which every worker reads."""
    record = RestartRecord(request.name, include_tasks=request.include_tasks, only_failed=request.only_failed)
    return Entry(*encode(record))


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPlan:
    """Instances to restart, with the statuses that the decision is based on."""

    name: ConnectorName
    restarts_connector: bool
    """Whether to restart the connector instance."""
    tasks: tuple[TaskId, ...]
    statuses: ConnectorStatuses

    @property
    def instances(self) -> tuple[Instance, ...]:
        """All instances to restart, the connector first."""
        return (self.name, *self.tasks) if self.restarts_connector else self.tasks


def plan_restart(request: RestartRequest, status: StatusState) -> RestartPlan | None:
    """Return the instances to restart. A configured task without a status is not in the plan.

    Returns None if the connector has no status; the request is then ignored.
    """
    statuses = status.statuses.get(request.name)
    if statuses is None or statuses.connector is None:
        return None

    def is_due(status_: Status) -> bool:
        return not request.only_failed or status_.state is State.FAILED

    tasks = [n for n in sorted(statuses.tasks) if request.include_tasks and is_due(statuses.tasks[n])]
    return RestartPlan(
        name=request.name,
        restarts_connector=is_due(statuses.connector),
        tasks=tuple(TaskId(request.name, n) for n in tasks),
        statuses=statuses,
    )


def plan_response(plan: RestartPlan, plugin_type: str) -> dict[str, Json]:
    """Return the body of the 202 response: the stored status, with RESTARTING for all planned instances.

    Worker, version and an old trace are unchanged, as in Java. The statuses are not written.
    Shape: ConnectorStateInfo (Kafka 4.4.0).
    """
    due_tasks = {task.task for task in plan.tasks}
    tasks: list[Json] = [
        {"id": n, **_fields(plan.statuses.tasks[n], is_due=n in due_tasks)}
        for n in sorted(plan.statuses.tasks)
    ]
    connector = plan.statuses.connector
    return {
        "name": plan.name,
        "connector": None if connector is None else _fields(connector, is_due=plan.restarts_connector),
        "tasks": tasks,
        "type": plugin_type,
    }


def _fields(status: Status, *, is_due: bool) -> dict[str, Json]:
    return status_fields(replace(status, state=State.RESTARTING) if is_due else status)
