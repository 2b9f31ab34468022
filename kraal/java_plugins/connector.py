"""Java connectors and other Java plugins as Kraal's plugin API sees them.

The classes are made from the catalog, so that configs are listed and checked before the JVM is up. A connector
object starts and stops the Java connector of the same name.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

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
from kraal.plugins.registry import PluginKind
from kraal.plugins.versions import ascending

if TYPE_CHECKING:
    from kraal.core.offsets import Offset, SourcePartition, TopicPartition
    from kraal.java_plugins.catalog import JavaPlugin
    from kraal.java_plugins.host import PluginHost
    from kraal.plugins.api import ConnectorContext
    from kraal.plugins.registry import PluginVersion

log = logging.getLogger(__name__)

JAVA: Final = "java"
"""The attribute `runtime` of classes that the JVM of Java plugins runs."""


class JavaConnector(Connector):
    """A connector whose class is Java. The process keeps it while it is started, also if the process is replaced."""

    host: ClassVar[PluginHost]
    class_name: ClassVar[str]

    def __init__(self) -> None:
        self._name = ""
        self._config: Mapping[str, str] = {}
        self._number = 0
        """Of this start; 0: not started, or stopped."""

    @override
    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Start the Java connector; blocks until its `start` returns. Raises PluginFailed.

        While the JVM is not up it is started later: `task_configs` raises PluginsAway until then, and is tried again.
        """
        number = self.host.next_number()
        self._name, self._config, self._number = config["name"], dict(config), number
        following = _Following(self, number, context)
        self.host.follow(number, following)
        try:
            self.ask_to_start(number)
        except PluginsAway:
            following.lost = True
            if self.host.why_away is None:  # it came up meanwhile
                following.up()
        except BaseException:
            self.forget(following.number)
            raise

    @override
    def stop(self) -> None:
        """Stop the Java connector; waits five seconds for it. Raises PluginFailed with what its `stop` threw."""
        number, self._number = self._number, 0
        if not number:
            return
        self.host.forget(number)
        try:
            _raised(self.host.ask("stopConnector", self._name, number))
        except PluginsAway:
            log.debug("Connector %s has ended with the JVM of Java plugins", self._name)

    @override
    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        """Return what the Java connector's `taskConfigs` returns; `max_tasks` is in its config."""
        del max_tasks
        answer = json.loads(self.host.ask("taskConfigs", self._name, json.dumps(self._config)))
        _raised(answer.get("trace"))
        return [{key: text for key, text in each.items() if text is not None} for each in answer["configs"]]

    def ask_to_start(self, number: int) -> None:
        """Start the Java connector in the present process. Raises PluginFailed, PluginsAway."""
        _raised(self.host.ask("startConnector", self._name, number, json.dumps(self._config)))

    def again(self, number: int, context: ConnectorContext) -> None:
        """Repeat a start in a new process, unless it was stopped; its tasks may be configured again."""
        if self._number != number:
            return
        try:
            self.ask_to_start(number)
        except PluginsAway:
            return  # the next process starts it
        except Exception as exc:  # noqa: BLE001 - the border to plugin code
            self.forget(number)
            context.raise_error(exc)
            return
        if self._number == number:
            context.request_task_reconfiguration()
        else:  # it was stopped meanwhile
            self.host.ask("stopConnector", self._name, number)

    def forget(self, number: int) -> None:
        """Follow a start no more: it has failed. Its remains in the process are stopped."""
        if self._number == number:
            self._number = 0
        self.host.forget(number)

        def stop() -> None:
            with suppress(PluginsAway):
                self.host.ask("stopConnector", self._name, number)

        self.host.submit(stop, may_block=True)

    @classmethod
    @override
    def validate(cls, config: Mapping[str, str | None]) -> Sequence[ConfigValue]:
        """Return what the Java connector's `validate` says; from its declared keys alone while the JVM is not up."""
        given = {key: text for key, text in config.items() if text is not None}
        try:
            text = cls.host.ask("validate", cls.class_name, given.get(CONNECTOR_VERSION), json.dumps(given))
        except PluginsAway as exc:
            log.info("Checked a config of %s by its declared keys only: %s", cls.class_name, exc)
            return super().validate(config)
        except Exception as exc:
            raise _refusal(exc) from exc
        return [_value(each) for each in json.loads(text)]

    @override
    def exactly_once_support(self, config: Mapping[str, str]) -> bool | None:
        """Return what `exactlyOnceSupport` says."""
        return _supported(self._asked("exactlyOnceSupport", config))

    @override
    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> bool:
        """Return what `canDefineTransactionBoundaries` says; False if it says nothing."""
        return bool(_supported(self._asked("transactionBoundaries", config)))

    @override
    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[SourcePartition, Offset | None]
    ) -> bool:
        """Have the Java connector's `alterOffsets` check the offsets. Raises ValueError, OffsetsNotSupported."""
        pairs = [
            [partition.as_dict(), None if offset is None else dict(offset)]
            for partition, offset in offsets.items()
        ]
        return self._altered(config, pairs, source=True)

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
        return self._altered(config, pairs, source=False)

    def _altered(self, config: Mapping[str, str], pairs: Sequence[object], *, source: bool) -> bool:
        asked = ("alterOffsets", self.class_name, config.get(CONNECTOR_VERSION), source)
        try:
            return bool(self.host.ask(*asked, json.dumps(dict(config)), json.dumps(pairs)))
        except PluginsAway:
            raise
        except Exception as exc:
            name, text = _thrown(exc)
            if name == "java.lang.UnsupportedOperationException":
                raise OffsetsNotSupported(text) from exc
            raise ValueError(text) from exc

    def _asked(self, method: str, config: Mapping[str, str]) -> str | None:
        try:
            answer = self.host.ask(
                method, self.class_name, config.get(CONNECTOR_VERSION), json.dumps(dict(config))
            )
        except PluginsAway:
            raise
        except Exception as exc:
            raise RuntimeError(_thrown(exc)[1]) from exc
        return None if answer is None else str(answer)


