"""Conversion of published metrics to metric families. Pure and cheap: one pass over the instances of this worker.

States are those of the REST API (`kraal.cluster.views.rest`), including RESTARTING. Failed instances are included until
they are removed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from kraal.cluster.views.rest import find_type, shown_state, task_state
from kraal.core.ids import ConnectorName, State, TaskId
from kraal.metrics import connect_attributes as names
from kraal.metrics.supervision import supervision
from kraal.metrics.text import Family, labels
from kraal.metrics.windows import shares
from kraal.protocol.group import GroupProtocol

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.metrics.connect_attributes import Table
    from kraal.metrics.group import GroupMetrics
    from kraal.metrics.java_plugins import TaskValues
    from kraal.metrics.registry import CurrentMetrics, Startups
    from kraal.metrics.task import TaskMetrics

_PROTOCOLS = {
    GroupProtocol.DEFAULT: "EAGER",
    GroupProtocol.COMPATIBLE: "COMPATIBLE",
    GroupProtocol.SESSIONED: "SESSIONED",
    GroupProtocol.STATIC: "STATIC",
}

_YIELD = Family("", "gauge", "", ())
"""An empty family, after which a scrape may yield to other work."""
_YIELD_INTERVAL = 100
"""Number of tasks or connectors between two yields."""

_NO_JAVA_TASKS: Mapping[TaskId, TaskValues | None] = MappingProxyType({})

Row = tuple[str, Sequence[float]]
"""Labels, and the values of a table's attributes."""
_JAVA_SUFFIX = " of Java"
_TASK_TABLES: Mapping[str, Table] = {
    names.TASK: names.COMMON_TABLE,
    names.SOURCE: names.SOURCE_TABLE,
    names.SOURCE + _JAVA_SUFFIX: names.SOURCE_ACTIVE_TABLE,
    names.SINK: names.SINK_TABLE,
    names.SINK + _JAVA_SUFFIX: names.SINK_ACTIVE_TABLE,
    names.ERRORS: names.ERRORS_TABLE,
}
"""The attributes of tasks by group; attributes of Java tasks only are separate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The constant properties of a running worker."""

    client_id: str
    """Client id of the group member; the worker's id in standalone mode."""
    version: str
    """Version of Connect that Kraal implements."""
    commit: str
    started_ms: int
    """Milliseconds since the epoch."""


def families(
    snapshot: Snapshot,
    current: CurrentMetrics,
    identity: Identity,
    find_class_name: Callable[[str], str],
    now_s: float,
    stall_timeout_s: float = 0.0,
    *,
    java: Mapping[TaskId, TaskValues | None] = _NO_JAVA_TASKS,
) -> Iterator[Family]:
    """Yield all families one by one, so that a long scrape can be interrupted; some are empty.

    `find_class_name` returns the qualified class name for the name in a connector's config.
    `stall_timeout_s`: see `MetricsRegistry`.
    `java`: values of the Java tasks, as measured by the plugins' JVMs; None before a task's first report.
    """
    connectors = sorted(name for name in current.plugin_versions if not isinstance(name, TaskId))
    tasks = [task for task in current.plugin_versions if isinstance(task, TaskId)]
    tasks.sort(key=lambda task: (task.connector, task.task))
    states = {task: task_state(snapshot, task) for task in tasks}
    yield from _app_info(identity)
    yield from _worker(current, len(connectors), len(tasks), now_s)
    yield from _worker_connectors(states)
    yield from _connectors(snapshot, current, connectors, find_class_name)
    yield from _task_states(states)
    yield from _tasks(current, tasks, now_s, java)
    yield from supervision(snapshot, current, states, now_s, stall_timeout_s)
    if current.group is not None:
        yield from _group(snapshot, current.group, identity, now_s)


# -- the worker --------------------------------------------------------------------------------------------


def _app_info(identity: Identity) -> Iterator[Family]:
    values = (identity.version, identity.commit, str(identity.started_ms))
    client_label = ("client_id", identity.client_id)
    yield _text_family(names.APP_INFO, zip(names.TEXTS[names.APP_INFO], values, strict=True), [client_label])


def _worker(current: CurrentMetrics, connectors: int, tasks: int, now_s: float) -> Iterator[Family]:
    values = (
        connectors,
        tasks,
        *_startups(current.connector_startups, now_s),
        *_startups(current.task_startups, now_s),
    )
    yield from _column_families(names.WORKER, names.WORKER_TABLE, [("", values)])


