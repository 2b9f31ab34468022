"""Forwards requests to the responsible worker: the leader, or the owner of an instance.

The herder determines that worker. The query parameter `forward` limits the hops: the first worker forwards a client's
request with `forward=true`, the second with `forward=false`. If the third worker is not responsible either, it rejects
the request, because the group is changing and the client should retry. No worker forwards to itself. The client
receives the other worker's response; no request is sent twice.

Reads are not forwarded, except for data that only the leader has (`ask_leader`) and data that each worker has only
about its own instances (`web.requests.ask_workers`). Source: HerderRequestHandler, RestClient (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from starlette.responses import Response

from actors.runtime.mailbox import Ask
from kraal.core.errors import Conflict, NotLeader, NotOwner, RetryableConflict
from web.middleware.admission import LimitedResource
from web.rendering import JSON
from web.requests.authors import author, journal_effect
from web.requests.herder_client import ask_herder
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request

R = TypeVar("R")

HOP = "forward"
MARGIN_S = 10.0
"""Extra timeout per remaining hop, so that the other worker's timeout error arrives before our own timeout."""


async def ask_or_forward(
    services: Services,
    request: Request,
    message: Ask[R],
    render: Callable[[R], Response],
    *,
    body: bytes = b"",
    query: str | None = None,
    internal: bool = False,
) -> Response:
    """Send a message to the herder and render the reply, or forward the request to the worker that the herder names.

    `body` is forwarded unchanged; `query` replaces the query parameters except `forward`. `internal` requests are sent
    by workers and bypass admission control.
    Raises the message's errors, Conflict after two hops, RetryableConflict while the responsible worker is unknown,
    PeerRefused, PeerFailed, and the errors of `ask_herder`.
    """
    with asking(services, request, message) as keep_author:
        try:
            return render(await ask_herder(services, message, bypass_limit=internal))
        except NotLeader as exc:
            url = exc.leader_url
        except NotOwner as exc:
            url = exc.owner_url
        parameters = _query_without_hop(request) if query is None else query
        response = await _forward(services, request, url, body, parameters, internal=internal)
        keep_author()
        return response


def asking(
    services: Services, request: Request, message: object
) -> AbstractContextManager[Callable[[], None]]:
    """Register the author of a message's effect until the herder replies; see `Authors.asking`."""
    by = author(services, request, forwarded=HOP in request.query_params)
    return services.journal.authors.asking(journal_effect(message), by)


async def ask_leader(services: Services, request: Request, url: str | None) -> Response:
    """Forward a request without a body to the leader. Raises the same errors as forwarding by `ask_or_forward`."""
    return await _forward(services, request, url, b"", _query_without_hop(request))


async def _forward(
    services: Services, request: Request, url: str | None, body: bytes, query: str, *, internal: bool = False
) -> Response:
    settings = services.settings
    hops = _remaining_hops(request)
    if hops and url is None:
        raise RetryableConflict(
            "Cannot complete request momentarily due to no known leader URL, "
            "likely because a rebalance was underway."
        )
    if not hops or url is None or _is_same_worker(url, settings.advertised_url):
        raise Conflict("Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
    if not internal:
        services.admission.admit(LimitedResource.WORKERS)
    hop = f"{HOP}={'true' if hops > 1 else 'false'}"
    response = await services.peers.request(
        request.method,
        url,
        request.scope["raw_path"] + f"?{hop}{'&' if query else ''}{query}".encode("latin-1"),
        body=body,
        headers=credentials(request, url),
        timeout_s=settings.request_timeout_s + hops * MARGIN_S,
    )
    headers = {"Content-Type": JSON} if response.body else {}
    if response.location is not None:
        headers["Location"] = response.location
    return Response(response.body, response.status, headers)


def credentials(request: Request, url: str) -> dict[str, str]:
    """Return the caller's `Authorization` header if `url` has the scheme of the request, otherwise no headers.

    The leader or owner may be a Java worker, which checks the password. Credentials received over HTTPS are never sent
    in clear text. No other header of the caller is forwarded. Source: RestClient (KAFKA-8404).
    """
    authorization = request.headers.get("authorization")
    is_same_scheme = url.partition(":")[0].lower() == request.scope.get("scheme", "http")
    return {"Authorization": authorization} if authorization is not None and is_same_scheme else {}


def _remaining_hops(request: Request) -> int:
    """Return the number of times the request may still be forwarded: 2, 1 or 0."""
    values = request.query_params.getlist(HOP)
    if not values:
        return 2
    return 1 if values[0].lower() == "true" else 0


def _query_without_hop(request: Request) -> str:
    """Return the query as sent, without the hop parameter."""
    query: str = request.scope["query_string"].decode("latin-1")
    return "&".join(pair for pair in query.split("&") if pair and pair.partition("=")[0] != HOP)


def _is_same_worker(url: str, other_url: str) -> bool:
    return url.rstrip("/").lower() == other_url.rstrip("/").lower()
