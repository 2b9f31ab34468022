"""The config of a task, with its secrets masked, beside that of its connector. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kraal.config.hidden import scrub
from kraal.core.ids import Config
from web.ui.views.config import Cell, config_of, entries
from web.ui.views.json_values import mapping, maps, whole


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """A key of a task's config and its value."""

    key: str
    cell: Cell
    own: bool
    """Whether the connector's config has another value for it, or none."""


def task_config(
    tasks: object, task: int, connector: Config, declared: Collection[str]
) -> Sequence[TaskEntry] | None:
    """Return the config of a task from `GET …/tasks`, what is its own first; None if there is no such task.

    `declared` are the keys of type PASSWORD. The connector's secrets are masked wherever the task's config has them.
    """
    answers = maps(tasks)
    found = next((each for each in answers if whole(mapping(each.get("id")), "task") == task), None)
    if found is None:
        return None
    config = config_of(dict(mapping(found.get("config"))))
    masked = {
        key: None if value is None else scrub(value, connector, declared) for key, value in config.items()
    }
    shown = [
        TaskEntry(
            entry.key, entry.cell, own=entry.key not in connector or connector[entry.key] != config[entry.key]
        )
        for entry in entries(masked, declared)
    ]
    return sorted(shown, key=lambda entry: not entry.own)
