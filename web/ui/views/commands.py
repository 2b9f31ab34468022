"""Actions on connectors and tasks: their requests, availability and confirmations.

The texts apply to both Java workers and Kraal workers. Source: KIP-52, KIP-745, KIP-875, KIP-980.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from kraal.core.ids import Json
from kraal.core.printable import format_count
from web.ui.views.copy_as import Request
from web.ui.views.texts import MAX_NAMES, join_names

TYPED_CONFIRMATION_LIMIT: Final = MAX_NAMES
"""Maximum number of connectors that can be deleted without typing how many will be deleted."""


class Action(StrEnum):
    """Action on a connector."""

    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"
    """Restarts the connector and its tasks."""
    RESTART_FAILED = "restart-failed"
    RESTART_CONNECTOR = "restart-connector"
    """Restarts the connector without its tasks."""
    STOP = "stop"
    DELETE = "delete"


TASK_RESTART: Final = "restart-task"

LABELS: Final = {
    Action.PAUSE: "Pause",
    Action.RESUME: "Resume",
    Action.RESTART: "Restart",
    Action.RESTART_FAILED: "Restart failed",
    Action.RESTART_CONNECTOR: "Restart connector only",
    Action.STOP: "Stop",
    Action.DELETE: "Delete",
}
"""Labels of the buttons, in display order."""

BULK_ACTIONS: Final = (
    Action.PAUSE,
    Action.RESUME,
    Action.RESTART,
    Action.RESTART_FAILED,
    Action.STOP,
    Action.DELETE,
)
DANGEROUS_ACTIONS: Final = frozenset({Action.STOP, Action.DELETE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Connector that is the subject of an action, with its status."""

    name: str
    type: str = "unknown"
    state: str = ""
    tasks: tuple[tuple[int, str], ...] = ()
    """Number and state of each task."""

    @property
    def failed_instances(self) -> list[str]:
        """Phrases for the failed instances, such as `the connector` and `tasks 1 and 2`; empty if none has failed."""
        parts = ["the connector"] if self.state == "FAILED" else []
        task_ids = [str(number) for number, state in self.tasks if state == "FAILED"]
        return parts + (
            [f"task{'s' if len(task_ids) > 1 else ''} {join_names(task_ids)}"] if task_ids else []
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmation:
    """Confirmation of an action."""

    question: str
    effects: tuple[str, ...]
    button: str
    is_dangerous: bool
    required_text: str = ""
    """Text that the user must type to confirm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """Result of an action."""

    name: str
    done: bool
    text: str


def parse_initial_state(status: Json) -> str:
    """Return the initial state for a copy of a connector, from a response to `GET …/status`."""
    state = parse_subject(status).state
    return state if state in ("PAUSED", "STOPPED") else "RUNNING"


def parse_subject(status: Json, name: str = "") -> Subject:
    """Parse a response to `GET …/status`."""
    if not isinstance(status, dict):
        return Subject(name=name)
    connector, tasks = status.get("connector"), status.get("tasks")
    return Subject(
        name=str(status.get("name") or name),
        type=str(status.get("type") or "unknown"),
        state=str(connector.get("state") or "") if isinstance(connector, dict) else "",
        tasks=tuple(
            (number, str(task.get("state") or ""))
            for task in (tasks if isinstance(tasks, list) else [])
            if isinstance(task, dict) and isinstance(number := task.get("id"), int)
        ),
    )


def parse_action(text: str) -> Action | None:
    """Parse the action in a form field; return None if it is unknown."""
    return Action(text) if text in list(Action) else None


def available_actions(state: str, *, failed: bool) -> list[Action]:
    """Return the actions that would affect a connector, in display order.

    `state` is the state of the connector instance, empty if unknown. `failed` is whether any instance is FAILED.
    """
    ineffective_actions: set[Action] = set()
    if state == "PAUSED":
        ineffective_actions.add(Action.PAUSE)
    elif state == "STOPPED":
        ineffective_actions |= {Action.PAUSE, Action.STOP, Action.RESTART, Action.RESTART_CONNECTOR}
    elif state in ("RUNNING", "RESTARTING"):
        ineffective_actions.add(Action.RESUME)  # the target state cannot be inferred from other states
    if state and not failed:
        ineffective_actions.add(Action.RESTART_FAILED)
    return [action for action in LABELS if action not in ineffective_actions]


def build_request(action: Action, name: str) -> Request:
    """Return the request for an action."""
    path = ("connectors", name)
    match action:
        case Action.PAUSE | Action.RESUME | Action.STOP:
            return Request(method="PUT", segments=(*path, action.value))
        case Action.DELETE:
            return Request(method="DELETE", segments=path)
        case Action.RESTART | Action.RESTART_FAILED:
            only_failed = "true" if action is Action.RESTART_FAILED else "false"
            query = (("includeTasks", "true"), ("onlyFailed", only_failed))
            return Request(method="POST", segments=(*path, "restart"), query=query)
        case Action.RESTART_CONNECTOR:
            query = (("includeTasks", "false"), ("onlyFailed", "false"))
            return Request(method="POST", segments=(*path, "restart"), query=query)


def task_restart(name: str, task: int) -> Request:
    """Return the request that restarts a task."""
    return Request(method="POST", segments=("connectors", name, "tasks", str(task), "restart"))


def confirmation(action: Action, subjects: Sequence[Subject]) -> Confirmation:
    """Return the confirmation of an action on one or more connectors."""
    names = [subject.name for subject in subjects]
    single_subject = subjects[0] if len(subjects) == 1 else None
    subject = (
        join_names(names)
        if single_subject
        else f"{format_count(len(names), 'connector')} ({join_names(names)})"
    )
    if action is Action.RESTART and single_subject and single_subject.tasks:
        subject += f" and its {format_count(len(single_subject.tasks), 'task')}"
    verb = {
        Action.RESTART_FAILED: "Restart the failed instances of",
        Action.RESTART_CONNECTOR: "Restart only the connector instance of",
    }.get(action, LABELS[action])
    needs_typing = action is Action.DELETE and len(names) > TYPED_CONFIRMATION_LIMIT
    return Confirmation(
        question=f"{verb} {subject}?",
        effects=tuple(_effects(action, subjects)),
        button=LABELS[action] if single_subject else f"{LABELS[action]} ({len(names)})",
        is_dangerous=action in DANGEROUS_ACTIONS,
        required_text=str(len(names)) if needs_typing else "",
    )


def task_confirmation(name: str, task: int) -> Confirmation:
    """Return the confirmation of a task restart."""
    return Confirmation(
        question=f"Restart task {task} of {name}?",
        effects=(
            "The batch in flight may be delivered again.",
            "The connector and its other tasks are not affected.",
        ),
        button="Restart task",
        is_dangerous=False,
    )


def _effects(action: Action, subjects: Sequence[Subject]) -> list[str]:
    is_single = len(subjects) == 1
    possessive = "Its" if is_single else "Their"
    match action:
        case Action.PAUSE:
            pause_effect = f"{possessive} tasks stop processing records until they are resumed."
            return [
                pause_effect,
                f"{possessive} offsets stay.",
                *_failed_instance_effects(subjects, "pausing"),
            ]
        case Action.RESUME:
            return [
                f"{possessive} tasks continue from their offsets.",
                *_failed_instance_effects(subjects, "resuming"),
            ]
        case Action.STOP:
            tasks = sum(len(subject.tasks) for subject in subjects)
            tasks_clause = (
                f"{format_count(tasks, 'task')} {'ends' if tasks == 1 else 'end'}" if tasks else "tasks end"
            )
            offsets_clause = (
                f"{possessive.lower()} config and offsets stay"
                if is_single
                else f"{possessive.lower()} configs and offsets stay"
            )
            return [
                f"{possessive} {tasks_clause}; {offsets_clause}.",
                "Offsets can be changed while a connector is stopped.",
            ]
        case Action.DELETE:
            return _deletion_effects(subjects, possessive)
        case Action.RESTART:
            return ["Batches in flight may be delivered again.", *_not_running_effects(subjects)]
        case Action.RESTART_FAILED:
            failed_names = subjects[0].failed_instances if is_single else []
            return [
                f"This restarts {join_names(failed_names)}."
                if failed_names
                else "Only failed instances restart."
            ]
        case Action.RESTART_CONNECTOR:
            tasks_clause = (
                f"{possessive} tasks are not affected unless the connector generates different task configs."
            )
            return [tasks_clause, *_not_running_effects(subjects)]


def _deletion_effects(subjects: Sequence[Subject], possessive: str) -> list[str]:
    removal_clause = "its config is removed" if possessive == "Its" else "their configs are removed"
    effects = [f"{possessive} tasks end, and {removal_clause}.", "Topics and their records stay."]
    types = {subject.type for subject in subjects}
    if types != {"sink"}:
        offset_owners = "Source offsets" if "sink" in types else f"{possessive} offsets"
        effects.append(f"{offset_owners} stay: a new connector of the same name continues from them.")
    if types != {"source"}:
        offset_owners = (
            "Consumer groups of sinks"
            if types != {"sink"}
            else f"{possessive} consumer group{'' if possessive == 'Its' else 's'}"
        )
        verb = "stays with its" if offset_owners.endswith("group") else "stay with their"
        effects.append(f"{offset_owners} {verb} offsets until Kafka expires them.")
    return effects


def _failed_instance_effects(subjects: Sequence[Subject], action_noun: str) -> list[str]:
    if not any(subject.failed_instances for subject in subjects):
        return []
    return [f"Failed instances stay FAILED: {action_noun} does not restart them."]


def _not_running_effects(subjects: Sequence[Subject]) -> list[str]:
    if not {subject.state for subject in subjects} & {"PAUSED", "STOPPED"}:
        return []
    return ["Paused and stopped connectors stay paused or stopped."]


def action_result(action: Action, name: str, status: int, body: Json) -> Result:
    """Describe a successful response. The response to a restart contains the restart plan (KIP-745)."""
    return Result(name=name, done=True, text=f"{_result_text(action, body)} (status {status})")


def _result_text(action: Action, body: Json) -> str:
    match action:
        case Action.RESTART | Action.RESTART_FAILED | Action.RESTART_CONNECTOR:
            return _restart_text(body) if isinstance(body, dict) else "restarted"
        case Action.PAUSE | Action.RESUME | Action.STOP:
            return f"will {action.value}"
        case Action.DELETE:
            return "deleted"


def _restart_text(body: dict[str, Json]) -> str:
    subject = parse_subject(body)
    task_ids = [str(number) for number, state in subject.tasks if state == "RESTARTING"]
    parts = ["the connector"] if subject.state == "RESTARTING" else []
    parts += [f"task{'s' if len(task_ids) > 1 else ''} {join_names(task_ids)}"] if task_ids else []
    return f"restarting {' and '.join(parts)}" if parts else "nothing to restart"


def unique_names(names: Collection[str]) -> list[str]:
    """Return the selected names without duplicates, in order."""
    return list(dict.fromkeys(name for name in names if name))


def unmatched_error(names: Sequence[str], matching_names: Collection[str]) -> str:
    """Return an error if confirmed connectors no longer match the filter, otherwise an empty string."""
    matches = frozenset(matching_names)
    unmatched_names = [name for name in names if name not in matches]
    if not unmatched_names:
        return ""
    verb = "matches" if len(unmatched_names) == 1 else "match"
    count_text = format_count(len(unmatched_names), "connector")
    return f"Nothing was done: {count_text} no longer {verb} ({join_names(unmatched_names)})."
