"""Explanations of the placements and states of a connector and its tasks. Pure.

Each worker explains a connector from its own data: statuses and configs of all workers, placements if it is the leader,
supervision data and causes of its own instances. `merge` combines the explanations of several workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum, auto
from typing import TYPE_CHECKING, Any, Final

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.cluster.views.placements import describe_placement
from kraal.core.ids import ConnectorName, Instance, Json, State, TargetState, TaskId
from kraal.core.printable import printable
from kraal.core.traces import root_cause
from kraal.journal.events import EventKind, JournalEvent

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.journal.journal import Journal
    from kraal.protocol.status_records import Status

MAX_EVENTS: Final = 8
"""Maximum number of events per instance."""
_KINDS: Final = frozenset(
    {
        EventKind.STATE,
        EventKind.CONFIG,
        EventKind.TARGET,
        EventKind.RESTART,
        EventKind.AUTO_RESTART,
        EventKind.GIVEN_UP,
        EventKind.OFFSETS,
    }
)
_EVENT_LIMIT: Final = 1_000_000
"""Limit that exceeds the number of events in a journal."""


class ReasonKind(StrEnum):
    """Kinds of reasons for a state; also the values in REST responses."""

    TARGET = auto()
    """The target state that a user requested."""
    CONFIG = auto()
    """Stored task configs that are incomplete."""
    RESTART = auto()
    """A restart in progress (KIP-745)."""
    NO_STATUS = auto()
    FAILURE = auto()
    """The root cause in the trace."""
    WAITING = auto()
    """The reason why the instance waits before it runs."""
    STALL = auto()
    AUTO_RESTART = auto()
    """The planned automatic restart."""
    GIVEN_UP = auto()
    """The reason why there is no automatic restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Data of one worker from which explanations are derived."""

    snapshot: Snapshot
    journal: Journal
    supervision: Mapping[str, Any] = field(default_factory=dict)
    """Result of `StallDetection.status` for the instances on this worker; empty without supervision."""


def explain(sources: Sources, name: ConnectorName) -> dict[str, Any]:
    """Return this worker's explanation of an existing connector.

    Shape: name, type, target (STARTED, PAUSED or STOPPED), worker_id (of this worker), leader, generation, connector,
    tasks. Each instance has state, worker_id and generation of its status (null without a status), placement (see
    `describe_placement`), reasons [{kind, text}] and events [{ms, worker_id, kind, text, by}], oldest first. Tasks
    also have id.
    """
    snapshot = sources.snapshot
    entry = snapshot.config.connectors[name]
    statuses = snapshot.status.statuses.get(name, ConnectorStatuses())
    supervision = {task["id"]: task for task in sources.supervision.get("tasks", ())}
    events = _events(sources, name)
    count = max(entry.task_count, len(entry.tasks))
    return {
        "name": name,
        "type": snapshot.types.get(name, "unknown"),
        "target": entry.target,
        "worker_id": snapshot.worker_id,
        "leader": snapshot.leader_url,
        "generation": snapshot.generation,
        "connector": _instance(
            sources,
            name,
            statuses.connector,
            sources.supervision.get("connector", {}),
            events.get(None, ()),
        ),
        "tasks": [
            {
                "id": number,
                **_instance(
                    sources,
                    TaskId(name, number),
                    statuses.tasks.get(number),
                    supervision.get(number, {}),
                    events.get(number, ()),
                ),
            }
            for number in range(count)
        ],
    }


def _instance(
    sources: Sources,
    instance: Instance,
    status: Status | None,
    supervision: Mapping[str, Any],
    events: Sequence[JournalEvent],
) -> dict[str, Any]:
    snapshot = sources.snapshot
    reasons = _reasons(snapshot, instance, status, supervision)
    return {
        "state": None if status is None else str(status.state),
        "worker_id": None if status is None else status.worker_id,
        "generation": None if status is None else status.generation,
        "placement": describe_placement(snapshot, instance),
        "reasons": [{"kind": kind, "text": text} for kind, text in reasons],
        "events": [_event(event, snapshot.worker_id) for event in events[-MAX_EVENTS:]],
    }


def _event(event: JournalEvent, worker_id: str) -> dict[str, Json]:
    kind = str(event.kind)
    return {"ms": event.ms, "worker_id": worker_id, "kind": kind, "text": event.text, "by": event.by}


def _events(sources: Sources, name: ConnectorName) -> Mapping[int | None, Sequence[JournalEvent]]:
    """Return the events of a connector by task, with None for the connector instance."""
    by_task: dict[int | None, list[JournalEvent]] = {}
    for event in sources.journal.events.after(None, _EVENT_LIMIT):
        if event.connector == name and event.kind in _KINDS:
            by_task.setdefault(event.task, []).append(event)
    return by_task


def _reasons(
    snapshot: Snapshot, instance: Instance, status: Status | None, supervision: Mapping[str, Any]
) -> list[tuple[ReasonKind, str]]:
    """Return the reasons for the state of an instance, the most general first."""
    entry = snapshot.config.connectors[instance.connector if isinstance(instance, TaskId) else instance]
    reasons: list[tuple[ReasonKind, str]] = []
    if entry.target is not TargetState.STARTED:
        reasons.append((ReasonKind.TARGET, f"The target state of the connector is {entry.target}."))
    if entry.inconsistent and isinstance(instance, TaskId):
        text = "The stored task configs are incomplete; the connector must publish them again before the task runs."
        reasons.append((ReasonKind.CONFIG, text))
    if instance in snapshot.restarting:
        text = "A restart was requested (KIP-745), and the next state of the instance has not been read yet."
        reasons.append((ReasonKind.RESTART, text))
    if status is None:
        reasons.append((ReasonKind.NO_STATUS, "No worker has reported the state of the instance."))
    elif status.trace:
        kind = ReasonKind.FAILURE if status.state is State.FAILED else ReasonKind.WAITING
        reasons.append((kind, printable(root_cause(status.trace))))
    return reasons + _supervision_reasons(supervision)


def _supervision_reasons(supervision: Mapping[str, Any]) -> list[tuple[ReasonKind, str]]:
    reasons: list[tuple[ReasonKind, str]] = []
    if supervision.get("stalled"):
        cause = supervision.get("stall_cause") or "no cause is known"
        reasons.append((ReasonKind.STALL, f"It is stalled: {cause}"))
    if supervision.get("next_restart_ms") is not None:
        text = f"It is restarted automatically at {format_time(supervision['next_restart_ms'])}."
        reasons.append((ReasonKind.AUTO_RESTART, text))
    if supervision.get("why"):
        reasons.append((ReasonKind.GIVEN_UP, str(supervision["why"])))
    return reasons


def format_time(ms: int) -> str:
    """Format a wall-clock time in milliseconds since the epoch."""
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


# -- explanations of several workers -----------------------------------------------------------------------


def merge(own_explanation: Mapping[str, Any], responses: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Merge this worker's explanation with `responses`, the explanations of other workers by worker id.

    Placements come from the leader. Reasons and events come from the worker that runs the instance.
    """
    tasks = {
        worker: {task["id"]: task for task in response["tasks"]} for worker, response in responses.items()
    }
    connectors = {worker: response["connector"] for worker, response in responses.items()}
    return {
        **own_explanation,
        "connector": _merge_instance(own_explanation["connector"], connectors),
        "tasks": [
            _merge_instance(
                task, {worker: by_id[task["id"]] for worker, by_id in tasks.items() if task["id"] in by_id}
            )
            for task in own_explanation["tasks"]
        ],
    }


def _merge_instance(
    own_instance: Mapping[str, Any], responses: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    owner = responses.get(own_instance["worker_id"] or "", own_instance)
    placements = [
        explanation["placement"]
        for explanation in (own_instance, *responses.values())
        if explanation["placement"] is not None
    ]
    return {
        **own_instance,
        "placement": placements[0] if placements else None,
        "reasons": owner["reasons"],
        "events": _with_authors(owner["events"], own_instance["events"]),
    }


def _with_authors(
    events: Iterable[Mapping[str, Any]], own_events: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the owner's events, with authors that only the worker that handled the request has recorded."""
    authors = {(event["kind"], event["text"]): event["by"] for event in own_events if " from " in event["by"]}
    return [
        {
            **event,
            "by": event["by"]
            if " from " in event["by"]
            else authors.get((event["kind"], event["text"]), event["by"]),
        }
        for event in events
    ]
