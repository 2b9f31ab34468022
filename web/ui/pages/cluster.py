"""The cluster: workers, leader, assignments, and what waits."""

from __future__ import annotations

import asyncio
from typing import Final

from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.api import Refused
from web.ui.sources.requests import expanded, get_map
from web.ui.views.cluster import cluster_of
from web.ui.views.statuses import connector_status


@page("/cluster", "pages/cluster.html", parts={"cluster": "parts/cluster.html"}, nav="cluster")
async def _cluster(visit: Visit) -> Model:
    """Ask for assignments where the worker tells them; statuses serve every worker."""
    statuses, (assignments, unknown) = await asyncio.gather(
        expanded(visit.source, visit.caller, "status"), _assignments(visit)
    )
    found = [connector_status(name, status) for name, status in statuses.items()]
    return {"cluster": cluster_of(assignments, found), "unknown": unknown}


async def _assignments(visit: Visit) -> tuple[object, str]:
    """Return the leader's answer, or None and why there is none."""
    if not visit.features.assignments:
        return None, ""
    try:
        return await get_map(visit.source, visit.caller, "admin", "assignments"), ""
    except Refused as error:
        return None, error.text


PAGES: Final[tuple[Page, ...]] = (_cluster,)
