"""Statuses: tables of connectors and tasks, changes between polls, and assessments for waiting. Pure functions.

A status is the response to `GET /connectors/{c}/status`, None for a connector without a status.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kraal.core.printable import printable
from kraal.core.traces import MAX_LENGTH, root_cause

Status = Mapping[str, Any]
Statuses = Mapping[str, Status | None]
"""Statuses by connector, in display order."""

NONE = "-"
LIST_HEAD = ("NAME", "TYPE", "STATE", "TASKS", "WORKER")
STATUS_HEAD = ("NAME", "TASK", "STATE", "WORKER", "TRACE")
RUNNING, FAILED, STOPPED = "RUNNING", "FAILED", "STOPPED"


@dataclass(frozen=True, slots=True)
class Instance:
    """A connector instance or a task."""

    state: str
    worker: str
    trace: str
    """Root cause in the trace."""


@dataclass(frozen=True, slots=True)
class Change:
    """Change of an instance between two polls; `before` or `after` is None if the instance did not exist."""

    name: str
    task: str
    before: Instance | None
    after: Instance | None


class Verdict(StrEnum):
    """Assessment of a status while waiting for a state."""

    READY = "ready"
    WITHOUT_TASKS = "without tasks"
    """The connector is running without tasks, which may still be created."""
    FAILED = "failed"
    PENDING = "pending"


def list_rows(statuses: Statuses) -> Iterator[tuple[str, ...]]:
    """Yield a row per connector, with the numbers of running tasks and of all tasks."""
    for name, status in statuses.items():
        if status is None:
            yield (name, NONE, NONE, NONE, NONE)
            continue
        states = [str(task.get("state")) for task in status.get("tasks", ())]
        failed_count = states.count(FAILED)
        tasks = f"{states.count(RUNNING)}/{len(states)}" + (
            f", {failed_count} failed" if failed_count else ""
        )
        connector = _parse_instance(status.get("connector", {}))
        yield (name, str(status.get("type", NONE)), connector.state, tasks, connector.worker)


def status_rows(statuses: Statuses) -> Iterator[tuple[str, ...]]:
    """Yield a row per connector and task."""
    for name, status in statuses.items():
        if status is None:
            yield (name, NONE, NONE, NONE, "no status yet")
            continue
        for (_, task), instance in instances({name: status}).items():
            yield (name, task, instance.state, instance.worker, instance.trace)


def instances(statuses: Statuses) -> dict[tuple[str, str], Instance]:
    """Return all instances by connector and task, with `-` as the task of connector instances."""
    instances_by_key: dict[tuple[str, str], Instance] = {}
    for name, status in statuses.items():
        if status is not None:
            instances_by_key[name, NONE] = _parse_instance(status.get("connector", {}))
            instances_by_key |= {
                (name, str(part.get("id"))): _parse_instance(part) for part in status.get("tasks", ())
            }
    return instances_by_key


def changes(before: Statuses, after: Statuses) -> list[Change]:
    """Return the changes in the order of `after`, followed by removed instances."""
    old_instances, new_instances = instances(before), instances(after)
    changed_instances = [
        Change(*key, old_instances.get(key), instance)
        for key, instance in new_instances.items()
        if old_instances.get(key) != instance
    ]
    return changed_instances + [
        Change(*key, instance, None) for key, instance in old_instances.items() if key not in new_instances
    ]


def change_line(change: Change) -> str:
    """Return a change as a line with instance, states, worker and trace."""
    instance = change.name if change.task == NONE else f"{change.name} task {change.task}"
    if change.after is None:
        return f"{instance} {change.before.state if change.before else NONE} -> gone"
    transition = (
        f"{change.before.state} -> " if change.before and change.before.state != change.after.state else ""
    )
    return f"{instance} {transition}{change.after.state} {change.after.worker} {change.after.trace}".rstrip()


def verdict(status: Status | None, target: str) -> Verdict:
    """Assess whether a connector and all its tasks have reached `target`: RUNNING, PAUSED or STOPPED."""
    if status is None:
        return Verdict.PENDING
    connector = str(status.get("connector", {}).get("state"))
    tasks = [str(task.get("state")) for task in status.get("tasks", ())]
    if connector == target == STOPPED:
        return Verdict.PENDING if tasks else Verdict.READY
    if target != STOPPED and FAILED in (connector, *tasks):
        return Verdict.FAILED
    if connector != target or any(state != target for state in tasks):
        return Verdict.PENDING
    return Verdict.READY if tasks else Verdict.WITHOUT_TASKS


def summary(status: Status | None) -> str:
    """Summarize a status for error messages: the states and the first trace."""
    if status is None:
        return "it has no status"
    instances_by_key = instances({"": status})
    task_states = [
        f"task {task} is {instance.state}" for (_, task), instance in instances_by_key.items() if task != NONE
    ]
    trace = next((instance.trace for instance in instances_by_key.values() if instance.trace), "")
    states = ", ".join([f"it is {instances_by_key['', NONE].state}", *task_states])
    return f"{states}: {trace}" if trace else states


def traces(status: Status) -> list[tuple[str, str]]:
    """Return all complete traces with their instances."""
    parts: Sequence[tuple[str, Any]] = [
        ("connector", status.get("connector", {})),
        *((f"task {task.get('id')}", task) for task in status.get("tasks", ())),
    ]
    return [(subject, str(part["trace"])) for subject, part in parts if part.get("trace")]


def _parse_instance(part: Mapping[str, Any]) -> Instance:
    return Instance(
        state=str(part.get("state", NONE)),
        worker=str(part.get("worker_id") or NONE),
        trace=failure_cause(part),
    )


def failure_cause(part: Mapping[str, Any]) -> str:
    """Return the root cause of a failed connector or task as one line; empty if there is none."""
    return printable(root_cause(part.get("trace"), MAX_LENGTH))
