"""Responses to GET requests: JSON-serializable values derived from a snapshot, with fields in Connect's order. Pure.

Shapes: ConnectorInfo, ConnectorStateInfo, ActiveTopicsInfo (Kafka 4.3.0). Responses contain stored states, except that
instances in `snapshot.restarting` are shown as RESTARTING (KIP-745); plans never use displayed states.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kraal.cluster.state.statuses import status_fields
from kraal.cluster.views.snapshot import Snapshot
from kraal.core.errors import NotFound
from kraal.core.ids import ConnectorName, Instance, Json, State, TaskId
from kraal.core.traces import root_cause
from kraal.protocol.status_records import Status

_UNKNOWN = "unknown"
_STATES_WITHOUT_VERSION = (State.UNASSIGNED, State.RESTARTING)


def connector_names(snapshot: Snapshot) -> list[Json]:
    """Respond to GET /connectors."""
    return list(snapshot.config.connectors)


def connectors_expanded(
    snapshot: Snapshot, expand: Collection[str], *, causes: bool = False
) -> dict[str, Json]:
    """Respond to GET /connectors?expand=…: ignores unknown values.

    If statuses are requested, connectors without a status are omitted. With `causes`, traces are shortened to the line
    of the root cause.
    """
    response: dict[str, Json] = {}
    for name in snapshot.config.connectors:
        parts: dict[str, Json] = {}
        if "status" in expand:
            statuses = snapshot.status.statuses.get(name)
            if statuses is None or statuses.connector is None:
                continue
            parts["status"] = connector_status(snapshot, name, causes=causes)
        if "info" in expand:
            parts["info"] = connector_info(snapshot, name)
        response[name] = parts
    return response


def connector_info(snapshot: Snapshot, name: ConnectorName) -> dict[str, Json]:
    """Respond to GET /connectors/{c} and to requests that create or change a connector. Raises NotFound."""
    entry = snapshot.config.connector(name)
    tasks: list[Json] = [{"connector": name, "task": number} for number in range(len(entry.tasks))]
    return {"name": name, "config": dict(entry.config), "tasks": tasks, "type": find_type(snapshot, name)}


def connector_config(snapshot: Snapshot, name: ConnectorName) -> dict[str, Json]:
    """Respond to GET /connectors/{c}/config: the raw config. Raises NotFound."""
    return dict(snapshot.config.connector(name).config)


def task_infos(snapshot: Snapshot, name: ConnectorName) -> list[Json]:
    """Respond to GET /connectors/{c}/tasks: all committed tasks, with null configs while the set is inconsistent.

    Raises NotFound.
    """
    entry = snapshot.config.connector(name)
    infos: list[Json] = []
    for number in range(entry.task_count):
        config: Json = dict(entry.tasks[number]) if number < len(entry.tasks) else None
        infos.append({"id": {"connector": name, "task": number}, "config": config})
    return infos


def connector_status(snapshot: Snapshot, name: ConnectorName, *, causes: bool = False) -> dict[str, Json]:
    """Respond to GET /connectors/{c}/status with the stored statuses, also for a deleted connector. Raises NotFound.

    A new connector is UNASSIGNED until a worker writes its status; Java responds with 404.
    """
    statuses = snapshot.status.statuses.get(name)
    if statuses is None or statuses.connector is None:
        if name not in snapshot.config.connectors:
            raise NotFound(f"No status found for connector {name}")
        unassigned_fields: Json = {"state": str(State.UNASSIGNED), "worker_id": ""}
        return {"name": name, "connector": unassigned_fields, "tasks": [], "type": find_type(snapshot, name)}
    tasks: list[Json] = [
        {"id": number, **_state_fields(snapshot, TaskId(name, number), statuses.tasks[number], causes=causes)}
        for number in sorted(statuses.tasks)
    ]
    return {
        "name": name,
        "connector": _state_fields(snapshot, name, statuses.connector, causes=causes),
        "tasks": tasks,
        "type": find_type(snapshot, name),
    }


def task_status(snapshot: Snapshot, task: TaskId) -> dict[str, Json]:
    """Respond to GET /connectors/{c}/tasks/{t}/status. Raises NotFound."""
    statuses = snapshot.status.statuses.get(task.connector)
    status = None if statuses is None else statuses.tasks.get(task.task)
    if status is None:
        raise NotFound(f"No status found for task {task}")
    return {"id": task.task, **_state_fields(snapshot, task, status)}


def active_topics(snapshot: Snapshot, name: ConnectorName) -> dict[str, Json]:
    """Respond to GET /connectors/{c}/topics, also for unknown connectors. Sorted; Connect does not define an order."""
    topics: list[Json] = [*sorted(snapshot.status.topics.get(name, ()))]
    return {name: {"topics": topics}}


def shown_state(snapshot: Snapshot, instance: Instance, stored_state: State) -> State:
    """Return the state that REST and metrics show for a stored state."""
    return State.RESTARTING if instance in snapshot.restarting else stored_state


def task_state(snapshot: Snapshot, task: TaskId) -> State:
    """Return the state that REST and metrics show for a task; UNASSIGNED without a status."""
    statuses = snapshot.status.statuses.get(task.connector)
    stored_status = None if statuses is None else statuses.tasks.get(task.task)
    return shown_state(snapshot, task, State.UNASSIGNED if stored_status is None else stored_status.state)


def find_type(snapshot: Snapshot, name: ConnectorName) -> str:
    """Return `source` or `sink`; `unknown` if the connector's class is not installed on this worker."""
    return snapshot.types.get(name, _UNKNOWN)


def _state_fields(
    snapshot: Snapshot, instance: Instance, status: Status, *, causes: bool = False
) -> dict[str, Json]:
    state = shown_state(snapshot, instance, status.state)
    version = None if state in _STATES_WITHOUT_VERSION else status.version
    # The trace of an older state does not apply to a restart.
    trace = status.trace if state is status.state else None
    if causes and trace is not None:
        trace = root_cause(trace)
    return status_fields(replace(status, state=state, version=version, trace=trace))
