"""Internal requests from workers to the leader: write task configs, fence zombies (InternalConnectResource, KIP-507).

Both requests are signed with the group's session key if the group's protocol has signatures (KIP-507). They need no
password, so any client can send them. Requests are therefore rejected before the body is read if the worker's mode or
the headers are wrong. The signature covers the raw body and is verified before the body is parsed and before any
look-up, so that unauthenticated clients get no information about connectors. (Java parses first.) A separate thread
verifies the signature of task configs and then parses the configs.

Unsigned requests are rejected while the group's protocol is unknown, because a starting worker would otherwise accept
requests from any client. In a group without signatures, a worker with password authentication rejects internal requests
unless `internal.requests.unsigned=allow` is set, because workers have no passwords.

Source: InternalClusterResource, DistributedHerder (Kafka 4.4.0).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from anyio import to_thread

from actors.messages.herder import FenceZombies, PutTaskConfigs
from kraal.core.errors import ActorDied, BadRequest, KraalError, Unavailable
from kraal.core.ids import Config
from kraal.protocol.signature import (
    ALGORITHM_HEADER,
    SIGNATURE_HEADER,
    ParsedSignature,
    Signature,
    parse_signature,
)
from web.openapi.operation import FORWARDED, Operation
from web.openapi.shapes import list_of, ref
from web.rendering import empty_response
from web.requests.body import discard_before_close, read_raw
from web.requests.forward import ask_or_forward
from web.requests.paths import connector_name
from web.requests.task_configs import parse_task_configs
from web.resource import endpoint
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_MAX_FENCE_BODY_BYTES: Final = 1024
"""Maximum body size of a fence request. Workers send these requests without a body."""


@endpoint(
    "POST",
    "/connectors/{connector}/tasks",
    Operation(
        name="putTaskConfigs",
        tag="internal",
        summary="Between workers: write the task configs of a connector",
        body=list_of(ref("SentConfig")),
        responses={204: None},
        errors=(*FORWARDED, 403),
        internal=True,
    ),
    accepts_any_content_type=True,
)
async def _put_task_configs(services: Services, request: Request) -> Response:
    """POST /connectors/{c}/tasks: store the task configs sent by the connector's owner."""
    name = connector_name(request)
    signature = await _required_signature(services, request, "externally setting task configurations")
    body = await read_raw(services, request, services.settings.max_internal_body_bytes, internal=True)

    def parse() -> list[Config]:
        if signature is not None:
            signature.verify(body)
        return parse_task_configs(body)

    message = PutTaskConfigs(name=name, configs=await to_thread.run_sync(parse))
    return await ask_or_forward(services, request, message, _respond_done, body=body, internal=True)


@endpoint(
    "PUT",
    "/connectors/{connector}/fence",
    Operation(
        name="fenceZombies",
        tag="internal",
        summary="Between workers: fence the producers of a connector's older tasks",
        responses={204: None},
        errors=(*FORWARDED, 400, 403),
        internal=True,
    ),
    accepts_any_content_type=True,
)
async def _fence_zombies(services: Services, request: Request) -> Response:
    """PUT /connectors/{c}/fence: fence zombie tasks before a task starts (KIP-618)."""
    name = connector_name(request)
    signature = await _required_signature(services, request, "exactly-once source connectors")
    body = await read_raw(services, request, _MAX_FENCE_BODY_BYTES, internal=True)
    if signature is not None:
        signature.verify(body)
    try:
        return await ask_or_forward(services, request, FenceZombies(name=name), _respond_done, internal=True)
    except ActorDied as exc:
        # The herder is about to restart: 503 makes the task retry, whereas 500 would fail it.
        raise Unavailable(str(exc)) from exc


async def _required_signature(services: Services, request: Request, feature: str) -> ParsedSignature | None:
    """Return the signature in the headers, which the body must match; None if no signature is required.

    Raises BadRequest if the worker is standalone, because `feature` requires a distributed worker. Also raises the
    errors of `_parse_signature`.
    If the connection closes after the error response, the body is first read and discarded.
    """
    try:
        if not services.settings.distributed:
            raise BadRequest(f"Kafka Connect in standalone mode does not support {feature}.")
        return _parse_signature(services, request)
    except KraalError:
        await discard_before_close(request)
        raise


def _parse_signature(services: Services, request: Request) -> ParsedSignature | None:
    """Read the signature from the headers; None if the group uses no signatures. Raises BadRequest, Unavailable."""
    snapshot = services.published.latest
    if snapshot.protocol is not None and not snapshot.protocol.is_signed:
        if services.settings.allow_unsigned_internal:
            return None
        raise BadRequest(
            "Internal request missing required signature: this worker requires passwords, but the group's protocol "
            "has no signatures. Set connect.protocol to sessioned or static on all workers, or set "
            "internal.requests.unsigned=allow on this worker."
        )
    key = snapshot.config.session_key
    headers = request.headers
    return parse_signature(
        Signature(value=headers.get(SIGNATURE_HEADER), algorithm=headers.get(ALGORITHM_HEADER)),
        key=None if key is None else key.key,
        allowed_algorithms=services.settings.verification_algorithms,
    )


def _respond_done(_: None) -> Response:
    return empty_response(HTTPStatus.NO_CONTENT)


ENDPOINTS = (_put_task_configs, _fence_zombies)
