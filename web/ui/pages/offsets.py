"""Offsets of a connector: display, changes with a preview, and deletion (KIP-875)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from kraal.core.errors import Conflict, NotFound
from web.ui.memory import Notice
from web.ui.pages.actions import refuse_if_read_only
from web.ui.pages.connector import connector_frame
from web.ui.routing import Model, PageRoute, Visit, action, page
from web.ui.sources.api import Query, RequestRejected
from web.ui.sources.requests import connector_status, get_map
from web.ui.sources.sending import Sender
from web.ui.views.commands import Confirmation, Result, parse_subject
from web.ui.views.copy_as import Request
from web.ui.views.offsets import (
    NOT_STOPPED_ERROR,
    Preview,
    TypedOffset,
    build_table,
    can_change,
    change_question,
    preview,
    read_rows,
    reset_question,
)

if TYPE_CHECKING:
    from starlette.responses import Response

_UNSUPPORTED_ERROR: Final = (
    "This worker does not support offset requests, which require Apache Kafka 3.6 or later."
)
_EMPTY_ROWS: Final = 2
_LAGS_QUERY: Final = (("expand", "lag"),)
"""Query that requests lags; ignored by Java workers."""


@page(
    "/connectors/{connector}/offsets",
    "pages/offsets.html",
    parts={"offsets": "activity/offsets.html"},
    nav="connectors",
)
async def _offsets(visit: Visit) -> Model:
    """Show the offsets, as a form if they can be changed."""
    status, response = await _fetch_offsets(visit, _LAGS_QUERY)
    return _table_model(visit, status, response)


@action("/connectors/{connector}/offsets", template="pages/offsets_preview.html", nav="connectors")
async def _change(visit: Visit) -> Model | Response:
    """Preview the typed offsets, or apply a preview."""
    refuse_if_read_only(visit)
    fields = await visit.form()
    typed_offsets, should_apply = read_rows(fields), ("do", "apply") in fields
    status, response = await _fetch_offsets(visit)
    if not can_change(status):
        raise Conflict(NOT_STOPPED_ERROR)
    is_sink = _is_sink(status)
    offset_preview = preview(typed_offsets, response, is_sink=is_sink)
    if (
        not should_apply
        or offset_preview.errors
        or offset_preview.outdated_partitions
        or not offset_preview.changes
    ):
        error_status = (
            HTTPStatus.CONFLICT
            if offset_preview.outdated_partitions and should_apply
            else HTTPStatus.UNPROCESSABLE_ENTITY
        )
        is_valid = not offset_preview.errors and not (offset_preview.outdated_partitions and should_apply)
        return _preview_model(
            visit,
            offset_preview,
            typed_offsets,
            is_sink=is_sink,
            status=HTTPStatus.OK if is_valid else error_status,
        )
    request = _patch(visit, offset_preview)
    return await _send(visit, request, "Change offsets")


@page(
    "/connectors/{connector}/offsets/reset",
    "pages/confirm.html",
    parts={"dialog": "parts/confirm.html"},
    nav="connectors",
)
async def _confirm_reset(visit: Visit) -> Model:
    """Ask the user to confirm the deletion of all offsets."""
    refuse_if_read_only(visit)
    status, response = await _fetch_offsets(visit)
    table = build_table(response, is_sink=_is_sink(status))
    question, _, effect = reset_question(visit.name, table.total, is_sink=table.is_sink).partition("? ")
    reset_confirmation = Confirmation(
        question=f"{question}?", effects=(effect,), button="Delete offsets", is_dangerous=True
    )
    return {
        "confirmation": reset_confirmation,
        "fields": [("total", str(table.total))],
        "target": ("connectors", visit.name, "offsets", "reset"),
        "cancel": ("connectors", visit.name, "offsets"),
        "cancel_query": {},
        "copies": [visit.curl(_delete(visit))],
    }


@action("/connectors/{connector}/offsets/reset", nav="connectors")
async def _reset(visit: Visit) -> Response:
    """Delete all offsets."""
    refuse_if_read_only(visit)
    await visit.form()
    return await _send(visit, _delete(visit), "Delete offsets")


async def _fetch_offsets(visit: Visit, query: Query = ()) -> tuple[Any, Any]:
    """Return the connector's status and offsets. Raises NotFound if the worker does not support offset requests."""
    try:
        status, response = await asyncio.gather(
            connector_status(visit.source, visit.caller, visit.name),
            get_map(visit.source, visit.caller, "connectors", visit.name, "offsets", query=query),
        )
    except RequestRejected as error:
        if error.is_unknown_endpoint:
            raise NotFound(_UNSUPPORTED_ERROR) from error
        raise
    return dict(status), dict(response)


def _table_model(visit: Visit, status: Any, response: Any) -> Model:
    query = visit.text("q").strip()
    is_changeable = can_change(status) and not visit.options.read_only
    return {
        **connector_frame(visit, "offsets", may_be_sink=_is_sink(status)),
        "table": build_table(response, is_sink=_is_sink(status), query=query),
        "query": query,
        "state": parse_subject(status).state,
        "is_changeable": is_changeable,
        "not_stopped_error": NOT_STOPPED_ERROR,
        "empty_rows": range(_EMPTY_ROWS),
        "copies": [visit.curl(Request(method="GET", segments=_path(visit)))],
    }


def _preview_model(
    visit: Visit, offset_preview: Preview, typed_offsets: Sequence[TypedOffset], *, is_sink: bool, status: int
) -> Model:
    return {
        **connector_frame(visit, "offsets", may_be_sink=is_sink),
        "preview": offset_preview,
        "typed": [
            typed_offset for typed_offset in typed_offsets if typed_offset.partition in offset_preview.errors
        ],
        "question": change_question(visit.name, offset_preview.changes, is_sink=is_sink)
        if offset_preview.changes
        else "",
        "is_sink": is_sink,
        "copies": [visit.curl(_patch(visit, offset_preview))] if offset_preview.changes else [],
        "status_code": int(status),
    }


def _patch(visit: Visit, offset_preview: Preview) -> Request:
    return Request(method="PATCH", segments=_path(visit), body=offset_preview.body)


def _delete(visit: Visit) -> Request:
    return Request(method="DELETE", segments=_path(visit))


def _path(visit: Visit) -> tuple[str, ...]:
    return ("connectors", visit.name, "offsets")


async def _send(visit: Visit, request: Request, title: str) -> Response:
    """Send the request and redirect to the offsets page, which shows the result."""

    def parse_result(status: int, body: Any) -> Result:
        message = body.get("message") if isinstance(body, dict) else None
        return Result(name=visit.name, done=True, text=str(message or f"status {status}"))

    results = await Sender(visit.source, visit.caller).results([(visit.name, request, parse_result)])
    token = visit.memory.notices.store(Notice(title=title, results=results))
    return visit.redirect("connectors", visit.name, "offsets", result=token)


def _is_sink(status: Any) -> bool:
    return parse_subject(status).type == "sink"


PAGES: Final[tuple[PageRoute, ...]] = (_offsets, _change, _confirm_reset, _reset)
