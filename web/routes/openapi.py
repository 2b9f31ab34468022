"""`GET /openapi.json`: the operations of all endpoints that the worker's main listeners serve."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from starlette.responses import Response

from web.openapi.document import document
from web.openapi.operation import Operation
from web.rendering import JSON, to_json
from web.resource import Endpoint, endpoint
from web.settings import Services, Settings

if TYPE_CHECKING:
    from starlette.requests import Request


def openapi_endpoint(settings: Settings, endpoints: Iterable[Endpoint]) -> Endpoint:
    """Return the endpoint that describes `endpoints` and itself; the document never changes."""

    @endpoint(
        "GET",
        "/openapi.json",
        Operation(
            name="getOpenApi", tag="worker", summary="Get this document", responses={200: {"type": "object"}}
        ),
        accepts_any_content_type=True,
    )
    async def get(_services: Services, _request: Request) -> Response:
        return Response(body(), headers={"Content-Type": JSON})

    @cache
    def body() -> bytes:
        return to_json(document(settings, operations))

    operations = [(entry.method, entry.path, entry.operation) for entry in (*endpoints, get)]
    return get
