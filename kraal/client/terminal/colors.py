"""Terminal colors: whether to use them, and their meanings.

`NO_COLOR` disables colors. `FORCE_COLOR` enables them even in a file or pipe, unless `NO_COLOR` is set. Otherwise,
click omits them if the output is not a terminal. See https://no-color.org and https://force-color.org.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import click

STATES: Final[Mapping[str, str]] = {
    "RUNNING": "green",
    "FAILED": "red",
    "PAUSED": "yellow",
    "STOPPED": "yellow",
    "UNASSIGNED": "magenta",
    "RESTARTING": "magenta",
}
"""Colors of the states of connectors and tasks."""
_STATE: Final = "STATE"
_TASKS: Final = "TASKS"
"""Colored columns: states, and counts of running and failed tasks."""


def context_color(environment: Mapping[str, str] = os.environ) -> bool | None:
    """Return the value for `click.Context.color`: True to keep colors in any output, None to let click decide."""
    return True if _is_set(environment, "FORCE_COLOR") and not _is_set(environment, "NO_COLOR") else None


def colorize(text: str, color: str | None, environment: Mapping[str, str] = os.environ) -> str:
    """Colorize a text unless the color is None or NO_COLOR is set."""
    return text if color is None or _is_set(environment, "NO_COLOR") else click.style(text, fg=color)


def cell_color(title: str, cell: str) -> str | None:
    """Return the color of a cell in the table column `title`; None for most columns."""
    if title == _STATE:
        return STATES.get(cell)
    return STATES["FAILED"] if title == _TASKS and cell.endswith(" failed") else None


def _is_set(environment: Mapping[str, str], name: str) -> bool:
    return bool(environment.get(name))
