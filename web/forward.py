"""Sends a request on to the worker that can do it: the leader, or the owner of an instance.

The herder says who that is. The query parameter `forward` counts the hops: a client's request has none, the first
worker sends it on with `forward=true`, the second with `forward=false`, and a third one refuses: then the group is
about to change, and the client does better to ask again than to be passed around. No worker sends to itself.
What the other worker answers is what the client gets; it asks nobody twice.

Reads are never sent on, but for what the leader alone knows (`ask_leader`), and what each worker knows of its own work
(`web.supervision`).
Source: HerderRequestHandler, RestClient (Kafka 4.3.0); contract R12, F1 to F6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from starlette.responses import Response

from actors.mailbox import Ask
from kraal.errors import Conflict, Momentary, NotLeader, NotOwner
from web.admission import Scarce
from web.asking import ask_herder
from web.render import JSON
from web.settings import Services

if TYPE_CHECKING:
    from starlette.requests import Request

R = TypeVar("R")

HOP = "forward"
MARGIN_S = 10.0
"""For each hop that may follow: whoever waits hears the other worker's own timeout, not only silence."""


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
    """Ask the herder and render its answer; or answer with what the worker says that it names.

    `body` goes with the request, as it came; `query` replaces its query parameters other than the hops. What is
    `internal`, a worker asks for, and is never one too many.
    Raises what the message names, Conflict after two hops, Momentary while nobody knows where, PeerRefused,
    PeerFailed, and as ask_herder.
    """
    try:
        return render(await ask_herder(services, message, always=internal))
    except NotLeader as exc:
        url = exc.leader_url
    except NotOwner as exc:
        url = exc.owner_url
    return await _forward(
        services,
        request,
        url,
        body,
        _other_parameters(request) if query is None else query,
        internal=internal,
    )


async def ask_leader(services: Services, request: Request, url: str | None) -> Response:
    """Answer a request without a body with what the leader says. Raises as ask_or_forward, but for messages."""
    return await _forward(services, request, url, b"", _other_parameters(request))


async def _forward(
    services: Services, request: Request, url: str | None, body: bytes, query: str, *, internal: bool = False
) -> Response:
    settings = services.settings
    hops = _hops_left(request)
    if hops and url is None:
        raise Momentary(
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
    """Return the caller's credentials for a member's URL: only over the scheme that they came by.

    So what came by HTTPS never goes on in the clear; and nothing else of the caller's headers goes on at all.
    """
    sent = request.headers.get("authorization")
    same = url.partition(":")[0].lower() == request.scope.get("scheme", "http")
    return {"Authorization": sent} if sent is not None and same else {}


def _hops_left(request: Request) -> int:
    """Return how often the request may still be sent on: twice, once, or not at all."""
    values = request.query_params.getlist(HOP)
    if not values:
        return 2
    return 1 if values[0].lower() == "true" else 0


def _other_parameters(request: Request) -> str:
    """Return the query as it was sent, without the hops."""
    sent: str = request.scope["query_string"].decode("latin-1")
    return "&".join(each for each in sent.split("&") if each and each.partition("=")[0] != HOP)


def _same(one: str, other: str) -> bool:
    return one.rstrip("/").lower() == other.rstrip("/").lower()
