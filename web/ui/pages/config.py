"""A connector's config with masked secrets, its previous versions, and formats for copying."""

from __future__ import annotations

from typing import Any, Final

from kraal.config.hidden import hide
from web.ui.pages.connector import fetch_config, fetch_frame
from web.ui.routing import Model, PageRoute, Visit, page
from web.ui.sources.api import RequestRejected
from web.ui.sources.plugin_keys import fetch_secret_keys
from web.ui.sources.requests import connector_status, get_map
from web.ui.views.commands import parse_initial_state
from web.ui.views.config import entries, history_differences, without_unchanged
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
    stored_config = await fetch_config(visit)
    secret_keys = await fetch_secret_keys(visit.source, visit.caller, stored_config)
    request = Request(
        method="PUT", segments=("connectors", visit.name, "config"), body={**hide(stored_config, secret_keys)}
    )
    return {
        **await fetch_frame(visit, "config"),
        "entries": entries(stored_config, secret_keys),
        "versions": await _fetch_versions(visit),
        "copies": [
            visit.curl(request),
            connector_yaml(
                visit.name,
                stored_config,
                initial_state=await _fetch_initial_state(visit),
                secret_keys=secret_keys,
            ),
        ],
    }


async def _fetch_versions(visit: Visit) -> list[dict[str, Any]]:
    """Return the changes recorded by the worker, newest first. `number` is the config version before each change."""
    if not visit.features.configs:
        return []
    try:
        response = dict(await get_map(visit.source, visit.caller, "connectors", visit.name, "configs"))
    except RequestRejected:
        return []
    versions = [mapping(response.get("current")), *maps(response.get("earlier"))]
    return [
        {
            "number": number,
            "ms": ms if (ms := get_integer(version, "ms")) is not None and ms >= 0 else None,
            "by": text(version, "by"),
            "changes": without_unchanged(differences),
            "deleted": previous.get("changed") == [],
        }
        for number, (version, previous, differences) in enumerate(
            zip(versions, versions[1:], history_differences(response), strict=False), 1
        )
    ]


async def _fetch_initial_state(visit: Visit) -> str:
    """Return the initial state for a copy of the connector."""
    try:
        status = await connector_status(visit.source, visit.caller, visit.name)
    except RequestRejected:
        return "RUNNING"
    return parse_initial_state(dict(status))


PAGES: Final[tuple[PageRoute, ...]] = (_config,)
