"""History of a connector and its tasks: states, causes, restarts, and the cause of the current state."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kraal.core.errors import BadRequest, NotFound
from web.ui.pages.connector import connector_frame, fetch_config, fetch_frame, may_be_sink
from web.ui.routing import Model, PageRoute, Visit, page
from web.ui.sources.api import RequestRejected
from web.ui.sources.plugin_keys import fetch_secret_keys
from web.ui.sources.requests import connector_status, get_list, get_map
from web.ui.views.activity.task_config import task_config
from web.ui.views.activity.timeline import REMOVED, Timeline, build_strip, build_timeline, select_instance
from web.ui.views.activity.verdict import summarize_instance
from web.ui.views.cluster import UnassignedInstance, build_cluster
from web.ui.views.connector import TaskRow, connector_page, empty_task_row
from web.ui.views.states import DisplayState

_MAX_STATES: Final = 1_000
_MAX_SHOWN: Final = 200
_MAX_STRIPS: Final = 50
_MAX_TASK_DIGITS: Final = 9
_CONNECTOR: Final = "connector"
"""Value of `task` in a query for the connector instance."""


@page(
    "/connectors/{connector}/tasks/{task}",
    "pages/task.html",
    parts={"task": "activity/task.html"},
    nav="connectors",
)
async def _task(visit: Visit) -> Model:
    """Show the cause of a task's state and its history; Java workers report only the current state."""
    number = _parse_task_number(visit.segment("task"))
    availability = {"supervision": visit.features.supervision, "progress": visit.features.progress}
    parts = tuple(part for part, is_available in availability.items() if is_available)
    status, history = await asyncio.gather(
        connector_status(visit.source, visit.caller, visit.name, parts=parts), _fetch_history(visit, number)
    )
    connector = connector_page(visit.name, status, None, None)
    timeline = select_instance(build_timeline(history, _now_ms()), number)
    row = next((row for row in connector.tasks if row.instance.task == number), None)
    if row is None and not timeline.entries:
        raise NotFound(f"Connector {visit.name} has no task {number}.")
    row = row or empty_task_row(number)
    unassigned_instances = await _fetch_unassigned(visit, row)
    return {
        **connector_frame(visit, "tasks", may_be_sink=may_be_sink(status)),
        "task": number,
        "row": row,
        "connector": connector,
        "verdict": summarize_instance(row, timeline, unassigned_instances, visit.name),
        "timeline": timeline,
        "entries": timeline.entries[:_MAX_SHOWN],
        "strips": [(number, build_strip(timeline.entries, _now_ms()))] if timeline.entries else [],
    }


@page("/connectors/{connector}/tasks/{task}/config", "pages/task_config.html", nav="connectors")
async def _config(visit: Visit) -> Model:
    """Show the config that the connector generated for a task."""
    number = _parse_task_number(visit.segment("task"))
    tasks, stored_config = await asyncio.gather(
        get_list(visit.source, visit.caller, "connectors", visit.name, "tasks"), fetch_config(visit)
    )
    secret_keys = await fetch_secret_keys(visit.source, visit.caller, stored_config)
    entries = task_config(tasks, number, stored_config, secret_keys)
    if entries is None:
        raise NotFound(f"Connector {visit.name} has no task {number}.")
    return {**await fetch_frame(visit, "tasks"), "task": number, "entries": entries}


@page(
    "/connectors/{connector}/history",
    "pages/history.html",
    parts={"history": "activity/history.html"},
    nav="connectors",
)
async def _connector_history(visit: Visit) -> Model:
    """Show the states of all instances, or only of the instance in the query."""
    now_ms = _now_ms()
    full_timeline = build_timeline(await _fetch_history(visit), now_ms)
    instances = sorted(
        {entry.task for entry in full_timeline.entries}, key=lambda task: -1 if task is None else task
    )
    task_text = visit.text("task")
    selected_instance = task_text if task_text == _CONNECTOR or _is_task_number(task_text) else ""
    timeline = (
        full_timeline
        if not selected_instance
        else select_instance(
            full_timeline, None if selected_instance == _CONNECTOR else int(selected_instance)
        )
    )
    return {
        **await fetch_frame(visit, "history"),
        "selected": selected_instance,
        "instances": instances,
        "timeline": timeline,
        "entries": timeline.entries[:_MAX_SHOWN],
        "strips": _build_strips(full_timeline, instances, now_ms),
        "more_strips": max(len(instances) - _MAX_STRIPS, 0),
    }


def _build_strips(
    timeline: Timeline, instances: Sequence[int | None], now_ms: int
) -> list[tuple[int | None, Any]]:
    """Return the strips of the existing instances, limited to those with the most states."""
    entries_by_task = {task: select_instance(timeline, task).entries for task in instances}
    existing_instances = [task for task in instances if entries_by_task[task][0].state != REMOVED]
    shown_instances = sorted(existing_instances, key=lambda task: -len(entries_by_task[task]))[:_MAX_STRIPS]
    return [
        (task, build_strip(entries_by_task[task], now_ms))
        for task in existing_instances
        if task in set(shown_instances)
    ]


async def _fetch_history(visit: Visit, task: int | None = None) -> Mapping[str, Any] | None:
    """Return the history of all instances or of a task; None if the worker does not record it."""
    if not visit.features.history:
        return None
    query = [("limit", str(_MAX_STATES)), *([] if task is None else [("task", str(task))])]
    return await get_map(visit.source, visit.caller, "connectors", visit.name, "history", query=query)


async def _fetch_unassigned(visit: Visit, row: TaskRow) -> Sequence[UnassignedInstance]:
    """Return the unassigned connectors and tasks if the task may be among them and the leader reports them."""
    if (
        row.instance.state not in (DisplayState.UNASSIGNED, DisplayState.UNKNOWN)
        or not visit.features.assignments
    ):
        return ()
    try:
        return build_cluster(
            await get_map(visit.source, visit.caller, "admin", "assignments"), ()
        ).unassigned_instances
    except RequestRejected:
        return ()


def _parse_task_number(text: str) -> int:
    if not _is_task_number(text):
        raise BadRequest(f"{text} is not a task number.")
    return int(text)


def _is_task_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_TASK_DIGITS


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


PAGES: Final[tuple[PageRoute, ...]] = (_task, _config, _connector_history)
