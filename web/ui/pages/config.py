"""A connector's config: with its secrets masked, its earlier versions, and ways to copy it."""

from __future__ import annotations

from typing import Any, Final

from kraal.config.hidden import hide
from web.ui.pages.connector import fetch_frame, stored_config
from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.api import Refused
from web.ui.sources.plugin_keys import declared_secrets
from web.ui.sources.requests import connector_status, get_map
from web.ui.views.commands import parse_initial_state
from web.ui.views.config import entries, history_differences, only_changes
from web.ui.views.copy_as import Request, connector_yaml
from web.ui.views.json_values import get_integer, mapping, maps, text


@page(
    "/connectors/{connector}/config",
    "pages/config.html",
    parts={"config": "parts/config.html"},
    nav="connectors",
)
async def _config(visit: Visit) -> Model:
    """Show the config and its history."""
    stored = await stored_config(visit)
    declared = await declared_secrets(visit.source, visit.caller, stored)
    request = Request(
        method="PUT", segments=("connectors", visit.name, "config"), body={**hide(stored, declared)}
    )
    return {
        **await fetch_frame(visit, "config"),
        "entries": entries(stored, declared),
        "versions": await _versions(visit),
        "copies": [
            visit.curl(request),
            connector_yaml(visit.name, stored, initial_state=await _initial_state(visit), declared=declared),
        ],
    }


async def _versions(visit: Visit) -> list[dict[str, Any]]:
    """Return the changes that this worker recorded, newest first; version 1 precedes the latest change."""
    if not visit.features.configs:
        return []
    try:
        answer = dict(await get_map(visit.source, visit.caller, "connectors", visit.name, "configs"))
    except Refused:
        return []
    versions = [mapping(answer.get("current")), *maps(answer.get("earlier"))]
    return [
        {
            "number": number,
            "ms": ms if (ms := get_integer(each, "ms")) is not None and ms >= 0 else None,
            "by": text(each, "by"),
            "changes": only_changes(differences),
            "deleted": previous.get("changed") == [],
        }
        for number, (each, previous, differences) in enumerate(
            zip(versions, versions[1:], history_differences(answer), strict=False), 1
        )
    ]


async def _initial_state(visit: Visit) -> str:
    """Return the state that a copy of the connector should have."""
    try:
        status = await connector_status(visit.source, visit.caller, visit.name)
    except Refused:
        return "RUNNING"
    return parse_initial_state(dict(status))


PAGES: Final[tuple[Page, ...]] = (_config,)
