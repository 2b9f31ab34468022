"""OpenAPI document of a worker, served at `/openapi.json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kraal.core.ids import Json
from web.openapi.operation import Operation
from web.openapi.schemas import SCHEMAS
from web.settings import Settings

_TAGS: Final = {
    "connectors": "Connectors: their configs, states and restarts.",
    "tasks": "Tasks of connectors.",
    "topics": "Topics that connectors use (KIP-558).",
    "offsets": "Offsets of connectors (KIP-875).",
    "dead letters": "Records that connectors could not process (KIP-298).",
    "plugins": "Installed plugins.",
    "loggers": "Log levels (KIP-495, KIP-976).",
    "worker": "The worker itself.",
    "internal": "Requests between workers.",
}


def document(settings: Settings, operations: Iterable[tuple[str, str, Operation]]) -> dict[str, Json]:
    """Return the OpenAPI 3.1 document of `operations`, which are tuples of method, path and operation.

    `HEAD` (available on every path with `GET`) and `OPTIONS` (available on every path) are not listed.
    """
    is_secured = settings.basic_auth is not None
    paths: dict[str, dict[str, Json]] = {}
    for method, path, operation in operations:
        paths.setdefault(path, {})[method.lower()] = operation.to_json(path, secured=is_secured)
    components: dict[str, Json] = {"schemas": {name: dict(schema) for name, schema in SCHEMAS.items()}}
    openapi: dict[str, Json] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Kraal: the REST API of Kafka Connect",
            "version": settings.connect_version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": settings.advertised_url.rstrip("/")}],
        "tags": [{"name": name, "description": description} for name, description in _TAGS.items()],
        "paths": {**paths},
        "components": components,
    }
    if is_secured:
        components["securitySchemes"] = {"password": {"type": "http", "scheme": "basic"}}
        openapi["security"] = [{"password": []}]
    return openapi
