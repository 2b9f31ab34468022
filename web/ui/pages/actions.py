"""Actions on connectors and tasks: confirmation, requests, and a redirect that shows the results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from kraal.core.errors import BadRequest, Conflict, Forbidden
from kraal.core.ids import Json
from web.ui.memory import Notice
from web.ui.pages.connectors import fetch_rows
from web.ui.routing import Model, PageRoute, Visit, action, page
from web.ui.sources.requests import connector_status, get_expanded
from web.ui.sources.sending import Sender
from web.ui.views.commands import (
    LABELS,
    TASK_RESTART,
    Action,
    Confirmation,
    Result,
    Subject,
    action_result,
    build_request,
    confirmation,
    parse_action,
    parse_subject,
    task_confirmation,
    task_restart,
    unique_names,
    unmatched_error,
)
from web.ui.views.connectors import MAX_BULK_CONNECTORS, Choice, filter_rows, parse_choice
from web.ui.views.copy_as import Request, join_copies, limit_copies

if TYPE_CHECKING:
    from starlette.responses import Response

_MATCHING: Final = "matching"
"""Parameter with a list's query; the action then applies to all matching connectors instead of the named connectors."""
_LIST_KEYS: Final = ("state", "type", "q", "sort", "page", "worker")
_MAX_TASK_DIGITS: Final = 9
_MAX_COPIES: Final = 50
"""Maximum number of copied requests; equals the number of rows on a page of the list."""


@page("/confirm", "pages/confirm.html", parts={"dialog": "parts/confirm.html"}, nav="connectors")
async def _confirm(visit: Visit) -> Model:
    """Show the confirmation of an action, as a page or as the content of a dialog."""
    refuse_if_read_only(visit)
    action_name, task, back = visit.text("action"), _parse_task(visit.text("task")), visit.text("back")
    if filter_query := visit.text(_MATCHING):
        return await _confirm_all(visit, _parse_action(action_name), filter_query, back)
    names = _validate_names(visit.request.query_params.getlist("name"))
    if action_name == TASK_RESTART and task is not None:
        question, requests = task_confirmation(names[0], task), [task_restart(names[0], task)]
    else:
        action = _parse_action(action_name)
        question = confirmation(action, await _fetch_subjects(visit, names))
        requests = [build_request(action, name) for name in names]
    fields = {"name": names, "action": [action_name], "task": [visit.text("task")], "back": [back]}
    return _confirmation_model(visit, question, requests, fields)


async def _confirm_all(
    visit: Visit, action: Action, filter_query: str, back: str, *, stale_reason: str = ""
) -> Model:
    """Confirm an action on all matching connectors, which the form lists by name.

    If the user must confirm again, `stale_reason` is the reason why the earlier confirmation is stale.
    """
    choice = _parse_filter(filter_query)
    matches = await _fetch_matching_names(visit, choice)
    if not matches:
        raise Conflict(stale_reason) if stale_reason else BadRequest("No connector matches.")
    names = _validate_names(matches)
    question = confirmation(action, await _fetch_subjects(visit, names))
    scope = (
        f"These are all connectors {choice.description}."
        if choice.description
        else "These are all connectors of the cluster."
    )
    return {
        **_confirmation_model(
            visit,
            replace(question, effects=(scope, *question.effects)),
            [build_request(action, name) for name in names],
            {"name": names, "action": [action], _MATCHING: [filter_query], "back": [back]},
        ),
        "stale_reason": stale_reason,
        "status_code": int(HTTPStatus.CONFLICT if stale_reason else HTTPStatus.OK),
    }


async def _fetch_matching_names(visit: Visit, choice: Choice) -> list[str]:
    return [row.name for row in filter_rows(await fetch_rows(visit), choice)]


def _parse_filter(query: str) -> Choice:
    """Parse a list's query. Raises BadRequest for an unknown filter, instead of selecting all connectors."""
    pairs = dict(parse_qsl(query))
    if unknown := sorted(pairs.keys() - set(_LIST_KEYS)):
        raise BadRequest(f"Unknown filter {unknown[0]!r}; valid filters are {', '.join(_LIST_KEYS)}.")
    return parse_choice(pairs)


