"""Tables that a sink writes: rows, files, lag, commits and changes of the schema."""

from __future__ import annotations

from typing import Final

from web.ui.pages.connector import fetch_frame
from web.ui.routing import Model, PageRoute, Visit, page
from web.ui.sources.requests import get_map
from web.ui.views.tables import parse_tables


@page(
    "/connectors/{connector}/table",
    "pages/table.html",
    parts={"table": "activity/table.html"},
    nav="connectors",
)
async def _table(visit: Visit) -> Model:
    """Show the tables as the tasks have reported them."""
    response = await get_map(visit.source, visit.caller, "connectors", visit.name, "tables")
    return {**await fetch_frame(visit, "table"), "report": parse_tables(dict(response))}


PAGES: Final[tuple[PageRoute, ...]] = (_table,)
