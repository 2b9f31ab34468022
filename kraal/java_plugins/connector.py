"""Adapters of Java connectors and other Java plugins to Kraal's plugin API.

The classes are created from the catalog, so that plugins can be listed and configs validated before the JVM is up.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Self

from typing_extensions import override

from kraal.config.connector.keys import CONNECTOR_VERSION
from kraal.config.key import ConfigValue
from kraal.core.errors import BadRequest, PluginFailed
from kraal.java_plugins.jvm import PluginsUnavailable
from kraal.plugins.api import (
    Connector,
    Converter,
    OffsetsNotSupported,
    Predicate,
    SinkTask,
    SourceTask,
    Transformation,
)
from kraal.plugins.entries import PluginKind
from kraal.plugins.versions import ascending

if TYPE_CHECKING:
    from kraal.core.offsets import Offset, SourcePartition, TopicPartition
    from kraal.java_plugins.catalog import JavaPlugin
    from kraal.java_plugins.host import PluginHost
    from kraal.java_plugins.hosts import PluginHosts
    from kraal.plugins.api import ConnectorContext
    from kraal.plugins.entries import PluginVersion

log = logging.getLogger(__name__)


class JavaConnector(Connector):
    """A connector implemented in Java. While started, it is restarted whenever its JVM is replaced.

    Calls that do not require a started connector, such as `validate`, are sent to the shared JVM.
    """

    hosts: ClassVar[PluginHosts]
    class_name: ClassVar[str]

    def __init__(self) -> None:
        self._name = ""
        self._config: Mapping[str, str] = {}
        self._host = self.hosts.shared
        """The host of the last start."""
        self._lock = threading.Lock()
        self._current_start: _ConnectorStart | None = None
        """The last start; None once the connector was stopped or has failed. Guarded by `_lock`."""

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Start the Java connector; blocks until the connector's `start` returns. Raises PluginFailed.

        Raises PluginsUnavailable if the JVM is down; the connector then starts with the JVM and requests a task
        reconfiguration.
        """
        if self._current_start is not None:  # the previous start has failed
            self._abandon()
        self._name, self._config = config["name"], dict(config)
        self._host = host = self.hosts.acquire(self._name, config)
        self._current_start = connector_start = _ConnectorStart(self, host, host.next_number(), context)
        self.hosts.add_stop(self._name, self._abandon)
        host.add_listener(connector_start.number, connector_start)
        try:
            self.start_in_jvm(connector_start)
        except PluginsUnavailable:
            connector_start.needs_restart = True
            if host.down_reason is None:  # the JVM came up meanwhile
                connector_start.on_up()
            raise
        except BaseException:
            self.discard(connector_start)
            raise

    @override
    def stop(self) -> None:
        """Stop the Java connector, waiting up to five seconds. Raises PluginFailed if the connector's `stop` throws."""
        connector_start = self._current_start
        if connector_start is None or not self._mark_ended(connector_start):
            return
        connector_start.host.remove_listener(connector_start.number)
        try:
            _raise_failure(connector_start.host.ask("stopConnector", self._name, connector_start.number))
        except PluginsUnavailable:
            log.debug("Connector %s stopped with its JVM", self._name)
        finally:
            self.hosts.release(connector_start.host)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the result of the Java connector's `taskConfigs`; the JVM reads `max_tasks` from the config."""
        del max_tasks
        response = json.loads(self._host.ask("taskConfigs", self._name, json.dumps(self._config)))
        _raise_failure(response.get("trace"))
        return [
            {key: text for key, text in config.items() if text is not None} for config in response["configs"]
        ]

    def start_in_jvm(self, connector_start: _ConnectorStart) -> None:
        """Start the Java connector in the current JVM. Raises PluginFailed, PluginsUnavailable."""
        _raise_failure(
            connector_start.host.ask(
                "startConnector", self._name, connector_start.number, json.dumps(self._config)
            )
        )

    def restart(self, connector_start: _ConnectorStart, context: ConnectorContext) -> None:
        """Start the connector in a new JVM unless it was stopped, then request a task reconfiguration."""
        if self._current_start is not connector_start:
            return
        try:
            self.start_in_jvm(connector_start)
        except PluginsUnavailable:
            return  # the connector is restarted with the next JVM
        except Exception as exc:  # noqa: BLE001 - any error of plugin code
            if self._current_start is connector_start:  # it was not stopped while it started
                self.discard(connector_start)
                context.raise_error(exc)
            return
        if self._current_start is connector_start:
            context.request_task_reconfiguration()
        else:  # the connector was stopped meanwhile
            with suppress(PluginsUnavailable):
                connector_start.host.ask("stopConnector", self._name, connector_start.number)

    def discard(self, connector_start: _ConnectorStart) -> None:
        """Unregister a failed start, and stop its connector in the JVM."""
        was_current = self._mark_ended(connector_start)
        connector_start.host.remove_listener(connector_start.number)

        def stop() -> None:
            try:
                with suppress(PluginsUnavailable):
                    connector_start.host.ask("stopConnector", self._name, connector_start.number)
            finally:
                if was_current:
                    self.hosts.release(connector_start.host)

        connector_start.host.submit(stop, may_block=True)

    def _mark_ended(self, connector_start: _ConnectorStart) -> bool:
        """Mark a start as ended; return False if it was already ended."""
        with self._lock:
            if self._current_start is not connector_start:
                return False
            self._current_start = None
        self.hosts.remove_stop(self._name, self._abandon)
        return True

    def _abandon(self) -> None:
        try:
            self.stop()
        except PluginFailed as exc:
            log.warning("Failed to stop the connector %s: %s", self._name, exc)

    @classmethod
    @override
    def validate(cls, config: Mapping[str, str | None]) -> Sequence[ConfigValue]:
        """Return the result of the Java connector's `validate`; if the JVM is down, validate only declared keys."""
        entries = {key: text for key, text in config.items() if text is not None}
        try:
            text = cls.hosts.shared.ask(
                "validate", cls.class_name, entries.get(CONNECTOR_VERSION), json.dumps(entries)
            )
        except PluginsUnavailable as exc:
            log.info("Validated only the declared keys of a config of %s: %s", cls.class_name, exc)
            return super().validate(config)
        except Exception as exc:
            raise to_plugin_failed(exc) from exc
        return [parse_config_value(info) for info in json.loads(text)]

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Return whether `exactlyOnceSupport` returns SUPPORTED; None for null."""
        return _parse_support(self._ask_shared("exactlyOnceSupport", config))

    @override
    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Return whether `canDefineTransactionBoundaries` returns SUPPORTED."""
        return bool(_parse_support(self._ask_shared("transactionBoundaries", config)))

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        """Return the result of the Java source's `alterOffsets`. Raises ValueError, OffsetsNotSupported."""
        pairs = [
            [partition.as_dict(), None if offset is None else dict(offset)]
            for partition, offset in offsets.items()
        ]
        return self._alter_offsets(config, pairs, is_source=True)

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Return the result of the Java sink's `alterOffsets`. Raises ValueError, OffsetsNotSupported."""
        pairs = [
            [
                {"topic": partition.topic, "partition": partition.partition},
                None if offset is None else {"offset": offset},
            ]
            for partition, offset in offsets.items()
        ]
        return self._alter_offsets(config, pairs, is_source=False)

    def _alter_offsets(self, config: Mapping[str, str], pairs: Sequence[object], *, is_source: bool) -> bool:
        request = ("alterOffsets", self.class_name, config.get(CONNECTOR_VERSION), is_source)
        try:
            return bool(self.hosts.shared.ask(*request, json.dumps(dict(config)), json.dumps(pairs)))
        except PluginsUnavailable:
            raise
        except Exception as exc:
            name, text = describe_exception(exc)
            if name == "java.lang.UnsupportedOperationException":
                raise OffsetsNotSupported(text) from exc
            raise ValueError(text) from exc

    def _ask_shared(self, method: str, config: Mapping[str, str]) -> str | None:
        try:
            response = self.hosts.shared.ask(
                method, self.class_name, config.get(CONNECTOR_VERSION), json.dumps(dict(config))
            )
        except PluginsUnavailable:
            raise
        except Exception as exc:
            raise RuntimeError(describe_exception(exc)[1]) from exc
        return None if response is None else str(response)


