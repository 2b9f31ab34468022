"""One operation of the API as data, and its rendering in an OpenAPI 3.1 document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from kraal.core.ids import Json

Schema = Mapping[str, Json]
"""A JSON schema (draft 2020-12)."""

_PATH_PARAMETER: Final = re.compile(r"\{([a-z]+)\}")
_PATH_PARAMETERS: Final[Mapping[str, Schema]] = {
    "connector": {"type": "string", "minLength": 1},
    "task": {"type": "integer", "format": "int32"},
    "plugin": {"type": "string", "minLength": 1},
    "logger": {"type": "string", "minLength": 1},
}
_PATH_PARAMETER_DESCRIPTIONS: Final = {
    "connector": "Connector name, percent-encoded (`/` as `%2F`).",
    "task": "Task number, starting at 0.",
    "plugin": "Plugin class, its simple name, or its alias.",
    "logger": "Logger name, or `root`.",
}
_ERROR_DESCRIPTIONS: Final = {
    400: "The request is invalid; the message states the reason.",
    401: "User and password are missing or invalid.",
    403: "Disabled by the worker's configuration, or not signed by a worker of the group.",
    404: "Not found.",
    406: "`Accept` excludes JSON.",
    409: "Conflict, often because of a rebalance; with `Retry-After`, a retry can succeed.",
    413: "The request body is larger than the worker accepts.",
    415: "The request body is not JSON.",
    500: "Internal error or timeout.",
    503: "The worker is starting or overloaded; retry after `Retry-After`.",
}
FORWARDED: Final = (409, 503)
"""Additional error statuses of requests that a worker may forward to the leader or to an owner."""
_COMMON_ERRORS: Final = (404, 406, 500)
_BODY_ERRORS: Final = (400, 413, 415, 503)


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query parameter."""

    name: str
    description: str
    schema: Schema
    is_repeatable: bool = False
    """Whether the parameter may be repeated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation: one method of one path.

    `responses` maps each success status to the schema of the body (or the schema's name), or to None if there is no
    body. `errors` lists the error statuses that not every operation can return.
    """

    name: str
    summary: str
    tag: str
    responses: Mapping[int, str | Schema | None]
    description: str = ""
    body: str | Schema | None = None
    query: tuple[Query, ...] = ()
    errors: tuple[int, ...] = ()
    internal: bool = False
    """Whether only workers send the request. Such requests need no password, and are signed if the group's protocol
    has signatures.
    """
    media_type: str = "application/json"
    location_statuses: tuple[int, ...] = ()
    """Statuses with a `Location` header."""
    links: tuple[str, ...] = ()
    """Operations available for the same connector after this one has succeeded (OpenAPI links)."""

    def to_json(self, path: str, *, secured: bool) -> dict[str, Json]:
        """Return the OpenAPI operation object."""
        operation: dict[str, Json] = {"operationId": self.name, "tags": [self.tag], "summary": self.summary}
        if self.description:
            operation["description"] = self.description
        if parameters := [*_path_parameters(path), *map(_query_parameter, self.query)]:
            operation["parameters"] = parameters
        if self.body is not None:
            content: Json = {"application/json": {"schema": _schema(self.body)}}
            operation["requestBody"] = {"required": True, "content": content}
        operation["responses"] = self._responses(path, secured=secured)
        if secured and self.internal:
            operation["security"] = []
        return operation

    def _responses(self, path: str, *, secured: bool) -> dict[str, Json]:
        responses: dict[str, Json] = {}
        connector_expression = "$request.path.connector" if "{connector}" in path else "$response.body#/name"
        for status, schema in self.responses.items():
            response: dict[str, Json] = {"description": HTTPStatus(status).phrase}
            if status in self.location_statuses:
                description = "URL of the resource, at this worker's advertised address."
                response["headers"] = {"Location": {"description": description, "schema": {"type": "string"}}}
            if schema is not None:
                response["content"] = {self.media_type: {"schema": _schema(schema)}}
            if self.links:
                response["links"] = {name: _link(name, connector_expression) for name in self.links}
            responses[str(status)] = response
        extra_statuses = (*self.errors, *(_BODY_ERRORS if self.body is not None else ()))
        extra_statuses = (*extra_statuses, 401) if secured and not self.internal else extra_statuses
        for status in sorted({*_COMMON_ERRORS, *extra_statuses} - set(self.responses)):
            responses[str(status)] = {
                "description": _ERROR_DESCRIPTIONS[status],
                "content": {"application/json": {"schema": _schema("Error")}},
            }
        return responses


def _schema(schema: str | Schema) -> dict[str, Json]:
    return {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else dict(schema)


def _link(name: str, connector: str) -> Json:
    return {"operationId": name, "parameters": {"connector": connector}}


def _path_parameters(path: str) -> list[Json]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PATH_PARAMETER_DESCRIPTIONS[name],
            "schema": dict(_PATH_PARAMETERS[name]),
        }
        for name in _PATH_PARAMETER.findall(path)
    ]


def _query_parameter(query: Query) -> Json:
    parameter: dict[str, Json] = {"name": query.name, "in": "query", "description": query.description}
    schema = dict(query.schema)
    parameter["schema"] = {"type": "array", "items": schema} if query.is_repeatable else schema
    return parameter
