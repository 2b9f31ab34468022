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
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, assert_never

from actors.mailbox import Reply
from actors.messages.herder import (
    Appended,
    AppendFailed,
    AssignmentReceived,
    AwaitLive,
    Began,
    CreateConnector,
    DeleteConnector,
    HerderMessage,
    HideRestarting,
    InstanceChanged,
    KafkaClusterFound,
    PatchConfig,
    Ping,
    PutConfig,
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
)
from actors.messages.stores import Replay
from actors.messages.worker import ReportWork
from actors.requests import Command, Requests
from actors.restarts import Restarts
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
from kraal.cluster.work import Assignment, adopted_restarts
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


@dataclass(slots=True, kw_only=True)
class _Start:
    """What a starting herder still waits for."""

    number: int
    behind: set[str] = field(default_factory=lambda: {"config", "status"})
    report: Mapping[Instance, InstanceChanged] | None = None


class Herder:
    """Dispatches, and carries out what `kraal.cluster` decided."""

    def __init__(self, *, herd: Herd, membership: Membership) -> None:
        self._herd = herd
        self._membership = membership
        self._book = StatusBook(herd)
        self._restarts = Restarts(herd, self._book)
        self._requests = Requests(herd, self._restarts, self._book)
        self._start = _Start(number=herd.waits.token() + 1)
        self._read_up_to = {"config": 0, "status": 0}
        self._startup_done = herd.snapshot.ready
        self._assigned_once = False
        self._touched: set[ConnectorName] = set()
        """Connectors whose tasks changed since the last assignment."""
        self._early: list[tuple[Command, Reply[Any]]] = []
        """Commands that came before the logs were read."""
        self._waiting: list[tuple[bool, Reply[None]]] = []
        """Who waits for the start: to its end with the command line's connectors, or not."""
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
            case Began():
                self._began(message.address)
            case InstanceChanged():
                self._instance_changed(message)
            case TaskConfigsMade():
                self._task_configs(message)
            case TopicsSeen():
                self._book.topics_seen(message)
            case AssignmentReceived():
                self._assigned(message)
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
                replay = Replay(self._start.number)
                self._herd.links.config_reader.tell(replay)
                self._herd.links.status_reader.tell(replay)
                self._herd.links.worker.tell(ReportWork())
            case WorkerReport():
                self._reported(message.running)
            case KafkaClusterFound():
                self._herd.update(kafka_cluster_id=message.cluster_id)
            case StartupDone():
                self._startup_done = True
                self._maybe_ready()
            case AwaitLive():
                return self._when_ready(startup_done=False)
            case Ping():
                return self._when_ready(startup_done=True)
            case ShutDown():
                return self._shut_down()
        return None

    def _maybe_live(self) -> None:
        """With both logs read and the worker's report, begin to act."""
        report, herd = self._start.report, self._herd
        if herd.live or self._start.behind or report is None:
            return
        running = {i: fact.incarnation for i, fact in report.items()}
        herd.restart_counts.update(adopted_restarts(running, herd.snapshot.config))
        herd.adopt(report)
        herd.live = True
        herd.update()
        self._book.begin(report)
        self._membership.work_changed()

    def _reported(self, running: Mapping[Instance, InstanceChanged]) -> None:
        """The worker said what runs: at our start, or because it or the status writer began anew."""
        if self._start.report is None:
            self._start.report = running
            self._maybe_live()
        elif self._herd.live:
            self._herd.tell_again(running)
            self._book.resume(running.values())

    def _began(self, address: Address) -> None:
        """An actor beside us began, perhaps anew: what it had in hand is lost."""
        herd, links = self._herd, self._herd.links
        if address in (links.config_reader, links.status_reader):
            topic = "config" if address is links.config_reader else "status"
            address.tell(Replay(self._start.number, self._read_up_to[topic]))
        elif address is links.config_writer:
            herd.waits.lose(StoreError("the config writer died; the record may or may not be written"))
        elif address is links.status_writer:
            herd.status_waits.lose(StoreError("the status writer died; the record may or may not be written"))
            if herd.live:
                links.worker.tell(ReportWork())
        elif address is links.validator:
            self._requests.lose_checks()

    def _maybe_ready(self) -> None:
        """Answer who waits for the start, and go on with commands that came too early."""
        if not self._assigned_once:
            return
        if self._startup_done and not self._herd.snapshot.ready:
            self._herd.update(ready=True)
        early, self._early = self._early, []
        for message, reply in early:
            self._requests.command(message, reply)
        waiting, self._waiting = self._waiting, []
        for startup_done, reply in waiting:
            if startup_done and not self._startup_done:
                self._waiting.append((startup_done, reply))
            else:
                reply.set(None)

    def _when_ready(self, *, startup_done: bool) -> Reply[None]:
        reply: Reply[None] = Reply()
        self._waiting.append((startup_done, reply))
        self._maybe_ready()
        return reply

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
        if self._assigned_once:
            self._requests.command(message, reply)
        else:
            self._early.append((message, reply))
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
        if message.replay != self._start.number:
            return
        known = self._read_up_to[message.topic]
        if (
            message.records and message.records[0].offset < known
        ):  # a reader that was told twice where to begin
            message = replace(message, records=[r for r in message.records if r.offset >= known])
        self._read_up_to[message.topic] = max(known, message.next_offset)
        if message.topic == "config":
            self._config_records(message)
        else:
            self._status_records(message)
        if message.caught_up:
            self._start.behind.discard(message.topic)
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
        if not self._assigned_once:
            self._assigned_once = True
            names = herd.told_names() | set(herd.snapshot.config.connectors)
        herd.apply_wanted(names)
        if message.is_leader:
            self._book.sweep()
        self._maybe_ready()

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
