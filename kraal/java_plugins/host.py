"""Runs the JVM of Java plugins: restarts it when it exits, dispatches its events, and calls its methods.

One thread starts the process and polls it for the events of all connectors and tasks; the polls also serve as the
worker's heartbeat. Other threads call `ask`.
"""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from kraal.java_plugins.discovery import Discovery
from kraal.java_plugins.jvm import Jvm, PluginsUnavailable
from kraal.metrics.stalls.down_parts import DownPart

if TYPE_CHECKING:
    from kraal.java_plugins.catalog import JavaPlugin

log = logging.getLogger(__name__)

TICK_MS: Final = 500
HUNG_TIMEOUT_S: Final = 30.0
"""Time after which a process that does not respond to a poll is killed."""
_POLL_INTERVAL_S: Final = 0.2
_END_TIMEOUT_S: Final = 2.0
"""How long a process may take to exit after it has closed a connection."""
_RESTART_DELAYS_S: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Delays before a start, by the number of consecutive failures."""
_STABLE_UPTIME_S: Final = 60.0
"""Uptime before which the exit of a process counts as a failure."""
_MAX_THREADS: Final = 16
"""Maximum number of concurrent calls for tasks. These calls are short."""
_JAVA_EXCEPTION: Final = "Py4JJavaError"


class Listener(Protocol):
    """A receiver of the events of a connector or a run in the process.

    The methods must not block. They are called on the host's thread. `on_up` may also be called on other threads, and
    more than once for one process.
    """

    def on_up(self) -> None:
        """Called when the process is up; immediately if it is up already."""

    def on_down(self, why: str) -> None:
        """Called when the process has exited or failed to start, and with each new reason while it is down."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Called for each event of the process; see `Events.java`."""

    def tick(self) -> None:
        """Called at least every `TICK_MS` while the process is up."""


_next_number: Final = itertools.count(1).__next__


