"""One connector: what its tasks do, and why they do not run."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.api import Refused
from web.ui.sources.requests import connector_status, get_map
from web.ui.views.connector import connector_page
from web.ui.views.navigation import CONNECTOR_TABS, Entry, available


@page(
    "/connectors/{connector}",
    "pages/connector.html",
    parts={"overview": "parts/overview.html", "actions": "parts/connector_actions.html"},
    nav="connectors",
)
async def _overview(visit: Visit) -> Model:
    """Ask for everything about the connector at once."""
    wanted = {"supervision": visit.features.supervision, "progress": visit.features.progress}
    parts = tuple(part for part, told in wanted.items() if told)
    status, config, topics = await asyncio.gather(
        connector_status(visit.source, visit.caller, visit.name, parts=parts),
        _if_told(visit, "config"),
        _if_told(visit, "topics") if visit.features.topics else _nothing(),
    )
    return {**connector_frame(visit, ""), "connector": connector_page(visit.name, status, config, topics)}


def connector_frame(visit: Visit, tab: str) -> Model:
    """Return the values that `pages/connector_frame.html`, the frame of all tabs, has in addition."""
    tabs: list[Entry] = available(CONNECTOR_TABS, visit.features, read_only=visit.options.read_only)
    return {"name": visit.name, "tab": tab, "tabs": tabs}


async def _if_told(visit: Visit, what: str) -> Any:
    """Return an answer about the connector; None if the worker refuses it."""
    try:
        return await get_map(visit.source, visit.caller, "connectors", visit.name, what)
    except Refused:
        return None


async def _nothing() -> None:
    return None


PAGES: Final[tuple[Page, ...]] = (_overview,)
