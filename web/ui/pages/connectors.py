"""The list of connectors, which is also the first page."""

from __future__ import annotations

import asyncio
from typing import Final

from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.requests import query_of
from web.ui.views.connectors import Choice, listing, rows_of

_TEMPLATE: Final = "pages/connectors.html"
_PARTS: Final = {"list": "parts/connector_list.html"}


async def _connectors(visit: Visit) -> Model:
    """Ask for all connectors at once; filters apply here, so every page of the list has the same answers."""
    parts = ("status", "info", *(("progress",) if visit.features.progress else ()))
    statuses, *others = await asyncio.gather(
        *(visit.source.ask("GET", "connectors", query=query_of(part), caller=visit.caller) for part in parts)
    )
    rows = statuses.derive(rows_of, *others)
    return {"listing": listing(rows, choice_of(visit), numbers=visit.features.progress)}


def choice_of(visit: Visit) -> Choice:
    """Return what the reader chose in the query."""
    return Choice(
        state=visit.text("state"),
        type=visit.text("type"),
        q=visit.text("q").strip(),
        sort=visit.text("sort"),
        page=visit.number("page", 1),
        worker=visit.text("worker"),
    )


PAGES: Final[tuple[Page, ...]] = tuple(
    page(path, _TEMPLATE, parts=_PARTS, nav="connectors")(_connectors) for path in ("/", "/connectors")
)
