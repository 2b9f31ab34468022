"""Forwards a client's GET to other workers, to collect data that each worker has only about its own instances.

The requests run concurrently, with a short timeout and a size limit. A worker without a valid response, such as a
stopped worker or a Java worker, counts as *silent*. Statuses may contain any address, so an address outside the group
also counts as silent and receives no request. Requests are signed if the group has a session key. Only their path and
some query parameters come from the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import State, WorkerId
from kraal.peers import PeerFailed, PeerRefused
from web.middleware.admission import LimitedResource
from web.requests.forward import HOP
from web.requests.signed_reads import read_headers

if TYPE_CHECKING:
    from starlette.requests import Request

    from kraal.cluster.views.snapshot import Snapshot
    from web.settings import Services

RESPONSE_TIMEOUT_S: Final = 2.0
MAX_WORKERS: Final = 100
"""Maximum number of workers to query; all others count as silent."""
MAX_RESPONSE_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of a response."""

T = TypeVar("T")


def instance_workers(statuses: ConnectorStatuses) -> set[WorkerId]:
    """Return the workers that run instances of a connector, or ran an instance when it failed."""
    connector = [] if statuses.connector is None else [statuses.connector]
    return {
        instance.worker_id
        for instance in (*connector, *statuses.tasks.values())
        if instance.state is not State.UNASSIGNED
    }


def all_workers(snapshot: Snapshot) -> set[WorkerId]:
    """Return the workers that run instances of any connector, or ran an instance when it failed."""
    return {worker for statuses in snapshot.status.statuses.values() for worker in instance_workers(statuses)}


def should_ask_workers(services: Services, request: Request) -> bool:
    """Return whether to query other workers: not in standalone mode, and not for another worker's request."""
    return services.settings.distributed and HOP not in request.query_params


async def ask_workers(
    services: Services,
    request: Request,
    workers: Iterable[WorkerId],
    query: str,
    parse: Callable[[object], T | None],
) -> tuple[Sequence[tuple[WorkerId, T]], Sequence[WorkerId]]:
    """Send a GET of the request's path to each worker; return the responses and the silent workers, both sorted.

    Args:
        services: the services with which requests are sent.
        request: the request whose path is sent.
        workers: the workers to query, excluding this one.
        query: the parameters to send, percent-encoded; `forward=false` precedes them.
        parse: extracts the relevant part of a JSON value; returns None if the value is malformed.
    """
    targets = sorted(workers)
    queried_workers = targets[:MAX_WORKERS]
    urls = await services.members.urls(services.published.latest) if queried_workers else {}
    responses = await asyncio.gather(
        *(_request_part(services, request, urls.get(worker), query, parse) for worker in queried_workers)
    )
    parts = [
        (worker, response)
        for worker, response in zip(queried_workers, responses, strict=True)
        if response is not None
    ]
    silent = [worker for worker, response in zip(queried_workers, responses, strict=True) if response is None]
    return parts, [*silent, *targets[MAX_WORKERS:]]


async def _request_part(
    services: Services, request: Request, url: str | None, query: str, parse: Callable[[object], T | None]
) -> T | None:
    """Return the relevant part of the response of the worker at `url`; None without a valid response."""
    if url is None or not services.admission.can_admit(LimitedResource.WORKERS):
        return None
    target = request.scope["raw_path"] + f"?{HOP}=false&{query}".encode("ascii")
    try:
        response = await services.peers.request(
            "GET",
            url,
            target,
            headers=read_headers(services, url, target),
            timeout_s=RESPONSE_TIMEOUT_S,
            max_bytes=MAX_RESPONSE_BYTES,
        )
    except (PeerRefused, PeerFailed):
        return None
    if response.status != HTTPStatus.OK or not response.body:
        return None
    return parse(response.value)
