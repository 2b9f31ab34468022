"""The JVMs of Java plugins of one worker: a shared JVM, and a dedicated JVM for each connector with `plugins.jvm=own`.

A dedicated JVM starts with the connector or its first task on this worker, and stops when the connector and all of its
tasks on this worker have ended.
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
"""How long the worker's shutdown waits for a JVM to exit."""

IDLE_TIMEOUT_S: Final = 30.0
"""How long an unused JVM is kept for a task that will be opened again."""

MakeHost = Callable[[str, Callable[[], None]], "PluginHost"]
"""Creates the host of a dedicated JVM. Arguments: the connector, and a function to call before the JVM starts."""


@dataclass(slots=True)
class _DedicatedJvm:
    host: PluginHost
    users: int = 0
    """The number of connector starts and task runs that use the JVM."""


class PluginHosts:
    """The hosts of one worker's JVMs of Java plugins. Thread-safe; only `close` blocks."""

    def __init__(self, shared: PluginHost, make_host: MakeHost, default_jvm: PluginsJvm) -> None:
        """Create the hosts; `default_jvm` applies to connectors whose config does not choose a JVM."""
        self.shared: Final = shared
        """The host of connectors without a dedicated JVM; also lists plugins and validates configs."""
        self._make_host, self._default_jvm = make_host, default_jvm
        self._lock = threading.Lock()
        self._dedicated_jvms: dict[str, _DedicatedJvm] = {}
        self._closing_threads: dict[str, threading.Thread] = {}
        """The thread that closes a connector's last JVM, until the JVM has exited."""
        self._stop_functions: dict[str, Callable[[], None]] = {}
        """The stop function of each started connector."""
        self._levels: dict[str, str] = {}
        self._is_closed = False

    def acquire(self, connector: str, config: Mapping[str, str]) -> PluginHost:
        """Return the host for a start of a connector or a run of one of its tasks; callers must `release` it."""
        if parse_jvm(config, self._default_jvm) is PluginsJvm.SHARED:
            return self.shared
        with self._lock:
            if self._is_closed:
                return self.shared
            jvm = self._dedicated_jvms.get(connector)
            if jvm is None:
                jvm = self._dedicated_jvms[connector] = _DedicatedJvm(self._start_host(connector))
            jvm.users += 1
            return jvm.host

    def release(self, host: PluginHost, *, later: bool = False) -> None:
        """Release a host that `acquire` returned, and close an unused host; with `later`, after `IDLE_TIMEOUT_S`."""
        if host is self.shared:
            return
        if later:
            timer = threading.Timer(IDLE_TIMEOUT_S, self.release, [host])
            timer.daemon = True
            timer.start()
            return
        with self._lock:
            jvm = self._dedicated_jvms.get(host.connector)
            if jvm is None or jvm.host is not host:
                return
            jvm.users -= 1
            if not jvm.users:
                del self._dedicated_jvms[host.connector]
                self._close_async(host)

    def add_stop(self, connector: str, stop: Callable[[], None]) -> None:
        """Store the stop function of a started connector. The function blocks as long as the plugin does."""
        with self._lock:
            self._stop_functions[connector] = stop

    def remove_stop(self, connector: str, stop: Callable[[], None]) -> None:
        """Remove a stop function, unless another object has started the connector since."""
        with self._lock:
            if self._stop_functions.get(connector) == stop:
                del self._stop_functions[connector]

    def abandon(self, connector: str) -> None:
        """Stop a connector that has failed or hangs, unless it is already stopped."""
        with self._lock:
            stop = self._stop_functions.pop(connector, None)
        if stop is not None:
            self.shared.submit(stop, may_block=True)

    def all(self) -> Mapping[str, PluginHost]:
        """Return all hosts by connector name; the name of the shared host is empty."""
        with self._lock:
            return {"": self.shared, **{name: jvm.host for name, jvm in self._dedicated_jvms.items()}}

    def down(self) -> Sequence[DownPart]:
        """Return the JVMs that are down."""
        return [part for host in self.all().values() if (part := host.down()) is not None]

    def set_log_level(self, namespace: str, level: str) -> None:
        """Set the level of the loggers in a namespace in all JVMs, including later ones."""
        with self._lock:
            self._levels.pop(namespace, None)
            self._levels[namespace] = level
            for host in (self.shared, *(jvm.host for jvm in self._dedicated_jvms.values())):
                host.set_log_level(namespace, level)

    def close(self) -> None:
        """Close all hosts. Blocks until the JVMs have exited, for up to ten seconds per JVM."""
        with self._lock:
            self._is_closed = True
            for jvm in self._dedicated_jvms.values():
                self._close_async(jvm.host)
            self._dedicated_jvms.clear()
            threads = list(self._closing_threads.values())
        self.shared.close()
        for thread in threads:
            thread.join(_CLOSE_TIMEOUT_S)

    def _start_host(self, connector: str) -> PluginHost:
        closing_thread = self._closing_threads.get(connector)

        def await_previous() -> None:
            if closing_thread is not None:
                closing_thread.join()  # tasks in the previous JVM may still write

        host = self._make_host(connector, await_previous)
        for namespace, level in self._levels.items():
            host.set_log_level(namespace, level)
        host.start()
        return host

    def _close_async(self, host: PluginHost) -> None:
        """Close a host on a separate thread, because the caller may be one of the host's threads."""

        def close() -> None:
            host.close()
            with self._lock:
                if self._closing_threads.get(host.connector) is thread:
                    del self._closing_threads[host.connector]

        thread = threading.Thread(target=close, name="kraal-java-end", daemon=True)
        self._closing_threads[host.connector] = thread
        thread.start()
