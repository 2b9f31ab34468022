"""The herder: the only actor that changes cluster state.

REST commands, records of the internal topics, assignments and facts from the worker are messages in one queue, which
serializes them; Connect uses a tick thread and locks. The herder never blocks: it decides with pure
functions of `kraal.cluster`, sends messages to other actors, and completes a request when the record that it wrote
has been read back (`actors.herding.pending_writes`). After each change it publishes an immutable snapshot, which GET
requests and membership read.

When the herder starts or restarts, it requests all records from the readers and a report from the worker. It acts only
after it has received both, so that it adopts running instances instead of restarting them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, assert_never

from actors.herding.fencing_rounds import FencingRounds
from actors.herding.rebalances import Rebalances
from actors.herding.requests import Command, Requests
from actors.herding.restarts import Restarts
from actors.herding.session_keys import SessionKeys
from actors.herding.startup import Startup
from actors.herding.statuses import StatusTracker
from actors.herding.task_configs import TaskConfigs
from actors.messages.fencer import ProducersFenced
from actors.messages.herder import (
    ActorRestarted,
    Appended,
    AppendFailed,
    AssignmentReceived,
    CheckRestarts,
    CheckSessionKey,
    ClusterIdReceived,
    CompareStatuses,
    EndReached,
    GroupLost,
    HerderMessage,
    HerderTick,
    HideRestarting,
    InstanceChanged,
    Ping,
    RecordsRead,
    ShutDown,
    StartupDone,
    TaskConfigsGenerated,
    TopicsSeen,
    Validated,
    WaitUntilLive,
    WorkerReport,
    WorkRevoked,
)
from actors.messages.offsets import OffsetsFetched, OffsetsModified
from actors.messages.publisher import PublishFailed, TasksPublished
from actors.messages.stores import ClaimWrites
from actors.messages.worker import ReportWork
from actors.runtime.mailbox import Reply
from actors.runtime.system import Begin
from kraal.cluster.decisions.restart import RestartRequest
from kraal.cluster.state.config_replay import (
    ConnectorChanged,
    ConnectorRemoved,
    Event,
    LoggerChanged,
    RestartRequested,
    SessionKeyChanged,
    TargetChanged,
    TasksChanged,
    apply_config,
)
from kraal.cluster.state.status_replay import apply_status
from kraal.cluster.views.snapshot import missing_plugins
from kraal.core.errors import Fenced, StoreError, Unavailable
from kraal.core.ids import ConnectorName

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from actors.herding.state import HerderState
    from actors.membership.api import Membership
    from actors.runtime.mailbox import Address

log = logging.getLogger(__name__)

SHUTTING_DOWN = "Worker is shutting down"

_LifecycleMessage = WorkerReport | ClusterIdReceived | Begin | StartupDone | WaitUntilLive | Ping | ShutDown


class Herder:
    """Dispatches messages and carries out the decisions of `kraal.cluster`."""

    def __init__(self, *, state: HerderState, membership: Membership) -> None:
        self._state = state
        self._statuses = StatusTracker(state)
        self._rebalances = Rebalances(state, membership)
        self._restarts = Restarts(state, self._statuses)
        self._task_configs = TaskConfigs(state, self._rebalances, self._on_settled)
        self._fencings = FencingRounds(state, self._rebalances)
        self._requests = Requests(
            state, self._rebalances, self._restarts, self._statuses, self._task_configs, self._fencings
        )
        self._keys = SessionKeys(state)
        self._startup = Startup(state, self._requests.command)
        self._closing: Reply[None] | None = None
        self._missed_events: list[Event] = []
        """Restart requests and log level changes that were written while this process had no herder."""

    def receive(self, message: Command | HerderMessage | Begin) -> object:
        """Handle one message."""
        if isinstance(message, Command):
            return self._accept_command(message)
        match message:
            case RecordsRead():
                self._on_records(message)
            case Appended() | AppendFailed():
                self._on_appended(message)
            case Validated():
                self._requests.on_validated(message)
            case ActorRestarted():
                self._on_actor_restarted(message.address)
            case InstanceChanged():
                self._on_instance_changed(message)
            case TaskConfigsGenerated():
                self._task_configs.on_generated(message)
            case TasksPublished() | PublishFailed():
                self._task_configs.on_publish_result(message)
            case TopicsSeen():
                self._statuses.on_topics_seen(message)
            case AssignmentReceived() | WorkRevoked() | GroupLost() | HerderTick():
                self._on_group_message(message)
            case ProducersFenced():
                self._fencings.on_fenced(message)
            case EndReached():
                self._requests.on_end_reached(message)
            case OffsetsFetched() | OffsetsModified():
                self._requests.offsets.on_result(message)
            case CheckSessionKey():
                self._keys.on_due()
            case HideRestarting() | CompareStatuses():
                self._statuses.on_due(message)
            case CheckRestarts():
                self._run_due()
            case (
                WorkerReport()
                | ClusterIdReceived()
                | Begin()
                | StartupDone()
                | WaitUntilLive()
                | Ping()
                | ShutDown()
            ):
                return self._handle_lifecycle(message)
            case _:
                assert_never(message)
        return None

    # -- startup, shutdown, health ---------------------------------------------------------------------------

    def _handle_lifecycle(self, message: _LifecycleMessage) -> Reply[None] | None:
        match message:
            case Begin():
                self._startup.begin()
            case WorkerReport():
                self._on_report(message)
            case ClusterIdReceived():
                self._state.update(kafka_cluster_id=message.cluster_id)
            case StartupDone():
                return self._startup.on_startup_done()
            case WaitUntilLive() | Ping():
                return self._startup.when_ready(after_startup=isinstance(message, Ping))
            case ShutDown():
                return self._shut_down()
        return None

    def _go_live_if_ready(self) -> None:
        """Go live once both logs are read and the worker's report has arrived, unless plugins are missing."""
        report = self._startup.complete()
        if report is not None:
            refusal_reason = missing_plugins(self._state.snapshot)
            if refusal_reason is not None and self._state.refuse is not None:
                self._state.refuse(refusal_reason)
                return
            self._statuses.begin(report.running)
            self._restarts.resume(report.running.values())
            self._rebalances.begin()
            self._handle_config_events(self._missed_events, self._state.snapshot.config.connectors)

    def _on_report(self, report: WorkerReport) -> None:
        """Handle the worker's report on its instances."""
        if self._state.live:
            running_facts = report.running
            self._state.work.resend(running_facts)
            self._statuses.resume(running_facts.values())
            self._restarts.resume(running_facts.values())
        else:
            self._startup.on_report(report)
            self._go_live_if_ready()

    def _on_actor_restarted(self, address: Address) -> None:
        """Handle the restart of another actor, which has lost the messages that it was processing."""
        state, actors = self._state, self._state.actors
        unknown_result = StoreError(f"the {address.name} died; the record may or may not have been written")
        if address in (actors.config_reader, actors.status_reader):
            self._startup.resume_reader(address)
            self._requests.on_reader_lost()
        elif address is actors.config_writer:
            state.writes.config.fail_all(unknown_result)
        elif address is actors.status_writer:
            state.writes.on_status_writer_lost(unknown_result)
            actors.worker.tell(ReportWork())
            self._complete_pending_steps()  # steps that waited for these statuses
        elif address is actors.validator:
            self._requests.on_validator_lost()
        elif address is actors.publisher:
            self._task_configs.on_publisher_lost()
        elif address is actors.fencer:
            self._fencings.on_fencer_lost()
        elif address is actors.offset_service:
            self._requests.offsets.on_service_lost()
        elif address is actors.ledger and state.live:
            state.ledger.on_assigned(state.snapshot)

    def _shut_down(self) -> Reply[None]:
        """Release all work; the reply is set when the worker has stopped everything."""
        self._closing = reply = Reply[None]()
        self._rebalances.release_all()
        self._requests.fail_pending(Unavailable(SHUTTING_DOWN))
        self._complete_pending_steps()
        return reply

    def _complete_pending_steps(self) -> None:
        """Complete steps that waited for a stopped instance or a written status."""
        self._rebalances.confirm_stopped()
        state = self._state
        if self._closing is None:
            return
        if not state.work.announced_instances and not state.writes.has_pending_statuses:
            self._closing.set(None)

    # -- REST ----------------------------------------------------------------------------------------------

    def _accept_command(self, message: Command) -> Reply[Any]:
        if self._closing is not None:
            raise Unavailable(SHUTTING_DOWN)
        reply: Reply[Any] = Reply()
        begin = self._requests.command if self._startup.is_over else self._startup.defer
        begin(message, reply)
        return reply

    # -- the internal topics -------------------------------------------------------------------------------

    def _on_appended(self, message: Appended | AppendFailed) -> None:
        is_status_write = self._state.writes.on_append_result(message)
        if isinstance(message, AppendFailed) and isinstance(message.error, Fenced):
            self._claim()
        if is_status_write:
            if isinstance(message, AppendFailed):
                self._statuses.record_withheld()
            self._complete_pending_steps()

    def _claim(self) -> None:
        """Fence earlier leaders if this worker is the leader."""
        if self._state.settings.transactional and self._state.snapshot.is_leader:
            self._state.actors.config_writer.tell(ClaimWrites())

    def _on_records(self, message: RecordsRead) -> None:
        new_records = self._startup.drop_replayed(message)
        if new_records is None:
            return
        apply = self._apply_config_records if new_records.topic == "config" else self._apply_status_records
        apply(new_records)
        if new_records.caught_up:
            self._startup.on_caught_up(new_records.topic)
            self._go_live_if_ready()

    def _apply_config_records(self, message: RecordsRead) -> None:
        state = self._state
        connectors = state.snapshot.config.connectors
        result = apply_config(state.snapshot.config, message.records)
        state.update_config(result)
        if state.live:
            self._handle_config_events(result.events, connectors)
        else:
            self._missed_events += state.find_missed(result.events)
        state.writes.config.on_read(message.next_offset)
        if state.live:
            self._run_due()
            self._rebalances.on_config_read()

    def _run_due(self) -> None:
        """Run pending restarts and requests unless a rebalance is in progress."""
        if not self._rebalances.is_rebalancing:
            self._restarts.run_due()
            self._requests.retry_pending()

    def _handle_config_events(self, events: Sequence[Event], connectors: Collection[ConnectorName]) -> None:
        """Handle the events of live config records, and of commands that were missed before startup."""
        changed_connectors: dict[ConnectorName, None] = {}
        for event in events:
            match event:
                case ConnectorRemoved() | TasksChanged():
                    changed_connectors[event.name] = None
                    self._requests.on_settled(event.name)
                case ConnectorChanged():
                    if event.name not in connectors:
                        changed_connectors[event.name] = None
                case TargetChanged():
                    self._requests.on_settled(event.name)  # no tasks to wait for while paused or stopped
                case RestartRequested():
                    self._restarts.on_requested(
                        RestartRequest(
                            name=event.name,
                            include_tasks=event.include_tasks,
                            only_failed=event.only_failed,
                        ),
                        written_ms=event.written_ms,
                    )
                case SessionKeyChanged():
                    self._keys.check()
                case LoggerChanged():
                    self._state.loggers.set_level(event.namespace, event.level)
                case _:
                    assert_never(event)
        self._state.work.apply({e.name for e in events if isinstance(e, ConnectorChanged | TargetChanged)})
        reconfigured_connectors = {e.name for e in events if isinstance(e, TasksChanged | TargetChanged)}
        if reconfigured_connectors:
            self._task_configs.remove_stopped_tasks()
        for name in reconfigured_connectors:
            self._task_configs.recheck(name)
        if changed_connectors:
            self._rebalances.on_configs_changed(changed_connectors)

    def _apply_status_records(self, message: RecordsRead) -> None:
        state = self._state
        result = apply_status(state.snapshot.status, message.records)
        state.update_status(result)
        if state.live:
            self._statuses.read(result.changed)
        state.writes.status.on_read(message.next_offset)

    # -- work ----------------------------------------------------------------------------------------------

    def _on_group_message(self, message: AssignmentReceived | WorkRevoked | GroupLost | HerderTick) -> None:
        if isinstance(message, HerderTick):
            self._rebalances.on_tick(message.number)
            self._startup.fail_overdue()
        elif self._closing is None and self._state.live:
            match message:
                case AssignmentReceived():
                    self._on_assigned(message)
                case WorkRevoked():
                    self._rebalances.on_revoked(message)
                case GroupLost():
                    self._rebalances.on_group_lost(message.reason)
                    self._requests.retry_pending()  # pending requests fail now, because the outage may be long

    def _on_assigned(self, message: AssignmentReceived) -> None:
        was_leader = self._state.snapshot.is_leader
        self._rebalances.on_assigned(message, is_first=not self._startup.is_over)
        if message.is_leader:
            self._statuses.remove_stale(message.plan)
            self._task_configs.remove_stopped_tasks()
            self._keys.check()
            if not was_leader:
                self._claim()
        for name in () if self._startup.is_over else message.assignment.connectors:
            self._task_configs.recheck(name)  # configs generated before the assignment arrived
        if self._statuses.take_withheld():
            self._state.actors.worker.tell(ReportWork())
        self._run_due()
        self._startup.on_assigned()

    def _on_settled(self, name: ConnectorName) -> None:
        self._requests.on_settled(name)

    def _on_instance_changed(self, fact: InstanceChanged) -> None:
        if not self._state.live:  # the config is not read yet
            self._startup.on_change()
            return
        self._statuses.record(fact)
        if fact.stopped:
            self._state.work.on_instance_stopped(fact.instance)
        self._restarts.on_instance_changed(fact)
        self._requests.on_instance_changed(fact)
        if fact.stopped:
            self._complete_pending_steps()
