"""Restarts: KIP-745 requests, plain restarts of one instance, and requests that wait for their end.

Part of the herder; runs on its thread only. A restart is a new incarnation: the restart count increases, and the
worker replaces the running instance. Plans are made from stored statuses, never from displayed ones.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actors.herding.auto_restarts import AutoRestarts
from actors.messages.herder import HideRestarting
from kraal.cluster.decisions.restart import RestartRequest, higher_impact, plan_restart
from kraal.cluster.state.status_replay import newer_statuses
from kraal.core.ids import Instance, State, get_connector
from kraal.core.printable import join_first

if TYPE_CHECKING:
    from actors.herding.state import HerderState
    from actors.herding.statuses import StatusBook
    from actors.messages.herder import InstanceChanged


log = logging.getLogger(__name__)

_MAX_INSTANCES = 20
"""Maximum number of connectors and tasks that a log line names."""


@dataclass(slots=True)
class _Watch:
    """Waits until each instance runs or fails in its new life; then calls `done` with the failed ones."""

    missing: set[Instance]
    failed: list[Instance]
    done: Callable[[list[Instance]], None]


class Restarts:
    """Carries out restarts of instances that this worker owns."""

    def __init__(self, state: HerderState, book: StatusBook) -> None:
        self._state = state
        self._book = book
        self._due = state.restart_history.due
        self._watches: list[_Watch] = []
        self._announced: list[_Watch] = []
        """Watches for restarts that have been read but not carried out yet."""
        self._auto = AutoRestarts(state, self._restart)

    def on_requested(self, request: RestartRequest, *, written_ms: int) -> None:
        """Remember and display a restart that was read; of several for one connector, the widest is kept.

        Instances with a status newer than the record are not shown as RESTARTING: their restart is over.
        """
        due = self._due
        pending = due.get(request.name)
        due[request.name] = pending_now = request if pending is None else higher_impact(pending, request)
        plan = plan_restart(request, self._state.snapshot.status)
        planned = () if plan is None else plan.instances
        log.info("Received %s; connectors and tasks to restart: %s", request, _text(planned))
        if pending is not None:
            log.debug(
                "Of it and the pending %s, the one with the larger scope remains: %s", pending, pending_now
            )
        instances = frozenset(planned) - newer_statuses(self._state.snapshot.status, planned, written_ms)
        self._state.history.record_restart_request(request, planned, written_ms=written_ms)
        if instances:
            self._book.show_restarting(instances)
            hide = HideRestarting(instances)
            self._state.clock.after(self._state.settings.shown_restarting_s, self._state.actors.herder, hide)

    def run_due(self) -> None:
        """Carry out requested restarts; called when no assignment change is under way."""
        due = self._due
        while due:
            # Taken before it is carried out, so that one that kills the herder is not repeated for ever.
            request = due.pop(next(iter(due)))
            plan = plan_restart(request, self._state.snapshot.status)
            if plan is None:  # E4: other restarts continue
                log.warning("Ignored a restart request: Status for connector %s not found", request.name)
            else:
                self._restart(plan.instances)
        announced, self._announced = self._announced, []
        for watch in announced:
            self.when_up(watch.missing, watch.done)
        self._auto.run_due()

    def resume(self, facts: Iterable[InstanceChanged]) -> None:
        """Process the worker's complete report, which may contain unknown facts."""
        for fact in facts:
            self._auto.handle_fact(fact)
        self._auto.check_all()

    def _restart(self, instances: Iterable[Instance]) -> None:
        owned = [i for i in instances if i in self._state.work.wanted_instances(get_connector(i))]
        if owned:
            log.info("Executing a restart of the connectors and tasks on this worker: %s", _text(owned))
        self._book.restarting(owned)
        self._state.work.apply({get_connector(i) for i in owned}, restarted=owned, together=frozenset(owned))

    def restart_plainly(self, instance: Instance, done: Callable[[list[Instance]], None]) -> bool:
        """Restart one instance without showing RESTARTING; return False when it does not run here."""
        if instance not in self._state.work.wanted_instances(get_connector(instance)):
            return False
        self._state.history.record_restart(instance)
        self._state.work.apply([get_connector(instance)], restarted=[instance])
        self.when_up([instance], done)
        return True

    def when_restarted(self, instances: Iterable[Instance], done: Callable[[list[Instance]], None]) -> None:
        """Call `done` like `when_up`, for instances whose requested restart is about to be carried out."""
        self._announced.append(_Watch(set(instances), [], done))

    def when_up(self, instances: Iterable[Instance], done: Callable[[list[Instance]], None]) -> None:
        """Call `done` with the failed instances once the newest life of each instance wanted here has reported."""
        missing = {i for i in instances if i in self._state.work.wanted_instances(get_connector(i))}
        if missing:
            self._watches.append(_Watch(missing, [], done))
        else:
            done([])

    def handle_fact(self, fact: InstanceChanged) -> None:
        """Process a fact: it may end a wait or require a restart."""
        self._auto.handle_fact(fact)
        wanted = self._state.work.wanted_instances(get_connector(fact.instance)).get(fact.instance)
        if wanted is not None and (fact.stopped or fact.incarnation < wanted.incarnation):
            return
        self._settle(fact.instance, failed=wanted is not None and fact.state is State.FAILED)

    def _settle(self, instance: Instance, *, failed: bool) -> None:
        for watch in list(self._watches):
            if instance not in watch.missing:
                continue
            watch.missing.discard(instance)
            if failed:
                watch.failed.append(instance)
            if not watch.missing:
                self._watches.remove(watch)
                watch.done(watch.failed)


def _text(instances: Iterable[Instance]) -> str:
    return join_first([str(each) for each in instances], _MAX_INSTANCES) or "none"
