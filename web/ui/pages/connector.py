"""One connector: its tasks, their progress, and the causes of failures."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse

from kraal.core.errors import NotFound
from kraal.core.ids import Config
from kraal.core.printable import printable
from web.ui.routing import PART, Model, PageRoute, Visit, page
from web.ui.sources.api import RequestRejected, SourceUnavailable
from web.ui.sources.plugin_keys import fetch_secret_keys
from web.ui.sources.requests import connector_status, get_map
from web.ui.views.commands import parse_initial_state
from web.ui.views.config import parse_config
from web.ui.views.connector import connector_page
from web.ui.views.copy_as import Snippet, connector_yaml
from web.ui.views.json_values import mapping
from web.ui.views.navigation import CONNECTOR_TABS, SINK_TABS, Entry, available
from web.ui.views.statuses import connector_status as parse_connector_status

if TYPE_CHECKING:
    from starlette.responses import Response

_SECRETS_TIMEOUT_S: Final = 2.0


@page(
    "/connectors/{connector}",
    "pages/connector.html",
    parts={"overview": "parts/overview.html", "actions": "parts/connector_actions.html"},
    nav="connectors",
)
async def _overview(visit: Visit) -> Model:
    """Show the connector. The REST requests run concurrently."""
    availability = {"supervision": visit.features.supervision, "progress": visit.features.progress}
    parts = tuple(part for part, is_available in availability.items() if is_available)
    status, config, topics = await asyncio.gather(
        connector_status(visit.source, visit.caller, visit.name, parts=parts),
        _get_optional(visit, "config"),
        _get_optional(visit, "topics") if visit.features.topics else _no_response(),
    )
    frame = connector_frame(visit, "", may_be_sink=may_be_sink(status))
    model = {**frame, "connector": connector_page(visit.name, status, config, topics)}
    if visit.text(PART) or config is None:
        return model
    return {
        **model,
        "curl": [*visit.curl_copies(), *await _build_yaml(visit, status, parse_config(dict(config)))],
    }


async def _build_yaml(visit: Visit, status: Mapping[str, Any], config: Config) -> list[Snippet]:
    """Return the connector as YAML; empty if the worker does not list the secret keys in time."""
    try:
        keys_request = fetch_secret_keys(visit.source, visit.caller, config)
        secret_keys = await asyncio.wait_for(keys_request, _SECRETS_TIMEOUT_S)
    except (SourceUnavailable, TimeoutError):
        return []
    state = parse_initial_state(dict(status))
    return [connector_yaml(visit.name, config, initial_state=state, secret_keys=secret_keys)]


@page("/connectors/{connector}/trace", "", nav="connectors")
async def _trace(visit: Visit) -> Model | Response:
    """Return the full trace of the connector or of a task as text; pages shorten long traces."""
    status = parse_connector_status(
        visit.name, await connector_status(visit.source, visit.caller, visit.name)
    )
    task_text = visit.text("task")
    matches = [entry for entry in (status.connector, *status.tasks) if _task_text(entry.task) == task_text]
    if not matches or not matches[0].trace:
        raise NotFound("There is no trace, because the instance is not FAILED.")
    return PlainTextResponse(printable(matches[0].trace, keep="\n\t").encode("utf-8", "replace"))


def _task_text(task: int | None) -> str:
    return "" if task is None else str(task)


def connector_frame(visit: Visit, tab: str, *, may_be_sink: bool = True) -> Model:
    """Return the values for `connector_frame.html`, the frame of all tabs of a connector.

    Without `may_be_sink`, the tabs that only sinks have are omitted.
    """
    tabs: list[Entry] = available(CONNECTOR_TABS, visit.features, read_only=visit.options.read_only)
    return {
        "name": visit.name,
        "tab": tab,
        "tabs": [entry for entry in tabs if may_be_sink or entry.key not in SINK_TABS],
    }


async def fetch_frame(visit: Visit, tab: str) -> Model:
    """Return the frame for a page that does not fetch the connector's status itself.

    Fetches the status only if the frame needs it.
    """
    if not (visit.features.dead_letters or visit.features.tables):
        return connector_frame(visit, tab)
    return connector_frame(visit, tab, may_be_sink=may_be_sink(await _get_optional(visit, "status")))


def may_be_sink(status: object) -> bool:
    """Return whether a connector is not a source, according to its status, which may be unknown."""
    return mapping(status).get("type") != "source"


async def _get_optional(visit: Visit, resource: str) -> Any:
    """GET a resource of the connector; return None if the worker rejects the request."""
    try:
        return await get_map(visit.source, visit.caller, "connectors", visit.name, resource)
    except RequestRejected:
        return None


async def fetch_config(visit: Visit) -> dict[str, str | None]:
    """GET the connector's config, including secrets. Raises RequestRejected."""
    return parse_config(dict(await get_map(visit.source, visit.caller, "connectors", visit.name, "config")))


async def _no_response() -> None:
    return None


PAGES: Final[tuple[PageRoute, ...]] = (_overview, _trace)
