"""Collects data that each worker has only of its own instances, by sending the client's GET to the other workers.

The requests run concurrently, with a short timeout and a size limit. A worker without a valid answer, such as a stopped
worker or a Java worker, counts as *silent*. So does an address that is no member of the group, which receives no
request: statuses may name any address. The request is signed; only its path and query are the caller's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import State, WorkerId
from kraal.peers import PeerFailed, PeerRefused
from web.middleware.admission import Scarce
from web.requests.forward import HOP
from web.requests.signed_reads import read_headers

if TYPE_CHECKING:
    from starlette.requests import Request

    from kraal.cluster.views.snapshot import Snapshot
    from web.settings import Services

ANSWER_TIMEOUT_S: Final = 2.0
MAX_WORKERS: Final = 100
"""Maximum number of workers to ask; the others count as silent."""
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024
"""Maximum size of one answer."""

T = TypeVar("T")


def instance_workers(statuses: ConnectorStatuses) -> set[WorkerId]:
    """Return the workers that run instances of a connector, or ran them when they failed."""
    connector = [] if statuses.connector is None else [statuses.connector]
    return {
        each.worker_id
        for each in (*connector, *statuses.tasks.values())
        if each.state is not State.UNASSIGNED
    }


def all_workers(snapshot: Snapshot) -> set[WorkerId]:
    """Return the workers that run instances of any connector, or ran them when they failed."""
    return {worker for statuses in snapshot.status.statuses.values() for worker in instance_workers(statuses)}


def asks_others(services: Services, request: Request) -> bool:
    """Whether to ask other workers: not in standalone mode, nor for a request from another worker."""
    return services.settings.distributed and HOP not in request.query_params


async def ask_workers(
    services: Services,
    request: Request,
    workers: Iterable[WorkerId],
    query: str,
    parse: Callable[[object], T | None],
) -> tuple[Sequence[tuple[WorkerId, T]], Sequence[WorkerId]]:
    """Send a GET of the request's path to each worker, and return the answers and the silent workers, both sorted.

    Args:
        services: to send requests.
        request: the request whose path is sent.
        workers: the workers to ask; this worker must not be among them.
        query: the parameters to send, percent-encoded; `forward=false` precedes them.
        parse: returns the useful part of a JSON value, or None if the value is malformed.
    """
    targets = sorted(workers)
    requested = targets[:MAX_WORKERS]
    urls = await services.members.urls(services.published.latest) if requested else {}
    answers = await asyncio.gather(
        *(_ask(services, request, urls.get(each), query, parse) for each in requested)
    )
    answered = [
        (worker, answer) for worker, answer in zip(requested, answers, strict=True) if answer is not None
    ]
    silent = [worker for worker, answer in zip(requested, answers, strict=True) if answer is None]
    return answered, [*silent, *targets[MAX_WORKERS:]]


async def _ask(
    services: Services, request: Request, url: str | None, query: str, parse: Callable[[object], T | None]
) -> T | None:
    """Return the useful part of the answer of the worker at `url`; None if it does not answer in time."""
    if url is None or not services.admission.has_room(Scarce.WORKERS):
        return None
    target = request.scope["raw_path"] + f"?{HOP}=false&{query}".encode("ascii")
    try:
        answer = await services.peers.ask(
            "GET",
            url,
            target,
            headers=read_headers(services, url, target),
            timeout_s=ANSWER_TIMEOUT_S,
            max_bytes=MAX_ANSWER_BYTES,
        )
    except (PeerRefused, PeerFailed):
        return None
    if answer.status != HTTPStatus.OK or not answer.body:
        return None
    return parse(answer.value)
