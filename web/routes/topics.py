"""`/connectors/{c}/topics`: topics that a connector uses (KIP-558). Source: ConnectorsResource (Kafka 4.4.0)."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from actors.messages.herder import ResetTopics
from kraal.cluster.views import rest as view
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.errors import Forbidden
from web.openapi.operation import Operation
from web.rendering import empty_response
from web.requests.herder_client import ask_herder
from web.requests.paths import connector_name
from web.resource import endpoint, from_snapshot
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_PATH: Final = "/connectors/{connector}/topics"


@endpoint(
    "GET",
    _PATH,
    Operation(
        name="getConnectorTopics",
        tag="topics",
        summary="List the topics that a connector has used",
        responses={200: "ActiveTopics"},
        errors=(403,),
    ),
)
@from_snapshot
def _show(services: Services, snapshot: Snapshot, request: Request) -> Any:
    """GET /connectors/{c}/topics: never 404 (KIP-558)."""
    _refuse_without_tracking(services)
    return view.active_topics(snapshot, connector_name(request))


@endpoint(
    "PUT",
    f"{_PATH}/reset",
    Operation(
        name="resetConnectorTopics",
        tag="topics",
        summary="Clear the list of topics that a connector has used",
        responses={200: None},
        errors=(403, 503),
    ),
)
async def _reset(services: Services, request: Request) -> Response:
    """PUT /connectors/{c}/topics/reset: 200, as in KIP-558."""
    _refuse_without_tracking(services)
    if not services.settings.topic_reset:
        raise Forbidden("Topic tracking reset is disabled")
    await ask_herder(services, ResetTopics(name=connector_name(request)))
    return empty_response(HTTPStatus.OK)


def _refuse_without_tracking(services: Services) -> None:
    if not services.settings.topic_tracking:
        raise Forbidden("Topic tracking is disabled.")


ENDPOINTS = (_show, _reset)
