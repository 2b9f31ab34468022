"""Connector actor: starts and stops the plugin's connector object and requests task configs from it.

The actor resolves the variables in the connector's config when it starts, and, with `config.action.reload=restart`,
when a config provider's values expire. Resolved values never leave this actor; task configs are sent with variables.

Plugin code may block or raise. It runs on this actor's thread inside `plugin_code`, and any error sets the state to
FAILED with a trace. States and transitions are those of Connect's WorkerConnector (Kafka 4.3.0): a transition from
STARTED to PAUSED or STOPPED calls the plugin's `stop` once. A FAILED connector leaves this state only for the target
state STOPPED, in a new incarnation, or when config provider values expire.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, assert_never

from actors.instances.plugin_calls import format_trace, plugin_code
from actors.instances.recent_events import RecentEvents
from actors.instances.state_lines import StateReports
from actors.messages.herder import TaskConfigsGenerated
from actors.messages.instances import (
    CancelInstance,
    ConnectorMessage,
    PluginRaised,
    Reconfigure,
    RepeatReport,
    SetTarget,
    StopInstance,
    ValuesExpired,
)
from actors.runtime.system import Begin
from kraal.cluster.decisions.task_configs import too_many_tasks_text, with_task_class
from kraal.config.variables import ResolvedConfig
from kraal.core.errors import PluginFailed, Unavailable
from kraal.core.ids import ConnectorName, State, TargetState
from kraal.core.traces import root_cause
from kraal.plugins.api import task_class_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from actors.runtime.clock import Clock, Timer
    from actors.runtime.mailbox import Address
    from kraal.cluster.state.wanted_work import WantedInstance
    from kraal.core.ids import Config
    from kraal.plugins.api import Connector as Plugin

log = logging.getLogger(__name__)

FIRST_RETRY_DELAY_S = 0.25
MAX_RETRY_DELAY_S = 60.0
MIN_TTL_S = 1.0
"""Minimum seconds between two starts of a connector whose provider returns values with a shorter TTL."""


class _Phase(Enum):
    INIT = auto()
    STARTED = auto()
    PAUSED = auto()
    STOPPED = auto()
    FAILED = auto()


_IDLE_PHASES = {TargetState.PAUSED: _Phase.PAUSED, TargetState.STOPPED: _Phase.STOPPED}
_STATES = {
    TargetState.STARTED: State.RUNNING,
    TargetState.PAUSED: State.PAUSED,
    TargetState.STOPPED: State.STOPPED,
}


@dataclass(frozen=True, slots=True)
class _Context:
    """The plugin's `ConnectorContext`. Thread-safe."""

    address: Address

    def request_task_reconfiguration(self) -> None:
        self.address.tell(Reconfigure())

    def raise_error(self, error: BaseException) -> None:
        self.address.tell(PluginRaised(format_trace(error)))


