"""Charts of a connector's last minutes: of all tasks, or of one."""

from __future__ import annotations

from typing import Final

from web.ui.pages.connector import asked_frame
from web.ui.routing import Model, Page, Visit, page
from web.ui.sources.requests import get_map
from web.ui.views.activity.charts import charts_of
from web.ui.views.json_values import maps, whole

_LONGEST_NUMBER: Final = 9


@page(
    "/connectors/{connector}/charts",
    "pages/charts.html",
    parts={"charts": "activity/charts.html"},
    nav="connectors",
)
async def _charts(visit: Visit) -> Model:
    """Show the series as lines; the script draws the same values, which the page carries."""
    series = await get_map(visit.source, visit.caller, "connectors", visit.name, "series")
    numbers = sorted(
        {number for each in maps(series.get("tasks")) if (number := whole(each, "id")) is not None}
    )
    asked = visit.text("task")
    is_number = asked.isascii() and asked.isdecimal() and len(asked) <= _LONGEST_NUMBER
    task = int(asked) if is_number else None
    return {
        **await asked_frame(visit, "charts"),
        "task": task,
        "numbers": numbers,
        "charts": charts_of(series, task),
    }


PAGES: Final[tuple[Page, ...]] = (_charts,)
