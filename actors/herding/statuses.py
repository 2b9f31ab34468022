"""Writes facts about instances as status records, and tracks displayed states until the records are read back.

Part of the herder; runs on its thread only. `kraal.cluster.state.status_replay` decides which records may be written.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.messages.herder import CompareStatuses, HideRestarting, InstanceChanged, TopicsSeen
from actors.messages.worker import ReportWork
from kraal.cluster.assignment.unassigned import Wait, format_instances, waiting_reason
from kraal.cluster.state.cluster_state import ClusterState
from kraal.cluster.state.status_replay import (
    find_status,
    reset_topics,
    stale_statuses,
    stale_topics,
    status_entries,
    tombstones,
    topic_entry,
)
from kraal.cluster.state.statuses import StatusState
from kraal.core.ids import ConnectorName, Instance, State, TaskId, TopicName, get_connector
from kraal.core.records import Entry
from kraal.protocol.status_records import Status, status_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from actors.herding.state import HerderState
    from actors.runtime.mailbox import Reply
    from kraal.cluster.assignment.leader import GroupPlan
    from kraal.protocol.group import ConnectorOrTask

log = logging.getLogger(__name__)

COMPARE_DELAY_S = 2.0
"""Delay before a suspect status is compared with the instance, whose own record has usually been read by then."""


class StatusTracker:
    """Writes statuses and topics; tracks instances shown as RESTARTING."""

    def __init__(self, state: HerderState) -> None:
        self._state = state
        self._restarting: set[Instance] = set()
        """Instances restarted by a KIP-745 request or automatically; their next stop is shown as RESTARTING."""
        self._clean_states = (ClusterState(), StatusState())
        """The last states without stale statuses."""
        self._unlisted_connectors_and_tasks: frozenset[ConnectorOrTask] = frozenset()
        """Connectors and tasks that no worker may run, as of the last check; a log line is written for new ones."""
        self._has_withheld_status = False
        """Whether a status was not written for lack of a lease."""
        self._is_comparison_scheduled = False
        """Whether a comparison of statuses is scheduled."""
        self._pending_topics: set[tuple[ConnectorName, TopicName]] = set()
        self._restart_callbacks: list[tuple[frozenset[Instance], Callable[[], None]]] = []
        """Callbacks that wait until these instances are no longer shown as RESTARTING."""
        self._resets: list[tuple[ConnectorName, frozenset[TopicName], Reply[None]]] = []
        """Requests with their topics; a request completes when the snapshot contains none of its topics."""

    def begin(self, report: Mapping[Instance, InstanceChanged]) -> None:
        """Correct the stored statuses and topics when the herder goes live.

        Instances of an earlier process of this worker that no longer run become UNASSIGNED, and topics of deleted
        connectors are removed. `report`: facts about the running instances.
        """
        # Left over from a previous herder; the records that clear them may already have been replayed.
        self.hide_restarting(self._state.snapshot.restarting)
        for name, stored_statuses in self._state.snapshot.status.statuses.items():
            tasks: dict[Instance, Status] = {TaskId(name, n): s for n, s in stored_statuses.tasks.items()}
            statuses = (
                tasks if stored_statuses.connector is None else {name: stored_statuses.connector, **tasks}
            )
            for instance, status in statuses.items():
                is_local = status.worker_id == self._state.settings.worker_id
                if is_local and instance not in report and status.state is not State.UNASSIGNED:
                    self._state.history.record_orphaned_instance(instance)
                    self._state.writes.write_status(self._entries(instance, State.UNASSIGNED))
        self._state.writes.write_status(
            stale_topics(self._state.snapshot.config, self._state.snapshot.status)
        )
        self.resume(report.values())

    def resume(self, facts: Iterable[InstanceChanged]) -> None:
        """Write the facts that differ from the stored statuses. Tasks report unstored topics again."""
        self._pending_topics.clear()
        worker_id = self._state.settings.worker_id
        for fact in facts:
            stored_status = find_status(self._state.snapshot.status, fact.instance)
            stored_fact = (
                None
                if stored_status is None
                else (stored_status.state, stored_status.trace, stored_status.worker_id)
            )
            if (fact.state, fact.trace) == (State.UNASSIGNED, None):
                if stored_fact == (State.RESTARTING, None, worker_id):
                    continue  # its restart is in progress
                if stored_status is None and not fact.stopped:
                    continue  # it is starting; as in Connect, its first status is RUNNING
            if stored_fact != (fact.state, fact.trace, worker_id):
                self.record(fact)

    def record_withheld(self) -> None:
        """Record that a status could not be written; the next assignment or comparison triggers another attempt."""
        self._has_withheld_status = True
        self._compare_later()

    def on_due(self, message: HideRestarting | CompareStatuses) -> None:
        """Handle a timer message."""
        if isinstance(message, HideRestarting):
            self.hide_restarting(message.instances)
        else:
            self._compare()

    def _compare(self) -> None:
        """Request a report from the worker to rewrite differing statuses; without a lease, retry later."""
        self._is_comparison_scheduled = False
        if self._state.lease():
            self._state.actors.worker.tell(ReportWork())
        else:
            self._compare_later()

    def _compare_later(self) -> None:
        if not self._is_comparison_scheduled:
            self._is_comparison_scheduled = True
            self._state.clock.after(COMPARE_DELAY_S, self._state.actors.herder, CompareStatuses())

    def take_withheld(self) -> bool:
        """Return whether a status was withheld for lack of a lease since the last call."""
        has_withheld_status, self._has_withheld_status = self._has_withheld_status, False
        return has_withheld_status

    def mark_restarting(self, instances: Iterable[Instance]) -> None:
        """Show the next stop of these instances as RESTARTING, not UNASSIGNED."""
        self._restarting.update(instances)

    def show_restarting(self, instances: Iterable[Instance]) -> None:
        """Show these instances as RESTARTING (KIP-745)."""
        restarting = self._state.snapshot.restarting | frozenset(instances)
        if restarting != self._state.snapshot.restarting:
            self._state.update(restarting=restarting)

    def hide_restarting(self, instances: Iterable[Instance]) -> None:
        """Stop showing these instances as RESTARTING."""
        restarting = self._state.snapshot.restarting - frozenset(instances)
        if restarting != self._state.snapshot.restarting:
            self._state.update(restarting=restarting)
        self._complete_restarts()

    def when_not_restarting(self, instances: Iterable[Instance], done: Callable[[], None]) -> None:
        """Call `done` once none of `instances` is shown as RESTARTING."""
        self._restart_callbacks.append((frozenset(instances), done))
        self._complete_restarts()

    def _complete_restarts(self) -> None:
        callbacks, self._restart_callbacks = self._restart_callbacks, []
        for instances, callback in callbacks:
            if any(map(self._is_restarting, instances)):
                self._restart_callbacks.append((instances, callback))
            else:
                callback()

    def _is_restarting(self, instance: Instance) -> bool:
        snapshot = self._state.snapshot
        stored_status = find_status(snapshot.status, instance)
        return instance in snapshot.restarting or (
            stored_status is not None and stored_status.state is State.RESTARTING
        )

    def record(self, fact: InstanceChanged) -> None:
        """Write the status of an instance.

        Nothing is written without a lease, because another worker may own the instance and report its status.
        """
        if not self._state.lease():
            self.record_withheld()
            return
        instance = fact.instance
        name = get_connector(instance)
        entry = self._state.snapshot.config.connectors.get(name)
        if entry is None or (isinstance(instance, TaskId) and instance.task >= len(entry.tasks)):
            if fact.stopped:
                self._delete_status(instance, is_connector_removed=entry is None)
            return
        state = fact.state
        if (
            fact.stopped
            and instance in self._restarting
            and instance in self._state.work.wanted_instances(name)
        ):
            state = State.RESTARTING
        elif not fact.stopped:
            self._restarting.discard(instance)
        entries = self._entries(instance, state, trace=fact.trace, version=fact.version)
        self._state.writes.write_status(entries, leased=True)

    def _entries(
        self, instance: Instance, state: State, *, trace: str | None = None, version: str | None = None
    ) -> Sequence[Entry]:
        """Return the record of a status reported by this worker; empty if a newer owner's status takes precedence."""
        herder_state = self._state
        status = Status(
            state=state,
            worker_id=herder_state.settings.worker_id,
            generation=herder_state.snapshot.generation,
            trace=trace,
            version=version,
        )
        return status_entries(herder_state.snapshot.status, instance, status)

    def remove_stale(self, plan: GroupPlan | None) -> None:
        """As leader, remove statuses of connectors and tasks that the config does not contain.

        Also write UNASSIGNED with the reason for work that no worker may run (KIP-987), because no worker reports it.
        """
        snapshot = self._state.snapshot
        stale_keys = stale_statuses(snapshot.config, snapshot.status, clean_states=self._clean_states)
        self._state.writes.write_status(tombstones(stale_keys))
        if not stale_keys:
            self._clean_states = (snapshot.config, snapshot.status)
        self._write_waiting_reasons({} if plan is None else plan.waiting)

    def _write_waiting_reasons(self, waiting: Mapping[ConnectorOrTask, Wait]) -> None:
        """Write the reasons why connectors and tasks are not assigned.

        As in Connect, those that wait briefly or for a lost worker keep their status.
        """
        reasons = {
            connector_or_task: waiting_reason(connector_or_task, wait)
            for connector_or_task, wait in waiting.items()
            if wait is Wait.UNLISTED
        }
        status, entries = self._state.snapshot.status, list[Entry]()
        for connector_or_task, reason in reasons.items():
            stored_status = find_status(status, connector_or_task.instance)
            if stored_status is None or (stored_status.state, stored_status.trace) != (
                State.UNASSIGNED,
                reason,
            ):
                entries += self._entries(connector_or_task.instance, State.UNASSIGNED, trace=reason)
        self._state.writes.write_status(entries, leased=True)
        if reasons.keys() - self._unlisted_connectors_and_tasks:
            log.warning(
                "No worker of the group may run %s: every worker has static assignments, and none lists them."
                " List them in static.connectors and static.tasks of workers, or start a worker without static"
                " assignments.",
                format_instances(reasons),
            )
        self._unlisted_connectors_and_tasks = frozenset(reasons)

    def on_topics_seen(self, message: TopicsSeen) -> None:
        """Write a record for each topic that is neither stored nor being written (KIP-558)."""
        name = message.task.connector
        if not self._state.settings.topic_tracking or name not in self._state.snapshot.config.connectors:
            return
        known_topics = self._state.snapshot.status.topics.get(name, frozenset())
        new_topics = [
            t for t in sorted(message.topics - known_topics) if (name, t) not in self._pending_topics
        ]
        self._pending_topics.update((name, t) for t in new_topics)
        now_ms = self._state.clock.wall_ms()
        self._state.writes.write_status(
            [topic_entry(t, message.task, discovered_ms=now_ms) for t in new_topics]
        )

    def read(self, instances: Iterable[Instance]) -> None:
        """Handle statuses that were read back; schedule a check if the status of a local instance is suspect.

        In the log, a previous owner's status or an older duplicate may follow the current status of this worker.
        """
        instances = tuple(instances)
        self.hide_restarting(instances)
        if any(map(self._is_suspect, instances)):
            self._compare_later()
        self._complete_resets()
        if self._pending_topics:
            topics = self._state.snapshot.status.topics
            self._pending_topics = {
                (name, t) for name, t in self._pending_topics if t not in topics.get(name, frozenset())
            }

    def _is_suspect(self, instance: Instance) -> bool:
        """Return whether the stored status of a local instance is UNASSIGNED or was written by another worker."""
        if instance not in self._state.work.wanted_instances(get_connector(instance)):
            return False
        stored_status = find_status(self._state.snapshot.status, instance)
        return stored_status is not None and (
            stored_status.state is State.UNASSIGNED
            or stored_status.worker_id != self._state.settings.worker_id
        )

    def reset_topics(self, name: ConnectorName, reply: Reply[None]) -> None:
        """Remove a connector's topics on request; `reply` is set when the snapshot no longer contains them."""
        snapshot = self._state.snapshot
        self._pending_topics = {(n, t) for n, t in self._pending_topics if n != name}
        self._resets.append((name, snapshot.status.topics.get(name, frozenset()), reply))
        self._state.writes.write_status(reset_topics(snapshot.status, name), reply)
        self._complete_resets()

    def _complete_resets(self) -> None:
        topics = self._state.snapshot.status.topics
        resets, self._resets = self._resets, []
        for name, topics_before, reply in resets:
            if topics_before & topics.get(name, frozenset()):
                self._resets.append((name, topics_before, reply))
            else:
                reply.set(None)

    def delete_topics(self, name: ConnectorName) -> None:
        """Delete the records of a connector's topics."""
        self._pending_topics = {(n, t) for n, t in self._pending_topics if n != name}
        self._state.writes.write_status(reset_topics(self._state.snapshot.status, name))

    def _delete_status(self, instance: Instance, *, is_connector_removed: bool) -> None:
        """Delete the status of a removed instance, and with `is_connector_removed` also the connector's topics."""
        self._restarting.discard(instance)
        self._state.writes.write_status(tombstones([status_key(instance)]))
        if is_connector_removed:
            self.delete_topics(get_connector(instance))
