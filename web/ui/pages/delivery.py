"""Delivery of a connector: its latest proof, a request for another one, and its totals in the ledger."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from kraal.core.ids import Json
from web.ui.memory import Notice
from web.ui.pages.actions import refuse_if_read_only
from web.ui.pages.connector import fetch_frame
from web.ui.routing import Model, PageRoute, Visit, action, page
from web.ui.sources.api import RequestRejected
from web.ui.sources.requests import get_map
from web.ui.sources.sending import Sender
from web.ui.views.commands import Result
from web.ui.views.delivery import ProofView, parse_delivery, proof_request
from web.ui.views.ledger import COUNTS, Totals, parse_totals

if TYPE_CHECKING:
    from starlette.responses import Response


@page(
    "/connectors/{connector}/delivery",
    "pages/delivery.html",
    parts={"delivery": "activity/delivery.html", "ledger": "activity/ledger.html"},
    nav="connectors",
)
async def _delivery(visit: Visit) -> Model:
    """Show the latest proof, and the totals of a worker with a ledger."""
    frame, delivery, totals = await asyncio.gather(
        fetch_frame(visit, "delivery"), _fetch_delivery(visit), _fetch_totals(visit)
    )
    return {**frame, "delivery": delivery, "totals": totals, "titles": tuple(COUNTS.values())}


async def _fetch_delivery(visit: Visit) -> ProofView | None:
    try:
        response = await get_map(visit.source, visit.caller, "connectors", visit.name, "proof")
    except RequestRejected as error:
        if error.status == HTTPStatus.NOT_FOUND and not error.is_unknown_endpoint:
            return None
        raise
    return parse_delivery(dict(response))


async def _fetch_totals(visit: Visit) -> Totals | None:
    if not visit.features.ledger:
        return None
    return parse_totals(dict(await get_map(visit.source, visit.caller, "connectors", visit.name, "ledger")))


@action("/connectors/{connector}/delivery", nav="connectors")
async def _prove(visit: Visit) -> Response:
    """Start a proof."""
    refuse_if_read_only(visit)
    await visit.form()

    def parse_result(_status: int, _body: Json) -> Result:
        return Result(name=visit.name, done=True, text="the proof has started")

    results = await Sender(visit.source, visit.caller).results(
        [(visit.name, proof_request(visit.name), parse_result)]
    )
    token = visit.memory.notices.store(Notice(title="Prove delivery", results=results))
    return visit.redirect("connectors", visit.name, "delivery", result=token)


PAGES: Final[tuple[PageRoute, ...]] = (_delivery, _prove)