class _ConnectorStart:
    """One start of a connector, which is repeated in each new JVM. Implements `Listener`."""

    def __init__(
        self, connector: JavaConnector, host: PluginHost, number: int, context: ConnectorContext
    ) -> None:
        self._connector, self._context = connector, context
        self.host = host
        self.number = number
        """Identifies the start to the JVM."""
        self.needs_restart = False
        """Whether the connector must be started in the next JVM."""

    def on_up(self) -> None:
        """Start the connector in a new JVM, if required."""
        if self.needs_restart:
            self.needs_restart = False
            self.host.submit(lambda: self._connector.restart(self, self._context), may_block=True)

    def on_down(self, why: str) -> None:
        """Request a task reconfiguration, which fails with the reason, and schedule a restart of the connector."""
        del why
        self.needs_restart = True
        self._context.request_task_reconfiguration()

    def event(self, event: Mapping[str, Any]) -> None:
        """Handle a reconfiguration request or an error of the connector."""
        if event["what"] == "reconfigure":
            self._context.request_task_reconfiguration()
        else:
            self._connector.discard(self)
            self._context.raise_error(PluginFailed("the connector raised an error", event["detail"]))

    def tick(self) -> None:
        """No-op."""


class _JvmOnlyPlugin:
    """A transform, predicate or converter that only the JVM instantiates, even for connectors in Python."""

    class_name: ClassVar[str]

    def __new__(cls) -> Self:
        """Raise BadRequest: Python code cannot instantiate the class."""
        raise BadRequest(f"{cls.class_name} is a Java plugin, which only the JVM of Java plugins can create.")