def _startups(startups: Startups, now_s: float) -> tuple[float, ...]:
    failure_share, success_share = shares(startups.results, now_s)
    return (
        startups.succeeded_count + startups.failed_count,
        startups.succeeded_count,
        success_share,
        startups.failed_count,
        failure_share,
    )


def _worker_connectors(states: Mapping[TaskId, State]) -> Iterator[Family]:
    counts: dict[ConnectorName, Counter[str]] = {}
    for task, state in states.items():
        counts.setdefault(task.connector, Counter())[state.lower()] += 1
    rows = [
        (labels(("connector", name)), (count.total(), *(count[state] for state in names.STATES)))
        for name, count in counts.items()
    ]
    yield from _column_families(names.WORKER, names.WORKER_CONNECTOR_TABLE, rows)


def _connectors(
    snapshot: Snapshot,
    current: CurrentMetrics,
    connectors: Sequence[ConnectorName],
    find_class_name: Callable[[str], str],
) -> Iterator[Family]:
    rows: list[tuple[str, float]] = []
    for number, name in enumerate(connectors, 1):
        if number % _YIELD_INTERVAL == 0:
            yield _YIELD
        entry = snapshot.config.connectors.get(name)
        values = (
            find_type(snapshot, name),
            None if entry is None else find_class_name(entry.config.get("connector.class") or ""),
            current.plugin_versions[name],
            _connector_state(snapshot, name).lower(),
        )
        pairs = zip(names.TEXTS[names.CONNECTOR], values, strict=True)
        rows += _text_family(names.CONNECTOR, pairs, [("connector", name)]).rows
    yield Family(names.metric(names.CONNECTOR), "gauge", names.TEXT_HELP[names.CONNECTOR], rows)


def _connector_state(snapshot: Snapshot, name: ConnectorName) -> State:
    statuses = snapshot.status.statuses.get(name)
    stored_status = None if statuses is None else statuses.connector
    return shown_state(snapshot, name, State.UNASSIGNED if stored_status is None else stored_status.state)


# -- tasks -------------------------------------------------------------------------------------------------


def _task_states(states: Mapping[TaskId, State]) -> Iterator[Family]:
    rows = [
        (labels(("connector", task.connector), ("task", str(task.task)), ("status", state.lower())), 1)
        for task, state in states.items()
    ]
    for name in (names.metric(names.TASK), names.TASK_STATUS):
        yield Family(name, "gauge", names.TEXT_HELP[names.TASK], rows)


def _tasks(
    current: CurrentMetrics,
    tasks: Sequence[TaskId],
    now_s: float,
    java: Mapping[TaskId, TaskValues | None],
) -> Iterator[Family]:
    rows: dict[str, list[Row]] = {group: [] for group in _TASK_TABLES}
    for number, task in enumerate(tasks, 1):
        if number % _YIELD_INTERVAL == 0:
            yield _YIELD
        metrics = current.tasks.get(task)
        if metrics is None:  # the actor has not started yet
            continue
        label = labels(("connector", task.connector), ("task", str(task.task)))
        if task in java:
            values_by_group = _java_values(metrics, java[task], now_s)
        else:
            values_by_group = _python_values(metrics, current.partitions.get(task, 0), now_s)
        for group, values in values_by_group.items():
            rows[group].append((label, values))
    for group, table in _TASK_TABLES.items():
        yield from _column_families(group.removesuffix(_JAVA_SUFFIX), table, rows[group])


def _python_values(metrics: TaskMetrics, partitions: int, now_s: float) -> Mapping[str, Sequence[float]]:
    """Return the values of a Python task by group."""
    type_values = (
        {names.SOURCE: _source_values(metrics, now_s)}
        if metrics.is_source
        else {names.SINK: _sink_values(metrics, partitions, now_s)}
    )
    return {names.TASK: _common_values(metrics, now_s), **type_values, names.ERRORS: _error_values(metrics)}


def _java_values(
    metrics: TaskMetrics, reported_values: TaskValues | None, now_s: float
) -> Mapping[str, Sequence[float]]:
    """Return the values of a Java task by group, as measured by Kafka's worker, except for the state ratios.

    Unknown totals are omitted: Kraal's own totals differ, and exporting these instead would look like a restart.
    """
    values = {} if reported_values is None else reported_values
    ratios = {
        "running-ratio": metrics.states.ratio(State.RUNNING, now_s),
        "pause-ratio": metrics.states.ratio(State.PAUSED, now_s),
    }
    values_by_group = {names.TASK: _values({**values, **ratios}, names.COMMON_TABLE)}
    if not values:
        return values_by_group
    group = names.SOURCE if metrics.is_source else names.SINK
    last_error_ms = max(metrics.last_error_ms, values.get("last-error-timestamp", 0))
    return {
        **values_by_group,
        group: _values(values, _TASK_TABLES[group]),
        group + _JAVA_SUFFIX: _values(values, _TASK_TABLES[group + _JAVA_SUFFIX]),
        names.ERRORS: _values({**values, "last-error-timestamp": last_error_ms}, names.ERRORS_TABLE),
    }


