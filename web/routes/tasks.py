"""`/connectors/{c}/tasks`: configs, status and restart of tasks. Source: ConnectorsResource (Kafka 4.4.0)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from actors.messages.herder import RestartTask
from kraal.cluster.views import rest as view
from kraal.cluster.views.snapshot import Snapshot
from web.openapi.operation import FORWARDED, Operation
from web.openapi.shapes import list_of, ref
from web.rendering import empty_response
from web.requests.forward import ask_or_forward
from web.requests.paths import connector_name, task_id
from web.resource import endpoint, from_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_TASKS_PATH: Final = "/connectors/{connector}/tasks"
_TASK_PATH: Final = f"{_TASKS_PATH}/{{task}}"


@endpoint(
    "GET",
    _TASKS_PATH,
    Operation(
        name="listTasks",
        tag="tasks",
        summary="List the tasks of a connector with their configs",
        responses={200: list_of(ref("TaskInfo"))},
    ),
)
@from_snapshot
def _list(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/tasks."""
    return view.task_infos(snapshot, connector_name(request))


@endpoint(
    "GET",
    f"{_TASK_PATH}/status",
    Operation(
        name="getTaskStatus", tag="tasks", summary="Get the state of a task", responses={200: "TaskState"}
    ),
)
@from_snapshot
def _status(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/tasks/{t}/status."""
    return view.task_status(snapshot, task_id(request))


@endpoint(
    "POST",
    f"{_TASK_PATH}/restart",
    Operation(
        name="restartTask",
        tag="tasks",
        summary="Restart a task",
        responses={204: None},
        errors=FORWARDED,
    ),
)
async def _restart(services: Services, request: Request) -> Response:
    """POST /connectors/{c}/tasks/{t}/restart."""
    message = RestartTask(task=task_id(request))
    return await ask_or_forward(services, request, message, _respond_done)


def _respond_done(_: None) -> Response:
    return empty_response(HTTPStatus.NO_CONTENT)


ENDPOINTS = (_list, _status, _restart)
