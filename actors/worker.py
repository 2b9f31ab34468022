"""The worker: starts, stops and replaces the instances that the herder wants in this process, in parallel.

The herder sends the wanted state, not commands. Each instance has a slot, and the worker reconciles the slot with the
wanted state after every change. Messages may therefore arrive in any order, and a restarted herder only repeats the
wanted state. A stop has a timeout (`task.shutdown.graceful.timeout.ms`), after which the worker cancels the instance.
An instance that does not stop even after cancellation is abandoned, and an error is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from actors.instances.recent_events import RecentEvents
from actors.instances.state_lines import log_failure
from actors.messages.herder import InstanceChanged, TaskConfigsGenerated, TopicsSeen, WorkerReport
from actors.messages.instances import CancelInstance, RepeatReport, SetTarget, StopInstance
from actors.messages.supervisor import Release, Supervise
from actors.messages.worker import Assign, InstanceActorFailed, ReportWork, StopOverdue, WorkerMessage
from actors.runtime.mailbox import Address, Behaviour
from actors.runtime.system import Begin
from kraal.core.ids import Instance, State, TaskId
from kraal.core.secrets import secrets

if TYPE_CHECKING:
    from actors.runtime.clock import Clock, Timer
    from kraal.cluster.state.wanted_work import Incarnation, WantedInstance
    from kraal.metrics.registry import MetricsRegistry

log = logging.getLogger(__name__)

CANCEL_TIMEOUT_S = 5.0
"""Timeout after which a cancelled instance is abandoned."""

MakeChild = Callable[[Instance, "WantedInstance", Address], Behaviour]
"""Creates the behaviour of an instance with the given address."""


@dataclass(slots=True, kw_only=True)
class Slot:
    """Wanted and actual state of one instance; outlives the worker actor."""

    events: RecentEvents
    wanted: WantedInstance | None = None
    running_instance: WantedInstance | None = None
    """Incarnation and target of the running instance, if any."""
    address: Address | None = None
    """Address of the instance's actor; None if no instance runs, or if the actor has exhausted its restart budget."""
    stop_timer: Timer | None = None
    """Timer of the requested stop, if any."""
    fact: InstanceChanged | None = None
    """The latest fact that the instance reported."""
    configs: TaskConfigsGenerated | None = None
    """The latest task configs that a connector reported."""
    restart_group: frozenset[Instance] = frozenset()
    """Instances restarted together; this instance starts when the earlier incarnations of all of them have stopped."""


