"""The list of connectors, which is also the first page."""

from __future__ import annotations

import asyncio
from typing import Final

from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.requests import query_of
from web.ui.views.connectors import Row, choice_of, listing, rows_of

_TEMPLATE: Final = "pages/connectors.html"
_PARTS: Final = {"list": "parts/connector_list.html"}


async def _connectors(visit: Visit) -> Model:
    """Show a page of the list."""
    found = listing(
        await asked_rows(visit), choice_of(visit.request.query_params), numbers=visit.features.progress
    )
    return {"listing": found}


async def asked_rows(visit: Visit) -> tuple[Row, ...]:
    """Ask for all connectors at once; filters apply here, so every page of the list has the same answers."""
    parts = ("status", "info", *(("progress",) if visit.features.progress else ()))
    statuses, *others = await asyncio.gather(
        *(visit.source.ask("GET", "connectors", query=query_of(part), caller=visit.caller) for part in parts)
    )
    return statuses.derive(rows_of, *others)


PAGES: Final[tuple[Page, ...]] = tuple(
    page(path, _TEMPLATE, parts=_PARTS, nav="connectors")(_connectors) for path in ("/", "/connectors")
)
