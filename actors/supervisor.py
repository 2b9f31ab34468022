"""The supervisor, which restarts each dead actor individually, within a budget and with exponential backoff.

Connect has no supervisor. An actor dies only because of a bug in Kraal, because plugin code runs inside
`actors.instances.plugin_calls`. The actor's pending requests fail at once with the cause, and its replacement starts
from stored state. An actor that exceeds its budget is not restarted; if that actor is the herder, the worker or another
system actor, the process exits.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from actors.messages.supervisor import (
    ActorDied,
    CrashActor,
    ListActors,
    Release,
    RestartDue,
    Supervise,
    SupervisorMessage,
    current_name,
)
from actors.runtime.system import Begin, Crash
from kraal.core.errors import NotFound

if TYPE_CHECKING:
    from actors.runtime.clock import Clock
    from actors.runtime.mailbox import Address
    from actors.runtime.system import System
    from kraal.cluster.decisions.actor_restart_budget import ActorRestartBudget

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Child:
    spec: Supervise
    deaths: tuple[float, ...] = ()
    restarts: int = 0


class Supervisor:
    """Starts, restarts and stops the long-lived actors of a worker."""

    def __init__(self, *, address: Address, system: System, clock: Clock, budget: ActorRestartBudget) -> None:
        self._address = address
        self._system = system
        self._clock = clock
        self._budget = budget
        self._children: dict[Address, _Child] = {}

    def receive(self, message: SupervisorMessage) -> object:
        """Handle one message."""
        match message:
            case Begin():
                return None
            case Supervise():
                self._children[message.address] = _Child(message)
                self._spawn(message)
                return None
            case Release():
                self._children.pop(message.address, None)
                self._system.stop(message.address)
                return None
            case ActorDied():
                self._on_death(message)
                return None
            case RestartDue():
                child = self._children.get(message.address)
                if child is not None:
                    self._spawn(child.spec)
                    child.spec.on_restart()
                return None
            case ListActors():
                return {address.name: child.restarts for address, child in self._children.items()}
            case CrashActor():
                self._crash(message)
                return None
            case _:
                assert_never(message)

    def _spawn(self, spec: Supervise) -> None:
        address = spec.address
        self._system.spawn(
            address,
            spec.factory,
            lambda error: self._address.tell(ActorDied(address, error)),
            shares_thread=spec.shares_thread,
        )

    def _crash(self, message: CrashActor) -> None:
        for address in self._children:
            if address.name == current_name(message.name):
                address.tell(Crash(message.reason))
                return
        names = ", ".join(sorted(address.name for address in self._children))
        raise NotFound(f"Unknown actor {message.name}; expected one of: {names}")

    def _on_death(self, message: ActorDied) -> None:
        address, error = message.address, message.error
        address.fail_pending(f"{address.name} died before it replied: {error!r}")
        child = self._children.get(address)
        if child is None:
            return
        now = self._clock.now()
        deaths = (*self._budget.deaths_in_window(child.deaths, now), now)
        delay = self._budget.delay_s(deaths, now)
        if delay is None:
            log.error(
                "%s died %d times within %g s; its restart budget is exhausted",
                address.name,
                len(deaths),
                self._budget.window_s,
            )
            del self._children[address]
            child.spec.on_budget_exhausted(error)
            return
        log.warning("%s died (%r); restarting it in %g s", address.name, error, delay)
        self._children[address] = replace(child, deaths=deaths, restarts=child.restarts + 1)
        self._clock.after(delay, self._address, RestartDue(address))
