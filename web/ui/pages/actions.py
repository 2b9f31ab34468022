"""Actions on connectors and tasks: the question before, the requests, and the way back with their results."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from kraal.core.errors import BadRequest, Conflict, Forbidden
from kraal.core.ids import Json
from web.ui.memory import Notice
from web.ui.pages.connectors import asked_rows
from web.ui.routing import Model, Page, Visit, action, page
from web.ui.sources.requests import connector_status, expanded
from web.ui.sources.sending import Sender
from web.ui.views.commands import (
    LABELS,
    TASK_RESTART,
    Action,
    Confirmation,
    Result,
    Subject,
    action_of,
    chosen,
    confirmation,
    no_longer,
    request_of,
    subject_of,
    task_confirmation,
    task_restart,
    told,
)
from web.ui.views.connectors import MOST_AT_ONCE, Choice, choice_of, matching
from web.ui.views.copy_as import Request, first_of, together

if TYPE_CHECKING:
    from starlette.responses import Response

_MATCHING: Final = "matching"
"""Parameter with the query of a list: the action is for all connectors that match, instead of for those named."""
_LIST_KEYS: Final = ("state", "type", "q", "sort", "page", "worker")
_LONGEST_TASK: Final = 9
_MOST_COPIES: Final = 50
"""As many as a page of the list has rows."""


@page("/confirm", "pages/confirm.html", parts={"dialog": "parts/confirm.html"}, nav="connectors")
async def _confirm(visit: Visit) -> Model:
    """Ask before an action; a page by itself, or the content of a dialog."""
    refuse_if_read_only(visit)
    what, task, back = visit.text("action"), _task(visit.text("task")), visit.text("back")
    if filtered := visit.text(_MATCHING):
        return await _ask_all(visit, _action(what), filtered, back)
    names = _names(visit.request.query_params.getlist("name"))
    if what == TASK_RESTART and task is not None:
        asked, requests = task_confirmation(names[0], task), [task_restart(names[0], task)]
    else:
        found = _action(what)
        asked = confirmation(found, await _subjects(visit, names))
        requests = [request_of(found, name) for name in names]
    fields = {"name": names, "action": [what], "task": [visit.text("task")], "back": [back]}
    return _question(visit, asked, requests, fields)


async def _ask_all(visit: Visit, action: Action, filtered: str, back: str, *, lost: str = "") -> Model:
    """Ask before an action on all connectors that match; the form names each of them. `lost` tells why it is again."""
    choice = _filter(filtered)
    matches = await _matching(visit, choice)
    if not matches:
        raise Conflict(lost) if lost else BadRequest("No connector matches.")
    names = _names(matches)
    found = confirmation(action, await _subjects(visit, names))
    which = (
        f"These are all connectors {choice.told}."
        if choice.told
        else "These are all connectors of the cluster."
    )
    return {
        **_question(
            visit,
            replace(found, effects=(which, *found.effects)),
            [request_of(action, name) for name in names],
            {"name": names, "action": [action], _MATCHING: [filtered], "back": [back]},
        ),
        "lost": lost,
        "status_code": int(HTTPStatus.CONFLICT if lost else HTTPStatus.OK),
    }


async def _matching(visit: Visit, choice: Choice) -> list[str]:
    return [row.name for row in matching(await asked_rows(visit), choice)]


def _filter(query: str) -> Choice:
    """Return the filter in a list's query. Raises BadRequest for what is no filter, which would let everything pass."""
    pairs = dict(parse_qsl(query))
    if unknown := sorted(pairs.keys() - set(_LIST_KEYS)):
        raise BadRequest(f"The list has no filter {unknown[0]!r}; it has {', '.join(_LIST_KEYS)}.")
    return choice_of(pairs)


