"""The herder's startup: what it must know before it acts, and requests that wait for that.

Part of the herder; runs on its thread only. At each start, the herder has both logs read from their beginnings and
requests a report from the worker; with these it is *live*. The first assignment ends the startup: from then on
commands are accepted, early ones first.
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

EARLY_TIMEOUT_S = 20.0
"""Seconds that a command waits for a worker that stays out of the group because its engine does not start."""
RETRY_AFTER_S = 5


class Start:
    """State from the herder's first message to its first assignment, and the positions of its readers."""

    def __init__(self, state: HerderState, take: Callable[[Command, Reply[Any]], None]) -> None:
        """`take` carries out a command that arrived during startup."""
        self._state = state
        self._take = take
        self._number = state.writes.next_token()
        self._read_up_to = {"config": 0, "status": 0}
        self._behind = {"config", "status"}
        self._report: WorkerReport | None = None
        self._early: list[tuple[float, Command, Reply[Any]]] = []
        """Commands that arrived during startup, with the time."""
        self._waiting: list[tuple[bool, Reply[None]]] = []
        self.over = False
        """Work was assigned: commands are accepted."""

    def begin(self) -> None:
        """Request both logs and the worker's report."""
        for reader in (self._state.actors.config_reader, self._state.actors.status_reader):
            reader.tell(Replay(self._number))
        self._state.actors.worker.tell(ReportWork())

    def resume_reader(self, reader: Address) -> None:
        """Tell a restarted reader where to continue."""
        topic = "config" if reader is self._state.actors.config_reader else "status"
        reader.tell(Replay(self._number, self._read_up_to[topic]))

    def drop_seen(self, message: RecordsRead) -> RecordsRead | None:
        """Return the records that were not seen yet; None when they belong to an older herder's replay."""
        if message.replay != self._number:
            return None
        next_offset = self._read_up_to[message.topic]
        self._read_up_to[message.topic] = max(next_offset, message.next_offset)
        if message.records and message.records[0].offset < next_offset:
            return replace(message, records=[r for r in message.records if r.offset >= next_offset])
        return message

    def on_caught_up(self, topic: str) -> None:
        """Note that a log was read to the end that it had at the start of the replay."""
        self._behind.discard(topic)

    def on_report(self, report: WorkerReport) -> None:
        """Store the worker's report."""
        self._report = report

    def on_change(self) -> None:
        """Request a new report, because an instance has changed since the last one."""
        if self._report is not None:  # otherwise the worker's answer is under way, and includes the change
            self._report = None
            self._state.actors.worker.tell(ReportWork())

    def complete(self) -> WorkerReport | None:
        """Go live, once, when everything is known, and return the worker's report; otherwise None."""
        state, report = self._state, self._report
        if state.live or self._behind or report is None:
            return None
        running = {instance: fact.incarnation for instance, fact in report.running.items()}
        for instance, restarts in adopted_restarts(running, state.snapshot.config).items():
            # An earlier herder may have wanted one more restart and died before the worker started it.
            state.work.restore_restarts(instance, restarts)
        state.work.adopt(running, report.wanted)
        state.go_live()
        state.history.record_live(state.snapshot)
        stage = state.snapshot.stage
        completed = None if stage is None else replace(stage, completed_ms=state.clock.wall_ms())
        state.update(stage=completed, live=True)
        self._answer()
        return report

    def delay(self, command: Command, reply: Reply[Any]) -> None:
        """Carry out a command at the end of the startup."""
        self._early.append((self._state.clock.now(), command, reply))

    def refuse_overdue(self) -> None:
        """Fail commands that have waited for `EARLY_TIMEOUT_S`, if the worker stays out of the group for its engine."""
        reason = self._state.waits_for()
        if self.over or not self._state.live or reason is None:
            return
        overdue_s = self._state.clock.now() - EARLY_TIMEOUT_S
        for since_s, _, reply in self._early:
            if since_s <= overdue_s:
                text = f"This worker takes requests when it has joined its group, which is delayed: {reason}"
                reply.fail(Unavailable(text, retry_after_s=RETRY_AFTER_S))
        self._early = [each for each in self._early if each[0] > overdue_s]

    def on_assigned(self) -> None:
        """End the startup, because work was assigned, and carry out kept commands."""
        self.over = True
        early, self._early = self._early, []
        for _, command, reply in early:
            self._take(command, reply)
        self._answer()

    def startup_done(self) -> Reply[None]:
        """Note that the command line's connectors exist."""
        self._state.update(started_up=True)
        self._answer()
        reply: Reply[None] = Reply()
        reply.set(None)
        return reply

    def when_ready(self, *, with_files: bool) -> Reply[None]:
        """Return a reply set when the logs are read or, with `with_files`, when the command line's connectors exist."""
        reply: Reply[None] = Reply()
        self._waiting.append((with_files, reply))
        self._answer()
        return reply

    def _answer(self) -> None:
        started = self.over and self._state.snapshot.started_up
        if started and not self._state.snapshot.ready:
            self._state.update(ready=True)
        waiting, self._waiting = self._waiting, []
        for with_files, reply in waiting:
            if started if with_files else self._state.live:
                reply.set(None)
            else:
                self._waiting.append((with_files, reply))
