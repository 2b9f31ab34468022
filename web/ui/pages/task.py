"""The past of a connector and of each task: states, causes, restarts, and why it does not run now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kraal.core.errors import BadRequest, NotFound
from web.ui.pages.connector import asked_frame, connector_frame, may_have_letters, stored_config
from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.api import Refused
from web.ui.sources.plugin_keys import declared_secrets
from web.ui.sources.requests import connector_status, get_list, get_map
from web.ui.views.activity.task_config import task_config
from web.ui.views.activity.timeline import REMOVED, Timeline, of_instance, strip_of, timeline_of
from web.ui.views.activity.verdict import verdict_of
from web.ui.views.cluster import Waiting, cluster_of
from web.ui.views.connector import TaskRow, connector_page, no_task
from web.ui.views.states import Shown

_MOST_STATES: Final = 1_000
_MOST_SHOWN: Final = 200
_MOST_STRIPS: Final = 50
_LONGEST_NUMBER: Final = 9
_CONNECTOR: Final = "connector"
"""Value of `task` in a query for the connector instance."""


@page(
    "/connectors/{connector}/tasks/{task}",
    "pages/task.html",
    parts={"task": "activity/task.html"},
    nav="connectors",
)
async def _task(visit: Visit) -> Model:
    """Answer why a task does not run and what happened to it; of a Java worker only the present state is known."""
    number = _number(visit.segment("task"))
    wanted = {"supervision": visit.features.supervision, "progress": visit.features.progress}
    parts = tuple(part for part, told in wanted.items() if told)
    status, history = await asyncio.gather(
        connector_status(visit.source, visit.caller, visit.name, parts=parts), _history(visit, number)
    )
    found = connector_page(visit.name, status, None, None)
    timeline = of_instance(timeline_of(history, _now_ms()), number)
    row = next((row for row in found.tasks if row.instance.task == number), None)
    if row is None and not timeline.entries:
        raise NotFound(f"Connector {visit.name} has no task {number}.")
    row = row or no_task(number)
    waiting = await _waiting(visit, row)
    return {
        **connector_frame(visit, "tasks", letters=may_have_letters(status)),
        "task": number,
        "row": row,
        "connector": found,
        "verdict": verdict_of(row, timeline, waiting, visit.name),
        "timeline": timeline,
        "entries": timeline.entries[:_MOST_SHOWN],
        "strips": [(number, strip_of(timeline.entries, _now_ms()))] if timeline.entries else [],
    }


@page("/connectors/{connector}/tasks/{task}/config", "pages/task_config.html", nav="connectors")
async def _config(visit: Visit) -> Model:
    """Show the config that the connector made for a task."""
    number = _number(visit.segment("task"))
    stored, tasks = await asyncio.gather(
        stored_config(visit), get_list(visit.source, visit.caller, "connectors", visit.name, "tasks")
    )
    declared = await declared_secrets(visit.source, visit.caller, stored)
    entries = task_config(tasks, number, stored, declared)
    if entries is None:
        raise NotFound(f"Connector {visit.name} has no task {number}.")
    return {**await asked_frame(visit, "tasks"), "task": number, "entries": entries}


@page(
    "/connectors/{connector}/history",
    "pages/history.html",
    parts={"history": "activity/history.html"},
    nav="connectors",
)
async def _all(visit: Visit) -> Model:
    """Show the states of all instances, or of one that the query names."""
    now_ms = _now_ms()
    whole = timeline_of(await _history(visit), now_ms)
    instances = sorted({entry.task for entry in whole.entries}, key=lambda task: -1 if task is None else task)
    asked = visit.text("task")
    chosen = asked if asked == _CONNECTOR or _is_number(asked) else ""
    timeline = whole if not chosen else of_instance(whole, None if chosen == _CONNECTOR else int(chosen))
    return {
        **await asked_frame(visit, "history"),
        "chosen": chosen,
        "instances": instances,
        "timeline": timeline,
        "entries": timeline.entries[:_MOST_SHOWN],
        "strips": _strips(whole, instances, now_ms),
        "more_strips": max(len(instances) - _MOST_STRIPS, 0),
    }


def _strips(timeline: Timeline, instances: Sequence[int | None], now_ms: int) -> list[tuple[int | None, Any]]:
    """Return the strips of the instances that still exist, the most eventful ones first if there are too many."""
    own = {task: of_instance(timeline, task).entries for task in instances}
    there = [task for task in instances if own[task][0].state != REMOVED]
    eventful = sorted(there, key=lambda task: -len(own[task]))[:_MOST_STRIPS]
    return [(task, strip_of(own[task], now_ms)) for task in there if task in set(eventful)]


async def _history(visit: Visit, task: int | None = None) -> Mapping[str, Any] | None:
    """Return the history of all instances or of a task; None if the worker has none."""
    if not visit.features.history:
        return None
    query = [("limit", str(_MOST_STATES)), *([] if task is None else [("task", str(task))])]
    return await get_map(visit.source, visit.caller, "connectors", visit.name, "history", query=query)


async def _waiting(visit: Visit, row: TaskRow) -> Sequence[Waiting]:
    """Return what no worker has, and why, if that concerns the task and the leader tells it."""
    if row.instance.state not in (Shown.UNASSIGNED, Shown.UNKNOWN) or not visit.features.assignments:
        return ()
    try:
        return cluster_of(await get_map(visit.source, visit.caller, "admin", "assignments"), ()).waiting
    except Refused:
        return ()


def _number(text: str) -> int:
    if not _is_number(text):
        raise BadRequest(f"{text} is not the number of a task.")
    return int(text)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _LONGEST_NUMBER


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


PAGES: Final[tuple[Page, ...]] = (_task, _config, _all)
