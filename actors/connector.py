"""One connector's own instance: starts and stops the plugin's connector object, asks it for task configs.

Its config's variables are resolved when it begins, and again when a config provider said that its values expire.
Nothing resolved leaves it: task configs go out with variables.

Plugin code may block or raise: it runs on this actor's thread, inside `plugin_code`, and what it raises becomes
FAILED with a trace. The states and what may follow what are those of Connect's WorkerConnector (contract 6.2):
leaving STARTED calls the plugin's `stop` once, FAILED is left only for STOPPED or by a new life.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, assert_never

from actors.guard import plugin_code, trace_of
from actors.messages.herder import InstanceChanged, TaskConfigsMade
from actors.messages.instances import (
    CancelInstance,
    ConnectorMessage,
    PluginRaised,
    Reconfigure,
    ReportAgain,
    SetTarget,
    StopInstance,
    ValuesExpired,
)
from actors.system import Begin
from kraal.cluster.tasks import too_many_tasks, with_task_class
from kraal.config.variables import Resolved
from kraal.errors import PluginFailed
from kraal.ids import ConnectorName, State, TargetState
from kraal.plugins.api import task_class_name
from kraal.secrets import secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.clock import Clock, Timer
    from actors.mailbox import Address
    from kraal.cluster.work import Wanted
    from kraal.ids import Config
    from kraal.plugins.api import Connector as Plugin

log = logging.getLogger(__name__)

RETRY_FIRST_S = 0.25
RETRY_MAX_S = 60.0
SHORTEST_TTL_S = 1.0
"""A config provider whose values hold for less has its connector started again this often."""


class _Phase(Enum):
    INIT = auto()
    STARTED = auto()
    PAUSED = auto()
    STOPPED = auto()
    FAILED = auto()


_RESTING = {TargetState.PAUSED: _Phase.PAUSED, TargetState.STOPPED: _Phase.STOPPED}
_STATES = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


@dataclass(frozen=True, slots=True)
class _Context:
    """What the plugin sees of us: `ConnectorContext`; any thread."""

    address: Address

    def request_task_reconfiguration(self) -> None:
        self.address.tell(Reconfigure())

    def raise_error(self, error: BaseException) -> None:
        self.address.tell(PluginRaised(trace_of(error)))


class Connector:
    """Lives from one start of a connector to its end; a restart is a new one."""

    def __init__(
        self,
        *,
        name: ConnectorName,
        wanted: Wanted,
        resolve: Callable[[Config], Resolved],
        make_plugin: Callable[[Mapping[str, str]], Plugin],
        address: Address,
        worker: Address,
        clock: Clock,
    ) -> None:
        self._name = name
        self._incarnation = wanted.incarnation
        self._target = wanted.target
        self._resolve = resolve
        self._resolved = Resolved.of(wanted.connector_config, {})
        self._config: dict[str, str] = {}
        """Resolved, for this life of the plugin's object."""
        self._renewed = False
        """The tasks run with values that do not hold any longer."""
        self._expiry: Timer | None = None
        self._make_plugin = make_plugin
        self._address = address
        self._worker = worker
        self._clock = clock
        self._plugin: Plugin | None = None
        self._phase = _Phase.INIT
        self._said: InstanceChanged | None = None

    def receive(self, message: ConnectorMessage) -> None:
        """Handle one message; blocks while plugin code runs."""
        match message:
            case Begin():
                self._begin()
            case SetTarget():
                self._target = message.target
                self._transition()
            case ReportAgain():
                if self._said is not None:
                    self._worker.tell(self._said)
            case Reconfigure():
                if self._phase is _Phase.STARTED:
                    self._make_task_configs(message.attempt)
            case PluginRaised():
                self._fail(message.trace)
            case ValuesExpired():
                self._renew()
            case StopInstance() | CancelInstance():
                self._end()
            case _:
                assert_never(message)

    def _begin(self) -> None:
        try:
            with plugin_code(f"creating the connector {self._name}"):
                self._take(self._resolve(self._resolved.raw))
                self._plugin = self._make_plugin(self._config)
        except PluginFailed as error:
            self._fail(error.trace)
            return
        self._transition()

    def _take(self, resolved: Resolved) -> None:
        """Go by these values from now on."""
        before, self._resolved = self._config, resolved
        self._config = {k: v for k, v in resolved.config.items() if v is not None}
        self._renewed = self._renewed or bool(before and before != self._config)
        self._expire_later()

    def _expire_later(self) -> None:
        """Come back when the values of config providers do not hold any longer. Source: WorkerConfigTransformer."""
        self._expire_never()
        ttl_ms = self._resolved.ttl_ms
        if ttl_ms is not None and self._config.get("config.action.reload", "restart").lower() == "restart":
            log.info("Scheduling a restart of connector %s in %d ms", self._name, ttl_ms)
            delay_s = max(ttl_ms / 1000, SHORTEST_TTL_S)
            self._expiry = self._clock.after(delay_s, self._address, ValuesExpired())

    def _expire_never(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _renew(self) -> None:
        """Begin again with new values, and have the tasks do so if there are others."""
        if self._expiry is None:
            return
        trace = self._stop_plugin() if self._phase is _Phase.STARTED else None
        if trace is not None:
            log.error("connector %s failed while it was stopped for new values: %s", self._name, trace)
        self._phase, self._plugin, self._expiry = _Phase.INIT, None, None
        self._begin()

    def _transition(self) -> None:
        """Follow the target state. Source: WorkerConnector.doTransitionTo."""
        target = self._target
        if self._phase is _Phase.FAILED and target is not TargetState.STOPPED:
            log.error(
                "WorkerConnector{id=%s} Cannot transition connector to %s since it has failed",
                self._name,
                target,
            )
            return
        if target is TargetState.STARTED:
            self._start()
            return
        trace = self._stop_plugin() if self._phase is _Phase.STARTED else None
        if trace is not None and target is TargetState.PAUSED:
            self._fail(trace)
            return
        self._phase = _RESTING[target]
        self._report(_STATES[target])

    def _start(self) -> None:
        plugin = self._plugin
        if self._phase is not _Phase.STARTED:
            if plugin is None:  # its creation failed, and it was stopped since
                self._phase = _Phase.INIT
                self._begin()
                return
            try:
                with plugin_code(f"starting the connector {self._name}"):
                    plugin.start(self._config, _Context(self._address))
            except PluginFailed as error:
                self._fail(error.trace)
                return
            self._phase = _Phase.STARTED
        self._report(State.RUNNING)
        self._make_task_configs(attempt=0)

    def _make_task_configs(self, attempt: int) -> None:
        plugin = self._plugin
        if plugin is None:
            return
        most = int(self._config.get("tasks.max", "1"))
        try:
            with plugin_code(f"generating task configs for connector {self._name}"):
                configs = [dict(c) for c in plugin.task_configs(most)]
        except PluginFailed as error:
            delay = min(RETRY_FIRST_S * 2**attempt, RETRY_MAX_S)
            log.warning("%s; trying again in %g s", error, delay)
            self._clock.after(delay, self._address, Reconfigure(attempt + 1))
            if attempt == 0:  # who waits for its creation is answered
                self._worker.tell(
                    TaskConfigsMade(name=self._name, incarnation=self._incarnation, configs=(), failed=True)
                )
            return
        if len(configs) > most and self._config.get("tasks.max.enforce", "true").lower() == "true":
            self._fail(too_many_tasks(self._name, len(configs), most))
            return
        made = with_task_class(configs, task_class_name(plugin.task_class), self._config)
        self._worker.tell(
            TaskConfigsMade(
                name=self._name,
                incarnation=self._incarnation,
                configs=[self._resolved.as_written(config) for config in made],
                renewed=self._renewed,
            )
        )
        self._renewed = False

    def _stop_plugin(self) -> str | None:
        """Stop the plugin's object; return the trace if that raised."""
        plugin = self._plugin
        if plugin is None:
            return None
        try:
            with plugin_code(f"stopping the connector {self._name}"):
                plugin.stop()
        except PluginFailed as error:
            log.warning("%s", error)
            return error.trace
        return None

    def _end(self) -> None:
        self._expire_never()
        trace = self._stop_plugin() if self._phase is _Phase.STARTED else None
        self._phase = _Phase.INIT
        self._report(State.FAILED if trace else State.UNASSIGNED, trace, stopped=True)

    def _fail(self, trace: str) -> None:
        self._phase = _Phase.FAILED
        self._report(State.FAILED, trace)

    def _report(self, state: State, trace: str | None = None, *, stopped: bool = False) -> None:
        version = None if self._plugin is None else self._plugin.version
        self._said = InstanceChanged(
            instance=self._name,
            incarnation=self._incarnation,
            state=state,
            trace=None if trace is None else secrets.scrub(trace),
            version=version,
            stopped=stopped,
        )
        self._worker.tell(self._said)
