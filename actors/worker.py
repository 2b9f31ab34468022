"""The worker: starts, stops and replaces the instances that the herder wants in this process, in parallel.

The herder sends the wanted state, not commands: each instance has a slot, and the worker moves the slot towards
the wanted state whenever something about the instance changes. Messages may therefore arrive in any order, and a
restarted herder only repeats what it wants. A stop has a deadline (`task.shutdown.graceful.timeout.ms`); the
worker cancels an instance that misses it, and abandons and logs one that does not end after the cancel either.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from actors.instances.state_lines import log_failure
from actors.instances.story import Story
from actors.messages.herder import InstanceChanged, TaskConfigsMade, TopicsSeen, WorkerReport
from actors.messages.instances import CancelInstance, ReportAgain, SetTarget, StopInstance
from actors.messages.supervisor import Release, Supervise
from actors.messages.worker import Assign, ChildGaveUp, ReportWork, StopOverdue, WorkerMessage
from actors.runtime.mailbox import Address, Behaviour
from actors.runtime.system import Begin
from kraal.core.ids import Instance, State, TaskId
from kraal.core.secrets import secrets

if TYPE_CHECKING:
    from actors.runtime.clock import Clock, Timer
    from kraal.cluster.state.wanted_work import Incarnation, Wanted
    from kraal.metrics.registry import MetricsRegistry

log = logging.getLogger(__name__)

CANCEL_S = 5.0
"""Seconds that a cancelled instance has to end before it is abandoned."""

MakeChild = Callable[[Instance, "Wanted", Address], Behaviour]
"""Makes an instance's behaviour, which receives messages at the given address."""


