"""The connectors of a list as one file for `kraal apply`, with their secrets masked."""

from __future__ import annotations

import asyncio
from typing import Final

from web.ui.pages.connectors import fetch_rows
from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.once import Once
from web.ui.sources.plugin_keys import declared_secrets
from web.ui.sources.requests import expanded
from web.ui.views.commands import initial_state_of
from web.ui.views.config import config_of
from web.ui.views.connectors import Row, choice_of, matching
from web.ui.views.copy_as import Copied, connector_yaml, first_of, one_file
from web.ui.views.json_values import mapping

MAX_CONNECTORS: Final = 200
"""Maximum connectors in a file; each takes the worker about a millisecond."""


@page("/yaml", "parts/yaml.html", nav="connectors")
async def _yaml(visit: Visit) -> Model:
    """Show the configs of all connectors that match the list's filters."""
    choice = choice_of(visit.request.query_params)
    rows, infos = await asyncio.gather(fetch_rows(visit), expanded(visit.source, visit.caller, "info"))
    matches, commands = matching(rows, choice), visit.read_by_curl()
    once = Once(visit.source)

    async def copy_of(row: Row) -> Copied:
        config = config_of(mapping(infos.get(row.name)).get("config"))
        declared = await declared_secrets(once, visit.caller, config)
        state = initial_state_of({**mapping(row.found)})
        return connector_yaml(row.name, config, initial_state=state, declared=declared)

    copies = await asyncio.gather(*(copy_of(row) for row in matches[:MAX_CONNECTORS] if row.name in infos))
    file = first_of(one_file(copies), len(matches), MAX_CONNECTORS, of="connectors")
    return {"choice": choice, "found": len(matches), "copies": file, "asked": commands}


PAGES: Final[tuple[Page, ...]] = (_yaml,)
