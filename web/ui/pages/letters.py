"""Dead letters of a connector: what it could not process, and the replay of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kraal.core.errors import BadRequest, Conflict
from kraal.core.ids import Json
from web.ui.memory import Notice
from web.ui.pages.actions import refuse_if_read_only
from web.ui.pages.connector import asked_frame
from web.ui.routing import Model, Page, Visit, action, page
from web.ui.sources.api import Refused
from web.ui.sources.requests import get_map
from web.ui.sources.sending import Sender
from web.ui.views.activity.letters import (
    MOST_REPLAYED,
    MOST_SHOWN,
    SHOWN,
    confirmation,
    letters_of,
    limit_of,
    preview_of,
    replay_request,
    replayed,
    start_as_text,
    start_of,
)
from web.ui.views.commands import Result

if TYPE_CHECKING:
    from starlette.responses import Response


@page("/connectors/{connector}/letters", "pages/letters.html", nav="connectors")
async def _letters(visit: Visit) -> Model:
    """Read the latest letters; that takes a moment, so the page does not refresh itself."""
    limit = min(max(visit.number("limit", SHOWN), 1), MOST_SHOWN)
    query = (("limit", str(limit)),)
    refused = ""
    try:
        answer = await get_map(
            visit.source, visit.caller, "connectors", visit.name, "dead-letters", query=query
        )
    except Refused as error:
        answer, refused = {}, error.text
    return {
        **await asked_frame(visit, "letters"),
        "letters": letters_of(answer),
        "limit": limit,
        "most": MOST_SHOWN,
        "most_replayed": MOST_REPLAYED,
        "refused": refused,
    }


@page(
    "/connectors/{connector}/letters/replay",
    "pages/confirm.html",
    parts={"dialog": "parts/confirm.html"},
    nav="connectors",
)
async def _ask_replay(visit: Visit) -> Model:
    """Ask before a replay, with the answer of a dry run: how many records go to which topics."""
    refuse_if_read_only(visit)
    limit = _limit(visit.text("limit"))
    request = replay_request(visit.name, limit, dry_run=True)
    answer = await visit.source.ask(request.method, *request.segments, body=request.body, caller=visit.caller)
    found = preview_of(answer.value)
    if not found.total:
        raise Conflict("There is nothing to replay: all dead letters have been replayed, or there are none.")
    return {
        "confirmation": confirmation(visit.name, found, limit),
        "fields": [("limit", str(found.total)), ("from", start_as_text(found.start))],
        "target": ("connectors", visit.name, "letters", "replay"),
        "cancel": ("connectors", visit.name, "letters"),
        "cancel_query": {},
        "copies": [visit.curl(replay_request(visit.name, found.total, dry_run=False, start=found.start))],
    }


@action("/connectors/{connector}/letters/replay", nav="connectors")
async def _replay(visit: Visit) -> Response:
    """Replay no more letters than the question named, and none that were replayed since it was asked."""
    refuse_if_read_only(visit)
    fields = dict(await visit.form())
    limit, start = _limit(fields.get("limit", "")), _start(fields.get("from", ""))

    def tell(_status: int, body: Json) -> Result:
        return replayed(visit.name, body)

    request = replay_request(visit.name, limit, dry_run=False, start=start)
    results = await Sender(visit.source, visit.caller).results([(visit.name, request, tell)])
    token = visit.memory.notices.keep(Notice(title="Replay dead letters", results=results))
    return visit.redirect("connectors", visit.name, "letters", result=token)


def _limit(typed: str) -> int:
    try:
        return limit_of(typed)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _start(typed: str) -> dict[str, int]:
    try:
        return start_of(typed)
    except ValueError as error:
        raise BadRequest("The positions of the letters are not as the question has sent them.") from error


PAGES: Final[tuple[Page, ...]] = (_ask_replay, _replay, _letters)
