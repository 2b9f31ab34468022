"""`/connectors/{c}/offsets` (KIP-875). Source: ConnectorsResource, ConnectorOffsets (Kafka 4.3.0); contract 9."""

from __future__ import annotations

from typing import TYPE_CHECKING

from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowOffsets
from web.rendering import json_answer
from web.requests.body import parse_offsets, read_body
from web.requests.forward import ask_or_forward
from web.requests.herder_client import ask_herder
from web.requests.paths import connector_of
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def show_offsets(services: Services, request: Request) -> Response:
    """GET: answered by any worker."""
    pairs = await ask_herder(services, ShowOffsets(name=connector_of(request)))
    return json_answer({"offsets": [{"partition": p, "offset": o} for p, o in pairs]})


async def alter_offsets(services: Services, request: Request) -> Response:
    """PATCH: change the given offsets, delete those with null, keep all others."""
    name = connector_of(request)
    body = await read_body(services, request)
    message = AlterOffsets(name=name, offsets=parse_offsets(body))
    return await ask_or_forward(services, request, message, _said, body=body)


async def reset_offsets(services: Services, request: Request) -> Response:
    """DELETE: delete all offsets."""
    return await ask_or_forward(services, request, ResetOffsets(name=connector_of(request)), _said)


def _said(text: str) -> Response:
    return json_answer({"message": text})
