"""The cluster: workers, leader, assignments, and what waits."""

from __future__ import annotations

import asyncio
from typing import Final

from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.api import Refused
from web.ui.sources.requests import expanded, get_map
from web.ui.views.activity.events import MOST_EVENTS, events_of
from web.ui.views.cluster import cluster_of
from web.ui.views.statuses import connector_status

_REBALANCES: Final = 10
"""How many of the latest rebalances the page shows."""


@page("/cluster", "pages/cluster.html", parts={"cluster": "parts/cluster.html"}, nav="cluster")
async def _cluster(visit: Visit) -> Model:
    """Ask for assignments where the worker tells them; statuses serve every worker."""
    statuses, (assignments, unknown), events = await asyncio.gather(
        expanded(visit.source, visit.caller, "status"), _assignments(visit), _events(visit)
    )
    found = [connector_status(name, status) for name, status in statuses.items()]
    rebalances = events_of(events, kind="rebalance").events[:_REBALANCES]
    return {"cluster": cluster_of(assignments, found), "unknown": unknown, "rebalances": rebalances}


async def _events(visit: Visit) -> object:
    """Return the worker's events; None if it keeps none."""
    if not visit.features.events:
        return None
    query = (("limit", str(MOST_EVENTS)),)
    return await get_map(visit.source, visit.caller, "events", query=query)


async def _assignments(visit: Visit) -> tuple[object, str]:
    """Return the leader's answer, or None and the error."""
    if not visit.features.assignments:
        return None, ""
    try:
        return await get_map(visit.source, visit.caller, "admin", "assignments"), ""
    except Refused as error:
        return None, error.text


PAGES: Final[tuple[Page, ...]] = (_cluster,)