class _Following:
    """Follows the process for a started connector. Implements `Listener`."""

    def __init__(self, connector: JavaConnector, number: int, context: ConnectorContext) -> None:
        self._connector, self._context = connector, context
        self.number = number
        """Of the start."""
        self.lost = False
        """Whether the connector must be started in the next process."""

    def up(self) -> None:
        """Start the connector in a new process."""
        if self.lost:
            self.lost = False
            self._connector.host.submit(
                lambda: self._connector.again(self.number, self._context), may_block=True
            )

    def down(self, why: str) -> None:
        """Remember that the connector has ended."""
        del why
        self.lost = True

    def event(self, event: Mapping[str, Any]) -> None:
        """Pass on a request of the connector."""
        if event["what"] == "reconfigure":
            self._context.request_task_reconfiguration()
        else:
            self._connector.forget(self.number)
            self._context.raise_error(PluginFailed("the connector raised an error", event["detail"]))

    def tick(self) -> None:
        """Do nothing."""


class _MadeInJvm:
    """A transform, predicate or converter: the JVM makes it, for Java connectors and those in Python."""

    class_name: ClassVar[str]

    def __new__(cls) -> Self:
        """Raise BadRequest: a source in real-time mode names the plugin."""
        raise BadRequest(
            f"{cls.class_name} is a Java plugin, which sources in real-time mode cannot use; use "
            "one of Kraal's own plugins."
        )


def classes_of(found: Iterable[JavaPlugin], host: PluginHost) -> Mapping[str, Sequence[PluginVersion]]:
    """Return the versions of each Java plugin, by its full name and ascending, with their kinds and classes."""
    by_place: dict[str, dict[tuple[str, str], list[JavaPlugin]]] = {}
    for each in found:
        places = by_place.setdefault(each.class_name, {})
        places.setdefault((each.version, each.location), []).append(each)
    return {
        name: [
            (tuple(role.kind for role in roles), _class_of(roles[0], host))
            for _, roles in sorted(places.items(), key=lambda place: ascending(place[0][0]))
        ]
        for name, places in by_place.items()
    }


def _class_of(plugin: JavaPlugin, host: PluginHost) -> type[Any]:
    members: dict[str, Any] = {
        "class_name": plugin.class_name,
        "runtime": JAVA,
        "version": plugin.version,
        "location": plugin.location,
        "config_def": plugin.config_def,
        "__doc__": f"The Java class {plugin.class_name} of {plugin.location}.",
    }
    name = plugin.class_name.rpartition(".")[2]
    match plugin.kind:
        case PluginKind.SOURCE | PluginKind.SINK:
            task = SourceTask if plugin.kind is PluginKind.SOURCE else SinkTask
            members["kind"], members["host"] = str(plugin.kind), host
            members["task_class"] = type(f"{name}Task", (task,), {"class_name": plugin.task_class or None})
            return type(name, (JavaConnector,), members)
        case PluginKind.TRANSFORMATION:
            return type(name, (_MadeInJvm, Transformation), members)
        case PluginKind.PREDICATE:
            return type(name, (_MadeInJvm, Predicate), members)
        case _:
            return type(name, (_MadeInJvm, Converter), members)


def _raised(trace: str | None) -> None:
    if trace is not None:
        raise PluginFailed(trace.partition("\n")[0], trace)


def _refusal(error: Exception) -> Exception:
    name, text = _thrown(error)
    return PluginFailed(text, f"{name}: {text}")


def _thrown(error: Exception) -> tuple[str, str]:
    """Return the class and the message of what Java threw."""
    java = getattr(error, "java_exception", None)
    if java is None:
        return type(error).__name__, str(error)
    return str(java.getClass().getName()), str(java.getMessage())


def _supported(answer: str | None) -> bool | None:
    return None if answer is None else answer == "SUPPORTED"


def _value(info: Mapping[str, Any]) -> ConfigValue:
    return ConfigValue(
        name=info["name"],
        value=info["value"],
        recommended=tuple(info["recommended_values"]),
        errors=tuple(info["errors"]),
        visible=info["visible"],
    )
