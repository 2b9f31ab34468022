"""A connector and its tasks, with causes of failures, restarts and metrics. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import get_integer, mapping, maps, text, texts
from web.ui.views.progress import Progress, TaskProgress, parse_progress, parse_stalls
from web.ui.views.states import RANK, DisplayState
from web.ui.views.statuses import ConnectorStatus, Instance, connector_status


@dataclass(frozen=True, slots=True)
class Measure:
    """Column with a task metric."""

    key: str
    """Field of `TaskProgress`."""
    title: str
    is_time: bool = False
    """Whether the unit is milliseconds."""


MEASURES: Final = (
    Measure("records_per_s", "Records/s"),
    Measure("records_total", "Records"),
    Measure("backlog", "Backlog"),
    Measure("poll_ms", "Poll", is_time=True),
    Measure("write_ms", "Write", is_time=True),
    Measure("commit_ms", "Commit", is_time=True),
)
"""Task metrics; some are unavailable for sources, sinks or tasks in a JVM."""


@dataclass(frozen=True, slots=True)
class Restarts:
    """Automatic restarts of an instance."""

    supervised: bool
    restarts: int
    in_window: int
    last_ms: int | None
    next_ms: int | None
    given_up: bool
    why: str


@dataclass(frozen=True, slots=True)
class TaskRow:
    """Connector instance (`task` is None) or task with its details."""

    instance: Instance
    restarts: Restarts | None
    step_ms: float | None
    batch_age_ms: float | None
    batch_way: str
    progress: TaskProgress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPage:
    """Content of a connector's page."""

    status: ConnectorStatus
    state: DisplayState
    policy: str
    """Restart policy of the connector, as a sentence; empty if unknown."""
    connector: TaskRow
    tasks: Sequence[TaskRow]
    """Tasks, most urgent first."""
    silent_workers: Sequence[str]
    """Workers that did not report restarts, stalls or metrics."""
    progress: Progress
    plugin: str
    topics: Sequence[str]

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.status.name

    @property
    def plugin_name(self) -> str:
        """Class name without the package."""
        return self.plugin.rpartition(".")[2] or self.plugin

    @property
    def plugin_package(self) -> str:
        """Package of the class."""
        return self.plugin.rpartition(".")[0]

    @property
    def has_restart_data(self) -> bool:
        """Whether any restart data is available."""
        return any(row.restarts is not None for row in (self.connector, *self.tasks))

    @property
    def measures(self) -> Sequence[Measure]:
        """Metrics with a value for at least one task; all others have no column."""
        tasks = self.progress.tasks.values()
        return [
            measure for measure in MEASURES if any(getattr(task, measure.key) is not None for task in tasks)
        ]


def connector_page(name: str, status: Mapping[str, Any], config: object, topics: object) -> ConnectorPage:
    """Build the page from `GET …/status` (possibly expanded), `…/config` and `…/topics`."""
    supervision = status.get("supervision")
    content = mapping(supervision)
    supervised_tasks = {
        task["id"]: task for task in maps(content.get("tasks")) if isinstance(task.get("id"), int)
    }
    progress = parse_progress(status.get("progress"))
    parsed_status = connector_status(name, status, {**progress.stalls, **parse_stalls(supervision)})
    tasks = [_build_row(task, supervised_tasks.get(task.task or 0), progress) for task in parsed_status.tasks]
    tasks.sort(key=lambda row: (RANK[row.instance.state], row.instance.task))
    return ConnectorPage(
        status=parsed_status,
        state=parsed_status.state,
        policy=_describe_policy(content.get("policy")),
        connector=_build_row(parsed_status.connector, content.get("connector"), progress),
        tasks=tasks,
        silent_workers=sorted(
            {*texts(content.get("silent")), *texts(mapping(status.get("progress")).get("silent"))}
        ),
        progress=progress,
        plugin=str(config.get("connector.class", "")) if isinstance(config, Mapping) else "",
        topics=_parse_topics(topics, name),
    )


def empty_task_row(number: int) -> TaskRow:
    """Return the row of a task that has no status."""
    instance = Instance(task=number, state=DisplayState.UNKNOWN, worker="", cause="", trace="", version="")
    return TaskRow(instance, None, None, None, "", None)


def _build_row(instance: Instance, supervision: object, progress: Progress) -> TaskRow:
    content = mapping(supervision)
    metrics = None if instance.task is None else progress.tasks.get(instance.task)
    return TaskRow(
        instance=instance,
        restarts=_parse_restarts(content) if content else None,
        step_ms=_first_number(get_integer(content, "step_ms"), None if metrics is None else metrics.step_ms),
        batch_age_ms=_first_number(
            get_integer(content, "last_batch_age_ms"), None if metrics is None else metrics.last_batch_age_ms
        ),
        batch_way=text(content, "last_batch_way"),
        progress=metrics,
    )


def _parse_restarts(content: Mapping[str, Any]) -> Restarts:
    return Restarts(
        supervised=content.get("supervised") is True,
        restarts=get_integer(content, "restarts") or 0,
        in_window=get_integer(content, "restarts_in_window") or 0,
        last_ms=get_integer(content, "last_restart_ms"),
        next_ms=get_integer(content, "next_restart_ms"),
        given_up=isinstance(content.get("given_up"), str),
        why=text(content, "why"),
    )


def _describe_policy(policy: object) -> str:
    match policy:
        case {"restart": "none"}:
            return "No automatic restarts."
        case {"restart": str(scope), "max": int(max_restarts), "window_ms": int(window_ms)}:
            minutes = window_ms // 60_000
            limit = f"at most {max_restarts} times in {minutes} min"
            return f"Failed instances are restarted automatically ({scope}), {limit}."
        case _:
            return ""


def _parse_topics(response: object, name: str) -> list[str]:
    """Return the sorted topics from `GET …/topics`."""
    return sorted(texts(mapping(mapping(response).get(name)).get("topics")))


def _first_number(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
