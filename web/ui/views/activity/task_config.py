"""Config of a task with masked secrets, compared with the connector's config. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from kraal.config.hidden import scrub
from kraal.core.ids import Config
from web.ui.views.config import Cell, entries, parse_config
from web.ui.views.json_values import get_integer, mapping, maps


@dataclass(frozen=True, slots=True)
class TaskEntry:
    """Key and value in a task's config."""

    key: str
    cell: Cell
    is_override: bool
    """Whether the key is absent from the connector's config or has a different value there."""


def task_config(
    tasks: object, task: int, connector: Config, secret_keys: Collection[str]
) -> Sequence[TaskEntry] | None:
    """Return the config of a task from `GET …/tasks`, overrides first; None if there is no such task.

    `secret_keys` are the keys of type PASSWORD. Secrets of the connector are masked in all values of the task's config.
    """
    responses = maps(tasks)
    task_info = next(
        (response for response in responses if get_integer(mapping(response.get("id")), "task") == task), None
    )
    if task_info is None:
        return None
    config = parse_config(dict(mapping(task_info.get("config"))))
    masked_config = {
        key: None if value is None else scrub(value, connector, secret_keys) for key, value in config.items()
    }
    task_entries = [
        TaskEntry(
            entry.key,
            entry.cell,
            is_override=entry.key not in connector or connector[entry.key] != config[entry.key],
        )
        for entry in entries(masked_config, secret_keys)
    ]
    return sorted(task_entries, key=lambda entry: not entry.is_override)
