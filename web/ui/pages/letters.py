"""Dead letters of a connector and their replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraal.core.errors import BadRequest, Conflict
from kraal.core.ids import Json
from web.ui.memory import Notice
from web.ui.pages.actions import refuse_if_read_only
from web.ui.pages.connector import fetch_frame
from web.ui.routing import Model, Page, Visit, action, page
from web.ui.sources.api import Refused
from web.ui.sources.requests import get_map
from web.ui.sources.sending import Sender
from web.ui.views.activity.letters import (
    MAX_REPLAYED,
    MAX_SHOWN,
    SHOWN,
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
    """Show the latest letters; reading them is slow, so the page does not refresh itself."""
    limit = min(max(visit.number("limit", SHOWN), 1), MAX_SHOWN)
    query = (("limit", str(limit)),)
    refusal = ""
    try:
        answer = await get_map(
            visit.source, visit.caller, "connectors", visit.name, "dead-letters", query=query
        )
    except Refused as error:
        answer, refusal = {}, error.text
    return {
        **await fetch_frame(visit, "letters"),
        "letters": parse_letters(answer),
        "limit": limit,
        "most": MAX_SHOWN,
        "most_replayed": MAX_REPLAYED,
        "refused": refusal,
    }


@page(
    "/connectors/{connector}/letters/replay",
    "pages/confirm.html",
    parts={"dialog": "parts/confirm.html"},
    nav="connectors",
)
async def _confirm_replay(visit: Visit) -> Model:
    """Confirm a replay, with the record counts per topic of a dry run."""
    refuse_if_read_only(visit)
    limit = _limit(visit.text("limit"))
    request = replay_request(visit.name, limit, dry_run=True)
    answer = await visit.source.ask(request.method, *request.segments, body=request.body, caller=visit.caller)
    preview = parse_preview(answer.value)
    if not preview.total:
        raise Conflict("There is nothing to replay: all dead letters have been replayed, or there are none.")
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
    """Replay the confirmed letters, unless they were replayed in the meantime."""
    refuse_if_read_only(visit)
    fields = dict(await visit.form())
    limit, start = _limit(fields.get("limit", "")), _start(fields.get("from", ""))

    def parse_result(_status: int, body: Json) -> Result:
        return describe_replay(visit.name, body)

    request = replay_request(visit.name, limit, dry_run=False, start=start)
    results = await Sender(visit.source, visit.caller).results([(visit.name, request, parse_result)])
    token = visit.memory.notices.keep(Notice(title="Replay dead letters", results=results))
    return visit.redirect("connectors", visit.name, "letters", result=token)


def _limit(text: str) -> int:
    try:
        return parse_limit(text)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _start(text: str) -> dict[str, int]:
    try:
        return parse_start(text)
    except ValueError as error:
        raise BadRequest("The positions of the letters are not as the question has sent them.") from error


PAGES: Final[tuple[Page, ...]] = (_confirm_replay, _replay, _letters)
