"""The list of connectors, which is also the first page."""

from __future__ import annotations

import asyncio
from typing import Final

from web.ui.pages.down_parts import fetch_down_parts
from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.requests import query_of
from web.ui.views.connectors import Row, choice_of, listing, rows_of

_TEMPLATE: Final = "pages/connectors.html"
_PARTS: Final = {"list": "parts/connector_list.html"}


async def _connectors(visit: Visit) -> Model:
    """Show a page of the list."""
    rows, down = await asyncio.gather(fetch_rows(visit), fetch_down_parts(visit))
    choice = choice_of(visit.request.query_params)
    return {"listing": listing(rows, choice, numbers=visit.features.progress), "down": down}


async def fetch_rows(visit: Visit) -> tuple[Row, ...]:
    """Fetch all connectors; the dashboard filters them, so that all pages of the list share these responses."""
    parts = ("status", "info", *(("progress",) if visit.features.progress else ()))
    statuses, *optional = await asyncio.gather(
        *(visit.source.ask("GET", "connectors", query=query_of(part), caller=visit.caller) for part in parts)
    )
    return statuses.derive(rows_of, *optional)


PAGES: Final[tuple[Page, ...]] = tuple(
    page(path, _TEMPLATE, parts=_PARTS, nav="connectors")(_connectors) for path in ("/", "/connectors")
)
