"""Metric families for automatic restarts, tasks without progress and backlogs, which Connect does not have. Pure.

Their names start with `kraal_` to distinguish them from Connect's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kraal.core.ids import Instance, State, TaskId
from kraal.metrics.stall_detection import progress_of
from kraal.metrics.text import Family, labels

if TYPE_CHECKING:
    from kraal.cluster.decisions.auto_restart import Watched
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.metrics.registry import CurrentMetrics

HELP: Final[Mapping[str, str]] = {
    "kraal_connector_auto_restarts_total": "Automatic restarts of the connector by this worker.",
    "kraal_connector_auto_restart_given_up": "1 for a connector that stays FAILED although it is supervised, else 0.",
    "kraal_task_auto_restarts_total": "Automatic restarts of the task by this worker.",
    "kraal_task_auto_restart_given_up": "1 for a task that stays FAILED although it is supervised, else 0.",
    "kraal_task_next_restart_timestamp_ms": "When the task is restarted, in milliseconds since the epoch.",
    "kraal_task_stalled": "1 for a task that runs and has been at one step for too long, else 0.",
    "kraal_task_last_batch_age_ms": "Milliseconds since the task's latest batch was written.",
    "kraal_task_backlog_records": "Records (offsets) between a running sink task and the end of its partitions.",
}

_EACH: Final = 100
_BREATH: Final = Family("", "gauge", "", ())
Rows = list[tuple[str, float]]


def supervision(
    snapshot: Snapshot, current: CurrentMetrics, states: Mapping[TaskId, State], now_s: float, stall_s: float
) -> Iterator[Family]:
    """Yield the families; `states` are the REST states of this worker's tasks, sorted."""
    connectors = sorted(each for each in current.living if not isinstance(each, TaskId))
    yield from _restarts("connector", connectors, snapshot.watched)
    yield from _restarts("task", list(states), snapshot.watched)
    due: Rows = []
    stalled: Rows = []
    ages: Rows = []
    backlogs: Rows = []
    for at, (task, state) in enumerate(states.items(), 1):
        if at % _EACH == 0:
            yield _BREATH
        label = _labels(task)
        watched = snapshot.watched.get(task)
        if watched is not None and watched.due_ms is not None:
            due.append((label, watched.due_ms))
        found = progress_of(current, task, state, now_s, stall_s)
        stalled.append((label, int(found.stalled)))
        if found.batch_age_s is not None:
            ages.append((label, round(found.batch_age_s * 1000)))
        if state is State.RUNNING and (backlog := current.backlogs.get(task)) is not None:
            backlogs.append((label, backlog))
    yield _family("kraal_task_next_restart_timestamp_ms", due)
    yield _family("kraal_task_stalled", stalled)
    yield _family("kraal_task_last_batch_age_ms", ages)
    yield _family("kraal_task_backlog_records", backlogs)


def _restarts(
    kind: str, instances: Sequence[Instance], watched: Mapping[Instance, Watched]
) -> Iterator[Family]:
    totals: Rows = []
    given_up: Rows = []
    for each in instances:
        known, label = watched.get(each), _labels(each)
        totals.append((label, 0 if known is None else known.total))
        given_up.append((label, int(known is not None and known.given_up is not None)))
    yield _family(f"kraal_{kind}_auto_restarts_total", totals)
    yield _family(f"kraal_{kind}_auto_restart_given_up", given_up)


def _labels(instance: Instance) -> str:
    if isinstance(instance, TaskId):
        return labels(("connector", instance.connector), ("task", str(instance.task)))
    return labels(("connector", instance))


def _family(name: str, rows: Rows) -> Family:
    return Family(name, "counter" if name.endswith("_total") else "gauge", HELP[name], rows)
