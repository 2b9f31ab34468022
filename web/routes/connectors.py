"""`/connectors` and all paths below it. GETs render from the snapshot; others parse, ask the herder, render.

Source: ConnectorsResource (Kafka 4.3.0); KIP-52, 465, 477, 558, 745, 875, 980.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from kraal.cluster.views import rest as view
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.errors import Forbidden
from kraal.core.ids import ConnectorName, Json, TargetState
from web.rendering import empty_answer, json_answer, location
from web.requests.body import parse_config, parse_create_request, read_body
from web.requests.forward import ask_or_forward
from web.requests.herder_client import ask_herder
from web.requests.paths import connector_of, is_true, task_of
from web.resource import Handler, Resource, from_snapshot
from web.routes.internal import fence_zombies, put_task_configs
from web.routes.offsets import alter_offsets, reset_offsets, show_offsets
from web.routes.supervision import with_supervision
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


def routes(services: Services) -> list[Route]:
    """Return the route table of connectors."""
    one = "/connectors/{connector}"
    table = {
        f"{one}/status": Resource(services, GET=with_supervision(from_snapshot(_status))),
        "/connectors": Resource(services, GET=from_snapshot(_list), POST=_create),
        one: Resource(services, GET=from_snapshot(_info), DELETE=_delete),
        f"{one}/config": Resource(services, GET=from_snapshot(_config), PUT=_put_config, PATCH=_patch_config),
        f"{one}/tasks": Resource(
            services, any_type=("POST",), GET=from_snapshot(_tasks), POST=put_task_configs
        ),
        f"{one}/tasks/{{task}}/status": Resource(services, GET=from_snapshot(_task_status)),
        f"{one}/tasks/{{task}}/restart": Resource(services, POST=_restart_task),
        f"{one}/pause": Resource(services, PUT=_target(TargetState.PAUSED, HTTPStatus.ACCEPTED)),
        f"{one}/resume": Resource(services, PUT=_target(TargetState.STARTED, HTTPStatus.ACCEPTED)),
        f"{one}/stop": Resource(services, PUT=_target(TargetState.STOPPED, HTTPStatus.NO_CONTENT)),
        f"{one}/restart": Resource(services, POST=_restart),
        f"{one}/fence": Resource(services, any_type=("PUT",), PUT=fence_zombies),
        f"{one}/offsets": Resource(services, GET=show_offsets, PATCH=alter_offsets, DELETE=reset_offsets),
        f"{one}/topics": Resource(services, GET=from_snapshot(_topics)),
        f"{one}/topics/reset": Resource(services, PUT=_reset_topics),
    }
    return [Route(path, resource) for path, resource in table.items()]


# -- rendered from the snapshot ----------------------------------------------------------------------------


def _list(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors: names, or with `expand` a map with parts in the requested order."""
    asked = request.query_params.getlist("expand")
    if not asked:
        return view.connector_names(snapshot)
    expanded: dict[str, Any] = view.connectors_expanded(snapshot, asked)
    return {name: {part: parts[part] for part in asked if part in parts} for name, parts in expanded.items()}


def _info(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}."""
    return view.connector_info(snapshot, connector_of(request))


def _config(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/config: raw, as written."""
    return view.connector_config(snapshot, connector_of(request))


def _tasks(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/tasks."""
    return view.task_infos(snapshot, connector_of(request))


def _status(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/status."""
    return view.connector_status(snapshot, connector_of(request))


def _task_status(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/tasks/{t}/status."""
    return view.task_status(snapshot, task_of(request))


def _topics(services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/topics: never 404 (KIP-558)."""
    _refuse_without_tracking(services)
    return view.active_topics(snapshot, connector_of(request))


# -- requests to the herder --------------------------------------------------------------------------------


async def _create(services: Services, request: Request) -> Response:
    """POST /connectors."""
    body = await read_body(services, request)
    wanted = parse_create_request(body)
    message = CreateConnector(name=wanted.name, config=wanted.config, initial_state=wanted.initial_state)

    def created(_: None) -> Response:
        return _written(services, wanted.name, created=True)

    return await ask_or_forward(services, request, message, created, body=body)


async def _put_config(services: Services, request: Request) -> Response:
    """PUT /connectors/{c}/config."""
    name = connector_of(request)
    body = await read_body(services, request)
    message = PutConfig(name=name, config=parse_config(body))

    def put(created: bool) -> Response:  # noqa: FBT001 - the herder's whole answer
        return _written(services, name, created=created)

    return await ask_or_forward(services, request, message, put, body=body)


async def _patch_config(services: Services, request: Request) -> Response:
    """PATCH /connectors/{c}/config (KIP-477)."""
    name = connector_of(request)
    body = await read_body(services, request)
    message = PatchConfig(name=name, patch=parse_config(body))

    def patched(_: None) -> Response:
        return _written(services, name, created=False)

    return await ask_or_forward(services, request, message, patched, body=body)


def _written(services: Services, name: ConnectorName, *, created: bool) -> Response:
    info = view.connector_info(services.published.latest, name)
    if not created:
        return json_answer(info)
    where = {"Location": location(services.settings.advertised_url, name)}
    return json_answer(info, status=HTTPStatus.CREATED, headers=where)


async def _delete(services: Services, request: Request) -> Response:
    """DELETE /connectors/{c}."""
    message = DeleteConnector(name=connector_of(request))
    return await ask_or_forward(services, request, message, _empty(HTTPStatus.NO_CONTENT))


def _empty(status: HTTPStatus) -> Callable[[None], Response]:
    return lambda _: empty_answer(status)


def _target(target: TargetState, status: HTTPStatus) -> Handler:
    """Make PUT /connectors/{c}/pause, resume or stop."""

    async def put(services: Services, request: Request) -> Response:
        message = SetTargetState(name=connector_of(request), target=target)
        return await ask_or_forward(services, request, message, _empty(status))

    return put


async def _restart(services: Services, request: Request) -> Response:
    """POST /connectors/{c}/restart: 204 for the plain form, else 202 with the restarted instances (KIP-745)."""
    message = RestartConnector(
        name=connector_of(request),
        include_tasks=is_true(request, "includeTasks"),
        only_failed=is_true(request, "onlyFailed"),
    )

    def restarted(plan: dict[str, Json] | None) -> Response:
        if plan is None:
            return empty_answer(HTTPStatus.NO_CONTENT)
        return json_answer(plan, status=HTTPStatus.ACCEPTED)

    return await ask_or_forward(services, request, message, restarted, query=_restart_query(message))


def _restart_query(message: RestartConnector) -> str:
    """Return the query for a forwarded restart: both parameters, or none for the plain form."""
    if not (message.include_tasks or message.only_failed):
        return ""
    tasks, failed = str(message.include_tasks).lower(), str(message.only_failed).lower()
    return f"includeTasks={tasks}&onlyFailed={failed}"


async def _restart_task(services: Services, request: Request) -> Response:
    """POST /connectors/{c}/tasks/{t}/restart."""
    message = RestartTask(task=task_of(request))
    return await ask_or_forward(services, request, message, _empty(HTTPStatus.NO_CONTENT))


async def _reset_topics(services: Services, request: Request) -> Response:
    """PUT /connectors/{c}/topics/reset: 200, as in KIP-558."""
    _refuse_without_tracking(services)
    if not services.settings.topic_reset:
        raise Forbidden("Topic tracking reset is disabled")
    await ask_herder(services, ResetTopics(name=connector_of(request)))
    return empty_answer(HTTPStatus.OK)


def _refuse_without_tracking(services: Services) -> None:
    if not services.settings.topic_tracking:
        raise Forbidden("Topic tracking is disabled.")
