"""One connector: what its tasks do, and why they do not run."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from starlette.responses import PlainTextResponse

from kraal.core.errors import NotFound
from kraal.core.ids import Config
from kraal.core.printable import printable
from web.ui.routing import PART, Model, Page, Visit, page
from web.ui.sources.api import Away, Refused
from web.ui.sources.plugin_keys import declared_secrets
from web.ui.sources.requests import connector_status, get_map
from web.ui.views.commands import initial_state_of
from web.ui.views.config import config_of
from web.ui.views.connector import connector_page
from web.ui.views.copy_as import Copied, connector_yaml
from web.ui.views.json_values import mapping
from web.ui.views.navigation import CONNECTOR_TABS, LETTERS, Entry, available
from web.ui.views.statuses import connector_status as connector_status_of

if TYPE_CHECKING:
    from starlette.responses import Response

_KEYS_S: Final = 2.0


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
    frame = connector_frame(visit, "", letters=may_have_letters(status))
    shown = {**frame, "connector": connector_page(visit.name, status, config, topics)}
    if visit.text(PART) or config is None:
        return shown
    return {**shown, "asked": [*visit.read_by_curl(), *await _yaml(visit, status, config_of(dict(config)))]}


async def _yaml(visit: Visit, status: Mapping[str, Any], config: Config) -> list[Copied]:
    """Return the connector as YAML; nothing if it takes the worker long to tell which keys are secrets."""
    try:
        asked = declared_secrets(visit.source, visit.caller, config)
        declared = await asyncio.wait_for(asked, _KEYS_S)
    except (Away, TimeoutError):
        return []
    state = initial_state_of(dict(status))
    return [connector_yaml(visit.name, config, initial_state=state, declared=declared)]


@page("/connectors/{connector}/trace", "", nav="connectors")
async def _trace(visit: Visit) -> Model | Response:
    """Answer the whole trace of the connector, or of a task, as text: pages show long ones only in part."""
    status = connector_status_of(visit.name, await connector_status(visit.source, visit.caller, visit.name))
    wanted = visit.text("task")
    found = [each for each in (status.connector, *status.tasks) if _task_text(each.task) == wanted]
    if not found or not found[0].trace:
        raise NotFound("There is no trace: the failure is over.")
    return PlainTextResponse(printable(found[0].trace, keep="\n\t").encode("utf-8", "replace"))


def _task_text(task: int | None) -> str:
    return "" if task is None else str(task)


def connector_frame(visit: Visit, tab: str, *, letters: bool = True) -> Model:
    """Return the values that `pages/connector_frame.html`, the frame of all tabs, has in addition.

    `letters`: whether the connector may have dead letters.
    """
    tabs: list[Entry] = available(CONNECTOR_TABS, visit.features, read_only=visit.options.read_only)
    return {
        "name": visit.name,
        "tab": tab,
        "tabs": [entry for entry in tabs if letters or entry.key != LETTERS],
    }


async def asked_frame(visit: Visit, tab: str) -> Model:
    """Return the frame for pages that do not know the connector's status: it is asked for, if it matters."""
    if not visit.features.dead_letters:
        return connector_frame(visit, tab)
    return connector_frame(visit, tab, letters=may_have_letters(await _if_told(visit, "status")))


def may_have_letters(status: object) -> bool:
    """Whether a connector is not a source: only sinks have dead letters."""
    return mapping(status).get("type") != "source"


async def _if_told(visit: Visit, what: str) -> Any:
    """Return an answer about the connector; None if the worker refuses it."""
    try:
        return await get_map(visit.source, visit.caller, "connectors", visit.name, what)
    except Refused:
        return None


async def stored_config(visit: Visit) -> dict[str, str | None]:
    """GET the connector's config, with its secrets. Raises Refused."""
    return config_of(dict(await get_map(visit.source, visit.caller, "connectors", visit.name, "config")))


async def _nothing() -> None:
    return None


PAGES: Final[tuple[Page, ...]] = (_overview, _trace)
