"""`/connectors/{c}/offsets` (KIP-875). Source: ConnectorsResource, ConnectorOffsets (Kafka 4.4.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from actors.messages.offsets import AlterOffsets, ResetOffsets, ShowLags, ShowOffsets
from web.openapi.operation import FORWARDED, Operation, Query
from web.rendering import json_response
from web.requests.body import parse_offsets, read_body
from web.requests.forward import ask_or_forward
from web.requests.herder_client import ask_herder
from web.requests.paths import connector_name
from web.resource import endpoint
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


_PATH: Final = "/connectors/{connector}/offsets"
_LAG: Final = "lag"


@endpoint(
    "GET",
    _PATH,
    Operation(
        name="getConnectorOffsets",
        tag="offsets",
        summary="Get the offsets of a connector",
        query=(
            Query(
                name="expand",
                description="`lag` adds the lag to the offsets of a sink; other values are ignored.",
                schema={"type": "string"},
                is_repeatable=True,
            ),
        ),
        responses={200: "ConnectorOffsets"},
    ),
)
async def _show(services: Services, request: Request) -> Response:
    """GET /connectors/{c}/offsets; any worker responds without forwarding."""
    name = connector_name(request)
    if _LAG in request.query_params.getlist("expand"):
        lagged_offsets = await ask_herder(services, ShowLags(name=name))
        parts = [{"lag": lag} for lag in lagged_offsets.lags] or [{}] * len(lagged_offsets.pairs)
        offsets = [
            {"partition": partition, "offset": offset} | part
            for (partition, offset), part in zip(lagged_offsets.pairs, parts, strict=True)
        ]
        return json_response({"offsets": offsets})
    pairs = await ask_herder(services, ShowOffsets(name=name))
    return json_response(
        {"offsets": [{"partition": partition, "offset": offset} for partition, offset in pairs]}
    )


@endpoint(
    "PATCH",
    _PATH,
    Operation(
        name="alterConnectorOffsets",
        tag="offsets",
        summary="Change offsets of a stopped connector; null deletes a partition's offset",
        body="SentOffsets",
        responses={200: "Message"},
        errors=FORWARDED,
    ),
)
async def _alter(services: Services, request: Request) -> Response:
    """PATCH /connectors/{c}/offsets: store the given offsets, delete offsets given as null, keep all others."""
    name = connector_name(request)
    body = await read_body(services, request)
    message = AlterOffsets(name=name, offsets=parse_offsets(body))
    return await ask_or_forward(services, request, message, _message_response, body=body)


@endpoint(
    "DELETE",
    _PATH,
    Operation(
        name="resetConnectorOffsets",
        tag="offsets",
        summary="Delete all offsets of a stopped connector",
        responses={200: "Message"},
        errors=(400, *FORWARDED),
    ),
)
async def _reset(services: Services, request: Request) -> Response:
    """DELETE /connectors/{c}/offsets: delete all offsets."""
    return await ask_or_forward(
        services, request, ResetOffsets(name=connector_name(request)), _message_response
    )


def _message_response(text: str) -> Response:
    return json_response({"message": text})


ENDPOINTS = (_show, _alter, _reset)
