"""`/connectors` and `/connectors/{c}`: configs, statuses, target states and restarts.

GETs are rendered from the snapshot; all other requests are sent to the herder.

Source: ConnectorsResource (Kafka 4.4.0); KIP-52, 465, 477, 558, 745, 875, 980.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from actors.messages.herder import (
    CreateConnector,
    DeleteConnector,
    PatchConfig,
    PutConfig,
    RestartConnector,
    SetTargetState,
)
from kraal.cluster.views import rest as view
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.ids import ConnectorName, Json, TargetState
from web.openapi.operation import FORWARDED, Operation, Query, Schema
from web.openapi.shapes import TEXT, list_of, map_of, ref
from web.rendering import connector_url, empty_response, json_response
from web.requests.body import parse_config, parse_create_request, read_body
from web.requests.forward import ask_or_forward
from web.requests.paths import connector_name, is_true
from web.resource import Endpoint, endpoint, from_snapshot
from web.routes.expand import wants_root_causes, with_list_parts, with_status_parts
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


_NO_FIELDS: Final[Mapping[str, Json]] = {}
_CONNECTORS_PATH: Final = "/connectors"
_CONNECTOR_PATH: Final = f"{_CONNECTORS_PATH}/{{connector}}"
_CONFIG_PATH: Final = f"{_CONNECTOR_PATH}/config"
_FLAG: Final[Schema] = {"type": "boolean", "default": False}
_CONTROLS: Final = (
    "getConnectorStatus",
    "pauseConnector",
    "resumeConnector",
    "stopConnector",
    "restartConnector",
)
_OFFSETS: Final = ("getConnectorOffsets", "alterConnectorOffsets", "resetConnectorOffsets")
_AFTER_WRITE: Final = ("getConnector", "listTasks", *_CONTROLS, "deleteConnector")


# -- rendered from the snapshot ----------------------------------------------------------------------------


@endpoint(
    "GET",
    _CONNECTORS_PATH,
    Operation(
        name="listConnectors",
        tag="connectors",
        summary="List connector names; with expand, connectors with their status or config",
        query=(
            Query(
                name="expand",
                description="Parts of each connector to return, instead of names only.",
                schema={"type": "string", "enum": ["status", "info", "progress"]},
                is_repeatable=True,
            ),
            Query(
                name="traces",
                description="With `causes`, traces are reduced to the line that names the root cause, which keeps a "
                "list with thousands of failed tasks small.",
                schema={"type": "string", "enum": ["causes"]},
            ),
        ),
        responses={200: {"anyOf": [dict(list_of(TEXT)), dict(map_of(ref("ExpandedConnector")))]}},
    ),
)
@with_list_parts
@from_snapshot
def _list(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors: names, or with `expand` a map with parts in the requested order."""
    expand = request.query_params.getlist("expand")
    if not expand:
        return view.connector_names(snapshot)
    parts_by_name: dict[str, Any] = view.connectors_expanded(
        snapshot, expand, causes=wants_root_causes(request)
    )
    return {
        name: {part: parts[part] for part in expand if part in parts} for name, parts in parts_by_name.items()
    }


@endpoint(
    "GET",
    _CONNECTOR_PATH,
    Operation(
        name="getConnector",
        tag="connectors",
        summary="Get the config and tasks of a connector",
        responses={200: "ConnectorInfo"},
    ),
)
@from_snapshot
def _info(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}."""
    return view.connector_info(snapshot, connector_name(request))


@endpoint(
    "GET",
    _CONFIG_PATH,
    Operation(
        name="getConnectorConfig",
        tag="connectors",
        summary="Get the config of a connector as written",
        responses={200: "ConnectorConfig"},
    ),
)
@from_snapshot
def _config(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/config: the config as written, with unresolved variables."""
    return view.connector_config(snapshot, connector_name(request))


