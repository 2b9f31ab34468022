"""Forwarding of requests to the worker responsible for them: the leader, or the owner of an instance.

The herder names that worker. The query parameter `forward` counts the hops: a client's request has none, the first
worker forwards it with `forward=true`, the second with `forward=false`, and a third one refuses, because the group is
about to change and the client should retry. No worker forwards to itself. The client receives the other worker's
answer; no request is sent twice.

Reads are not forwarded, except for data that only the leader has (`ask_leader`), and data that each worker has about
its own instances (`web.routes.supervision`). Source: HerderRequestHandler, RestClient (Kafka 4.4.0).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, TypeVar

from starlette.responses import Response

from actors.runtime.mailbox import Ask
from kraal.core.errors import Conflict, NotLeader, NotOwner, RetryableConflict
from web.middleware.admission import Scarce
from web.rendering import JSON
from web.requests.authors import author, journal_effect
from web.requests.herder_client import ask_herder
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request

R = TypeVar("R")

HOP = "forward"
MARGIN_S = 10.0
"""Extra timeout per remaining hop, so that the caller receives the other worker's timeout error, not its own."""


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
    """Ask the herder and render its answer, or forward the request to the worker that the herder names.

    `body` is sent with the request unchanged; `query` replaces its query parameters other than the hops. `internal`
    requests come from workers, and admission control does not limit them.
    Raises the message's errors, Conflict after two hops, RetryableConflict while no worker is known, PeerRefused,
    PeerFailed, and the errors of `ask_herder`.
    """
    with asking(services, request, message) as keep_author:
        try:
            return render(await ask_herder(services, message, bypass_limit=internal))
        except NotLeader as exc:
            url = exc.leader_url
        except NotOwner as exc:
            url = exc.owner_url
        parameters = _other_parameters(request) if query is None else query
        answer = await _forward(services, request, url, body, parameters, internal=internal)
        keep_author()
        return answer


def asking(
    services: Services, request: Request, message: object
) -> AbstractContextManager[Callable[[], None]]:
    """Register the author of a message's effect until the message is answered; see `Authors.asking`."""
    by = author(services, request, forwarded=HOP in request.query_params)
    return services.journal.authors.asking(journal_effect(message), by)


async def ask_leader(services: Services, request: Request, url: str | None) -> Response:
    """Forward a request without a body to the leader. Raises as ask_or_forward, except for the message's errors."""
    return await _forward(services, request, url, b"", _other_parameters(request))


async def _forward(
    services: Services, request: Request, url: str | None, body: bytes, query: str, *, internal: bool = False
) -> Response:
    settings = services.settings
    hops = _hops_left(request)
    if hops and url is None:
        raise RetryableConflict(
            "Cannot complete request momentarily due to no known leader URL, "
            "likely because a rebalance was underway."
        )
    if not hops or url is None or _same(url, settings.advertised_url):
        raise Conflict("Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
    if not internal:
        services.admission.enter(Scarce.WORKERS)
    hop = f"{HOP}={'true' if hops > 1 else 'false'}"
    answer = await services.peers.ask(
        request.method,
        url,
        request.scope["raw_path"] + f"?{hop}{'&' if query else ''}{query}".encode("latin-1"),
        body=body,
        headers=credentials(request, url),
        timeout_s=settings.request_timeout_s + hops * MARGIN_S,
    )
    headers = {"Content-Type": JSON} if answer.body else {}
    if answer.location is not None:
        headers["Location"] = answer.location
    return Response(answer.body, answer.status, headers)


def credentials(request: Request, url: str) -> dict[str, str]:
    """Return the caller's credentials for the leader or owner, only if `url` has the request's scheme.

    The group names both, and each may be a Java worker, which checks the password. Source: RestClient (KAFKA-8404).

    Credentials received over HTTPS are thus never sent in clear text. No other header of the caller is forwarded.
    """
    authorization = request.headers.get("authorization")
    is_same_scheme = url.partition(":")[0].lower() == request.scope.get("scheme", "http")
    return {"Authorization": authorization} if authorization is not None and is_same_scheme else {}


def _hops_left(request: Request) -> int:
    """Return how often the request may still be forwarded: 2, 1 or 0."""
    values = request.query_params.getlist(HOP)
    if not values:
        return 2
    return 1 if values[0].lower() == "true" else 0


def _other_parameters(request: Request) -> str:
    """Return the query as sent, without the hop parameter."""
    query: str = request.scope["query_string"].decode("latin-1")
    return "&".join(each for each in query.split("&") if each and each.partition("=")[0] != HOP)


def _same(one: str, other: str) -> bool:
    return one.rstrip("/").lower() == other.rstrip("/").lower()