def _values(values: TaskValues, table: Table) -> Sequence[float]:
    return [values.get(attribute, math.nan) for attribute in table]


def _common_values(metrics: TaskMetrics, now_s: float) -> Sequence[float]:
    failure_share, success_share = shares(metrics.commit_results, now_s)
    return (
        metrics.states.ratio(State.RUNNING, now_s),
        metrics.states.ratio(State.PAUSED, now_s),
        metrics.commit_ms.maximum(now_s),
        metrics.commit_ms.average(now_s),
        failure_share,
        success_share,
        metrics.batch_size.maximum(now_s),
        metrics.batch_size.average(now_s),
    )


def _error_values(metrics: TaskMetrics) -> Sequence[float]:
    """Return the error values; retries include batch retries."""
    counts = metrics.errors
    return (
        counts.failures,
        counts.errors,
        counts.skipped,
        metrics.retries + counts.retries,
        counts.logged,
        counts.dead_letters,
        counts.dead_letters_failed,
        metrics.last_error_ms,
    )


def _source_values(metrics: TaskMetrics, now_s: float) -> Sequence[float]:
    """Return the values of a source task. A batch is counted when it is written, including its skipped records."""
    return (
        metrics.read.rate(now_s),
        metrics.read_total,
        metrics.records.rate(now_s),
        metrics.records_total,
        metrics.batch_ms.maximum(now_s),
        metrics.batch_ms.average(now_s),
        metrics.transaction_size.minimum(now_s),
        metrics.transaction_size.maximum(now_s),
        metrics.transaction_size.average(now_s),
    )


def _sink_values(metrics: TaskMetrics, partitions: int, now_s: float) -> Sequence[float]:
    return (
        metrics.read.rate(now_s),
        metrics.read_total,
        metrics.records.rate(now_s),
        metrics.records_total,
        partitions,
        metrics.commit_number,
        metrics.commits.rate(now_s),
        metrics.commits_total,
        metrics.late_commits.rate(now_s),
        metrics.late_commits_total,
        metrics.batch_ms.maximum(now_s),
        metrics.batch_ms.average(now_s),
    )


# -- the group ---------------------------------------------------------------------------------------------


def _group(snapshot: Snapshot, group: GroupMetrics, identity: Identity, now_s: float) -> Iterator[Family]:
    protocol = None if snapshot.protocol is None else _PROTOCOLS[snapshot.protocol]
    pairs = zip(names.TEXTS[names.REBALANCE], (protocol, snapshot.leader_url), strict=True)
    yield _text_family(names.REBALANCE, pairs, [])
    since_ms = math.inf if group.ended_s is None else (now_s - group.ended_s) * 1000
    values = (
        snapshot.generation,
        group.completed_count,
        int(group.began_s is not None),
        group.rebalance_ms.maximum(now_s),
        group.rebalance_ms.average(now_s),
        since_ms,
    )
    yield from _column_families(names.REBALANCE, names.REBALANCE_TABLE, [("", values)])
    label = labels(("client_id", identity.client_id))
    assigned_counts = (group.connectors, group.tasks)
    yield from _column_families(names.COORDINATOR, names.COORDINATOR_TABLE, [(label, assigned_counts)])


# -- tables to families ------------------------------------------------------------------------------------


def _text_family(
    group: str, values: Iterable[tuple[str, str | None]], extra_labels: Sequence[tuple[str, str]]
) -> Family:
    """Create the family of a group's text attributes, with one series for each value."""
    rows = [
        (labels(*extra_labels, (names.label(name), text)), 1) for name, text in values if text is not None
    ]
    return Family(names.metric(group), "gauge", names.TEXT_HELP[group], rows)


def _column_families(group: str, table: Table, rows: Sequence[Row]) -> Iterator[Family]:
    """Yield a family for each attribute from rows of values."""
    for index, (attribute, text) in enumerate(table.items()):
        is_counter = attribute.endswith("-total") or attribute.startswith(("total-", "deadletterqueue-"))
        yield Family(
            names.metric(group, attribute),
            "counter" if is_counter else "gauge",
            text,
            [(label, values[index]) for label, values in rows],
        )
