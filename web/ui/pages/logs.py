"""Log lines of a connector, and the levels of the loggers that write them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kraal.core.errors import BadRequest
from kraal.core.ids import Json
from web.ui.memory import Notice
from web.ui.pages.actions import refuse_if_read_only
from web.ui.pages.connector import fetch_frame
from web.ui.routing import Model, PageRoute, Visit, action, page
from web.ui.sources.api import RequestRejected
from web.ui.sources.requests import get_map
from web.ui.sources.sending import Sender
from web.ui.views.activity.logs import (
    LEVELS,
    MAX_LINES,
    SETTABLE_LEVELS,
    filter_log,
    level_request,
    level_result,
    parse_level,
    plugin_loggers,
)
from web.ui.views.commands import Result
from web.ui.views.json_values import text
from web.ui.views.plugins import find_plugin, parse_plugins

if TYPE_CHECKING:
    from starlette.responses import Response

_MAX_TASK_DIGITS: Final = 9


@page(
    "/connectors/{connector}/logs",
    "pages/logs.html",
    parts={"lines": "activity/lines.html"},
    nav="connectors",
)
async def _logs(visit: Visit) -> Model:
    """Show the log lines, filtered by minimum level, task and text."""
    level, task_text, query = parse_level(visit.text("level")), visit.text("task"), visit.text("q").strip()
    is_number = task_text.isascii() and task_text.isdecimal() and len(task_text) <= _MAX_TASK_DIGITS
    task = task_text if is_number else ""
    parameters = [("limit", str(MAX_LINES)), ("level", level), ("task", task)]
    response, config, levels = await asyncio.gather(
        get_map(
            visit.source, visit.caller, "connectors", visit.name, "logs",
            query=[(key, value) for key, value in parameters if value],
        ),
        get_map(visit.source, visit.caller, "connectors", visit.name, "config"),
        _fetch_levels(visit),
    )  # fmt: skip
    log = filter_log(response, level=level, task=int(task) if task else None, query=query)
    plugin = "" if levels is None else await _resolve_class(visit, text(config, "connector.class"))
    return {
        **await fetch_frame(visit, "logs"),
        "log": log,
        "choice": {"level": level, "task": task, "q": query},
        "levels": LEVELS,
        "settable": SETTABLE_LEVELS,
        "loggers": [] if levels is None else plugin_loggers(levels, plugin, log.lines),
    }


async def _resolve_class(visit: Visit, plugin: str) -> str:
    """Resolve a plugin's class or alias to its class; an unknown alias stays unchanged."""
    if "." in plugin:
        return plugin
    try:
        response = await visit.source.ask("GET", "connector-plugins", caller=visit.caller)
    except RequestRejected:
        return plugin
    installed_plugin = find_plugin(parse_plugins(response.value), plugin)
    return plugin if installed_plugin is None else installed_plugin.name


async def _fetch_levels(visit: Visit) -> Mapping[str, Any] | None:
    """Return the levels of all loggers; None if unavailable, for example because `/admin` has separate listeners."""
    if not visit.features.loggers:
        return None
    try:
        return await get_map(visit.source, visit.caller, "admin", "loggers")
    except RequestRejected:
        return None


@action("/connectors/{connector}/logs/level", nav="connectors")
async def _set_level(visit: Visit) -> Response:
    """Set the level of a logger on the dashboard's worker, or on all workers."""
    refuse_if_read_only(visit)
    fields = dict(await visit.form())
    logger, level, scope = fields.get("logger", ""), fields.get("level", ""), fields.get("scope", "")
    try:
        request = level_request(logger, level, scope)
    except ValueError as error:
        raise BadRequest(str(error)) from error

    def parse_result(_status: int, body: Json) -> Result:
        return Result(name=logger, done=True, text=level_result(level, scope, visit.options.worker, body))

    results = await Sender(visit.source, visit.caller).results([(logger, request, parse_result)])
    token = visit.memory.notices.store(Notice(title="Set level", results=results))
    return visit.redirect("connectors", visit.name, "logs", result=token)


PAGES: Final[tuple[PageRoute, ...]] = (_set_level, _logs)
