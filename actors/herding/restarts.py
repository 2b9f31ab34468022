"""Restarts: KIP-745 requests, restarts of single instances, and requests that wait until restarts are complete.

Part of the herder; runs on its thread only. A restart creates a new incarnation: the restart count increases, and the
worker replaces the running instance. Plans are based on stored statuses, never on displayed ones.
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
    from actors.herding.statuses import StatusTracker
    from actors.messages.herder import InstanceChanged


log = logging.getLogger(__name__)

_MAX_INSTANCES = 20
"""Maximum number of connectors and tasks that a log line names."""


@dataclass(slots=True)
class _Watch:
    """A wait for the reports of new incarnations; afterwards, `done` is called with the failed instances."""

    missing_instances: set[Instance]
    failed_instances: list[Instance]
    done: Callable[[list[Instance]], None]


class Restarts:
    """Executes restarts of instances that this worker owns."""

    def __init__(self, state: HerderState, statuses: StatusTracker) -> None:
        self._state = state
        self._statuses = statuses
        self._due_requests = state.restart_history.due_requests
        self._watches: list[_Watch] = []
        self._deferred_watches: list[_Watch] = []
        """Watches for restarts that have been read but not executed yet."""
        self._auto = AutoRestarts(state, self._restart)

    def on_requested(self, request: RestartRequest, *, written_ms: int) -> None:
        """Store a restart request and show the planned instances as RESTARTING.

        If a request for the connector is already pending, the one with the higher impact is kept. Instances whose
        status is newer than the request (`written_ms`) are not shown, because they have already restarted.
        """
        due_requests = self._due_requests
        pending_request = due_requests.get(request.name)
        due_requests[request.name] = merged_request = (
            request if pending_request is None else higher_impact(pending_request, request)
        )
        plan = plan_restart(request, self._state.snapshot.status)
        planned_instances = () if plan is None else plan.instances
        log.info(
            "Received %s; connectors and tasks to restart: %s", request, _format_instances(planned_instances)
        )
        if pending_request is not None:
            log.debug(
                "Merged the request with the pending %s; keeping the request with the larger scope: %s",
                pending_request,
                merged_request,
            )
        instances = frozenset(planned_instances) - newer_statuses(
            self._state.snapshot.status, planned_instances, written_ms
        )
        self._state.history.record_restart_request(request, planned_instances, written_ms=written_ms)
        if instances:
            self._statuses.show_restarting(instances)
            message = HideRestarting(instances)
            self._state.clock.after(
                self._state.settings.restarting_timeout_s, self._state.actors.herder, message
            )

    def run_due(self) -> None:
        """Execute requested and automatic restarts; must be called only while no rebalance is in progress."""
        due_requests = self._due_requests
        while due_requests:
            # Removed before it is executed, so that a request that crashes the herder is not repeated.
            request = due_requests.pop(next(iter(due_requests)))
            plan = plan_restart(request, self._state.snapshot.status)
            if plan is None:
                log.warning("Ignored a restart request: Status for connector %s not found", request.name)
            else:
                self._restart(plan.instances)
        watches, self._deferred_watches = self._deferred_watches, []
        for watch in watches:
            self.when_started(watch.missing_instances, watch.done)
        self._auto.run_due()

    def resume(self, facts: Iterable[InstanceChanged]) -> None:
        """Process the worker's complete report, which may contain facts that no herder has received."""
        for fact in facts:
            self._auto.on_instance_changed(fact)
        self._auto.check_all()

    def _restart(self, instances: Iterable[Instance]) -> None:
        local_instances = [i for i in instances if i in self._state.work.wanted_instances(get_connector(i))]
        if local_instances:
            log.info(
                "Executing a restart of the connectors and tasks on this worker: %s",
                _format_instances(local_instances),
            )
        self._statuses.mark_restarting(local_instances)
        self._state.work.apply(
            {get_connector(i) for i in local_instances},
            restarted=local_instances,
            restart_group=frozenset(local_instances),
        )

    def restart_instance(self, instance: Instance, done: Callable[[list[Instance]], None]) -> bool:
        """Restart one instance without showing RESTARTING; return False if this worker does not run the instance."""
        if instance not in self._state.work.wanted_instances(get_connector(instance)):
            return False
        self._state.history.record_restart(instance)
        self._state.work.apply([get_connector(instance)], restarted=[instance])
        self.when_started([instance], done)
        return True

    def when_restarted(self, instances: Iterable[Instance], done: Callable[[list[Instance]], None]) -> None:
        """Call `done` like `when_started`, for instances whose requested restart has not been executed yet."""
        self._deferred_watches.append(_Watch(set(instances), [], done))

    def when_started(self, instances: Iterable[Instance], done: Callable[[list[Instance]], None]) -> None:
        """Call `done` with the instances that failed.

        The call is made once the newest incarnation of each local instance has reported a state.
        """
        pending_instances = {i for i in instances if i in self._state.work.wanted_instances(get_connector(i))}
        if pending_instances:
            self._watches.append(_Watch(pending_instances, [], done))
        else:
            done([])

    def on_instance_changed(self, fact: InstanceChanged) -> None:
        """Handle a change of an instance, which may complete a wait or require a restart."""
        self._auto.on_instance_changed(fact)
        wanted_instance = self._state.work.wanted_instances(get_connector(fact.instance)).get(fact.instance)
        if wanted_instance is not None and (fact.stopped or fact.incarnation < wanted_instance.incarnation):
            return
        self._settle(fact.instance, has_failed=wanted_instance is not None and fact.state is State.FAILED)

    def _settle(self, instance: Instance, *, has_failed: bool) -> None:
        for watch in list(self._watches):
            if instance not in watch.missing_instances:
                continue
            watch.missing_instances.discard(instance)
            if has_failed:
                watch.failed_instances.append(instance)
            if not watch.missing_instances:
                self._watches.remove(watch)
                watch.done(watch.failed_instances)


def _format_instances(instances: Iterable[Instance]) -> str:
    return join_first([str(instance) for instance in instances], _MAX_INSTANCES) or "none"