@dataclass(slots=True, kw_only=True)
class Slot:
    """Wanted and actual state of one instance; outlives the worker actor."""

    story: Story
    wanted: Wanted | None = None
    life: Wanted | None = None
    """Incarnation and target of the running instance; None: nothing runs."""
    address: Address | None = None
    """Address of the instance's actor; None while something runs: the actor has exhausted its restart budget."""
    stopping: Timer | None = None
    fact: InstanceChanged | None = None
    """The latest fact that the instance reported."""
    configs: TaskConfigsMade | None = None
    """The latest task configs that a connector reported."""
    together: frozenset[Instance] = frozenset()
    """Instances restarted together with this one; it starts when the earlier lives of all of them have ended."""


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
            address: its own address.
            herder: sends the wanted state and receives facts.
            supervisor: starts the instances.
            clock: for deadlines.
            make_child: makes an instance's behaviour.
            slots: outlives the actor, so that a restarted worker takes over running instances.
            abandon: ends what is left in the engine of a task whose actor has exhausted its restart budget, or of a
                connector that has failed, or whose plugin does not return.
            graceful_s: how long an instance has to stop.
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
        self._together = dict.fromkeys(instance for instance, slot in slots.items() if slot.together)
        """Instances that may have to wait for others, in order."""

    def receive(self, message: WorkerMessage | Begin) -> None:
        """Handle one message."""
        match message:
            case Begin():
                for instance in list(self._slots):
                    self._restart_waiting(instance)
                for each in self._slots.values():
                    if each.address is not None:
                        each.address.tell(ReportAgain())
                self._report_all()
            case Assign():
                self._assign(message)
            case ReportWork():
                self._report_all()
            case InstanceChanged():
                self._on_changed(message)
            case TaskConfigsMade():
                slot = self._slots.get(message.name)
                if slot is not None and not message.failed:
                    slot.configs = message
                self._metrics.record_task_configs(message.name, message.refusal if message.failed else None)
                self._herder.tell(message)
            case TopicsSeen():
                self._herder.tell(message)
            case StopOverdue():
                self._on_overdue(message)
            case ChildGaveUp():
                self._on_actor_given_up(message)
            case _:
                assert_never(message)

    def _assign(self, message: Assign) -> None:
        for instance, wanted in message.changes.items():
            slot = self._slots.get(instance)
            if slot is None:
                slot = self._slots[instance] = Slot(story=Story(self._clock))
            if wanted is None and slot.wanted is not None and slot.life is None:  # was waiting to start
                self._herder.tell(_make_stopped(instance, slot.wanted.incarnation))
            slot.wanted = wanted
            slot.story.add(
                "no longer wanted"
                if wanted is None
                else f"wanted {wanted.target}, {_life(wanted.incarnation)}"
            )
        for instance in sorted(message.together & self._slots.keys(), key=str):
            self._slots[instance].together = message.together
            self._together[instance] = None
        for instance in message.changes:
            self._move(instance)
        self._move_waiting()

    def _restart_waiting(self, instance: Instance) -> None:
        """Move an instance after a restart of this actor; a pending stop gets a new deadline."""
        slot = self._slots[instance]
        if slot.stopping is not None:
            slot.stopping.cancel()
            slot.stopping = None
        self._move(instance)

    def _report_all(self) -> None:
        lives = {i: slot.life or slot.wanted for i, slot in self._slots.items()}
        facts = {
            i: self._slots[i].fact or _make_unreported(i, life)
            for i, life in lives.items()
            if life is not None
        }
        wanted = {i: s.wanted.incarnation for i, s in self._slots.items() if s.wanted is not None}
        self._herder.tell(WorkerReport(running=facts, wanted=wanted))
        for slot in self._slots.values():
            if slot.configs is not None:
                self._herder.tell(slot.configs)

    def _move(self, instance: Instance) -> None:
        """Take the next step from the actual to the wanted state."""
        slot = self._slots[instance]
        wanted, life = slot.wanted, slot.life
        if life is None:
            if wanted is None:
                del self._slots[instance]
            elif not any(map(self._is_ending, slot.together)):
                slot.together = frozenset()
                self._start(instance, slot, wanted)
            return
        if slot.stopping is not None:
            return
        if wanted is None or wanted.incarnation != life.incarnation:
            self._stop(instance, slot, life)
        elif wanted.target is not life.target and slot.address is not None:
            slot.life = replace(life, target=wanted.target)
            slot.address.tell(SetTarget(wanted.target))

    def _move_waiting(self) -> None:
        """Start instances that no longer have to wait for others to end."""
        held: dict[frozenset[Instance], bool] = {}  # checked once per set of instances
        for instance in tuple(self._together):
            slot = self._slots.get(instance)
            if slot is None or not slot.together:
                del self._together[instance]
            elif slot.life is None:
                if slot.together not in held:
                    held[slot.together] = any(map(self._is_ending, slot.together))
                if not held[slot.together]:
                    slot.together = frozenset()
                    self._move(instance)

    def _is_ending(self, instance: Instance) -> bool:
        """Return whether a running life of an instance has to end."""
        slot = self._slots.get(instance)
        if slot is None or slot.life is None:
            return False
        return slot.wanted is None or slot.wanted.incarnation != slot.life.incarnation

    def _start(self, instance: Instance, slot: Slot, wanted: Wanted) -> None:
        kind = "task" if isinstance(instance, TaskId) else "connector"
        address = Address(f"{kind} {instance}")
        slot.address, slot.life = address, wanted
        slot.story.add(f"started, {_life(wanted.incarnation)}")
        self._metrics.record_start(instance)

        def on_give_up(error: BaseException) -> None:
            trace = secrets.scrub(
                f"{type(error).__name__}: {error}\nthe actor of {instance} exhausted its restart budget"
            )
            self._address.tell(ChildGaveUp(instance=instance, trace=trace))

        def make() -> Behaviour:
            return self._make_child(instance, slot.life or wanted, address)

        self._supervisor.tell(
            Supervise(address=address, factory=make, on_give_up=on_give_up, shares_thread=True)
        )

    def _stop(self, instance: Instance, slot: Slot, life: Wanted) -> None:
        if slot.address is None:
            self._on_stopped(instance, slot, _make_stopped(instance, life.incarnation))
            return
        overdue = StopOverdue(instance=instance, incarnation=life.incarnation, cancelled=False)
        slot.stopping = self._clock.after(self._graceful_s, self._address, overdue)
        slot.story.add(f"stop requested, {_life(life.incarnation)}")
        slot.address.tell(StopInstance())

    def _on_changed(self, fact: InstanceChanged) -> None:
        slot = self._slots.get(fact.instance)
        if slot is None or slot.life is None or slot.life.incarnation != fact.incarnation:
            return
        if fact.stopped:
            self._on_stopped(fact.instance, slot, fact)
            return
        if slot.stopping is not None and slot.address is not None:
            slot.address.tell(StopInstance())  # its actor may have been restarted since the first request
        slot.fact = fact
        slot.story.add_state(fact)
        self._metrics.record_state(fact.instance, fact.state, fact.version)
        self._herder.tell(fact)

    def _on_stopped(self, instance: Instance, slot: Slot, fact: InstanceChanged) -> None:
        if slot.stopping is not None:
            slot.stopping.cancel()
        if slot.address is not None:
            self._supervisor.tell(Release(slot.address))
        if not isinstance(instance, TaskId):
            self._abandon(instance)
        slot.story.add_state(fact)
        slot.life = slot.address = slot.stopping = slot.fact = slot.configs = None
        self._metrics.remove(instance)
        self._herder.tell(fact)
        self._move(instance)
        self._move_waiting()

    def _on_overdue(self, message: StopOverdue) -> None:
        slot = self._slots.get(message.instance)
        if slot is None or slot.stopping is None or slot.life is None:
            return
        if slot.life.incarnation != message.incarnation:
            return
        if not message.cancelled and slot.address is not None:
            log.warning(
                "Cancelling %s, which did not stop within %g s; last events: %s",
                *(message.instance, self._graceful_s, slot.story.as_text()),
            )
            slot.story.add("cancelled")
            overdue = StopOverdue(instance=message.instance, incarnation=message.incarnation, cancelled=True)
            slot.stopping = self._clock.after(CANCEL_S, self._address, overdue)
            slot.address.tell(CancelInstance())
            return
        log.error(
            "Abandoning %s, which did not end after it was cancelled; last events: %s",
            message.instance,
            slot.story.as_text(),
        )
        self._on_stopped(message.instance, slot, _make_stopped(message.instance, message.incarnation))

    def _on_actor_given_up(self, message: ChildGaveUp) -> None:
        slot = self._slots.get(message.instance)
        if slot is None or slot.life is None:
            return
        if isinstance(message.instance, TaskId):
            self._abandon(message.instance)
        slot.address = None
        slot.fact = InstanceChanged(
            instance=message.instance,
            incarnation=slot.life.incarnation,
            state=State.FAILED,
            trace=message.trace,
        )
        log_failure(message.instance, message.trace)
        self._metrics.record_state(message.instance, State.FAILED, None)
        self._herder.tell(slot.fact)
        self._restart_waiting(message.instance)


def _life(incarnation: Incarnation) -> str:
    return f"config of offset {incarnation.version}, restart {incarnation.restarts}"


def _make_unreported(instance: Instance, life: Wanted) -> InstanceChanged:
    """Make the fact for an instance that was started, or waits to start, and has reported nothing yet."""
    return InstanceChanged(instance=instance, incarnation=life.incarnation, state=State.UNASSIGNED)


def _make_stopped(instance: Instance, incarnation: Incarnation) -> InstanceChanged:
    return InstanceChanged(instance=instance, incarnation=incarnation, state=State.UNASSIGNED, stopped=True)
