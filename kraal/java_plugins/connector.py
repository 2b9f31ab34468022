"""Java connectors and other Java plugins as Kraal's plugin API sees them.

The classes are made from the catalog, so that configs are listed and checked before the JVM is up. A connector
object starts and stops the Java connector of the same name.
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
from kraal.java_plugins.jvm import PluginsAway
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
    """A connector whose class is Java. Its process keeps it while it is started, also if the process is replaced.

    The shared process answers the requests of the class.
    """

    hosts: ClassVar[PluginHosts]
    class_name: ClassVar[str]

    def __init__(self) -> None:
        self._name = ""
        self._config: Mapping[str, str] = {}
        self._host = self.hosts.shared
        """Of the last start."""
        self._lock = threading.Lock()
        self._started: _Following | None = None
        """The start that was not stopped and has not failed. Guarded by `_lock`."""

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Start the Java connector; blocks until its `start` returns. Raises PluginFailed.

        Raises PluginsAway while its JVM is not up: it starts as soon as that is, and then requests task configs.
        """
        if self._started is not None:  # it has failed since
            self._abandon()
        self._name, self._config = config["name"], dict(config)
        self._host = host = self.hosts.take(self._name, config)
        self._started = started = _Following(self, host, host.next_number(), context)
        self.hosts.add_stop(self._name, self._abandon)
        host.follow(started.number, started)
        try:
            self.ask_to_start(started)
        except PluginsAway:
            started.lost = True
            if host.why_away is None:  # it came up meanwhile
                started.on_up()
            raise
        except BaseException:
            self.forget(started)
            raise

    @override
    def stop(self) -> None:
        """Stop the Java connector; waits five seconds for it. Raises PluginFailed with the exception of its `stop`."""
        started = self._started
        if started is None or not self._has_ended(started):
            return
        started.host.forget(started.number)
        try:
            _raise_failure(started.host.ask("stopConnector", self._name, started.number))
        except PluginsAway:
            log.debug("Connector %s has ended with its JVM", self._name)
        finally:
            self.hosts.give_back(started.host)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return the result of the Java connector's `taskConfigs`; `max_tasks` is in its config."""
        del max_tasks
        answer = json.loads(self._host.ask("taskConfigs", self._name, json.dumps(self._config)))
        _raise_failure(answer.get("trace"))
        return [{key: text for key, text in each.items() if text is not None} for each in answer["configs"]]

    def ask_to_start(self, started: _Following) -> None:
        """Start the Java connector in the present process. Raises PluginFailed, PluginsAway."""
        _raise_failure(
            started.host.ask("startConnector", self._name, started.number, json.dumps(self._config))
        )

    def restart(self, started: _Following, context: ConnectorContext) -> None:
        """Repeat a start in a new process, unless it was stopped; its tasks may be configured again."""
        if self._started is not started:
            return
        try:
            self.ask_to_start(started)
        except PluginsAway:
            return  # the next process starts it
        except Exception as exc:  # noqa: BLE001 - the border to plugin code
            if self._started is started:  # else it was stopped before it had started
                self.forget(started)
                context.raise_error(exc)
            return
        if self._started is started:
            context.request_task_reconfiguration()
        else:  # it was stopped meanwhile
            with suppress(PluginsAway):
                started.host.ask("stopConnector", self._name, started.number)

    def forget(self, started: _Following) -> None:
        """Follow a start no more: it has failed. Its remains in the process are stopped."""
        was_present = self._has_ended(started)
        started.host.forget(started.number)

        def stop() -> None:
            try:
                with suppress(PluginsAway):
                    started.host.ask("stopConnector", self._name, started.number)
            finally:
                if was_present:
                    self.hosts.give_back(started.host)

        started.host.submit(stop, may_block=True)

    def _has_ended(self, started: _Following) -> bool:
        """Record the end of a start; return False if it was recorded before."""
        with self._lock:
            if self._started is not started:
                return False
            self._started = None
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
        """Return the result of the Java connector's `validate`; of its declared keys alone while the JVM is not up."""
        entries = {key: text for key, text in config.items() if text is not None}
        try:
            text = cls.hosts.shared.ask(
                "validate", cls.class_name, entries.get(CONNECTOR_VERSION), json.dumps(entries)
            )
        except PluginsAway as exc:
            log.info("Checked a config of %s by its declared keys only: %s", cls.class_name, exc)
            return super().validate(config)
        except Exception as exc:
            raise refusal(exc) from exc
        return [config_value(each) for each in json.loads(text)]

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Return the result of `exactlyOnceSupport`."""
        return _is_supported(self._ask_shared("exactlyOnceSupport", config))

    @override
    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Return the result of `canDefineTransactionBoundaries`; False for null."""
        return bool(_is_supported(self._ask_shared("transactionBoundaries", config)))

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        """Have the Java connector's `alterOffsets` check the offsets. Raises ValueError, OffsetsNotSupported."""
        pairs = [
            [partition.as_dict(), None if offset is None else dict(offset)]
            for partition, offset in offsets.items()
        ]
        return self._alter_offsets(config, pairs, source=True)

    @override
    def alter_sink_offsets(
        self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> bool:
        """Have the Java connector's `alterOffsets` check a sink's offsets, likewise."""
        pairs = [
            [
                {"topic": place.topic, "partition": place.partition},
                None if offset is None else {"offset": offset},
            ]
            for place, offset in offsets.items()
        ]
        return self._alter_offsets(config, pairs, source=False)

    def _alter_offsets(self, config: Mapping[str, str], pairs: Sequence[object], *, source: bool) -> bool:
        request = ("alterOffsets", self.class_name, config.get(CONNECTOR_VERSION), source)
        try:
            return bool(self.hosts.shared.ask(*request, json.dumps(dict(config)), json.dumps(pairs)))
        except PluginsAway:
            raise
        except Exception as exc:
            name, text = describe_exception(exc)
            if name == "java.lang.UnsupportedOperationException":
                raise OffsetsNotSupported(text) from exc
            raise ValueError(text) from exc

    def _ask_shared(self, method: str, config: Mapping[str, str]) -> str | None:
        try:
            answer = self.hosts.shared.ask(
                method, self.class_name, config.get(CONNECTOR_VERSION), json.dumps(dict(config))
            )
        except PluginsAway:
            raise
        except Exception as exc:
            raise RuntimeError(describe_exception(exc)[1]) from exc
        return None if answer is None else str(answer)


class _Following:
    """One start of a connector; follows its process. Implements `Listener`."""

    def __init__(
        self, connector: JavaConnector, host: PluginHost, number: int, context: ConnectorContext
    ) -> None:
        self._connector, self._context = connector, context
        self.host = host
        self.number = number
        """Of the start."""
        self.lost = False
        """Whether the connector must be started in the next process."""

    def on_up(self) -> None:
        """Start the connector in a new process."""
        if self.lost:
            self.lost = False
            self.host.submit(lambda: self._connector.restart(self, self._context), may_block=True)

    def on_down(self, why: str) -> None:
        """Remember that the connector has ended; its runtime gets the reason when it asks for task configs."""
        del why
        self.lost = True
        self._context.request_task_reconfiguration()

    def event(self, event: Mapping[str, Any]) -> None:
        """Pass on a request of the connector."""
        if event["what"] == "reconfigure":
            self._context.request_task_reconfiguration()
        else:
            self._connector.forget(self)
            self._context.raise_error(PluginFailed("the connector raised an error", event["detail"]))

    def tick(self) -> None:
        """Do nothing."""


class _MadeInJvm:
    """A transform, predicate or converter: the JVM creates it, for Java connectors and those in Python."""

    class_name: ClassVar[str]

    def __new__(cls) -> Self:
        """Raise BadRequest."""
        raise BadRequest(f"{cls.class_name} is a Java plugin, which only the JVM of Java plugins can create.")


def make_classes(plugins: Iterable[JavaPlugin], hosts: PluginHosts) -> Mapping[str, Sequence[PluginVersion]]:
    """Return the versions of each Java plugin, by its full name and ascending, with their kinds and classes."""
    by_place: dict[str, dict[tuple[str, str], list[JavaPlugin]]] = {}
    for each in plugins:
        places = by_place.setdefault(each.class_name, {})
        places.setdefault((each.version, each.location), []).append(each)
    return {
        name: [
            (
                tuple(role.kind for role in roles if isinstance(role.kind, PluginKind)),
                _make_class(roles[0], hosts),
            )
            for _, roles in sorted(places.items(), key=lambda place: ascending(place[0][0]))
        ]
        for name, places in by_place.items()
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
            return type(name, (_MadeInJvm, Transformation), members)
        case PluginKind.PREDICATE:
            return type(name, (_MadeInJvm, Predicate), members)
        case _:
            return type(name, (_MadeInJvm, Converter), members)


def _raise_failure(trace: str | None) -> None:
    if trace is not None:
        raise PluginFailed(trace.partition("\n")[0], trace)


def refusal(error: Exception) -> Exception:
    """Return the error for a call in which Java threw something."""
    name, text = describe_exception(error)
    return PluginFailed(text, name if text == name else f"{name}: {text}")


def describe_exception(error: Exception) -> tuple[str, str]:
    """Return the class and the message of Java's exception; the class again if it has no message."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return type(error).__name__, str(error)
    name = str(java.getClass().getName())
    return name, str(java.getMessage() or name)


def _is_supported(answer: str | None) -> bool | None:
    return None if answer is None else answer == "SUPPORTED"


def config_value(info: Mapping[str, Any]) -> ConfigValue:
    """Return the config value of a `ConfigValueInfo` of the process."""
    return ConfigValue(
        name=info["name"],
        value=info["value"],
        recommended=tuple(info["recommended_values"]),
        errors=tuple(info["errors"]),
        visible=info["visible"],
    )