class Connector:
    """One incarnation of a connector; a restart creates a new object."""

    def __init__(
        self,
        *,
        name: ConnectorName,
        wanted: WantedInstance,
        resolve: Callable[[Config], ResolvedConfig],
        make_plugin: Callable[[Mapping[str, str]], Plugin],
        address: Address,
        worker: Address,
        clock: Clock,
    ) -> None:
        self._name = name
        self._incarnation = wanted.incarnation
        self._target = wanted.target
        self._resolve = resolve
        self._resolved = ResolvedConfig.of(wanted.connector_config, {})
        self._config: dict[str, str] = {}
        """Resolved config for the current plugin object."""
        self._has_new_values = False
        """Whether config provider values have changed since the last task configs."""
        self._expiry: Timer | None = None
        self._make_plugin = make_plugin
        self._address = address
        self._worker = worker
        self._clock = clock
        self._plugin: Plugin | None = None
        self._phase = _Phase.INIT
        self._waiting_reason: str | None = None
        """Reason why the plugin is unavailable; None while it is available."""
        self._reports = StateReports(name, wanted.incarnation, worker)
        self._events = RecentEvents(clock)
        self._retry_timer: Timer | None = None
        """Timer of the next attempt to generate task configs."""
        self._task_configs: TaskConfigsGenerated | None = None
        """The current task configs; None while the connector does not run."""

    def receive(self, message: ConnectorMessage) -> None:
        """Handle one message. Blocks while plugin code runs."""
        match message:
            case Begin():
                self._begin()
            case SetTarget():
                self._target = message.target
                self._events.add(f"target state {message.target}")
                self._transition()
            case RepeatReport():
                self._reports.repeat()
                if self._task_configs is not None:
                    self._worker.tell(self._task_configs)
            case Reconfigure():
                if self._phase is _Phase.STARTED:
                    self._make_task_configs(message.attempt)
            case PluginRaised():
                self._fail(message.trace)
            case ValuesExpired():
                self._restart_with_new_values()
            case StopInstance() | CancelInstance():
                self._stop_instance()
            case _:
                assert_never(message)

    def _begin(self) -> None:
        try:
            with plugin_code(f"creating the connector {self._name}"):
                self._apply_values(self._resolve(self._resolved.raw))
                self._plugin = self._make_plugin(self._config)
        except PluginFailed as error:
            self._fail(error.trace)
            return
        self._transition()

    def _apply_values(self, resolved: ResolvedConfig) -> None:
        """Replace the resolved config, and schedule a restart for its expiry."""
        previous_config, self._resolved = self._config, resolved
        self._config = {k: v for k, v in resolved.config.items() if v is not None}
        self._has_new_values = self._has_new_values or bool(
            previous_config and previous_config != self._config
        )
        self._schedule_expiry()

    def _schedule_expiry(self) -> None:
        """Schedule a restart for when the config providers' values expire. Source: WorkerConfigTransformer."""
        self._cancel_expiry()
        ttl_ms = self._resolved.ttl_ms
        if ttl_ms is not None and self._config.get("config.action.reload", "restart").lower() == "restart":
            log.info("Scheduling a restart of connector %s in %d ms", self._name, ttl_ms)
            delay_s = max(ttl_ms / 1000, MIN_TTL_S)
            self._expiry = self._clock.after(delay_s, self._address, ValuesExpired())

    def _cancel_expiry(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _restart_with_new_values(self) -> None:
        """Restart the connector with new config provider values; changed values also restart its tasks."""
        if self._expiry is None:
            return
        trace = self._stop_plugin() if self._phase is _Phase.STARTED else None
        if trace is not None:
            log.error(
                "Connector %s failed while it was being stopped to apply new config provider values: %s",
                self._name,
                trace,
            )
        self._phase, self._plugin, self._expiry = _Phase.INIT, None, None
        self._begin()

    def _transition(self) -> None:
        """Follow the target state. Source: WorkerConnector.doTransitionTo."""
        target = self._target
        if self._phase is _Phase.FAILED and target is not TargetState.STOPPED:
            log.error(
                "WorkerConnector{id=%s} Cannot transition connector to %s since it has failed; last events: %s",
                self._name,
                target,
                self._events.as_text(),
            )
            return
        if target is TargetState.STARTED:
            self._start()
            return
        trace = self._stop_plugin() if self._phase is _Phase.STARTED else None
        if trace is not None and target is TargetState.PAUSED:
            self._fail(trace)
            return
        self._phase = _IDLE_PHASES[target]
        self._report(_STATES[target])

    def _start(self) -> None:
        plugin = self._plugin
        if self._phase is not _Phase.STARTED:
            self._waiting_reason = None
            if plugin is None:  # creation failed, and the connector was stopped afterwards
                self._phase = _Phase.INIT
                self._begin()
                return
            try:
                with plugin_code(f"starting the connector {self._name}"):
                    plugin.config_def.parse(self._config)  # an upgraded plugin may require more settings
                    plugin.start(self._config, _Context(self._address))
            except PluginFailed as error:
                if not isinstance(error.__cause__, Unavailable):
                    self._fail(error.trace)
                    return
                # The plugin starts when its process is up, and then requests task configs.
                self._waiting_reason = str(error.__cause__)
            self._phase = _Phase.STARTED
        self._report_started()
        self._make_task_configs(attempt=0)

    def _report_started(self) -> None:
        """Report RUNNING, or UNASSIGNED with a reason while the plugin's process is not running."""
        self._report(
            State.RUNNING if self._waiting_reason is None else State.UNASSIGNED, self._waiting_reason
        )

    def _make_task_configs(self, attempt: int) -> None:
        plugin = self._plugin
        if plugin is None:
            return
        if self._retry_timer is not None:
            self._retry_timer.cancel()
        max_tasks = int(self._config.get("tasks.max", "1"))
        try:
            with plugin_code(f"generating task configs for connector {self._name}"):
                configs = [dict(c) for c in plugin.task_configs(max_tasks)]
        except PluginFailed as error:
            delay = min(FIRST_RETRY_DELAY_S * 2**attempt, MAX_RETRY_DELAY_S)
            is_unavailable = isinstance(error.__cause__, Unavailable)
            level = logging.INFO if is_unavailable else logging.WARNING
            if is_unavailable and self._waiting_reason != str(error.__cause__):
                self._waiting_reason = str(error.__cause__)
                self._report_started()
            log.log(level, "%s; retrying in %g s", error, delay)
            self._retry_timer = self._clock.after(delay, self._address, Reconfigure(attempt + 1))
            if attempt == 0:  # completes a pending create request
                self._worker.tell(
                    TaskConfigsGenerated(
                        name=self._name,
                        incarnation=self._incarnation,
                        configs=(),
                        failed=True,
                        failure=root_cause(error.trace),
                    )
                )
            return
        if self._waiting_reason is not None:
            self._waiting_reason = None
            self._report_started()
        if len(configs) > max_tasks and self._config.get("tasks.max.enforce", "true").lower() == "true":
            self._fail(too_many_tasks_text(self._name, len(configs), max_tasks))
            self._stop_plugin()  # the plugin is unaware of the failure
            return
        task_configs = with_task_class(configs, task_class_name(plugin.task_class), self._config)
        self._task_configs = TaskConfigsGenerated(
            name=self._name,
            incarnation=self._incarnation,
            configs=[self._resolved.restore_variables(config) for config in task_configs],
            renewed=self._has_new_values,
        )
        self._has_new_values = False
        self._worker.tell(self._task_configs)

    def _stop_plugin(self) -> str | None:
        """Stop the plugin's connector object; return the trace if the plugin raises an error."""
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

    def _stop_instance(self) -> None:
        self._cancel_expiry()
        trace = self._stop_plugin() if self._phase is _Phase.STARTED else None
        self._phase = _Phase.INIT
        self._report(State.FAILED if trace else State.UNASSIGNED, trace, stopped=True)

    def _fail(self, trace: str) -> None:
        self._phase = _Phase.FAILED
        self._report(State.FAILED, trace)

    def _report(self, state: State, trace: str | None = None, *, stopped: bool = False) -> None:
        self._reports.version = None if self._plugin is None else self._plugin.version
        if state is not State.RUNNING:
            self._task_configs = None
        self._events.add_state(self._reports.send(state, trace, stopped=stopped))
