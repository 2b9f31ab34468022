"""The list of connectors, which is also the start page, and its export as one file for `kraal apply`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from web.ui.routing import Model, PageRoute, Visit, page
from web.ui.sources.api import RequestRejected, SourceUnavailable
from web.ui.sources.per_request import DeduplicatingSource
from web.ui.sources.plugin_keys import fetch_secret_keys
from web.ui.sources.requests import expand_query, get_expanded, get_map
from web.ui.views.commands import parse_initial_state
from web.ui.views.config import parse_config
from web.ui.views.connectors import Row, build_rows, filter_rows, listing, parse_choice
from web.ui.views.copy_as import Snippet, connector_yaml, join_as_file, limit_copies
from web.ui.views.down_parts import DownPart, down_parts
from web.ui.views.json_values import mapping

_HEALTH_TIMEOUT_S: Final = 2.0
"""Timeout of `GET /health`. If the herder hangs, the worker responds later than a page should wait."""


async def fetch_down_parts(visit: Visit) -> Sequence[DownPart]:
    """Fetch the failed components of the worker; return none if the request fails or times out."""
    if not visit.features.health:
        return ()
    try:
        health = await asyncio.wait_for(get_map(visit.source, visit.caller, "health"), _HEALTH_TIMEOUT_S)
    except (SourceUnavailable, RequestRejected, TimeoutError):
        return ()
    return down_parts(health, time.time_ns() // 1_000_000)


_TEMPLATE: Final = "pages/connectors.html"
_PARTS: Final = {"list": "parts/connector_list.html"}


async def _connectors(visit: Visit) -> Model:
    """Show a page of the list."""
    rows, failed_parts = await asyncio.gather(fetch_rows(visit), fetch_down_parts(visit))
    choice = parse_choice(visit.request.query_params)
    return {"listing": listing(rows, choice, has_metrics=visit.features.progress), "down": failed_parts}


async def fetch_rows(visit: Visit) -> tuple[Row, ...]:
    """Fetch all connectors. The dashboard filters them, so that all pages of the list share the responses."""
    parts = ("status", "info", *(("progress",) if visit.features.progress else ()))
    statuses, *optional_responses = await asyncio.gather(
        *(
            visit.source.ask("GET", "connectors", query=expand_query(part), caller=visit.caller)
            for part in parts
        )
    )
    return statuses.derive(build_rows, *optional_responses)


MAX_CONNECTORS: Final = 200
"""Maximum number of connectors in a file; the worker needs about a millisecond for each connector."""


@page("/yaml", "parts/yaml.html", nav="connectors")
async def _yaml(visit: Visit) -> Model:
    """Show the configs of up to `MAX_CONNECTORS` connectors that match the list's filters."""
    choice = parse_choice(visit.request.query_params)
    rows, infos = await asyncio.gather(fetch_rows(visit), get_expanded(visit.source, visit.caller, "info"))
    matches, commands = filter_rows(rows, choice), visit.curl_copies()
    deduplicating_source = DeduplicatingSource(visit.source)

    async def copy_connector(row: Row) -> Snippet:
        config = parse_config(mapping(infos.get(row.name)).get("config"))
        secret_keys = await fetch_secret_keys(deduplicating_source, visit.caller, config)
        state = parse_initial_state({**mapping(row.raw_status)})
        return connector_yaml(row.name, config, initial_state=state, secret_keys=secret_keys)

    copies = await asyncio.gather(
        *(copy_connector(row) for row in matches[:MAX_CONNECTORS] if row.name in infos)
    )
    file = limit_copies(join_as_file(copies), len(matches), MAX_CONNECTORS, item_name="connectors")
    return {"choice": choice, "total": len(matches), "copies": file, "curl": commands}


PAGES: Final[tuple[PageRoute, ...]] = (
    *(page(path, _TEMPLATE, parts=_PARTS, nav="connectors")(_connectors) for path in ("/", "/connectors")),
    _yaml,
)
