"""`/connectors/{c}/offsets` (KIP-875). Source: ConnectorsResource, ConnectorOffsets (Kafka 4.3.0); contract 9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowOffsets
from web.asking import ask_herder
from web.body import parse_offsets, read_body
from web.forward import ask_or_forward
from web.paths import connector_of
from web.render import json_answer
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def show_offsets(services: Services, request: Request) -> Response:
    """GET: any worker can answer it."""
    pairs = await ask_herder(services, ShowOffsets(name=connector_of(request)))
    return json_answer({"offsets": [{"partition": p, "offset": o} for p, o in pairs]})


async def alter_offsets(services: Services, request: Request) -> Response:
    """PATCH: what is named is changed, null deletes it, and the rest stays."""
    name = connector_of(request)
    body = await read_body(services, request)
    message = AlterOffsets(name=name, offsets=parse_offsets(body))
    return await ask_or_forward(services, request, message, _said, body=body)


async def reset_offsets(services: Services, request: Request) -> Response:
    """DELETE: all of them."""
    return await ask_or_forward(services, request, ResetOffsets(name=connector_of(request)), _said)


def _said(text: str) -> Response:
    return json_answer({"message": text})