def _confirmation_model(
    visit: Visit, confirmation: Confirmation, requests: list[Request], fields: dict[str, list[str]]
) -> Model:
    is_single = len(fields["name"]) == 1 and not fields["back"][0]
    return {
        "confirmation": confirmation,
        "fields": [(key, value) for key, values in fields.items() for value in values if value],
        "target": ("actions",),
        "cancel": ("connectors", fields["name"][0]) if is_single else ("connectors",),
        "cancel_query": _list_query(fields["back"][0]),
        "copies": limit_copies(
            join_copies([visit.curl(request) for request in requests[:_MAX_COPIES]]),
            len(requests),
            _MAX_COPIES,
        ),
        "stale_reason": "",
    }


async def _fetch_subjects(visit: Visit, names: list[str]) -> list[Subject]:
    """Return the connectors with their statuses; a connector without a status has only a name."""
    if len(names) == 1:
        return [parse_subject(dict(await connector_status(visit.source, visit.caller, names[0])), names[0])]
    statuses = await get_expanded(visit.source, visit.caller, "status")
    return [parse_subject(statuses.get(name), name) for name in names]


@action("/actions", template="pages/confirm.html", nav="connectors")
async def _perform_action(visit: Visit) -> Model | Response:
    """Perform an action on the selected connectors, or restart a task."""
    refuse_if_read_only(visit)
    fields = await visit.form()
    values = dict(fields)
    names = _validate_names([value for key, value in fields if key == "name"])
    action_name, task = values.get("action", ""), _parse_task(values.get("task", ""))
    sender = Sender(visit.source, visit.caller)
    if action_name == TASK_RESTART:
        if task is None or len(names) != 1:
            raise BadRequest("Specify one connector and a task number.")
        results = await sender.results(
            [
                (
                    f"{names[0]}, task {task}",
                    task_restart(names[0], task),
                    partial(_task_result, names[0], task),
                )
            ]
        )
        return _redirect(visit, "Restart task", names, results, values.get("back", ""))
    bulk_action = _parse_action(action_name)
    if filter_query := values.get(_MATCHING, ""):
        stale_reason = unmatched_error(names, await _fetch_matching_names(visit, _parse_filter(filter_query)))
        if stale_reason:
            return await _confirm_all(
                visit, bulk_action, filter_query, values.get("back", ""), stale_reason=stale_reason
            )
    expected_count = confirmation(bulk_action, [Subject(name=name) for name in names]).required_text
    if expected_count and values.get("typed", "").strip() != expected_count:
        raise BadRequest(f"Nothing was done. To confirm, type the number of connectors ({expected_count}).")
    results = await sender.results(
        [
            (name, build_request(bulk_action, name), partial(action_result, bulk_action, name))
            for name in names
        ]
    )
    is_deleted = bulk_action is Action.DELETE and all(result.done for result in results)
    return _redirect(
        visit, LABELS[bulk_action], names, results, values.get("back", ""), is_deleted=is_deleted
    )


def _task_result(name: str, task: int, status: int, _: Json) -> Result:
    return Result(name=f"{name}, task {task}", done=True, text=f"restarted (status {status})")


def _redirect(
    visit: Visit,
    title: str,
    names: list[str],
    results: tuple[Result, ...],
    back: str,
    *,
    is_deleted: bool = False,
) -> Response:
    """Redirect to the list with the query `back`; the page shows the results.

    If `back` is empty, an action on one connector redirects to that connector's page, unless the connector was deleted.
    """
    token = visit.memory.notices.store(Notice(title=title, results=results))
    if len(names) == 1 and not is_deleted and not back:
        return visit.redirect("connectors", names[0], result=token)
    return visit.redirect("connectors", result=token, **_list_query(back))


def _list_query(back: str) -> dict[str, str | int | None]:
    """Return the parameters in a query that belong to the list."""
    return {key: value for key, value in parse_qsl(back) if key in _LIST_KEYS}


def refuse_if_read_only(visit: Visit) -> None:
    """Raise Forbidden if the dashboard is read-only."""
    if visit.options.read_only:
        raise Forbidden("This dashboard is read-only.")


def _validate_names(values: list[str]) -> list[str]:
    names = unique_names(values)
    if not names:
        raise BadRequest("Select at least one connector.")
    if len(names) > MAX_BULK_CONNECTORS:
        raise BadRequest(
            f"Select at most {MAX_BULK_CONNECTORS:,} connectors at once; {len(names):,} are selected."
        )
    return names


def _parse_action(text: str) -> Action:
    action = parse_action(text)
    if action is None:
        raise BadRequest(f"Unknown action {text!r}; valid actions are {', '.join(Action)}.")
    return action


def _parse_task(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_TASK_DIGITS else None


PAGES: Final[tuple[PageRoute, ...]] = (_confirm, _perform_action)
