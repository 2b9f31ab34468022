"""Helpers for tests of the journal of a simulated worker."""

from __future__ import annotations

from typing import Any

from actors.runtime.mailbox import Ask
from kraal.cluster.state.status_replay import apply_status
from kraal.cluster.state.statuses import StatusState
from kraal.core.ids import ConnectorName, Instance, TaskId, get_connector
from kraal.journal.authors import (
    ConfigWritten,
    Effect,
)
from kraal.journal.causes import REMOVED
from kraal.journal.events import EventKind
from kraal.journal.journal import Journal
from kraal.journal.states import StateEntry
from kraal.protocol.status_records import Status
from kraal.stores.api import Log
from kraal.testing._simulation.cluster_worker import ClusterWorker
from kraal.testing._simulation.plugins import FAKE_SOURCE
from kraal.testing._simulation.worker import EmbeddedWorker

NAME = ConnectorName("numbers")
T0, T1, T2 = (TaskId(NAME, number) for number in range(3))
CONFIG: dict[str, str | None] = {"connector.class": FAKE_SOURCE, "tasks.max": "2"}
SEEDS = range(6)
USER = "PUT from 10.0.0.7"


def journal(worker: EmbeddedWorker | ClusterWorker) -> Journal:
    return worker.assembly.journal


def entries(worker: EmbeddedWorker | ClusterWorker, instance: Instance) -> list[StateEntry]:
    task = instance.task if isinstance(instance, TaskId) else None
    all_entries = journal(worker).states.read(get_connector(instance)).entries
    return [entry for entry in all_entries if entry.task == task]


def explained_states(
    worker: EmbeddedWorker | ClusterWorker, instance: Instance
) -> list[tuple[str, str, str]]:
    """Return the states of an instance with their causes and authors."""
    return [(entry.state, entry.cause, entry.by) for entry in entries(worker, instance)]


def events(worker: EmbeddedWorker | ClusterWorker, kind: EventKind) -> list[tuple[str, str]]:
    all_events = journal(worker).events.after(None, 10_000)
    return [(event.text, event.by) for event in all_events if event.kind is kind]


def send_request(worker: EmbeddedWorker, message: Ask[Any], effect: Effect, by: str = USER) -> None:
    """Send a request as the REST server does, and run until the worker is idle."""
    with journal(worker).authors.asking(effect, by):
        worker.ask(message)
    worker.run()


def running_worker(seed: int = 0, **properties: str) -> EmbeddedWorker:
    worker = EmbeddedWorker(seed=seed, properties=properties)
    with journal(worker).authors.asking(ConfigWritten(NAME, CONFIG), "POST from 10.0.0.1"):
        worker.create(NAME, CONFIG)
    return worker


def stored_states(log: Log) -> dict[Instance, list[tuple[str, str, int, str | None]]]:
    """Return the states of all instances in the status log, without consecutive duplicates."""
    states_by_instance: dict[Instance, list[tuple[str, str, int, str | None]]] = {}
    latest_statuses: dict[Instance, Status] = {}
    state = StatusState()
    for record in log.read(0, 100_000):
        replay = apply_status(state, [record])
        state = replay.state
        for instance, status, _ in replay.applied:
            previous_status = latest_statuses.pop(instance, None)
            last_status = status or previous_status
            if last_status is None:
                continue
            trace = None if status is None else last_status.trace
            details = (last_status.worker_id, int(last_status.generation), trace)
            entry = (REMOVED if status is None else str(last_status.state), *details)
            if not states_by_instance.setdefault(instance, []) or states_by_instance[instance][-1] != entry:
                states_by_instance[instance].append(entry)
            if status is not None:
                latest_statuses[instance] = status
    return states_by_instance


def recorded_states(
    worker: EmbeddedWorker | ClusterWorker, instance: Instance
) -> list[tuple[str, str, int, str | None]]:
    return [
        (entry.state, entry.worker_id, entry.generation, entry.trace) for entry in entries(worker, instance)
    ]
