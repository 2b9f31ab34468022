"""The cluster: workers, leader, assignments, and unassigned work."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from web.ui.pages.connectors import fetch_down_parts
from web.ui.routing import Model, PageRoute, Visit, page
from web.ui.sources.api import RequestRejected
from web.ui.sources.requests import get_expanded, get_map
from web.ui.views.activity.events import MAX_EVENTS, Event, parse_events
from web.ui.views.cluster import build_cluster
from web.ui.views.statuses import connector_status

_MAX_REBALANCES: Final = 10
"""Maximum number of rebalances to show if the leader does not report them."""


@page("/cluster", "pages/cluster.html", parts={"cluster": "parts/cluster.html"}, nav="cluster")
async def _cluster(visit: Visit) -> Model:
    """Show statuses, and assignments if the worker serves them."""
    statuses, (assignments, assignments_error), failed_parts = await asyncio.gather(
        get_expanded(visit.source, visit.caller, "status"), _fetch_assignments(visit), fetch_down_parts(visit)
    )
    cluster = build_cluster(
        assignments, [connector_status(name, status) for name, status in statuses.items()]
    )
    rebalances = () if cluster.rebalances else await _fetch_rebalances(visit)
    return {
        "cluster": cluster,
        "assignments_error": assignments_error,
        "observed_rebalances": rebalances,
        "down": failed_parts,
    }


async def _fetch_rebalances(visit: Visit) -> Sequence[Event]:
    """Return the latest rebalances recorded by the worker; empty if it does not record events."""
    if not visit.features.events:
        return ()
    query = (("limit", str(MAX_EVENTS)),)
    events = await get_map(visit.source, visit.caller, "events", query=query)
    return parse_events(events, kind="rebalance").events[:_MAX_REBALANCES]


async def _fetch_assignments(visit: Visit) -> tuple[object, str]:
    """Return the leader's assignments, or None and the error."""
    if not visit.features.assignments:
        return None, ""
    try:
        return await get_map(visit.source, visit.caller, "admin", "assignments"), ""
    except RequestRejected as error:
        return None, error.text


PAGES: Final[tuple[PageRoute, ...]] = (_cluster,)
