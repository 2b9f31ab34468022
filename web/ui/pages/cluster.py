"""The cluster: workers, leader, assignments, and what waits."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.api import Refused
from web.ui.sources.requests import expanded, get_map
from web.ui.views.activity.events import MOST_EVENTS, Event, events_of
from web.ui.views.cluster import cluster_of
from web.ui.views.statuses import connector_status

_REBALANCES: Final = 10
"""How many of the latest rebalances the page shows, where the leader does not tell them."""


@page("/cluster", "pages/cluster.html", parts={"cluster": "parts/cluster.html"}, nav="cluster")
async def _cluster(visit: Visit) -> Model:
    """Ask for assignments where the worker tells them; statuses serve every worker."""
    statuses, (assignments, unknown) = await asyncio.gather(
        expanded(visit.source, visit.caller, "status"), _assignments(visit)
    )
    cluster = cluster_of(assignments, [connector_status(name, status) for name, status in statuses.items()])
    seen = () if cluster.rebalances else await _seen(visit)
    return {"cluster": cluster, "unknown": unknown, "seen": seen}


async def _seen(visit: Visit) -> Sequence[Event]:
    """Return the latest rebalances as the worker saw them; none if it keeps no events."""
    if not visit.features.events:
        return ()
    query = (("limit", str(MOST_EVENTS)),)
    events = await get_map(visit.source, visit.caller, "events", query=query)
    return events_of(events, kind="rebalance").events[:_REBALANCES]


async def _assignments(visit: Visit) -> tuple[object, str]:
    """Return the leader's answer, or None and the error."""
    if not visit.features.assignments:
        return None, ""
    try:
        return await get_map(visit.source, visit.caller, "admin", "assignments"), ""
    except Refused as error:
        return None, error.text


PAGES: Final[tuple[Page, ...]] = (_cluster,)