@endpoint(
    "GET",
    f"{_CONNECTOR_PATH}/status",
    Operation(
        name="getConnectorStatus",
        tag="connectors",
        summary="Get the states of a connector and its tasks",
        query=(
            Query(
                name="expand",
                description="`supervision` adds automatic restarts and stalls; `progress` adds task metrics.",
                schema={"type": "string", "enum": ["supervision", "progress"]},
                is_repeatable=True,
            ),
        ),
        responses={200: "ConnectorStateInfo"},
    ),
)
@with_status_parts
@from_snapshot
def _status(_services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/status."""
    return view.connector_status(snapshot, connector_name(request))


# -- requests to the herder --------------------------------------------------------------------------------


@endpoint(
    "POST",
    _CONNECTORS_PATH,
    Operation(
        name="createConnector",
        tag="connectors",
        summary="Create a connector",
        description="The response is sent after the config has been stored. `initial_offsets` are stored before the "
        "config, and replace all offsets stored for the connector name. If the creation fails, the previous offsets "
        "are restored.",
        body="CreateConnectorRequest",
        links=_AFTER_WRITE,
        responses={201: "CreatedConnector"},
        location_statuses=(201,),
        errors=FORWARDED,
    ),
)
async def _create(services: Services, request: Request) -> Response:
    """POST /connectors."""
    body = await read_body(services, request)
    create_request = parse_create_request(body)
    message = CreateConnector(
        name=create_request.name,
        config=create_request.config,
        initial_state=create_request.initial_state,
        initial_offsets=create_request.initial_offsets,
    )

    def respond_created(offsets: str | None) -> Response:
        fields = {} if offsets is None else {"offsets_status": offsets}
        return _respond_written(services, create_request.name, created=True, extra_fields=fields)

    return await ask_or_forward(services, request, message, respond_created, body=body)


@endpoint(
    "PUT",
    _CONFIG_PATH,
    Operation(
        name="putConnectorConfig",
        tag="connectors",
        summary="Create a connector, or replace its config",
        body="SentConfig",
        links=_AFTER_WRITE,
        responses={200: "ConnectorInfo", 201: "ConnectorInfo"},
        location_statuses=(201,),
        errors=FORWARDED,
    ),
)
async def _put_config(services: Services, request: Request) -> Response:
    """PUT /connectors/{c}/config."""
    name = connector_name(request)
    body = await read_body(services, request)
    message = PutConfig(name=name, config=parse_config(body))

    def respond_put(created: bool) -> Response:  # noqa: FBT001 - the herder's complete reply
        return _respond_written(services, name, created=created)

    return await ask_or_forward(services, request, message, respond_put, body=body)


@endpoint(
    "PATCH",
    _CONFIG_PATH,
    Operation(
        name="patchConnectorConfig",
        tag="connectors",
        summary="Change some keys of a connector's config; null removes a key",
        body="SentConfig",
        responses={200: "ConnectorInfo"},
        errors=FORWARDED,
    ),
)
async def _patch_config(services: Services, request: Request) -> Response:
    """PATCH /connectors/{c}/config (KIP-477)."""
    name = connector_name(request)
    body = await read_body(services, request)
    message = PatchConfig(name=name, patch=parse_config(body))

    def respond_patched(_: None) -> Response:
        return _respond_written(services, name, created=False)

    return await ask_or_forward(services, request, message, respond_patched, body=body)


def _respond_written(
    services: Services, name: ConnectorName, *, created: bool, extra_fields: Mapping[str, Json] = _NO_FIELDS
) -> Response:
    info = {**view.connector_info(services.published.latest, name), **extra_fields}
    if not created:
        return json_response(info)
    headers = {"Location": connector_url(services.settings.advertised_url, name)}
    return json_response(info, status=HTTPStatus.CREATED, headers=headers)


@endpoint(
    "DELETE",
    _CONNECTOR_PATH,
    Operation(
        name="deleteConnector",
        tag="connectors",
        summary="Stop and delete a connector",
        responses={204: None},
        errors=FORWARDED,
    ),
)
async def _delete(services: Services, request: Request) -> Response:
    """DELETE /connectors/{c}."""
    message = DeleteConnector(name=connector_name(request))
    return await ask_or_forward(services, request, message, _respond_empty(HTTPStatus.NO_CONTENT))


def _respond_empty(status: HTTPStatus) -> Callable[[None], Response]:
    return lambda _: empty_response(status)


def _target_state_endpoint(
    verb: str, target: TargetState, status: HTTPStatus, summary: str, *, links: tuple[str, ...] = ()
) -> Endpoint:
    """Return the endpoint PUT /connectors/{c}/{verb}, with `links` as additional OpenAPI links."""

    @endpoint(
        "PUT",
        f"{_CONNECTOR_PATH}/{verb}",
        Operation(
            name=f"{verb}Connector",
            tag="connectors",
            summary=summary,
            links=(*links, *_CONTROLS, "deleteConnector"),
            responses={status: None},
            errors=FORWARDED,
        ),
    )
    async def put(services: Services, request: Request) -> Response:
        message = SetTargetState(name=connector_name(request), target=target)
        return await ask_or_forward(services, request, message, _respond_empty(status))

    return put


_pause = _target_state_endpoint(
    "pause", TargetState.PAUSED, HTTPStatus.ACCEPTED, "Pause a connector and its tasks"
)
_resume = _target_state_endpoint(
    "resume", TargetState.STARTED, HTTPStatus.ACCEPTED, "Resume a paused or stopped connector"
)
_stop = _target_state_endpoint(
    "stop",
    TargetState.STOPPED,
    HTTPStatus.NO_CONTENT,
    "Stop a connector and remove its tasks",
    links=_OFFSETS,
)


@endpoint(
    "POST",
    f"{_CONNECTOR_PATH}/restart",
    Operation(
        name="restartConnector",
        tag="connectors",
        summary="Restart a connector, its tasks, or only failed instances",
        description="Without parameters only the connector restarts, and the response has no body (KIP-745).",
        query=(
            Query(name="includeTasks", description="Restart the tasks too.", schema=_FLAG),
            Query(name="onlyFailed", description="Restart only FAILED instances.", schema=_FLAG),
        ),
        links=(*_CONTROLS, "deleteConnector"),
        responses={202: "ConnectorStateInfo", 204: None},
        errors=FORWARDED,
    ),
)
async def _restart(services: Services, request: Request) -> Response:
    """POST /connectors/{c}/restart: 204 without parameters, otherwise 202 with the restarted instances (KIP-745)."""
    message = RestartConnector(
        name=connector_name(request),
        include_tasks=is_true(request, "includeTasks"),
        only_failed=is_true(request, "onlyFailed"),
    )

    def respond_restarted(plan: dict[str, Json] | None) -> Response:
        if plan is None:
            return empty_response(HTTPStatus.NO_CONTENT)
        return json_response(plan, status=HTTPStatus.ACCEPTED)

    return await ask_or_forward(services, request, message, respond_restarted, query=_restart_query(message))


def _restart_query(message: RestartConnector) -> str:
    """Return the query for a forwarded restart: both parameters, or none if both are false."""
    if not (message.include_tasks or message.only_failed):
        return ""
    include_tasks, only_failed = str(message.include_tasks).lower(), str(message.only_failed).lower()
    return f"includeTasks={include_tasks}&onlyFailed={only_failed}"


ENDPOINTS = (
    _status,
    _list,
    _create,
    _info,
    _delete,
    _config,
    _put_config,
    _patch_config,
    _pause,
    _resume,
    _stop,
    _restart,
)
"""`/status` is first, because it is polled most and routes are tried in order."""
