"""The processes of Java plugins of one worker: a shared one, and one for each connector that has its own.

A connector's own process starts with the first start of the connector or of one of its tasks on this worker, and ends
when none of them is left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kraal.config.connector.java_plugins import PluginsJvm, parse_jvm

if TYPE_CHECKING:
    from kraal.java_plugins.host import PluginHost
    from kraal.metrics.stalls.down_parts import DownPart

_CLOSE_TIMEOUT_S: Final = 10.0
"""How long the worker's end waits for the end of all processes."""

IDLE_TIMEOUT_S: Final = 30.0
"""How long a process is kept for a task that will be opened again."""

MakeHost = Callable[[str, Callable[[], None]], "PluginHost"]
"""Makes the host of a connector's own process, by the connector's name; calls the function before a process starts."""


@dataclass(slots=True)
class _Own:
    host: PluginHost
    users: int = 0
    """How many starts of the connector and runs of its tasks use it."""


class PluginHosts:
    """Methods may be called on any thread, and return at once, but for `close`."""

    def __init__(self, shared: PluginHost, make: MakeHost, by_default: PluginsJvm) -> None:
        """`by_default`: where connectors run without a setting of their own."""
        self.shared: Final = shared
        """The host of plugins without a process of their own; also lists plugins and checks configs."""
        self._make, self._by_default = make, by_default
        self._lock = threading.Lock()
        self._own: dict[str, _Own] = {}
        self._ending: dict[str, threading.Thread] = {}
        """The thread that ends the last process of a connector, until it has ended."""
        self._stops: dict[str, Callable[[], None]] = {}
        """The stop function of each started connector."""
        self._levels: dict[str, str] = {}
        self._is_closed = False

    def take(self, connector: str, config: Mapping[str, str]) -> PluginHost:
        """Return the host for a start of a connector or for a run of one of its tasks; `give_back` follows."""
        if parse_jvm(config, self._by_default) is PluginsJvm.SHARED:
            return self.shared
        with self._lock:
            if self._is_closed:
                return self.shared
            jvm = self._own.get(connector)
            if jvm is None:
                jvm = self._own[connector] = _Own(self._start_host(connector))
            jvm.users += 1
            return jvm.host

    def give_back(self, host: PluginHost, *, later: bool = False) -> None:
        """End the process of an unused host; `later`: unless it is used again within `IDLE_TIMEOUT_S`."""
        if host is self.shared:
            return
        if later:
            timer = threading.Timer(IDLE_TIMEOUT_S, self.give_back, [host])
            timer.daemon = True
            timer.start()
            return
        with self._lock:
            jvm = self._own.get(host.connector)
            if jvm is None or jvm.host is not host:
                return
            jvm.users -= 1
            if not jvm.users:
                del self._own[host.connector]
                self._end(host)

    def add_stop(self, connector: str, stop: Callable[[], None]) -> None:
        """Store the stop function of a started connector; it blocks as long as the plugin does."""
        with self._lock:
            self._stops[connector] = stop

    def remove_stop(self, connector: str, stop: Callable[[], None]) -> None:
        """Remove it, unless the connector was started by another object since."""
        with self._lock:
            if self._stops.get(connector) == stop:
                del self._stops[connector]

    def abandon(self, connector: str) -> None:
        """Stop a connector that is not stopped yet, because it failed or a call of it has not returned."""
        with self._lock:
            stop = self._stops.pop(connector, None)
        if stop is not None:
            self.shared.submit(stop, may_block=True)

    def all(self) -> Mapping[str, PluginHost]:
        """Return all hosts, by their connectors; that of the shared process has an empty name."""
        with self._lock:
            return {"": self.shared, **{name: jvm.host for name, jvm in self._own.items()}}

    def down(self) -> Sequence[DownPart]:
        """Return the processes that are not up."""
        return [part for host in self.all().values() if (part := host.down()) is not None]

    def set_log_level(self, namespace: str, level: str) -> None:
        """Set the level of Java's loggers below a namespace in all processes, also in later ones."""
        with self._lock:
            self._levels.pop(namespace, None)
            self._levels[namespace] = level
            for host in (self.shared, *(jvm.host for jvm in self._own.values())):
                host.set_log_level(namespace, level)

    def close(self) -> None:
        """End all processes; returns when they have ended, or after ten seconds."""
        with self._lock:
            self._is_closed = True
            for jvm in self._own.values():
                self._end(jvm.host)
            self._own.clear()
            ending = list(self._ending.values())
        self.shared.close()
        for each in ending:
            each.join(_CLOSE_TIMEOUT_S)

    def _start_host(self, connector: str) -> PluginHost:
        last = self._ending.get(connector)

        def before() -> None:
            if last is not None:
                last.join()  # tasks in the last process may still write

        host = self._make(connector, before)
        for namespace, level in self._levels.items():
            host.set_log_level(namespace, level)
        host.start()
        return host

    def _end(self, host: PluginHost) -> None:
        """Stop a process on a separate thread, because the caller may be one of the host's threads."""

        def end() -> None:
            host.close()
            with self._lock:
                if self._ending.get(host.connector) is thread:
                    del self._ending[host.connector]

        thread = threading.Thread(target=end, name="kraal-java-end", daemon=True)
        self._ending[host.connector] = thread
        thread.start()