class PluginHost:
    """One process of Java plugins. Thread-safe."""

    def __init__(
        self,
        *,
        discovery: Discovery,
        worker: Mapping[str, str],
        class_path: Callable[[], Sequence[Path]],
        options: Sequence[str] = (),
        silence_s: float = 5.0,
        standalone: bool = False,
        describes_plugins: bool = False,
        connector: str = "",
    ) -> None:
        """Store the settings of the process; `start` starts it.

        Args:
            discovery: provides the plugin discovery settings.
            worker: the properties of the worker.
            class_path: returns the jars; called on the host's thread, may download and compile.
            options: options of the JVM.
            silence_s: seconds without a poll after which the process exits, because other workers may run its tasks.
            standalone: whether the worker is a standalone worker; a listener must then handle offset requests.
            describes_plugins: whether the first process describes all plugins, because they are not cached.
            connector: the only connector in the process; empty for the worker's shared process.
        """
        self.connector: Final = connector
        self._jvm_name = f"the JVM of the connector {connector}" if connector else "the JVM of Java plugins"
        self._plugins_name = f"Java plugins of the connector {connector}" if connector else "Java plugins"
        self._discovery, self._worker = discovery, dict(worker)
        self._class_path, self._options = class_path, tuple(options)
        self._silence_ms = int(silence_s * 1000)
        self._standalone, self._describes_plugins = standalone, describes_plugins
        self._lock = threading.RLock()
        self._listeners: dict[object, Listener] = {}
        self._levels: dict[str, str] = {}
        self._jvm: Jvm | None = None
        self._starting_jvm: Jvm | None = None
        self._down_reason = f"{self._jvm_name} is starting"
        self._reported_down_reason: str | None = None
        """The last reason reported to listeners; None if there was none since the process was up."""
        self._down_s: float | None = None
        """The monotonic time in seconds since which the process is down; None if it is up or was not started."""
        self.starts = 0
        """How many times the process was started."""
        self._catalog: str | None = None
        self._is_scanned = threading.Event()
        self._is_up = threading.Event()
        self.services: Sequence[JavaPlugin] = ()
        """The config providers and override policies in `plugin.path`; set once, before their first use."""
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(_MAX_THREADS, "kraal-java")
        self._thread = threading.Thread(target=self._run, name="kraal-java-events", daemon=True)
        self._poll_start_s: float | None = None
        """The start of the current poll for events, in monotonic seconds; None between polls."""
        self.next_number = _next_number
        """Returns a number that is unique among the runs and connector starts of this worker."""

    def start(self) -> None:
        """Start the host's threads; does not block."""
        self._down_s = time.monotonic()
        self._thread.start()
        threading.Thread(target=self._watch, name="kraal-java-watch", daemon=True).start()

    def describe(self, is_cancelled: Callable[[], bool]) -> str:
        """Return the catalog's JSON; waits for the first process.

        Raises PluginsUnavailable if the process does not start, or if `is_cancelled` returns True meanwhile.
        """
        while not self._is_scanned.wait(_POLL_INTERVAL_S):
            if is_cancelled():
                break
        if self._catalog is None:
            raise PluginsUnavailable(self._down_reason)
        return self._catalog

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method of `PluginWorker`; blocks as long as the plugin does.

        Raises PluginsUnavailable if the process is down, and py4j's error if the method throws.
        """
        jvm = self._jvm
        if jvm is None:
            raise PluginsUnavailable(self._down_reason)
        try:
            return getattr(jvm.entry, method)(*arguments)
        except PluginsUnavailable:
            raise
        except Exception as exc:
            if type(exc).__name__ == _JAVA_EXCEPTION and jvm.alive:
                raise
            jvm.wait(_END_TIMEOUT_S)  # connections close before the process ends
            why = "the connection to it was lost" if jvm.end is None else jvm.end
            raise PluginsUnavailable(f"{self._jvm_name} did not respond: {why}") from exc

    def submit(self, work: Callable[[], object], *, may_block: bool = False) -> None:
        """Run `work` on a thread of the host.

        `may_block` must be true if `work` calls a plugin. Such a call runs on a separate thread, so that a plugin that
        never returns does not block other calls. Other work is dropped once the host is closed.
        """
        if may_block:
            threading.Thread(target=_log_errors, args=(work,), name="kraal-java-start", daemon=True).start()
            return
        try:
            self._pool.submit(_log_errors, work)
        except RuntimeError:
            log.debug("Dropped a call to a Java plugin because the worker is shutting down")

    def add_listener(self, key: object, listener: Listener) -> None:
        """Register a listener, which receives the events of the run or connector start with the number `key`."""
        with self._lock:
            self._listeners[key] = listener
            is_up = self._jvm is not None
        if is_up:
            listener.on_up()

    def remove_listener(self, key: object) -> None:
        """Remove the listener of `key`, if any."""
        with self._lock:
            self._listeners.pop(key, None)

    def set_log_level(self, namespace: str, level: str) -> None:
        """Set the log4j level of the loggers in a namespace, in this and later processes."""
        with self._lock:
            self._levels.pop(namespace, None)
            self._levels[namespace] = level
        self.submit(self._set_levels)

    def _set_levels(self) -> None:
        with self._lock:
            levels = dict(self._levels)
        try:
            for namespace, level in levels.items():
                self.ask("setLogLevel", namespace, level)
        except PluginsUnavailable:
            log.debug("Deferred setting the log levels until the next JVM is up")

    @property
    def down_reason(self) -> str | None:
        """Why the process is down; None if it is up."""
        return None if self._jvm is not None else self._down_reason

    def down(self) -> DownPart | None:
        """Return why and since when the process is down; None if it is up."""
        since_s, why = self._down_s, self._down_reason
        name = f"plugins-jvm:{self.connector}" if self.connector else "plugins-jvm"
        return None if since_s is None else DownPart(name, since_s, why)

    def wait_until_up(self, timeout_s: float) -> bool:
        """Wait until the process is up; return False on a timeout."""
        return self._is_up.wait(timeout_s)

    def kill_process(self, why: str) -> None:
        """Kill the process, so that nothing in it writes or commits; a new process is started."""
        jvm = self._jvm
        if jvm is not None and jvm.alive:
            log.error("Killing %s: %s", self._jvm_name, why)
            jvm.kill()

    def close(self) -> None:
        """Stop the process and the threads."""
        self._closing.set()
        for jvm in (self._jvm, self._starting_jvm):
            if jvm is not None:
                jvm.close()
        self._pool.shutdown(wait=False)  # queued calls fail immediately, except those that release claims
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        failures = 0
        while not self._closing.wait(_RESTART_DELAYS_S[min(failures, len(_RESTART_DELAYS_S) - 1)]):
            failures += 1
            try:
                jvm = self._start_jvm()
                if self._start_worker(jvm):
                    started_s = time.monotonic()
                    self._poll_events(jvm)
                    if time.monotonic() - started_s >= _STABLE_UPTIME_S:
                        failures = 0
            except Exception as exc:  # noqa: BLE001 - errors of py4j, Java or the operating system
                if not self._closing.is_set():
                    self._report_down(f"{self._plugins_name} are not available: {_first_line(exc)}")
                    log.error("%s", self._down_reason)  # noqa: TRY400 - the message contains the cause
            self._is_scanned.set()
            self._on_lost()

    def _start_jvm(self) -> Jvm:
        class_path, files = self._class_path(), self._discovery.next_files()
        jvm = Jvm(
            class_path,
            self._options,
            files,
            self.connector,
            worker=self._worker,
            standalone=self._standalone,
        )
        self._starting_jvm = jvm
        self.starts += 1
        if self._closing.is_set():
            raise PluginsUnavailable("the worker is shutting down")
        if self._describes_plugins and self._catalog is None:
            self._catalog = str(jvm.entry.describe())
        self._is_scanned.set()
        self._discovery.store_scan(files, jvm.entry)
        return jvm

    def _start_worker(self, jvm: Jvm) -> bool:
        """Start Kafka's worker in the process, with retries; return False if the process exits or the host closes."""
        attempt = 0
        while jvm.alive and not self._closing.is_set():
            try:
                jvm.entry.start(json.dumps(self._worker), self._standalone, self._silence_ms)
                break
            except Exception as exc:  # noqa: BLE001 - any error of Kafka's worker
                attempt += 1
                self._report_down(f"{self._plugins_name} are waiting for Kafka: {_first_line(exc)}")
                log.warning("%s", self._down_reason)
                self._closing.wait(_RESTART_DELAYS_S[min(attempt, len(_RESTART_DELAYS_S) - 1)])
        if not jvm.alive or self._closing.is_set():
            return False
        log.info("%s are ready", self._plugins_name)
        with self._lock:
            self._jvm, self._down_s, self._reported_down_reason = jvm, None, None
            self._is_up.set()
        _log_errors(self._set_levels)
        for listener in self._list_listeners():
            _log_errors(listener.on_up)
        return True

    def _poll_events(self, jvm: Jvm) -> None:
        while not self._closing.is_set():
            self._poll_start_s = time.monotonic()
            try:
                events = json.loads(jvm.entry.take(TICK_MS))
            except Exception as exc:  # noqa: BLE001 - the process has exited or is unusable
                jvm.wait(_END_TIMEOUT_S)
                if not self._closing.is_set():
                    log.error("Lost %s: %s", self._jvm_name, jvm.end or _first_line(exc))  # noqa: TRY400
                return
            finally:
                self._poll_start_s = None
            for event in events:
                with self._lock:
                    listener = self._listeners.get(event["run"])
                if listener is not None:
                    _log_errors(partial(listener.event, event))
            for current_listener in self._list_listeners():
                _log_errors(current_listener.tick)

    def _watch(self) -> None:
        """Kill a process that no longer responds."""
        while not self._closing.wait(1.0):
            start_s = self._poll_start_s
            if start_s is not None and time.monotonic() - start_s > HUNG_TIMEOUT_S:
                self.kill_process(f"it has not responded for {HUNG_TIMEOUT_S:g} s")

    def _list_listeners(self) -> list[Listener]:
        """Return the listeners. Call them without the lock, because they hold their locks when they call the host."""
        with self._lock:
            return list(self._listeners.values())

    def _on_lost(self) -> None:
        jvm = self._starting_jvm
        if jvm is None:
            return
        jvm.kill()
        with self._lock:
            was_up, self._jvm, self._starting_jvm = self._jvm is not None, None, None
            self._is_up.clear()
        if was_up and not self._closing.is_set():
            self._down_s = time.monotonic()
            self._report_down(f"{self._jvm_name} exited ({jvm.end}) and is being restarted")

    def _report_down(self, why: str) -> None:
        """Store the reason why the process is down, and report it to the listeners if it has changed."""
        self._down_reason = why
        if why != self._reported_down_reason:
            self._reported_down_reason = why
            for listener in self._list_listeners():
                _log_errors(partial(listener.on_down, why))


def _log_errors(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        log.exception("Unexpected error in a call to a Java plugin")


def _first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without Java's stack trace."""
    java = getattr(error, "java_exception", None)
    try:
        return str(error if java is None else java.toString()).partition("\n")[0]
    except Exception:  # noqa: BLE001 - the JVM has exited meanwhile
        return type(error).__name__
