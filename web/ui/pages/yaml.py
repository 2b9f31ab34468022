"""The connectors of a list as one file for `kraal apply`, with their secrets masked."""

from __future__ import annotations

import asyncio
from typing import Final

from web.ui.pages.connectors import fetch_rows
from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.once import Once
from web.ui.sources.plugin_keys import declared_secrets
from web.ui.sources.requests import expanded
from web.ui.views.commands import parse_initial_state
from web.ui.views.config import parse_config
from web.ui.views.connectors import Row, matching, parse_choice
from web.ui.views.copy_as import Copied, connector_yaml, limit_copies, one_file
from web.ui.views.json_values import mapping

MAX_CONNECTORS: Final = 200
"""Maximum connectors in a file; each takes the worker about a millisecond."""


@page("/yaml", "parts/yaml.html", nav="connectors")
async def _yaml(visit: Visit) -> Model:
    """Show the configs of all connectors that match the list's filters."""
    choice = parse_choice(visit.request.query_params)
    rows, infos = await asyncio.gather(fetch_rows(visit), expanded(visit.source, visit.caller, "info"))
    matches, commands = matching(rows, choice), visit.read_by_curl()
    once = Once(visit.source)

    async def copy_connector(row: Row) -> Copied:
        config = parse_config(mapping(infos.get(row.name)).get("config"))
        declared = await declared_secrets(once, visit.caller, config)
        state = parse_initial_state({**mapping(row.raw_status)})
        return connector_yaml(row.name, config, initial_state=state, declared=declared)

    copies = await asyncio.gather(
        *(copy_connector(row) for row in matches[:MAX_CONNECTORS] if row.name in infos)
    )
    file = limit_copies(one_file(copies), len(matches), MAX_CONNECTORS, of="connectors")
    return {"choice": choice, "total": len(matches), "copies": file, "curl": commands}


PAGES: Final[tuple[Page, ...]] = (_yaml,)
