"""`/admin/loggers`: log levels of this worker or of all workers.

Source: LoggingResource (Kafka 4.4.0); KIP-495, KIP-976.
"""

from __future__ import annotations

import logging
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from actors.messages.herder import SetLoggerLevel
from kraal.core.errors import BadRequest, NotFound
from kraal.core.log_levels import LoggerLevel, parse_level
from kraal.core.rest_requests import decode_segment
from web.openapi.operation import Operation, Query, Schema
from web.openapi.schemas import REQUEST_CONFIG
from web.openapi.shapes import TEXT, list_of, map_of, object_of
from web.rendering import empty_response, json_response
from web.requests.body import parse_config, read_body
from web.requests.forward import asking
from web.requests.herder_client import ask_herder
from web.resource import endpoint
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

log = logging.getLogger(__name__)

_MAX_NAME_LENGTH = 1_000
"""Maximum length of a logger name. Python never frees the loggers of a name's dotted parts."""
_WORKER, _CLUSTER = "worker", "cluster"
_LOGGERS_PATH: Final = "/admin/loggers"
_LOGGER_PATH: Final = f"{_LOGGERS_PATH}/{{logger}}"
_LEVEL: Final[Schema] = object_of({"level": TEXT, "last_modified": {"type": ["integer", "null"]}})


@endpoint(
    "GET",
    _LOGGERS_PATH,
    Operation(
        name="listLoggers",
        tag="loggers",
        summary="List the loggers of this worker with their levels",
        responses={200: map_of(_LEVEL)},
    ),
)
async def _list(services: Services, _request: Request) -> Response:
    """GET /admin/loggers."""
    levels = services.loggers.all_levels()
    return json_response({name: _level_to_json(level) for name, level in levels.items()})


@endpoint(
    "GET",
    _LOGGER_PATH,
    Operation(
        name="getLogger",
        tag="loggers",
        summary="Get the effective level of a logger",
        responses={200: _LEVEL},
    ),
)
async def _get(services: Services, request: Request) -> Response:
    """GET /admin/loggers/{logger}: the effective level, which may be inherited."""
    name = decode_segment(request.path_params["logger"])
    level = services.loggers.level(name)
    if level is None:
        raise NotFound(f"Logger {name} not found.")
    return json_response(_level_to_json(level))


@endpoint(
    "PUT",
    _LOGGER_PATH,
    Operation(
        name="setLoggerLevel",
        tag="loggers",
        summary="Set the level of a logger and of all loggers below it",
        body={**REQUEST_CONFIG, "properties": {"level": dict(TEXT)}, "required": ["level"]},
        query=(
            Query(
                name="scope",
                description="Change this worker only, or all workers of the cluster.",
                schema={"type": "string", "enum": [_WORKER, _CLUSTER], "default": _WORKER},
            ),
        ),
        responses={200: list_of(TEXT), 204: None},
        errors=(503,),
    ),
)
async def _put(services: Services, request: Request) -> Response:
    """PUT /admin/loggers/{logger}?scope=: 200 with the changed loggers, or 204 with `scope=cluster`."""
    namespace = decode_segment(request.path_params["logger"])
    if len(namespace) > _MAX_NAME_LENGTH:
        raise BadRequest(
            f"The logger's name has {len(namespace)} characters; the maximum is {_MAX_NAME_LENGTH}."
        )
    level = parse_config(await read_body(services, request)).get("level")
    if level is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    if parse_level(level) is None:
        raise NotFound(f"invalid log level '{level}'.")
    scope = request.query_params.get("scope", _WORKER)
    if scope.lower() == _CLUSTER:
        message = SetLoggerLevel(namespace=namespace, level=level)
        with asking(services, request, message):
            await ask_herder(services, message)
        return empty_response(HTTPStatus.NO_CONTENT)
    if scope.lower() != _WORKER:
        log.warning(
            "Received invalid scope '%s' in request to adjust logging level; will default to %s",
            scope,
            _WORKER,
        )
    return json_response(services.loggers.set_level(namespace, level))


def _level_to_json(level: LoggerLevel) -> dict[str, Any]:
    return {"level": level.level, "last_modified": level.last_modified}


ENDPOINTS = (_list, _get, _put)
