"""The herder's entries in the journal: records, decisions and requests, with causes and authors.

Part of the herder; runs on its thread only. The journal outlives the herder. The first herder of a process records
the configs and statuses in the logs as stored, without events. A later herder reads the same records again; it treats
records that no earlier herder has read as live records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from actors.messages.offsets import ResetOffsets
from kraal.cluster.state.config_replay import (
    ConnectorChanged,
    ConnectorRemoved,
    LoggerChanged,
    RestartRequested,
    SessionKeyChanged,
    TargetChanged,
    TasksChanged,
)
from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.core.ids import TargetState, TaskId
from kraal.core.printable import join_first
from kraal.core.traces import root_cause
from kraal.journal.authors import (
    ConfigWritten,
    ConnectorDeleted,
    InstanceRestarted,
    LoggerLevelSet,
    OffsetsChanged,
    TargetStateSet,
)
from kraal.journal.causes import Cause, Kind
from kraal.journal.configs import ConfigWrite, changed_keys
from kraal.journal.events import EventKind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from concurrent.futures import Future
    from typing import Any

    from actors.messages.herder import AssignmentReceived
    from actors.messages.offsets import AlterOffsets
    from kraal.cluster.decisions.restart import RestartRequest
    from kraal.cluster.state.config_replay import ConfigReplayResult, Event, SkippedRecord
    from kraal.cluster.state.status_replay import StatusReplayResult
    from kraal.cluster.state.statuses import StatusState
    from kraal.cluster.state.wanted_work import Assignment
    from kraal.cluster.views.snapshot import Snapshot
    from kraal.core.ids import Config, Instance, WorkerId
    from kraal.journal.authors import Effect
    from kraal.journal.journal import Journal
    from kraal.protocol.status_records import Status

_KIND_BY_TARGET = {
    TargetState.PAUSED: Kind.PAUSED,
    TargetState.STOPPED: Kind.STOPPED,
    TargetState.STARTED: Kind.RESUMED,
}
MAX_CAUSE_AGE_MS = 120_000
"""Maximum time in milliseconds between a request and the task configs that it causes."""
_MAX_SHOWN_KEYS = 10
"""Maximum number of changed keys that an event names."""
THIS_WORKER = "this worker"
ANOTHER_WORKER = "another worker"


class History:
    """Writes the journal for the herder."""

    def __init__(self, journal: Journal, *, worker_id: WorkerId, standalone: bool) -> None:
        """`journal` outlives the herder."""
        self._journal = journal
        self._worker_id = worker_id
        self._is_standalone = standalone

    # -- records of the logs ---------------------------------------------------------------------------------

    def record_configs(self, result: ConfigReplayResult, statuses: StatusState) -> None:
        """Record changes of the config log. The first herder of a process records the stored state, without events.

        `statuses`: statuses of the instances that the events refer to.
        """
        journal = self._journal
        if not journal.enabled:
            return
        next_offset = journal.config_offset
        for event in result.events:
            if next_offset is None:
                self._record_replayed(event)
            elif event.offset >= next_offset:
                self._record_change(event, statuses)
        if next_offset is not None:
            journal.config_offset = max(next_offset, result.state.offset)

    def record_statuses(self, result: StatusReplayResult, *, is_live: bool) -> None:
        """Record statuses read from the log; during a replay, only statuses that no earlier herder has read."""
        journal = self._journal
        if not journal.enabled:
            return
        for instance, status, at_ms in result.applied:
            if is_live:
                self._record_forwarded_restart(instance, status)
                journal.record_state(instance, status, at_ms)
            elif journal.status_replayed:
                journal.states.replay(instance, status, at_ms)

    def record_skipped(self, topic: str, records: Sequence[SkippedRecord]) -> None:
        """Record an event for each invalid record of a log."""
        for record in records:
            self._journal.record_event(
                EventKind.WORKER, f"Skipped an invalid record of the {topic} log: {record}"
            )

    def record_live(self, snapshot: Snapshot) -> None:
        """Record that both logs have been read to their ends."""
        journal = self._journal
        if not journal.enabled:
            return
        journal.record_replayed_states(dict(_iterate_statuses(snapshot.status)))
        if journal.config_offset is None:
            count = len(snapshot.config.connectors)
            journal.record_event(
                EventKind.WORKER, f"The worker has read its logs: {_count(count, 'connector')}"
            )
        else:
            journal.record_event(EventKind.WORKER, "The herder was restarted, and has read its logs again")
        journal.config_offset = snapshot.config.offset

    def _record_replayed(self, event: Event) -> None:
        match event:
            case ConnectorChanged():
                self._journal.configs.record_stored_config(event.name, ConfigWrite(event.written_ms))
            case ConnectorRemoved():
                self._journal.configs.drop_stored_config(event.name)
            case _:
                pass

    def _record_change(self, event: Event, statuses: StatusState) -> None:
        match event:
            case ConnectorChanged():
                self._record_config_change(event)
            case ConnectorRemoved():
                by = self._take_author(ConnectorDeleted(event.name))
                write = ConfigWrite(event.written_ms, by)
                self._journal.record_config(event.name, event.before, None, write)
                self._record_logged_cause(
                    _list_instances(event, statuses), Kind.DELETED, by, event.written_ms
                )
                self._journal.task_config_causes.pop(event.name, None)
                self._journal.record_event(EventKind.CONFIG, "deleted", event.name, by)
            case TargetChanged():
                by = self._take_author(TargetStateSet(event.name, event.target))
                kind = _KIND_BY_TARGET[event.target]
                cause = self._record_logged_cause(
                    _list_instances(event, statuses), kind, by, event.written_ms
                )
                if event.before is TargetState.STOPPED:  # the connector's task configs are generated again
                    self._journal.task_config_causes[event.name] = cause
                self._journal.record_event(EventKind.TARGET, cause.display_text, event.name, by)
            case TasksChanged():
                root = self._journal.task_config_causes.pop(event.name, None)
                tasks = [TaskId(event.name, number) for number in range(event.tasks)]
                if root is not None and event.written_ms - root.ms <= MAX_CAUSE_AGE_MS:
                    self._record_logged_cause(tasks, Kind.TASKS, root.by, event.written_ms, root.display_text)
                else:
                    self._record_logged_cause(tasks, Kind.TASKS, "", event.written_ms)
            case LoggerChanged():
                text = f"The level of {event.namespace} was set to {event.level}"
                self._journal.record_event(
                    EventKind.LOGGER, text, by=self._take_author(LoggerLevelSet(event.namespace))
                )
            case RestartRequested() | SessionKeyChanged():
                pass  # see `record_restart_request`
            case _:
                assert_never(event)

    def _record_config_change(self, event: ConnectorChanged) -> None:
        name = event.name
        by = self._take_author(ConfigWritten(name, event.config))
        write = ConfigWrite(event.written_ms, by)
        self._journal.record_config(name, event.before, event.config, write)
        kind = Kind.CREATED if event.before is None else Kind.CONFIG
        self._journal.task_config_causes[name] = self._record_logged_cause([name], kind, by, event.written_ms)
        self._journal.record_event(EventKind.CONFIG, _config_text(event.before, event.config), name, by)

    def _record_forwarded_restart(self, instance: Instance, status: Status | None) -> None:
        """Record the cause of a restart on another worker if this worker forwarded the request.

        A forwarded restart leaves no record in the config log.
        """
        if status is None or status.worker_id == self._worker_id:
            return
        if self._journal.states.find_pending_cause(instance, self._journal.now_ms()) is None:
            by = self._journal.authors.take(InstanceRestarted(instance))
            if by is not None:
                self._record_cause([instance], Kind.RESTART, by)

    # -- restarts --------------------------------------------------------------------------------------------

    def record_restart_request(
        self, request: RestartRequest, instances: Collection[Instance], *, written_ms: int
    ) -> None:
        """Record a KIP-745 request read from the config log, and the instances that it restarts."""
        effect = InstanceRestarted(request.name, request.include_tasks, request.only_failed)
        by = self._take_author(effect)
        self._record_logged_cause(instances, Kind.RESTART, by, written_ms)
        noun = "failed instance" if request.only_failed else "instance"
        self._journal.record_event(
            EventKind.RESTART, f"restart of {_count(len(instances), noun)} requested", request.name, by
        )

    def record_restart(self, instance: Instance) -> None:
        """Record the restart of a single instance of this worker."""
        by = self._journal.authors.take(InstanceRestarted(instance)) or ""
        self._record_cause([instance], Kind.RESTART, by)
        self._journal.record_event(EventKind.RESTART, "restart requested", instance, by)

    def record_automatic_restart(
        self, instance: Instance, number: int, max_restarts: int, window_s: float, trace: str
    ) -> None:
        """Record an automatic restart, the `number`-th within the window."""
        text = f"automatic restart {number} of at most {max_restarts} within {window_s:g} s"
        self._record_cause([instance], Kind.AUTO_RESTART, THIS_WORKER, text)
        self._journal.record_event(
            EventKind.AUTO_RESTART, f"{text}: {root_cause(trace)}", instance, THIS_WORKER
        )

    def record_restarts_exhausted(self, instance: Instance, reason: str, trace: str) -> None:
        """Record that a failed instance is no longer restarted."""
        self._journal.record_event(
            EventKind.GIVEN_UP, f"{reason} ({root_cause(trace)})", instance, THIS_WORKER
        )

    # -- the group and the worker ------------------------------------------------------------------------------

    def record_rebalance(self, message: AssignmentReceived) -> None:
        """Record a rebalance. No-op in standalone mode."""
        if self._is_standalone:
            return
        reason = "" if message.plan is None else message.plan.why
        self._journal.record_rebalance_reason(message.generation, reason)
        assignment = message.assignment
        connectors = _count(len(assignment.connectors), "connector")
        tasks = _count(len(assignment.tasks), "task")
        text = f"generation {message.generation}: {connectors} and {tasks} here"
        leader = THIS_WORKER if message.is_leader else message.leader_url or "unknown"
        self._journal.record_event(
            EventKind.REBALANCE, f"{text}; leader: {leader}{f'; reason: {reason}' if reason else ''}"
        )

    def record_revocation(self, before: Assignment, after: Assignment) -> None:
        """Record the instances that a rebalance revokes, except those stopped by a request."""
        now_ms = self._journal.now_ms()
        revoked_instances: list[Instance] = [
            *(before.connectors - after.connectors),
            *(before.tasks - after.tasks),
        ]
        unexplained_instances = [
            instance
            for instance in revoked_instances
            if self._journal.states.find_pending_cause(instance, now_ms) is None
        ]
        self._record_cause(unexplained_instances, Kind.REVOKED, "")

    def record_group_loss(self, reason: str) -> None:
        """Record the loss of group membership."""
        self._journal.record_event(EventKind.REBALANCE, f"lost membership of the group: {reason}")

    def record_closing(self, instances: Iterable[Instance]) -> None:
        """Record the shutdown of this worker."""
        self._record_cause(instances, Kind.CLOSING, "")
        self._journal.record_event(EventKind.WORKER, "The worker is shutting down")

    def record_orphaned_instance(self, instance: Instance) -> None:
        """Record that an earlier process of this worker exited without stopping an instance."""
        self._record_cause([instance], Kind.ORPHANED, "")

    def record_offset_request(self, message: AlterOffsets | ResetOffsets, result: Future[Any]) -> None:
        """Record an offset request once it succeeds."""

        def record_result(_: Future[Any]) -> None:
            if result.exception() is None:
                text = "offsets reset" if isinstance(message, ResetOffsets) else "offsets altered"
                by = self._journal.authors.take(OffsetsChanged(message.name)) or ""
                self._journal.record_event(EventKind.OFFSETS, text, message.name, by)

        result.add_done_callback(record_result)

    def _take_author(self, effect: Effect) -> str:
        """Remove and return the author of this effect; in a cluster, an unknown author is another worker."""
        return self._journal.authors.take(effect) or ("" if self._is_standalone else ANOTHER_WORKER)

    def _record_cause(self, instances: Iterable[Instance], kind: Kind, by: str, text: str = "") -> None:
        """Record a cause that originates on this worker now."""
        self._journal.record_cause(instances, Cause(kind, by, self._journal.now_ms(), text))

    def _record_logged_cause(
        self, instances: Iterable[Instance], kind: Kind, by: str, written_ms: int, text: str = ""
    ) -> Cause:
        """Record and return a cause read from a log; the states that it causes may have been recorded before."""
        has_time = written_ms >= 0
        cause = Cause(kind, by, written_ms if has_time else self._journal.now_ms(), text)
        self._journal.record_cause(instances, cause, amends=has_time)
        return cause


def _list_instances(event: ConnectorRemoved | TargetChanged, statuses: StatusState) -> list[Instance]:
    """Return the connector and its tasks, including removed tasks that still have a status."""
    stored_tasks = statuses.statuses.get(event.name, ConnectorStatuses()).tasks
    return [event.name, *(TaskId(event.name, number) for number in {*range(event.tasks), *stored_tasks})]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _iterate_statuses(state: StatusState) -> Iterable[tuple[Instance, Status]]:
    for name, statuses in state.statuses.items():
        if statuses.connector is not None:
            yield name, statuses.connector
        for number, status in statuses.tasks.items():
            yield TaskId(name, number), status


def _config_text(before: Config | None, after: Config) -> str:
    """Describe a config change without its values."""
    if before is None:
        return "created"
    keys = changed_keys(before, after)
    if not keys:
        return "config rewritten without changes"
    return f"config changed: {join_first(keys, _MAX_SHOWN_KEYS)}"