class Worker:
    """Owns the slots of this process."""

    def __init__(
        self,
        *,
        address: Address,
        herder: Address,
        supervisor: Address,
        clock: Clock,
        make_child: MakeChild,
        slots: dict[Instance, Slot],
        abandon: Callable[[Instance], None],
        graceful_s: float,
        metrics: MetricsRegistry,
    ) -> None:
        """Create a worker actor.

        Args:
            address: address of this actor.
            herder: sends the wanted state and receives facts.
            supervisor: starts the instances.
            clock: clock for deadlines.
            make_child: creates an instance's behaviour.
            slots: outlives the actor, so that a restarted worker takes over running instances.
            abandon: releases the engine's resources of a stopped connector, or of a task whose actor has exhausted its
                restart budget.
            graceful_s: graceful stop timeout of an instance.
            metrics: records running instances and startup results; outlives the actor.
        """
        self._address = address
        self._herder = herder
        self._supervisor = supervisor
        self._clock = clock
        self._make_child = make_child
        self._slots = slots
        self._abandon = abandon
        self._graceful_s = graceful_s
        self._metrics = metrics
        self._grouped_instances = dict.fromkeys(
            instance for instance, slot in slots.items() if slot.restart_group
        )
        """Instances that may have to wait for others, in the order in which they start."""

    def receive(self, message: WorkerMessage | Begin) -> None:
        """Handle one message."""
        match message:
            case Begin():
                for instance in list(self._slots):
                    self._resume_reconciling(instance)
                for existing_slot in self._slots.values():
                    if existing_slot.address is not None:
                        existing_slot.address.tell(RepeatReport())
                self._report_all()
            case Assign():
                self._assign(message)
            case ReportWork():
                self._report_all()
            case InstanceChanged():
                self._on_changed(message)
            case TaskConfigsGenerated():
                slot = self._slots.get(message.name)
                if slot is not None and not message.failed:
                    slot.configs = message
                self._metrics.record_task_configs(message.name, message.failure if message.failed else None)
                self._herder.tell(message)
            case TopicsSeen():
                self._herder.tell(message)
            case StopOverdue():
                self._on_overdue(message)
            case InstanceActorFailed():
                self._on_actor_failed(message)
            case _:
                assert_never(message)

    def _assign(self, message: Assign) -> None:
        for instance, wanted in message.changes.items():
            slot = self._slots.get(instance)
            if slot is None:
                slot = self._slots[instance] = Slot(events=RecentEvents(self._clock))
            if wanted is None and slot.wanted is not None and slot.running_instance is None:
                # The instance was waiting to start.
                self._herder.tell(_make_stopped_fact(instance, slot.wanted.incarnation))
            slot.wanted = wanted
            slot.events.add(
                "no longer wanted"
                if wanted is None
                else f"wanted {wanted.target}, {_describe(wanted.incarnation)}"
            )
        for instance in sorted(message.restart_group & self._slots.keys(), key=str):
            self._slots[instance].restart_group = message.restart_group
            self._grouped_instances[instance] = None
        for instance in message.changes:
            self._reconcile(instance)
        self._start_waiting()

    def _resume_reconciling(self, instance: Instance) -> None:
        """Reconcile an instance after its actor or this actor has failed; a pending stop gets a new deadline."""
        slot = self._slots[instance]
        if slot.stop_timer is not None:
            slot.stop_timer.cancel()
            slot.stop_timer = None
        self._reconcile(instance)

    def _report_all(self) -> None:
        instances = {i: slot.running_instance or slot.wanted for i, slot in self._slots.items()}
        facts = {
            i: self._slots[i].fact or _make_initial_fact(i, wanted)
            for i, wanted in instances.items()
            if wanted is not None
        }
        wanted_incarnations = {
            i: s.wanted.incarnation for i, s in self._slots.items() if s.wanted is not None
        }
        self._herder.tell(WorkerReport(running=facts, wanted=wanted_incarnations))
        for slot in self._slots.values():
            if slot.configs is not None:
                self._herder.tell(slot.configs)

    def _reconcile(self, instance: Instance) -> None:
        """Take the next step from the actual state to the wanted state."""
        slot = self._slots[instance]
        wanted, running_instance = slot.wanted, slot.running_instance
        if running_instance is None:
            if wanted is None:
                del self._slots[instance]
            elif not any(map(self._is_ending, slot.restart_group)):
                slot.restart_group = frozenset()
                self._start(instance, slot, wanted)
            return
        if slot.stop_timer is not None:
            return
        if wanted is None or wanted.incarnation != running_instance.incarnation:
            self._stop(instance, slot, running_instance)
        elif wanted.target is not running_instance.target and slot.address is not None:
            slot.running_instance = replace(running_instance, target=wanted.target)
            slot.address.tell(SetTarget(wanted.target))

    def _start_waiting(self) -> None:
        """Start instances that no longer have to wait for others to stop."""
        must_wait: dict[frozenset[Instance], bool] = {}  # checked once per set of instances
        for instance in tuple(self._grouped_instances):
            slot = self._slots.get(instance)
            if slot is None or not slot.restart_group:
                del self._grouped_instances[instance]
            elif slot.running_instance is None:
                if slot.restart_group not in must_wait:
                    must_wait[slot.restart_group] = any(map(self._is_ending, slot.restart_group))
                if not must_wait[slot.restart_group]:
                    slot.restart_group = frozenset()
                    self._reconcile(instance)

    def _is_ending(self, instance: Instance) -> bool:
        """Return whether a running instance has to stop."""
        slot = self._slots.get(instance)
        if slot is None or slot.running_instance is None:
            return False
        return slot.wanted is None or slot.wanted.incarnation != slot.running_instance.incarnation

    def _start(self, instance: Instance, slot: Slot, wanted: WantedInstance) -> None:
        kind = "task" if isinstance(instance, TaskId) else "connector"
        address = Address(f"{kind} {instance}")
        slot.address, slot.running_instance = address, wanted
        slot.events.add(f"started, {_describe(wanted.incarnation)}")
        self._metrics.record_start(instance)

        def on_budget_exhausted(error: BaseException) -> None:
            trace = secrets.scrub(
                f"{type(error).__name__}: {error}\nthe actor of {instance} exhausted its restart budget"
            )
            self._address.tell(InstanceActorFailed(instance=instance, trace=trace))

        def make() -> Behaviour:
            return self._make_child(instance, slot.running_instance or wanted, address)

        self._supervisor.tell(
            Supervise(
                address=address, factory=make, on_budget_exhausted=on_budget_exhausted, shares_thread=True
            )
        )

    def _stop(self, instance: Instance, slot: Slot, running_instance: WantedInstance) -> None:
        if slot.address is None:
            self._on_stopped(instance, slot, _make_stopped_fact(instance, running_instance.incarnation))
            return
        timeout_message = StopOverdue(
            instance=instance, incarnation=running_instance.incarnation, cancelled=False
        )
        slot.stop_timer = self._clock.after(self._graceful_s, self._address, timeout_message)
        slot.events.add(f"stop requested, {_describe(running_instance.incarnation)}")
        slot.address.tell(StopInstance())

    def _on_changed(self, fact: InstanceChanged) -> None:
        slot = self._slots.get(fact.instance)
        if (
            slot is None
            or slot.running_instance is None
            or slot.running_instance.incarnation != fact.incarnation
        ):
            return
        if fact.stopped:
            self._on_stopped(fact.instance, slot, fact)
            return
        if slot.stop_timer is not None and slot.address is not None:
            slot.address.tell(StopInstance())  # the actor may have been restarted since the first request
        slot.fact = fact
        slot.events.add_state(fact)
        self._metrics.record_state(fact.instance, fact.state, fact.version)
        self._herder.tell(fact)

    def _on_stopped(self, instance: Instance, slot: Slot, fact: InstanceChanged) -> None:
        if slot.stop_timer is not None:
            slot.stop_timer.cancel()
        if slot.address is not None:
            self._supervisor.tell(Release(slot.address))
        if not isinstance(instance, TaskId):
            self._abandon(instance)
        slot.events.add_state(fact)
        slot.running_instance = slot.address = slot.stop_timer = slot.fact = slot.configs = None
        self._metrics.remove(instance)
        self._herder.tell(fact)
        self._reconcile(instance)
        self._start_waiting()

    def _on_overdue(self, message: StopOverdue) -> None:
        slot = self._slots.get(message.instance)
        if slot is None or slot.stop_timer is None or slot.running_instance is None:
            return
        if slot.running_instance.incarnation != message.incarnation:
            return
        if not message.cancelled and slot.address is not None:
            log.warning(
                "Cancelling %s, which did not stop within %g s; last events: %s",
                *(message.instance, self._graceful_s, slot.events.as_text()),
            )
            slot.events.add("cancelled")
            timeout_message = StopOverdue(
                instance=message.instance, incarnation=message.incarnation, cancelled=True
            )
            slot.stop_timer = self._clock.after(CANCEL_TIMEOUT_S, self._address, timeout_message)
            slot.address.tell(CancelInstance())
            return
        log.error(
            "Abandoning %s, which did not end after it was cancelled; last events: %s",
            message.instance,
            slot.events.as_text(),
        )
        self._on_stopped(message.instance, slot, _make_stopped_fact(message.instance, message.incarnation))

    def _on_actor_failed(self, message: InstanceActorFailed) -> None:
        slot = self._slots.get(message.instance)
        if slot is None or slot.running_instance is None:
            return
        if isinstance(message.instance, TaskId):
            self._abandon(message.instance)
        slot.address = None
        slot.fact = InstanceChanged(
            instance=message.instance,
            incarnation=slot.running_instance.incarnation,
            state=State.FAILED,
            trace=message.trace,
        )
        log_failure(message.instance, message.trace)
        self._metrics.record_state(message.instance, State.FAILED, None)
        self._herder.tell(slot.fact)
        self._resume_reconciling(message.instance)


def _describe(incarnation: Incarnation) -> str:
    return f"config of offset {incarnation.version}, restart {incarnation.restarts}"


def _make_initial_fact(instance: Instance, wanted: WantedInstance) -> InstanceChanged:
    """Return the fact for an instance that was or will be started and has not reported a state yet."""
    return InstanceChanged(instance=instance, incarnation=wanted.incarnation, state=State.UNASSIGNED)


def _make_stopped_fact(instance: Instance, incarnation: Incarnation) -> InstanceChanged:
    return InstanceChanged(instance=instance, incarnation=incarnation, state=State.UNASSIGNED, stopped=True)
