"""Automatic restarts of failed instances, as decided by `kraal.cluster.decisions.auto_restart`.

Part of the herder; runs on the herder's thread only. The failure history and the restart counts in incarnations outlive
the herder. The next herder therefore executes planned restarts, and its wanted instances include completed restarts. A
timer message only triggers a check of the current state.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from actors.messages.herder import CheckRestarts
from kraal.cluster.decisions.auto_restart import (
    InstanceSituation,
    explain_no_restart,
    is_due,
    next_history,
    record_failure,
    record_restart,
    record_success,
)
from kraal.config.connector.auto_restart import parse_policy
from kraal.core.ids import State, TargetState, TaskId, get_connector
from kraal.core.printable import printable
from kraal.core.traces import root_cause

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from actors.herding.state import HerderState
    from actors.messages.herder import InstanceChanged
    from actors.runtime.clock import Timer
    from kraal.core.ids import Instance

log = logging.getLogger(__name__)


class AutoRestarts:
    """Watches failures on this worker and restarts failed instances."""

    def __init__(self, state: HerderState, restart: Callable[[Iterable[Instance]], None]) -> None:
        """`restart` starts a new incarnation of each given instance, like a restart request over REST."""
        self._state = state
        self._restart = restart
        self._histories = state.restart_history.failure_histories
        self._timers: dict[Instance, tuple[float, Timer]] = {}
        """Pending timers with their due times."""

    def on_instance_changed(self, fact: InstanceChanged) -> None:
        """Handle a fact about an instance."""
        instance, situation = fact.instance, self._situation(fact.instance)
        history = self._histories.get(instance)
        if situation is None or situation.incarnation != fact.incarnation or fact.stopped:
            if history is not None:
                self._decide_next(instance)
            return
        if fact.state is State.FAILED and not fact.recovers:
            self._histories[instance] = record_failure(history, fact.incarnation, fact.trace or "", situation)
            self._decide_next(instance)
        elif (
            history is not None and fact.state is not State.FAILED and history.incarnation == fact.incarnation
        ):
            self._histories[instance] = record_success(history)
            self._decide_next(instance)

    def check_all(self) -> None:
        """Check all instances with a failure history after a possible change or when a restart is due."""
        for instance in list(self._histories):
            self._decide_next(instance)

    def run_due(self) -> None:
        """Execute due restarts; must be called only while no rebalance is in progress."""
        self.check_all()
        for instance, history in list(self._histories.items()):
            situation = self._situation(instance)
            if situation is None or situation.incarnation is None or not is_due(history, situation):
                continue
            number, policy, trace = len(history.restarts) + 1, situation.policy, history.trace or ""
            log.warning(
                "Restarting failed %s, restart %d of at most %d within %g s: %s",
                instance, number, policy.max_restarts, policy.window_s, printable(root_cause(trace)),
            )  # fmt: skip
            self._state.history.record_automatic_restart(
                instance, number, policy.max_restarts, policy.window_s, trace
            )
            self._restart([instance])
            new_situation = self._situation(instance)
            if new_situation is not None and new_situation.incarnation is not None:
                self._histories[instance] = record_restart(history, new_situation.incarnation, situation)
            self._decide_next(instance)

    def _decide_next(self, instance: Instance) -> None:
        """Decide the next step for one instance, and publish it."""
        published_history = self._state.snapshot.watched.get(instance)
        situation = self._situation(instance)
        if situation is None:
            del self._histories[instance]
            self._set_timer(instance, None)
            self._publish()
            return
        history = self._histories[instance] = next_history(instance, self._histories[instance], situation)
        self._set_timer(instance, history.due_s)
        if history == published_history:
            return
        if history.given_up is not None and (
            published_history is None or published_history.given_up is not history.given_up
        ):
            reason = explain_no_restart(situation.policy, history.given_up)
            log.error("%s stays FAILED. %s (%s)", instance, reason, printable(root_cause(history.trace)))
            self._state.history.record_restarts_exhausted(instance, reason, history.trace or "")
        elif history.due_s is not None and (
            published_history is None or published_history.due_s != history.due_s
        ):
            log.info(
                "Scheduling an automatic restart of %s in %g s", instance, history.due_s - situation.now_s
            )
        self._publish()

    def _set_timer(self, instance: Instance, due_s: float | None) -> None:
        """Set the timer for a restart, which `run_due` executes; cancel the timer if `due_s` is None."""
        pending_timer = self._timers.get(instance)
        if pending_timer is not None and pending_timer[0] == due_s:
            return
        if pending_timer is not None:
            pending_timer[1].cancel()
            del self._timers[instance]
        if due_s is not None:
            state = self._state
            delay_s = max(due_s - state.clock.now(), 0.0)
            timer = state.clock.after(delay_s, state.actors.herder, CheckRestarts())
            self._timers[instance] = (due_s, timer)

    def _situation(self, instance: Instance) -> InstanceSituation | None:
        """Return the current situation of an instance; None if the instance no longer exists."""
        state = self._state
        name = get_connector(instance)
        entry = state.snapshot.config.connectors.get(name)
        if entry is None or (isinstance(instance, TaskId) and instance.task >= entry.task_count):
            return None
        wanted_instance = state.work.wanted_instances(name).get(instance)
        return InstanceSituation(
            policy=parse_policy(entry.config, state.settings.auto_restart),
            incarnation=None if wanted_instance is None else wanted_instance.incarnation,
            config_version=entry.version,
            is_started=entry.target is TargetState.STARTED,
            now_s=state.clock.now(),
            now_ms=state.clock.wall_ms(),
            chance=state.settings.chance(),
        )

    def _publish(self) -> None:
        self._state.update(watched=dict(self._histories))
