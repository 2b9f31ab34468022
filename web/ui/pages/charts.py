"""Charts of a connector's metrics over the last minutes, for all tasks or one."""

from __future__ import annotations

from typing import Final

from web.ui.pages.connector import fetch_frame
from web.ui.routing import Model, PageRoute, Visit, page
from web.ui.sources.requests import get_map
from web.ui.views.activity.charts import build_charts
from web.ui.views.json_values import get_integer, maps

_MAX_TASK_DIGITS: Final = 9


@page(
    "/connectors/{connector}/charts",
    "pages/charts.html",
    parts={"charts": "activity/charts.html"},
    nav="connectors",
)
async def _charts(visit: Visit) -> Model:
    """Show the series as lines; a script redraws them from the same values, which are embedded in the page."""
    series = await get_map(visit.source, visit.caller, "connectors", visit.name, "series")
    task_numbers = sorted(
        {number for task in maps(series.get("tasks")) if (number := get_integer(task, "id")) is not None}
    )
    task_text = visit.text("task")
    is_number = task_text.isascii() and task_text.isdecimal() and len(task_text) <= _MAX_TASK_DIGITS
    task = int(task_text) if is_number else None
    return {
        **await fetch_frame(visit, "charts"),
        "task": task,
        "tasks": task_numbers,
        "charts": build_charts(series, task),
    }


PAGES: Final[tuple[PageRoute, ...]] = (_charts,)
