"""Supervision data in addition to Connect's states: `GET /connectors/{c}/status?expand=supervision`. Kraal's own.

Only the owner of an instance has this data, so the request asks all workers named in the statuses, concurrently and
with a short timeout, and lists those that did not answer: stopped and Java workers. The answers change with time and
are not cached.
"""

from __future__ import annotations

import asyncio
import json
import re
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from actors.messages.herder import AwaitLive
from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.cluster.views import rest as view
from kraal.core.ids import State, WorkerId
from kraal.peers import PeerFailed, PeerRefused
from web.middleware.admission import Scarce
from web.rendering import json_answer
from web.requests.forward import HOP, credentials
from web.requests.herder_client import ask_herder
from web.requests.paths import connector_of

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from web.resource import Handler
    from web.settings import Services

_ASKED: Final = "supervision"
_PATIENCE_S: Final = 2.0
_MOST: Final = 100
"""Maximum number of other workers to ask."""
_AUTHORITY: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):\d{1,5}", re.ASCII)


def with_supervision(status: Handler) -> Handler:
    """Wrap the handler of GET /connectors/{c}/status to support `expand=supervision`."""

    async def get(services: Services, request: Request) -> Response:
        stall_detection = services.stall_detection
        if stall_detection is None or _ASKED not in request.query_params.getlist("expand"):
            return await status(services, request)
        if not services.published.latest.live:
            await ask_herder(services, AwaitLive())
        snapshot, name = services.published.latest, connector_of(request)
        body: dict[str, Any] = view.connector_status(snapshot, name)
        known = stall_detection.status(snapshot, name)
        statuses = snapshot.status.statuses.get(name, ConnectorStatuses())
        others = _workers(statuses) - {snapshot.worker_id}
        if HOP in request.query_params or not services.settings.distributed:
            others = set()
        return json_answer({**body, "supervision": await _gathered(services, request, known, sorted(others))})

    return get


def _workers(statuses: ConnectorStatuses) -> set[WorkerId]:
    """Return the workers that run instances of a connector, or ran them when they failed."""
    own = [] if statuses.connector is None else [statuses.connector]
    return {each.worker_id for each in (*own, *statuses.tasks.values()) if each.state is not State.UNASSIGNED}


async def _gathered(
    services: Services, request: Request, known: dict[str, Any], others: list[WorkerId]
) -> dict[str, Any]:
    """Merge the data of other workers with that of this one."""
    asked = others[:_MOST]
    answers = await asyncio.gather(*(_ask(services, request, each) for each in asked))
    tasks = {task["id"]: task for task in known["tasks"]}
    connector = known.get("connector")
    for answer in filter(None, answers):
        connector = connector or answer.get("connector")
        for task in answer["tasks"]:
            tasks.setdefault(task["id"], task)
    silent = [worker for worker, answer in zip(asked, answers, strict=True) if answer is None]
    return {
        "policy": known["policy"],
        **({} if connector is None else {"connector": connector}),
        "tasks": [tasks[number] for number in sorted(tasks)],
        "silent": [*silent, *others[_MOST:]],
    }


async def _ask(services: Services, request: Request, worker: WorkerId) -> dict[str, Any] | None:
    """Return another worker's data; None if it does not answer in time."""
    settings, peers = services.settings, services.peers
    if not _AUTHORITY.fullmatch(worker) or not services.admission.has_room(Scarce.WORKERS):
        return None
    url = f"{settings.advertised_url.partition('://')[0]}://{worker}/"
    target = request.scope["raw_path"] + f"?{HOP}=false&expand={_ASKED}".encode("ascii")
    try:
        answer = await peers.ask("GET", url, target, headers=credentials(request, url), timeout_s=_PATIENCE_S)
    except (PeerRefused, PeerFailed):
        return None
    if answer.status != HTTPStatus.OK or not answer.body:
        return None
    match json.loads(answer.body):
        case {"supervision": {"tasks": [*tasks]} as found} if all(_is_task(task) for task in tasks):
            return dict(found)
        case _:
            return None


def _is_task(part: object) -> bool:
    return isinstance(part, dict) and isinstance(part.get("id"), int)