def make_classes(plugins: Iterable[JavaPlugin], hosts: PluginHosts) -> Mapping[str, Sequence[PluginVersion]]:
    """Return the kinds and the class of each version of a Java plugin, by full name, in ascending order of versions."""
    versions_by_name: dict[str, dict[tuple[str, str], list[JavaPlugin]]] = {}
    for plugin in plugins:
        versions = versions_by_name.setdefault(plugin.class_name, {})
        versions.setdefault((plugin.version, plugin.location), []).append(plugin)
    return {
        name: [
            (
                tuple(role.kind for role in roles if isinstance(role.kind, PluginKind)),
                _make_class(roles[0], hosts),
            )
            for _, roles in sorted(versions.items(), key=lambda item: ascending(item[0][0]))
        ]
        for name, versions in versions_by_name.items()
    }


def _make_class(plugin: JavaPlugin, hosts: PluginHosts) -> type[Any]:
    members: dict[str, Any] = {
        "class_name": plugin.class_name,
        "version": plugin.version,
        "location": plugin.location,
        "config_def": plugin.config_def,
        "__doc__": f"The Java class {plugin.class_name} of {plugin.location}.",
    }
    name = plugin.class_name.rpartition(".")[2]
    match plugin.kind:
        case PluginKind.SOURCE | PluginKind.SINK:
            task = SourceTask if plugin.kind is PluginKind.SOURCE else SinkTask
            members["kind"], members["hosts"] = str(plugin.kind), hosts
            members["task_class"] = type(f"{name}Task", (task,), {"class_name": plugin.task_class or None})
            return type(name, (JavaConnector,), members)
        case PluginKind.TRANSFORMATION:
            return type(name, (_JvmOnlyPlugin, Transformation), members)
        case PluginKind.PREDICATE:
            return type(name, (_JvmOnlyPlugin, Predicate), members)
        case _:
            return type(name, (_JvmOnlyPlugin, Converter), members)


def _raise_failure(trace: str | None) -> None:
    if trace is not None:
        raise PluginFailed(trace.partition("\n")[0], trace)


def to_plugin_failed(error: Exception) -> Exception:
    """Return the PluginFailed error for a Java exception."""
    name, text = describe_exception(error)
    return PluginFailed(text, name if text == name else f"{name}: {text}")


def describe_exception(error: Exception) -> tuple[str, str]:
    """Return the class name and message of a Java exception; the class name twice if it has no message."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return type(error).__name__, str(error)
    name = str(java.getClass().getName())
    return name, str(java.getMessage() or name)


def _parse_support(response: str | None) -> bool | None:
    return None if response is None else response == "SUPPORTED"


def parse_config_value(info: Mapping[str, Any]) -> ConfigValue:
    """Convert a `ConfigValueInfo` of the JVM."""
    return ConfigValue(
        name=info["name"],
        value=info["value"],
        recommended=tuple(info["recommended_values"]),
        errors=tuple(info["errors"]),
        visible=info["visible"],
    )