def _question(
    visit: Visit, asked: Confirmation, requests: list[Request], fields: dict[str, list[str]]
) -> Model:
    alone = len(fields["name"]) == 1 and not fields["back"][0]
    return {
        "confirmation": asked,
        "fields": [(key, value) for key, values in fields.items() for value in values if value],
        "target": ("actions",),
        "cancel": ("connectors", fields["name"][0]) if alone else ("connectors",),
        "cancel_query": _list_query(fields["back"][0]),
        "copies": first_of(
            together([visit.curl(each) for each in requests[:_MOST_COPIES]]), len(requests), _MOST_COPIES
        ),
        "lost": "",
    }


async def _subjects(visit: Visit, names: list[str]) -> list[Subject]:
    """Return the connectors as their statuses show them; one that has none, by its name."""
    if len(names) == 1:
        return [subject_of(dict(await connector_status(visit.source, visit.caller, names[0])), names[0])]
    statuses = await expanded(visit.source, visit.caller, "status")
    return [subject_of(statuses.get(name), name) for name in names]


@action("/actions", template="pages/confirm.html", nav="connectors")
async def _act(visit: Visit) -> Model | Response:
    """Carry an action out on each of the connectors."""
    refuse_if_read_only(visit)
    fields = await visit.form()
    known = dict(fields)
    names = _names([value for key, value in fields if key == "name"])
    what, task = known.get("action", ""), _task(known.get("task", ""))
    sender = Sender(visit.source, visit.caller)
    if what == TASK_RESTART:
        if task is None or len(names) != 1:
            raise BadRequest("Name one connector and the number of a task.")
        done = await sender.results(
            [(f"{names[0]}, task {task}", task_restart(names[0], task), partial(_task_told, names[0], task))]
        )
        return _after(visit, "Restart task", names, done, known.get("back", ""))
    found = _action(what)
    if filtered := known.get(_MATCHING, ""):
        lost = no_longer(names, await _matching(visit, _filter(filtered)))
        if lost:
            return await _ask_all(visit, found, filtered, known.get("back", ""), lost=lost)
    expected = confirmation(found, [Subject(name=name) for name in names]).must_type
    if expected and known.get("typed", "").strip() != expected:
        raise BadRequest(f"Nothing was done: to confirm, type the number of connectors, {expected}.")
    done = await sender.results(
        [(name, request_of(found, name), partial(told, found, name)) for name in names]
    )
    deleted = found is Action.DELETE and all(each.done for each in done)
    return _after(visit, LABELS[found], names, done, known.get("back", ""), gone=deleted)


def _task_told(name: str, task: int, status: int, _: Json) -> Result:
    return Result(name=f"{name}, task {task}", done=True, text=f"restarted (answered {status})")


def _after(
    visit: Visit, title: str, names: list[str], done: tuple[Result, ...], back: str, *, gone: bool = False
) -> Response:
    """Return to where the action was asked for, with its results."""
    token = visit.memory.notices.keep(Notice(title=title, results=done))
    if len(names) == 1 and not gone and not back:
        return visit.redirect("connectors", names[0], result=token)
    return visit.redirect("connectors", result=token, **_list_query(back))


def _list_query(back: str) -> dict[str, str | int | None]:
    """Return the choice of a list from a query; anything else in it is dropped."""
    return {key: value for key, value in parse_qsl(back) if key in _LIST_KEYS}


def refuse_if_read_only(visit: Visit) -> None:
    """Raise Forbidden on a read-only dashboard: its pages have no actions."""
    if visit.options.read_only:
        raise Forbidden("This dashboard is read-only.")


def _names(given: list[str]) -> list[str]:
    names = chosen(given)
    if not names:
        raise BadRequest("Select at least one connector.")
    if len(names) > MOST_AT_ONCE:
        raise BadRequest(f"Select at most {MOST_AT_ONCE:,} connectors at once; these are {len(names):,}.")
    return names


def _action(text: str) -> Action:
    found = action_of(text)
    if found is None:
        raise BadRequest(f"There is no action {text!r}; there are {', '.join(Action)}.")
    return found


def _task(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _LONGEST_TASK else None


PAGES: Final[tuple[Page, ...]] = (_confirm, _act)
