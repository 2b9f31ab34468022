"""The herder's startup: the state that the herder needs before it acts, and the requests that wait for the startup.

Part of the herder; runs on its thread only. At startup, the herder requests a replay of both logs and a report from the
worker. Once it has received all of them, the herder is *live*. The first assignment completes the startup: from then
on, the herder executes commands, the deferred ones first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from actors.messages.herder import RecordsRead, WorkerReport
from actors.messages.stores import Replay
from actors.messages.worker import ReportWork
from actors.runtime.mailbox import Reply
from kraal.cluster.state.wanted_work import adopted_restarts
from kraal.core.errors import Unavailable

if TYPE_CHECKING:
    from actors.herding.requests import Command
    from actors.herding.state import HerderState
    from actors.runtime.mailbox import Address

DEFERRED_COMMAND_TIMEOUT_S = 20.0
"""Timeout of a command while the worker stays out of the group because its engine is not ready."""
RETRY_AFTER_S = 5


class Startup:
    """State from the herder's first message to its first assignment, and the positions of its readers."""

    def __init__(self, state: HerderState, run_command: Callable[[Command, Reply[Any]], None]) -> None:
        """`run_command` executes a command that arrived during startup."""
        self._state = state
        self._run_command = run_command
        self._number = state.writes.next_token()
        self._read_up_to = {"config": 0, "status": 0}
        self._unread_topics = {"config", "status"}
        self._report: WorkerReport | None = None
        self._deferred: list[tuple[float, Command, Reply[Any]]] = []
        """Commands that arrived during startup, with their arrival times."""
        self._waiting_replies: list[tuple[bool, Reply[None]]] = []
        self.is_over = False
        """Whether work was assigned, so that commands are accepted."""

    def begin(self) -> None:
        """Request a replay of both logs and the worker's report."""
        for reader in (self._state.actors.config_reader, self._state.actors.status_reader):
            reader.tell(Replay(self._number))
        self._state.actors.worker.tell(ReportWork())

    def resume_reader(self, reader: Address) -> None:
        """Send a restarted reader the offset at which it continues."""
        topic = "config" if reader is self._state.actors.config_reader else "status"
        reader.tell(Replay(self._number, self._read_up_to[topic]))

    def drop_replayed(self, message: RecordsRead) -> RecordsRead | None:
        """Return the records that were not received before; None for a message of an older herder's replay."""
        if message.replay != self._number:
            return None
        next_offset = self._read_up_to[message.topic]
        self._read_up_to[message.topic] = max(next_offset, message.next_offset)
        if message.records and message.records[0].offset < next_offset:
            return replace(message, records=[r for r in message.records if r.offset >= next_offset])
        return message

    def on_caught_up(self, topic: str) -> None:
        """Record that a log was read to its end as of the start of the replay."""
        self._unread_topics.discard(topic)

    def on_report(self, report: WorkerReport) -> None:
        """Store the worker's report."""
        self._report = report

    def on_change(self) -> None:
        """Request a new report after an instance has changed."""
        if self._report is not None:  # otherwise the pending report includes the change
            self._report = None
            self._state.actors.worker.tell(ReportWork())

    def complete(self) -> WorkerReport | None:
        """Go live once the replay and the report are complete; return the report.

        Returns None if the herder does not go live now.
        """
        state, report = self._state, self._report
        if state.live or self._unread_topics or report is None:
            return None
        running_incarnations = {instance: fact.incarnation for instance, fact in report.running.items()}
        for instance, restarts in adopted_restarts(running_incarnations, state.snapshot.config).items():
            # An earlier herder may have counted one more restart and died before the worker started it.
            state.work.restore_restarts(instance, restarts)
        state.work.adopt(running_incarnations, report.wanted)
        state.go_live()
        state.history.record_live(state.snapshot)
        stage = state.snapshot.stage
        completed_stage = None if stage is None else replace(stage, completed_ms=state.clock.wall_ms())
        state.update(stage=completed_stage, live=True)
        self._set_ready_replies()
        return report

    def defer(self, command: Command, reply: Reply[Any]) -> None:
        """Execute a command when startup is complete."""
        self._deferred.append((self._state.clock.now(), command, reply))

    def fail_overdue(self) -> None:
        """Fail commands that have waited too long for the engine, without which the worker does not join its group."""
        reason = self._state.waiting_reason()
        if self.is_over or not self._state.live or reason is None:
            return
        overdue_s = self._state.clock.now() - DEFERRED_COMMAND_TIMEOUT_S
        for since_s, _, reply in self._deferred:
            if since_s <= overdue_s:
                text = f"This worker has not joined its group yet and cannot process requests: {reason}"
                reply.fail(Unavailable(text, retry_after_s=RETRY_AFTER_S))
        self._deferred = [entry for entry in self._deferred if entry[0] > overdue_s]

    def on_assigned(self) -> None:
        """Complete the startup after an assignment, and execute deferred commands."""
        self.is_over = True
        commands, self._deferred = self._deferred, []
        for _, command, reply in commands:
            self._run_command(command, reply)
        self._set_ready_replies()

    def on_startup_done(self) -> Reply[None]:
        """Record that the connectors given on the command line exist."""
        self._state.update(started_up=True)
        self._set_ready_replies()
        reply: Reply[None] = Reply()
        reply.set(None)
        return reply

    def when_ready(self, *, after_startup: bool) -> Reply[None]:
        """Return a reply that is set when the herder is live.

        `after_startup`: whether to wait also for the first assignment and the connectors given on the command line.
        """
        reply: Reply[None] = Reply()
        self._waiting_replies.append((after_startup, reply))
        self._set_ready_replies()
        return reply

    def _set_ready_replies(self) -> None:
        is_started = self.is_over and self._state.snapshot.started_up
        if is_started and not self._state.snapshot.ready:
            self._state.update(ready=True)
        waiting_replies, self._waiting_replies = self._waiting_replies, []
        for after_startup, reply in waiting_replies:
            if is_started if after_startup else self._state.live:
                reply.set(None)
            else:
                self._waiting_replies.append((after_startup, reply))
