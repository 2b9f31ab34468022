"""The list of connectors, which is also the first page."""

from __future__ import annotations

import asyncio
from typing import Final

from web.ui.pages.down_parts import fetch_down_parts
from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.requests import expand_query
from web.ui.views.connectors import Row, build_rows, listing, parse_choice

_TEMPLATE: Final = "pages/connectors.html"
_PARTS: Final = {"list": "parts/connector_list.html"}


async def _connectors(visit: Visit) -> Model:
    """Show a page of the list."""
    rows, down = await asyncio.gather(fetch_rows(visit), fetch_down_parts(visit))
    choice = parse_choice(visit.request.query_params)
    return {"listing": listing(rows, choice, has_metrics=visit.features.progress), "down": down}


async def fetch_rows(visit: Visit) -> tuple[Row, ...]:
    """Fetch all connectors; the dashboard filters them, so that all pages of the list share these responses."""
    parts = ("status", "info", *(("progress",) if visit.features.progress else ()))
    statuses, *optional = await asyncio.gather(
        *(
            visit.source.ask("GET", "connectors", query=expand_query(part), caller=visit.caller)
            for part in parts
        )
    )
    return statuses.derive(build_rows, *optional)


PAGES: Final[tuple[Page, ...]] = tuple(
    page(path, _TEMPLATE, parts=_PARTS, nav="connectors")(_connectors) for path in ("/", "/connectors")
)
