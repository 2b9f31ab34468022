"""Dead letters of a connector, and replays of dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraal.core.errors import BadRequest, Conflict
from kraal.core.ids import Json
from web.ui.memory import Notice
from web.ui.pages.actions import refuse_if_read_only
from web.ui.pages.connector import fetch_frame
from web.ui.routing import Model, PageRoute, Visit, action, page
from web.ui.sources.api import RequestRejected
from web.ui.sources.requests import get_map
from web.ui.sources.sending import Sender
from web.ui.views.activity.dead_letters import (
    DEFAULT_SHOWN,
    MAX_REPLAYED,
    MAX_SHOWN,
    confirmation,
    describe_replay,
    parse_letters,
    parse_limit,
    parse_preview,
    parse_start,
    replay_request,
    start_as_text,
)
from web.ui.views.commands import Result

if TYPE_CHECKING:
    from starlette.responses import Response


@page("/connectors/{connector}/letters", "pages/letters.html", nav="connectors")
async def _letters(visit: Visit) -> Model:
    """Show the latest dead letters. Reading them is slow, so the page does not refresh automatically."""
    limit = min(max(visit.number("limit", DEFAULT_SHOWN), 1), MAX_SHOWN)
    query = (("limit", str(limit)),)
    refusal = ""
    try:
        response = await get_map(
            visit.source, visit.caller, "connectors", visit.name, "dead-letters", query=query
        )
    except RequestRejected as error:
        response, refusal = {}, error.text
    return {
        **await fetch_frame(visit, "letters"),
        "letters": parse_letters(response),
        "limit": limit,
        "max_shown": MAX_SHOWN,
        "max_replayed": MAX_REPLAYED,
        "refusal": refusal,
    }


@page(
    "/connectors/{connector}/letters/replay",
    "pages/confirm.html",
    parts={"dialog": "parts/confirm.html"},
    nav="connectors",
)
async def _confirm_replay(visit: Visit) -> Model:
    """Ask the user to confirm a replay, and show the number of records per topic from a dry run."""
    refuse_if_read_only(visit)
    limit = _parse_limit(visit.text("limit"))
    request = replay_request(visit.name, limit, dry_run=True)
    response = await visit.source.ask(
        request.method, *request.segments, body=request.body, caller=visit.caller
    )
    preview = parse_preview(response.value)
    if not preview.total:
        raise Conflict("There are no dead letters to replay.")
    return {
        "confirmation": confirmation(visit.name, preview, limit),
        "fields": [("limit", str(preview.total)), ("from", start_as_text(preview.start))],
        "target": ("connectors", visit.name, "letters", "replay"),
        "cancel": ("connectors", visit.name, "letters"),
        "cancel_query": {},
        "copies": [visit.curl(replay_request(visit.name, preview.total, dry_run=False, start=preview.start))],
    }


@action("/connectors/{connector}/letters/replay", nav="connectors")
async def _replay(visit: Visit) -> Response:
    """Replay the confirmed letters unless they have been replayed in the meantime."""
    refuse_if_read_only(visit)
    fields = dict(await visit.form())
    limit, start = _parse_limit(fields.get("limit", "")), _parse_start(fields.get("from", ""))

    def parse_result(_status: int, body: Json) -> Result:
        return describe_replay(visit.name, body)

    request = replay_request(visit.name, limit, dry_run=False, start=start)
    results = await Sender(visit.source, visit.caller).results([(visit.name, request, parse_result)])
    token = visit.memory.notices.store(Notice(title="Replay dead letters", results=results))
    return visit.redirect("connectors", visit.name, "letters", result=token)


def _parse_limit(text: str) -> int:
    try:
        return parse_limit(text)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _parse_start(text: str) -> dict[str, int]:
    try:
        return parse_start(text)
    except ValueError as error:
        raise BadRequest("The offsets in the form are invalid; confirm the replay again.") from error


PAGES: Final[tuple[PageRoute, ...]] = (_confirm_replay, _replay, _letters)
