"""One connector: its tasks with their causes, restarts and numbers. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from web.ui.views.json_values import mapping, maps, text, texts, whole
from web.ui.views.progress import Progress, TaskProgress, progress_of, stalls_of
from web.ui.views.states import RANK, Shown
from web.ui.views.statuses import ConnectorStatus, Instance, connector_status


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of numbers of tasks."""

    key: str
    """Field of `TaskProgress`."""
    title: str
    is_time: bool = False
    """Whether it is in milliseconds."""


MEASURES: Final = (
    Measure("records_per_s", "Records/s"),
    Measure("records_total", "Records"),
    Measure("backlog", "Backlog"),
    Measure("poll_ms", "Poll", is_time=True),
    Measure("write_ms", "Write", is_time=True),
    Measure("commit_ms", "Commit", is_time=True),
)
"""Some have no value for sources, sinks, or tasks in a JVM."""


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
    """A connector instance (`task` None) or a task, with what is known of it."""

    instance: Instance
    restarts: Restarts | None
    step_ms: float | None
    batch_age_ms: float | None
    batch_way: str
    progress: TaskProgress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectorPage:
    """What the page shows."""

    status: ConnectorStatus
    state: Shown
    policy: str
    """The connector's setting of automatic restarts, as a sentence; empty if not known."""
    connector: TaskRow
    tasks: Sequence[TaskRow]
    """The most urgent first."""
    silent: Sequence[str]
    """Workers that did not tell about restarts."""
    progress: Progress
    plugin: str
    topics: Sequence[str]

    @property
    def name(self) -> str:
        """The connector's name."""
        return self.status.name

    @property
    def plugin_name(self) -> str:
        """The class without its package."""
        return self.plugin.rpartition(".")[2] or self.plugin

    @property
    def plugin_package(self) -> str:
        """The package of the class."""
        return self.plugin.rpartition(".")[0]

    @property
    def supervised(self) -> bool:
        """Whether there is anything about restarts."""
        return any(row.restarts is not None for row in (self.connector, *self.tasks))

    @property
    def numbers(self) -> Sequence[Measure]:
        """What at least one task has numbers of; all else has no column."""
        tasks = self.progress.tasks.values()
        return [each for each in MEASURES if any(getattr(task, each.key) is not None for task in tasks)]


def connector_page(name: str, status: Mapping[str, Any], config: object, topics: object) -> ConnectorPage:
    """Return the page's values from `GET …/status` (with what it was expanded by), `…/config` and `…/topics`."""
    supervision = status.get("supervision")
    known = mapping(supervision)
    supervised = {each["id"]: each for each in maps(known.get("tasks")) if isinstance(each.get("id"), int)}
    progress = progress_of(status.get("progress"))
    read = connector_status(name, status, {**progress.stalls, **stalls_of(supervision)})
    tasks = [_row(each, supervised.get(each.task or 0), progress) for each in read.tasks]
    tasks.sort(key=lambda row: (RANK[row.instance.state], row.instance.task))
    return ConnectorPage(
        status=read,
        state=read.state,
        policy=_policy(known.get("policy")),
        connector=_row(read.connector, known.get("connector"), progress),
        tasks=tasks,
        silent=sorted({*texts(known.get("silent")), *texts(mapping(status.get("progress")).get("silent"))}),
        progress=progress,
        plugin=str(config.get("connector.class", "")) if isinstance(config, Mapping) else "",
        topics=_topics(topics, name),
    )


def no_task(number: int) -> TaskRow:
    """Return the row of a task that no status names."""
    instance = Instance(task=number, state=Shown.UNKNOWN, worker="", cause="", trace="", version="")
    return TaskRow(instance, None, None, None, "", None)


def _row(instance: Instance, found: object, progress: Progress) -> TaskRow:
    known = mapping(found)
    numbers = None if instance.task is None else progress.tasks.get(instance.task)
    return TaskRow(
        instance=instance,
        restarts=_restarts(known) if known else None,
        step_ms=_first(whole(known, "step_ms"), None if numbers is None else numbers.step_ms),
        batch_age_ms=_first(
            whole(known, "last_batch_age_ms"), None if numbers is None else numbers.last_batch_age_ms
        ),
        batch_way=text(known, "last_batch_way"),
        progress=numbers,
    )


def _restarts(found: Mapping[str, Any]) -> Restarts:
    return Restarts(
        supervised=found.get("supervised") is True,
        restarts=whole(found, "restarts") or 0,
        in_window=whole(found, "restarts_in_window") or 0,
        last_ms=whole(found, "last_restart_ms"),
        next_ms=whole(found, "next_restart_ms"),
        given_up=isinstance(found.get("given_up"), str),
        why=text(found, "why"),
    )


def _policy(found: object) -> str:
    match found:
        case {"restart": "none"}:
            return "No automatic restarts."
        case {"restart": str(what), "max": int(most), "window_ms": int(window_ms)}:
            return f"Failures are restarted automatically ({what}): at most {most} times in {window_ms // 60_000} min."
        case _:
            return ""


def _topics(found: object, name: str) -> list[str]:
    """Return the topics of `GET …/topics`, sorted."""
    return sorted(texts(mapping(mapping(found).get(name)).get("topics")))


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
