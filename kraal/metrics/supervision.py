"""Metric families of automatic restarts, stalls and backlogs. Pure.

Connect has no such metrics, so their names start with `kraal_`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from kraal.core.ids import Instance, State, TaskId
from kraal.metrics.stalls.detection import connector_stalls, task_progress
from kraal.metrics.text import Family, labels

if TYPE_CHECKING:
    from kraal.cluster.decisions.auto_restart import FailureHistory
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.metrics.registry import CurrentMetrics
    from kraal.metrics.stalls.causes import Stall

HELP: Final[Mapping[str, str]] = {
    "kraal_connector_auto_restarts_total": "Automatic restarts of the connector by this worker.",
    "kraal_connector_auto_restart_given_up": "1 for a connector that stays FAILED although it is supervised, else 0.",
    "kraal_task_auto_restarts_total": "Automatic restarts of the task by this worker.",
    "kraal_task_auto_restart_given_up": "1 for a task that stays FAILED although it is supervised, else 0.",
    "kraal_task_next_restart_timestamp_ms": "Time of the next automatic restart, in milliseconds since the epoch.",
    "kraal_connector_stalled": "1 for a connector that should make progress and makes none, else 0.",
    "kraal_task_stalled": "1 for a task that should make progress and makes none, else 0.",
    "kraal_connector_stall": "1 for a stalled connector, labeled with the kind of its stall.",
    "kraal_task_stall": "1 for a stalled task, labeled with the kind of its stall.",
    "kraal_task_last_batch_age_ms": "Milliseconds since the task wrote its latest batch.",
    "kraal_task_backlog_records": "Backlog of a running sink task: records (offsets) up to the end of its partitions.",
}

_YIELD_INTERVAL: Final = 100
_YIELD: Final = Family("", "gauge", "", ())
Rows = list[tuple[str, float]]


def supervision(
    snapshot: Snapshot,
    current: CurrentMetrics,
    states: Mapping[TaskId, State],
    now_s: float,
    stall_timeout_s: float,
) -> Iterator[Family]:
    """Yield the families. `states` contains the REST states of this worker's tasks, sorted by task."""
    connectors = sorted(instance for instance in current.plugin_versions if not isinstance(instance, TaskId))
    yield from _restarts("connector", connectors, snapshot.watched)
    yield from _restarts("task", list(states), snapshot.watched)
    yield from _stalls("connector", connector_stalls(snapshot, current, now_s, stall_timeout_s))
    due_rows: Rows = []
    stalls: list[tuple[TaskId, Stall | None]] = []
    ages: Rows = []
    backlogs: Rows = []
    for number, (task, state) in enumerate(states.items(), 1):
        if number % _YIELD_INTERVAL == 0:
            yield _YIELD
        label = _labels(task)
        history = snapshot.watched.get(task)
        if history is not None and history.due_ms is not None:
            due_rows.append((label, history.due_ms))
        progress = task_progress(current, task, state, now_s, stall_timeout_s)
        stalls.append((task, progress.stall))
        if progress.batch_age_s is not None:
            ages.append((label, round(progress.batch_age_s * 1000)))
        if state is State.RUNNING and (backlog := current.backlogs.get(task)) is not None:
            backlogs.append((label, backlog.records))
    yield _family("kraal_task_next_restart_timestamp_ms", due_rows)
    yield from _stalls("task", stalls)
    yield _family("kraal_task_last_batch_age_ms", ages)
    yield _family("kraal_task_backlog_records", backlogs)


def _restarts(
    kind: str, instances: Sequence[Instance], histories: Mapping[Instance, FailureHistory]
) -> Iterator[Family]:
    totals: Rows = []
    given_up_rows: Rows = []
    for instance in instances:
        history, label = histories.get(instance), _labels(instance)
        totals.append((label, 0 if history is None else history.total))
        given_up_rows.append((label, int(history is not None and history.given_up is not None)))
    yield _family(f"kraal_{kind}_auto_restarts_total", totals)
    yield _family(f"kraal_{kind}_auto_restart_given_up", given_up_rows)


def _stalls(kind: str, stalls: Iterable[tuple[Instance, Stall | None]]) -> Iterator[Family]:
    """Yield the stall flags of all instances, and the kinds of stalls in a separate family, for simple alerts."""
    flags: Rows = []
    kinds: Rows = []
    for instance, stall in stalls:
        flags.append((_labels(instance), int(stall is not None)))
        if stall is not None:
            kinds.append((_labels(instance, ("kind", stall.kind.value)), 1))
    yield _family(f"kraal_{kind}_stalled", flags)
    yield _family(f"kraal_{kind}_stall", kinds)


def _labels(instance: Instance, *extra_labels: tuple[str, str]) -> str:
    if isinstance(instance, TaskId):
        return labels(("connector", instance.connector), ("task", str(instance.task)), *extra_labels)
    return labels(("connector", instance), *extra_labels)


def _family(name: str, rows: Rows) -> Family:
    return Family(name, "counter" if name.endswith("_total") else "gauge", HELP[name], rows)
