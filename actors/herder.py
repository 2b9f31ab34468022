"""The only place where cluster state changes.

REST commands, records of the internal topics, assignments and facts from the worker are messages in one queue:
that is the serialisation that Connect gets from one tick thread and its locks. The herder never waits: it
decides with pure functions of `kraal.cluster`, tells others to act, and goes on with a request when the record
that it wrote has come back (`actors.waits`). After each change it publishes an immutable snapshot, which GETs
and membership read.

Started (again), it asks the readers for everything, and the worker for what runs; only with both does it act,
so what runs is adopted, not restarted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, assert_never

from actors.mailbox import Reply
from actors.messages.herder import (
    Appended,
    AppendFailed,
    AssignmentReceived,
    AwaitLive,
    CreateConnector,
    DeleteConnector,
    GroupLost,
    HerderMessage,
    HerderTick,
    HideRestarting,
    InstanceChanged,
    KafkaClusterFound,
    PatchConfig,
    Ping,
    PutConfig,
    Reborn,
    RecordsRead,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SetTargetState,
    ShutDown,
    StartupDone,
    TaskConfigsMade,
    TopicsSeen,
    Validated,
    WorkerReport,
    WorkRevoked,
)
from actors.messages.worker import ReportWork
from actors.requests import Command, Requests
from actors.restarts import Restarts
from actors.start import Start
from actors.statuses import StatusBook
from actors.system import Begin
from kraal.cluster.reduce import (
    ConnectorChanged,
    ConnectorRemoved,
    Event,
    RestartRequested,
    Skipped,
    TargetChanged,
    TasksChanged,
    apply_config,
)
from kraal.cluster.restart import RestartRequest
from kraal.cluster.statuses import apply_status
from kraal.cluster.tasks import should_publish, task_config_entries
from kraal.cluster.work import Assignment
from kraal.errors import StoreError, Unavailable
from kraal.ids import ConnectorName, Instance

if TYPE_CHECKING:
    from collections.abc import Sequence

    from actors.alone import Membership
    from actors.herd import Herd
    from actors.mailbox import Address

log = logging.getLogger(__name__)

KEEP_SKIPPED = 20
TASK_CONFIGS_RETRY_S = 1.0


class Herder:
    """Dispatches, and carries out what `kraal.cluster` decided."""

    def __init__(self, *, herd: Herd, membership: Membership) -> None:
        self._herd = herd
        self._membership = membership
        self._book = StatusBook(herd)
        self._restarts = Restarts(herd, self._book)
        self._requests = Requests(herd, self._restarts, self._book)
        self._start = Start(herd, self._requests.command)
        self._touched: set[ConnectorName] = set()
        """Connectors whose tasks changed since the last assignment."""
        self._closing: Reply[None] | None = None

    def receive(self, message: HerderMessage | Begin) -> object:
        """Handle one message."""
        match message:
            case (
                CreateConnector()
                | PutConfig()
                | PatchConfig()
                | DeleteConnector()
                | SetTargetState()
                | RestartConnector()
                | RestartTask()
                | ResetTopics()
            ):
                return self._command(message)
            case RecordsRead():
                self._records(message)
            case Appended() | AppendFailed():
                self._written(message)
            case Validated():
                self._requests.validated(message)
            case Reborn():
                self._reborn(message.address)
            case InstanceChanged():
                self._instance_changed(message)
            case TaskConfigsMade():
                self._task_configs(message)
            case TopicsSeen():
                self._book.topics_seen(message)
            case AssignmentReceived():
                self._assigned(message)
            case WorkRevoked():
                self._herd.apply_wanted(self._herd.assign(message.keep))
            case GroupLost():
                self._herd.update(leader_url=None, is_leader=False)
            case HerderTick():
                self._membership.alive(message.number)
            case HideRestarting():
                self._book.hide_restarting(message.instances)
            case (
                WorkerReport()
                | KafkaClusterFound()
                | Begin()
                | StartupDone()
                | AwaitLive()
                | Ping()
                | ShutDown()
            ):
                return self._life(message)
            case _:
                assert_never(message)
        return None

    # -- start, end, health --------------------------------------------------------------------------------

    def _life(
        self, message: WorkerReport | KafkaClusterFound | Begin | StartupDone | AwaitLive | Ping | ShutDown
    ) -> Reply[None] | None:
        match message:
            case Begin():
                self._start.begin()
            case WorkerReport():
                self._reported(message.running)
            case KafkaClusterFound():
                self._herd.update(kafka_cluster_id=message.cluster_id)
            case StartupDone():
                self._start.startup_done()
            case AwaitLive():
                return self._start.when_ready(with_files=False)
            case Ping():
                return self._start.when_ready(with_files=True)
            case ShutDown():
                return self._shut_down()
        return None

    def _maybe_live(self) -> None:
        """With both logs read and the worker's report, begin to act."""
        report = self._start.complete()
        if report is not None:
            self._book.begin(report)
            self._membership.work_changed()

    def _reported(self, running: Mapping[Instance, InstanceChanged]) -> None:
        """The worker said what runs: at our start, or because it or the status writer began anew."""
        if self._herd.live:
            self._herd.tell_again(running)
            self._book.resume(running.values())
        else:
            self._start.reported(running)
            self._maybe_live()

    def _reborn(self, address: Address) -> None:
        """An actor beside us was restarted: what it had in hand is lost."""
        herd, links = self._herd, self._herd.links
        unknown = StoreError(f"the {address.name} died; the record may or may not be written")
        if address in (links.config_reader, links.status_reader):
            self._start.read_on(address)
        elif address is links.config_writer:
            herd.waits.lose(unknown)
        elif address is links.status_writer:
            herd.status_waits.lose(unknown)
            links.worker.tell(ReportWork())
        elif address is links.validator:
            self._requests.lose_checks()

    def _shut_down(self) -> Reply[None]:
        """Want nothing any more; answered when the worker has stopped everything."""
        reply: Reply[None] = Reply()
        self._closing = reply
        self._herd.assignment = Assignment()
        self._herd.apply_wanted(self._herd.told_names())
        self._maybe_closed()
        return reply

    def _maybe_closed(self) -> None:
        if self._closing is not None and not self._herd.told:
            self._closing.set(None)

    # -- REST ----------------------------------------------------------------------------------------------

    def _command(self, message: Command) -> Reply[Any]:
        if self._closing is not None:
            raise Unavailable("Worker is shutting down")
        reply: Reply[Any] = Reply()
        if self._start.over:
            self._requests.command(message, reply)
        else:
            self._start.keep(message, reply)
        return reply

    # -- the internal topics -------------------------------------------------------------------------------

    def _written(self, message: Appended | AppendFailed) -> None:
        herd = self._herd
        for waits in (herd.waits, herd.status_waits):
            if isinstance(message, AppendFailed):
                waits.failed(message.token, StoreError(str(message.error)))
            else:
                waits.appended(message.token, message.offset)

    def _records(self, message: RecordsRead) -> None:
        fresh = self._start.fresh(message)
        if fresh is None:
            return
        if fresh.topic == "config":
            self._config_records(fresh)
        else:
            self._status_records(fresh)
        if fresh.caught_up:
            self._start.caught_up(fresh.topic)
            self._maybe_live()

    def _config_records(self, message: RecordsRead) -> None:
        herd = self._herd
        reduced = apply_config(herd.snapshot.config, message.records)
        names = {e.name for e in reduced.events if isinstance(e, ConnectorChanged | ConnectorRemoved)}
        herd.update_config(reduced.state, names)
        self._skip("config", reduced.skipped)
        if herd.live:
            self._events(reduced.events)
        herd.waits.read(message.next_offset)
        if herd.live:
            self._restarts.run_due()

    def _events(self, events: Sequence[Event]) -> None:
        """React to what changed; records that were there at start-up come as state only."""
        work_changed = False
        for event in events:
            match event:
                case ConnectorRemoved() | TasksChanged():
                    work_changed = True
                    self._touched.add(event.name)
                    self._requests.settled(event.name)
                case ConnectorChanged():
                    work_changed = work_changed or event.name not in self._herd.assignment.connectors
                case TargetChanged():
                    pass
                case RestartRequested():
                    self._restarts.requested(
                        RestartRequest(
                            name=event.name,
                            include_tasks=event.include_tasks,
                            only_failed=event.only_failed,
                        )
                    )
                case _:
                    log.debug("nothing to do for %r", event)
        self._herd.apply_wanted({e.name for e in events if isinstance(e, ConnectorChanged | TargetChanged)})
        if work_changed:
            self._membership.work_changed()

    def _status_records(self, message: RecordsRead) -> None:
        herd = self._herd
        reduced = apply_status(herd.snapshot.status, message.records)
        herd.update(status=reduced.state)
        self._skip("status", reduced.skipped)
        if herd.live:
            self._book.read(reduced.changed)
        herd.status_waits.read(message.next_offset)

    def _skip(self, topic: str, records: Sequence[Skipped]) -> None:
        if records:
            for record in records:
                log.error("the %s log has a record that is skipped: %s", topic, record)
            skipped = (*self._herd.snapshot.skipped, *(f"{topic}@{r}" for r in records))
            self._herd.update(skipped=skipped[-KEEP_SKIPPED:])

    # -- work ----------------------------------------------------------------------------------------------

    def _assigned(self, message: AssignmentReceived) -> None:
        herd = self._herd
        if self._closing is not None or not herd.live:
            return
        names, self._touched = self._touched | herd.assign(message.assignment), set()
        herd.update(generation=message.generation, leader_url=message.leader_url)
        if not self._start.over:
            names = herd.told_names() | set(herd.snapshot.config.connectors)
        herd.apply_wanted(names)
        if message.is_leader:
            self._book.sweep()
        self._start.assigned()

    def _instance_changed(self, fact: InstanceChanged) -> None:
        self._book.record(fact)
        if fact.stopped:
            self._herd.gone(fact.instance)
        self._restarts.heard(fact)
        self._requests.heard(fact)
        self._maybe_closed()

    def _task_configs(self, message: TaskConfigsMade) -> None:
        """Publish task configs where they differ; the leader writes, and standalone always leads."""
        entry = self._herd.snapshot.config.connectors.get(message.name)
        wanted = self._herd.wanted(message.name).get(message.name)
        if entry is None or wanted is None or wanted.incarnation != message.incarnation:
            return
        if not should_publish(entry, message.configs):
            self._requests.settled(message.name)
            return
        reply: Reply[None] = Reply()
        entries = task_config_entries(message.name, message.configs)
        self._herd.write_config(entries, reply, lambda: reply.set(None))
        reply.future.add_done_callback(lambda f: self._try_again(message, f.exception()))

    def _try_again(self, message: TaskConfigsMade, error: BaseException | None) -> None:
        if error is not None:
            log.error("could not write the task configs of %s, trying again: %s", message.name, error)
            self._herd.clock.after(TASK_CONFIGS_RETRY_S, self._herd.links.herder, message)
