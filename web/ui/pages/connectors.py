"""The list of connectors, which is also the first page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.requests import expanded
from web.ui.views.connectors import Choice, listing, rows_of

_TEMPLATE: Final = "pages/connectors.html"
_PARTS: Final = {"list": "parts/connector_list.html"}


async def _connectors(visit: Visit) -> Model:
    """Ask for all connectors at once; filters apply here, so every page of the list has the same answers."""
    numbers = visit.features.progress
    statuses, infos, progress = await asyncio.gather(
        expanded(visit.source, visit.caller, "status"),
        expanded(visit.source, visit.caller, "info"),
        expanded(visit.source, visit.caller, "progress") if numbers else _nothing(),
    )
    rows = rows_of(statuses, infos, progress)
    return {"listing": listing(rows, choice_of(visit), numbers=numbers)}


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


async def _nothing() -> Mapping[str, Any]:
    return {}


PAGES: Final[tuple[Page, ...]] = tuple(
    page(path, _TEMPLATE, parts=_PARTS, nav="connectors")(_connectors) for path in ("/", "/connectors")
)
