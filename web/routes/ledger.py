"""`/connectors/{c}/ledger`: what the tasks of a connector have delivered. Kraal's addition."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from actors.messages.ledger import ShowLedger
from actors.runtime.mailbox import ask_async
from kraal.cluster.views import rest as view
from web.openapi.ledger import LEDGER
from web.openapi.operation import Operation
from web.rendering import json_response
from web.requests.paths import connector_name
from web.resource import Endpoint, endpoint, live_snapshot

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from actors.messages.ledger import LedgerView
    from actors.runtime.mailbox import Address
    from kraal.core.ids import ConnectorName
    from kraal.ledger.counts import Position
    from web.settings import Services

TIMEOUT_S: Final = 20.0
"""Maximum time to read what other workers have written."""


def endpoints(ledger: Address | None) -> list[Endpoint]:
    """Return the endpoints. Without a ledger, return none; requests then get 404."""
    return [] if ledger is None else [_show(ledger)]


def _show(ledger: Address) -> Endpoint:
    @endpoint(
        "GET",
        "/connectors/{connector}/ledger",
        Operation(
            name="getLedger",
            tag="connectors",
            summary="Show how many records the tasks of a connector have delivered, on all workers",
            responses={200: LEDGER},
            errors=(404,),
        ),
    )
    async def get(services: Services, request: Request) -> Response:
        name = connector_name(request)
        view.connector_config(await live_snapshot(services), name)  # raises NotFound
        totals = await ask_async(ledger, ShowLedger(connector=name), timeout_s=TIMEOUT_S)
        return json_response(render_ledger(name, totals))

    return get


def render_ledger(name: ConnectorName, totals: LedgerView) -> dict[str, Any]:
    """Return the response."""
    return {
        "connector": name,
        "problem": totals.problem,
        "tasks": [{"task": task.task, **asdict(each)} for task, each in totals.tasks.items()],
        "partitions": [
            {
                "partition": partition.as_dict(),
                "since": _render_position(each.since),
                "end": _render_position(each.end),
                "repeated": each.repeated,
                "uncounted": [
                    {"start": _render_position(start), "end": _render_position(end)}
                    for start, end in each.uncounted
                ],
                "uncounted_count": each.uncounted_count,
            }
            for partition, each in sorted(totals.partitions.items(), key=lambda item: str(item[0].fields))
        ],
    }


def _render_position(position: Position) -> Any:
    """Return a position as JSON; the text of a source's offset is an object."""
    return json.loads(position) if isinstance(position, str) else position
