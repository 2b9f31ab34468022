"""Supervision data in addition to Connect's states: `GET /connectors/{c}/status?expand=supervision`. Kraal's addition.

Only the worker that runs an instance has this data, so it is requested from all workers named in the statuses. The
responses are not cached, because the data changes over time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kraal.cluster.state.statuses import ConnectorStatuses
from web.requests.ask_workers import ask_workers, instance_workers, should_ask_workers

if TYPE_CHECKING:
    from starlette.requests import Request

    from kraal.cluster.views.snapshot import Snapshot
    from kraal.core.ids import ConnectorName
    from kraal.metrics.stalls.detection import StallDetection
    from web.settings import Services


async def gather_supervision(
    services: Services,
    request: Request,
    stall_detection: StallDetection,
    snapshot: Snapshot,
    name: ConnectorName,
) -> dict[str, Any]:
    """Return the supervision data of a connector, merged over the workers that run it."""
    local_status = stall_detection.status(snapshot, name)
    statuses = snapshot.status.statuses.get(name, ConnectorStatuses())
    other_workers = (
        instance_workers(statuses) - {snapshot.worker_id} if should_ask_workers(services, request) else set()
    )
    responses, silent = await ask_workers(
        services, request, other_workers, "expand=supervision", _parse_supervision
    )
    local_tasks: Any = local_status["tasks"]
    tasks = {task["id"]: task for task in local_tasks}
    connector = local_status.get("connector")
    for _, response in responses:
        connector = connector or response.get("connector")
        for task in response["tasks"]:
            tasks.setdefault(task["id"], task)
    return {
        "policy": local_status["policy"],
        **({} if connector is None else {"connector": connector}),
        "tasks": [tasks[number] for number in sorted(tasks)],
        "silent": [*silent],
    }


def _parse_supervision(body: object) -> dict[str, Any] | None:
    match body:
        case {"supervision": {"tasks": [*tasks]} as content} if all(map(is_task, tasks)):
            return dict(content)
        case _:
            return None


def is_task(part: object) -> bool:
    """Return whether an element of another worker's response describes a task."""
    return isinstance(part, dict) and isinstance(part.get("id"), int)
