"""What workers ask of the leader: to write task configs, and to shut out zombies (contract 1.4, 4.8).

Both are signed with the group's session key when the group's protocol has signatures (KIP-507). The signature
covers the raw body, and is checked before anything is looked up: a stranger learns nothing about connectors. Only
what cannot be read at all is refused before that, as in Java, which parses first.

As long as this worker does not know yet what its group speaks, requests have to be signed: else a worker that
starts would do what anybody wants. So does a worker that asks for passwords, which workers do not have, in a group
without signatures, unless it is told otherwise. Source: InternalClusterResource, DistributedHerder (Kafka 4.3.0).
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from actors.messages.herder import FenceZombies, PutTaskConfigs
from kraal.errors import BadRequest, KraalError
from kraal.protocol.signature import ALGORITHM_HEADER, SIGNATURE_HEADER, Signature, verify
from web.body import parse_task_configs, read_raw
from web.forward import ask_or_forward
from web.paths import connector_of
from web.render import empty_answer
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response


async def put_task_configs(services: Services, request: Request) -> Response:
    """POST /connectors/{c}/tasks: a connector's owner says what its tasks are to be."""
    name = connector_of(request)
    body = await _read(services, request)
    configs = parse_task_configs(body)
    if not services.settings.distributed:
        raise KraalError(
            "Kafka Connect in standalone mode does not support externally setting task configurations."
        )
    _check_signature(services, request, body)
    message = PutTaskConfigs(name=name, configs=configs)
    return await ask_or_forward(services, request, message, _done, body=body, internal=True)


async def fence_zombies(services: Services, request: Request) -> Response:
    """PUT /connectors/{c}/fence: a task wants to start, and its predecessors must not write any more (KIP-618)."""
    name = connector_of(request)
    body = await _read(services, request)
    if not services.settings.distributed:
        raise KraalError("Kafka Connect in standalone mode does not support exactly-once source connectors.")
    _check_signature(services, request, body)
    return await ask_or_forward(services, request, FenceZombies(name=name), _done, internal=True)


async def _read(services: Services, request: Request) -> bytes:
    return await read_raw(services, request, services.settings.max_internal_body_bytes, internal=True)


def _check_signature(services: Services, request: Request, body: bytes) -> None:
    """Raises BadRequest, Unavailable, Forbidden."""
    snapshot = services.published.latest
    if snapshot.protocol is not None and not snapshot.protocol.signed:
        if services.settings.unsigned_internal:
            return
        raise BadRequest(
            "Internal request missing required signature: this worker asks for passwords, and the group's protocol "
            "is one without signatures. Set connect.protocol=sessioned, or static, on all workers, or "
            "internal.requests.unsigned=allow on this one."
        )
    key = snapshot.config.session_key
    headers = request.headers
    verify(
        Signature(value=headers.get(SIGNATURE_HEADER), algorithm=headers.get(ALGORITHM_HEADER)),
        body,
        key=None if key is None else key.key,
        allowed=services.settings.verification_algorithms,
    )


def _done(_: None) -> Response:
    return empty_answer(HTTPStatus.NO_CONTENT)
