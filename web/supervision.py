"""What is told beside Connect's states, where it is asked for: `GET /connectors/{c}/status?expand=supervision`. Ours.

It changes with time, so its answers are not kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from actors.messages.herder import AwaitLive
from kraal.cluster import view
from web.asking import ask_herder
from web.paths import connector_of
from web.render import json_answer

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from web.resource import Handler
    from web.settings import Services


def with_supervision(status: Handler) -> Handler:
    """Make GET /connectors/{c}/status of the handler for it without `expand`."""

    async def get(services: Services, request: Request) -> Response:
        oversight = services.oversight
        if oversight is None or "supervision" not in request.query_params.getlist("expand"):
            return await status(services, request)
        if not services.published.latest.live:
            await ask_herder(services, AwaitLive())
        snapshot, name = services.published.latest, connector_of(request)
        body: dict[str, Any] = view.connector_status(snapshot, name)
        return json_answer({**body, "supervision": oversight.status(snapshot, name)})

    return get
