"""OpenAPI document of a worker, served at `/openapi.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from kraal.core.ids import Json
from web.openapi.paths import ADMIN, PATHS
from web.openapi.schemas import SCHEMAS
from web.rendering import JSON, to_json
from web.resource import Resource
from web.settings import Services, Settings

if TYPE_CHECKING:
    from starlette.requests import Request

_TAGS = {
    "connectors": "What moves data, and how it is steered.",
    "tasks": "The parts in which connectors work.",
    "topics": "Topics that connectors have used (KIP-558).",
    "offsets": "Where connectors go on (KIP-875).",
    "plugins": "What this worker can run.",
    "loggers": "Levels of loggers (KIP-495, KIP-976).",
    "worker": "This worker itself.",
    "internal": "What workers ask of each other.",
}


def document(settings: Settings) -> dict[str, Json]:
    """Return the OpenAPI 3.1 document of a worker's main listeners."""
    secured = settings.basic_auth is not None
    operations = PATHS if settings.admin_apart else {**PATHS, **ADMIN}
    components: dict[str, Json] = {"schemas": {name: dict(schema) for name, schema in SCHEMAS.items()}}
    found: dict[str, Json] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Kraal: the REST API of Kafka Connect",
            "version": settings.connect_version,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": settings.advertised_url.rstrip("/")}],
        "tags": [{"name": name, "description": about} for name, about in _TAGS.items()],
        "paths": {
            path: {method: each.to_json(path, secured=secured) for method, each in methods.items()}
            for path, methods in operations.items()
        },
        "components": components,
    }
    if secured:
        components["securitySchemes"] = {"password": {"type": "http", "scheme": "basic"}}
        found["security"] = [{"password": []}]
    return found


def routes(services: Services) -> list[Route]:
    """Return the route table of the document."""
    body = to_json(document(services.settings))

    async def get(_services: Services, _request: Request) -> Response:
        """GET /openapi.json: the same bytes for the lifetime of the worker."""
        return Response(body, headers={"Content-Type": JSON})

    return [Route("/openapi.json", Resource(services, any_type=("GET", "HEAD"), GET=get))]
