"""Topics of a connector."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from kraal.core.ids import Json
from web.ui.memory import Notice
from web.ui.pages.actions import refuse_if_read_only
from web.ui.pages.connector import fetch_frame
from web.ui.routing import Model, PageRoute, Visit, action, page
from web.ui.sources.api import RequestRejected
from web.ui.sources.requests import get_map
from web.ui.sources.sending import Sender
from web.ui.views.activity.topics import parse_topics, reset_confirmation, reset_request
from web.ui.views.commands import Result

if TYPE_CHECKING:
    from starlette.responses import Response


@page(
    "/connectors/{connector}/topics",
    "pages/topics.html",
    parts={"topics": "activity/topics.html"},
    nav="connectors",
)
async def _topics(visit: Visit) -> Model:
    """Show the active topics, which a worker may refuse to list, and the topics in the config."""
    config, (response, refusal) = await asyncio.gather(
        get_map(visit.source, visit.caller, "connectors", visit.name, "config"), _fetch_active_topics(visit)
    )
    return {
        **await fetch_frame(visit, "topics"),
        "topics": parse_topics(response, config, visit.name),
        "refusal": refusal,
    }


async def _fetch_active_topics(visit: Visit) -> tuple[Mapping[str, Any], str]:
    """Return the active topics, or the reason why they are unavailable."""
    try:
        return await get_map(visit.source, visit.caller, "connectors", visit.name, "topics"), ""
    except RequestRejected as error:
        return {}, error.text


@page(
    "/connectors/{connector}/topics/reset",
    "pages/confirm.html",
    parts={"dialog": "parts/confirm.html"},
    nav="connectors",
)
async def _confirm_reset(visit: Visit) -> Model:
    """Ask the user to confirm a reset of the active topics."""
    refuse_if_read_only(visit)
    response = await get_map(visit.source, visit.caller, "connectors", visit.name, "topics")
    return {
        "confirmation": reset_confirmation(visit.name, parse_topics(response, None, visit.name)),
        "fields": [],
        "target": ("connectors", visit.name, "topics", "reset"),
        "cancel": ("connectors", visit.name, "topics"),
        "cancel_query": {},
        "copies": [visit.curl(reset_request(visit.name))],
    }


@action("/connectors/{connector}/topics/reset", nav="connectors")
async def _reset(visit: Visit) -> Response:
    """Reset the active topics."""
    refuse_if_read_only(visit)

    def parse_result(_status: int, _body: Json) -> Result:
        return Result(name=visit.name, done=True, text="the list of active topics was cleared")

    results = await Sender(visit.source, visit.caller).results(
        [(visit.name, reset_request(visit.name), parse_result)]
    )
    token = visit.memory.notices.store(Notice(title="Reset active topics", results=results))
    return visit.redirect("connectors", visit.name, "topics", result=token)


PAGES: Final[tuple[PageRoute, ...]] = (_confirm_reset, _reset, _topics)
