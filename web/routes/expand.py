"""Values of `expand` that add supervision and progress data to Connect's responses.

Java ignores these values. The data is not part of the snapshot, so the responses are not cached.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from kraal.cluster.views import rest as view
from web.rendering import JSON, json_response, to_json
from web.requests.paths import connector_name
from web.resource import live_snapshot
from web.routes.progress import CHUNK_SIZE, gather_all_progress, gather_progress, get_shared_response
from web.routes.supervision import gather_supervision

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from starlette.requests import Request

    from kraal.cluster.views.snapshot import Snapshot
    from kraal.metrics.progress import ProgressReports
    from web.resource import Handler
    from web.settings import Services

_SUPERVISION: Final = "supervision"
_PROGRESS: Final = "progress"


def with_status_parts(status: Handler) -> Handler:
    """Wrap the handler of GET /connectors/{c}/status to support `expand=supervision` and `expand=progress`."""

    async def get(services: Services, request: Request) -> Response:
        expand = request.query_params.getlist("expand")
        stall_detection = services.stall_detection if _SUPERVISION in expand else None
        reports = services.progress if _PROGRESS in expand else None
        if stall_detection is None and reports is None:
            return await status(services, request)
        snapshot, name = await live_snapshot(services), connector_name(request)
        body: dict[str, Any] = view.connector_status(snapshot, name)
        parts: dict[str, Coroutine[Any, Any, Any]] = {}
        if stall_detection is not None:
            parts[_SUPERVISION] = gather_supervision(services, request, stall_detection, snapshot, name)
        if reports is not None:
            parts[_PROGRESS] = gather_progress(services, request, reports, snapshot, name)
        values = await asyncio.gather(*parts.values())
        return json_response({**body, **dict(zip(parts, values, strict=True))})

    return get


async def _expand(
    services: Services, request: Request, reports: ProgressReports, snapshot: Snapshot, expand: Sequence[str]
) -> bytes:
    """Return the JSON of all connectors with the requested parts in order. Yields to other requests between chunks."""
    progress = await gather_all_progress(services, request, reports, snapshot)
    parts_by_name: dict[str, Any] = view.connectors_expanded(
        services.published.latest, expand, causes=wants_root_causes(request)
    )
    chunks: list[bytes] = []
    for name, snapshot_parts in parts_by_name.items():
        parts = {**snapshot_parts, _PROGRESS: progress[name]} if name in progress else snapshot_parts
        requested_parts = {part: parts[part] for part in expand if part in parts}
        chunks.append(to_json(name) + b":" + to_json(requested_parts))
        if len(chunks) % CHUNK_SIZE == 0:
            await asyncio.sleep(0)
    return b"{" + b",".join(chunks) + b"}"


def wants_root_causes(request: Request) -> bool:
    """Return whether the client requests traces reduced to the line that names the root cause."""
    return request.query_params.get("traces") == "causes"


def with_list_parts(connectors: Handler) -> Handler:
    """Wrap the handler of GET /connectors to support `expand=progress`."""

    async def get(services: Services, request: Request) -> Response:
        expand = request.query_params.getlist("expand")
        if services.progress is None or _PROGRESS not in expand:
            return await connectors(services, request)
        snapshot = await live_snapshot(services)
        render = partial(_expand, services, request, services.progress, snapshot, expand)
        # The key contains the number of the snapshot, so that a client sees the effect of its own requests.
        body = await get_shared_response(
            services, request, ("list", snapshot.number, wants_root_causes(request), *expand), render
        )
        return Response(body, headers={"Content-Type": JSON})

    return get
