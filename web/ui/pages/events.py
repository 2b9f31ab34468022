"""Events of the worker."""

from __future__ import annotations

from typing import Final

from web.ui.routing import Model, PageRoute, Visit, page
from web.ui.sources.requests import get_map
from web.ui.views.activity.events import MAX_EVENTS, parse_events


@page("/events", "pages/events.html", parts={"events": "activity/events.html"}, nav="events")
async def _events(visit: Visit) -> Model:
    """Show the worker's events, filtered by the dashboard."""
    query = (("limit", str(MAX_EVENTS)),)
    response = await get_map(visit.source, visit.caller, "events", query=query)
    kind, connector = visit.text("kind"), visit.text("connector")
    return {
        "kind": kind,
        "connector": connector,
        "events": parse_events(response, kind=kind, connector=connector, page=visit.number("page", 1)),
    }


PAGES: Final[tuple[PageRoute, ...]] = (_events,)
