"""Keeps the process of Java plugins up, passes its events on, and calls it.

One thread starts the process, and again when it has ended, and then reads its events in one blocking call for all
connectors and tasks; the call also shows the process that this worker lives. Other threads call `ask`.
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
from kraal.java_plugins.jvm import Jvm, PluginsAway
from kraal.metrics.stalls.down_parts import DownPart

if TYPE_CHECKING:
    from kraal.java_plugins.catalog import JavaPlugin

log = logging.getLogger(__name__)

TICK_MS: Final = 500
HUNG_TIMEOUT_S: Final = 30.0
"""A process that has not answered for so long is ended."""
_POLL_INTERVAL_S: Final = 0.2
_END_TIMEOUT_S: Final = 2.0
"""How long a process that has closed a connection may take to end."""
_RESTART_DELAYS_S: Final = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)
_THREADS: Final = 16
"""Maximum number of concurrent calls for tasks, which are short."""
_THROWN: Final = "Py4JJavaError"


class Listener(Protocol):
    """A connector or a run in the process.

    The methods return at once. They run on the host's thread; `on_up` also on others.

    `on_up` may be called more than once for one process, `on_down` with each new reason.
    """

    def on_up(self) -> None:
        """The process is up: at once if it is already."""

    def on_down(self, why: str) -> None:
        """The process is not up: it has ended, and everything in it, or could not start, which may come repeatedly."""

    def event(self, event: Mapping[str, Any]) -> None:
        """Something was reported; see `Events.java`."""

    def tick(self) -> None:
        """Called at least every `TICK_MS` while the process is up."""


_number: Final = itertools.count(1).__next__


class PluginHost:
    """One process of Java plugins. Methods may be called on any thread."""

    def __init__(
        self,
        *,
        discovery: Discovery,
        worker: Mapping[str, str],
        class_path: Callable[[], Sequence[Path]],
        options: Sequence[str] = (),
        silence_s: float = 5.0,
        standalone: bool = False,
        describes: bool = False,
        connector: str = "",
    ) -> None:
        """Describe the process; `start` starts it.

        Args:
            discovery: where and how the process finds plugins.
            worker: the properties of the worker.
            class_path: returns its jars; called on the host's thread, may download and compile.
            options: options of the JVM.
            silence_s: seconds without a call after which the process ends, because other workers may run its tasks.
            standalone: whether the properties are those of a standalone worker; something follows its offsets.
            describes: whether the first process describes all plugins, because they are not cached.
            connector: the only connector in the process; empty if it is the worker's shared one.
        """
        self.connector: Final = connector
        self._jvm_name = f"the JVM of the connector {connector}" if connector else "the JVM of Java plugins"
        self._plugins = f"Java plugins of the connector {connector}" if connector else "Java plugins"
        self._discovery, self._worker = discovery, dict(worker)
        self._class_path, self._options = class_path, tuple(options)
        self._silence_ms = int(silence_s * 1000)
        self._standalone, self._describes = standalone, describes
        self._lock = threading.RLock()
        self._listeners: dict[object, Listener] = {}
        self._levels: dict[str, str] = {}
        self._jvm: Jvm | None = None
        self._starting: Jvm | None = None
        self._why = f"{self._jvm_name} is starting"
        self._reported_why: str | None = None
        """The last reason that listeners have; None: the process is up, or there was none."""
        self._down_s: float | None = None
        """Since when the process has not been up, in monotonic seconds; None: it is up, or not wanted yet."""
        self.starts = 0
        """How often the process was started."""
        self._described: str | None = None
        self._scanned = threading.Event()
        self._is_up = threading.Event()
        self.services: Sequence[JavaPlugin] = ()
        """The config providers and override policies in `plugin.path`; set once, before anybody asks."""
        self._closing = threading.Event()
        self._pool = ThreadPoolExecutor(_THREADS, "kraal-java")
        self._thread = threading.Thread(target=self._run, name="kraal-java-events", daemon=True)
        self._heard_s: float | None = None
        """The start of the call for events that is under way, in monotonic seconds."""
        self.next_number = _number
        """Returns a number that no other run, and no other start of a connector, has on this worker."""

    def start(self) -> None:
        """Start the host's threads; returns at once."""
        self._down_s = time.monotonic()
        self._thread.start()
        threading.Thread(target=self._watch, name="kraal-java-watch", daemon=True).start()

    def describe(self, give_up: Callable[[], bool]) -> str:
        """Return the catalog's JSON; waits for the first process.

        Raises PluginsAway if it does not start, or when `give_up` returns True.
        """
        while not self._scanned.wait(_POLL_INTERVAL_S):
            if give_up():
                break
        if self._described is None:
            raise PluginsAway(self._why)
        return self._described

    def ask(self, method: str, *arguments: object) -> Any:
        """Call a method of `PluginWorker`; blocks as long as the plugin does.

        Raises PluginsAway while the process is not up, and py4j's error if the method throws.
        """
        jvm = self._jvm
        if jvm is None:
            raise PluginsAway(self._why)
        try:
            return getattr(jvm.entry, method)(*arguments)
        except PluginsAway:
            raise
        except Exception as exc:
            if type(exc).__name__ == _THROWN and jvm.alive:
                raise
            jvm.wait(_END_TIMEOUT_S)  # connections close before the process ends
            why = "the connection to it was lost" if jvm.end is None else jvm.end
            raise PluginsAway(f"{self._jvm_name} did not answer: {why}") from exc

    def submit(self, work: Callable[[], object], *, may_block: bool = False) -> None:
        """Run `work` on a thread of the host; dropped when the host is closed. `may_block`: it calls a plugin.

        Such a call has a thread of its own: plugins that never return leave the others alone.
        """
        if may_block:
            threading.Thread(target=_log_errors, args=(work,), name="kraal-java-start", daemon=True).start()
            return
        try:
            self._pool.submit(_log_errors, work)
        except RuntimeError:
            log.debug("Dropped a call of a Java plugin, because the worker ends")

    def follow(self, key: object, listener: Listener) -> None:
        """Call the listener of `key`: the number of a run or of a connector's start."""
        with self._lock:
            self._listeners[key] = listener
            is_up = self._jvm is not None
        if is_up:
            listener.on_up()

    def forget(self, key: object) -> None:
        """Pass on no more."""
        with self._lock:
            self._listeners.pop(key, None)

    def set_log_level(self, namespace: str, level: str) -> None:
        """Set the level of Java's loggers below a namespace, by log4j's names, also in later processes."""
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
        except PluginsAway:
            log.debug("The next process gets the levels of loggers")

    @property
    def why_away(self) -> str | None:
        """Why the process is not up; None if it is."""
        return None if self._jvm is not None else self._why

    def down(self) -> DownPart | None:
        """Return why and since when the process is not up; None if it is."""
        since_s, why = self._down_s, self._why
        name = f"plugins-jvm:{self.connector}" if self.connector else "plugins-jvm"
        return None if since_s is None else DownPart(name, since_s, why)

    def wait_until_up(self, timeout_s: float) -> bool:
        """Wait until the process is up; return whether it is."""
        return self._is_up.wait(timeout_s)

    def end_process(self, why: str) -> None:
        """End the process, so that nothing in it writes or commits; another one starts."""
        jvm = self._jvm
        if jvm is not None and jvm.alive:
            log.error("Ending %s: %s", self._jvm_name, why)
            jvm.kill()

    def close(self) -> None:
        """End the process and the threads."""
        self._closing.set()
        for jvm in (self._jvm, self._starting):
            if jvm is not None:
                jvm.close()
        self._pool.shutdown(wait=False)  # what waits ends at once, but for claims that are given up
        if self._thread.is_alive():
            self._thread.join(5.0)

    def _run(self) -> None:
        failures = 0
        while not self._closing.wait(_RESTART_DELAYS_S[min(failures, len(_RESTART_DELAYS_S) - 1)]):
            failures += 1
            try:
                jvm = self._start_jvm()
                if self._ready(jvm):
                    failures = 0
                    self._read(jvm)
            except Exception as exc:  # noqa: BLE001 - py4j's, Java's, those of the system
                if not self._closing.is_set():
                    self._report_down(f"{self._plugins} are not available: {_first_line(exc)}")
                    log.error("%s", self._why)  # noqa: TRY400 - the text says it all
            self._scanned.set()
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
        self._starting = jvm
        self.starts += 1
        if self._closing.is_set():
            raise PluginsAway("the worker ends")
        if self._describes and self._described is None:
            self._described = str(jvm.entry.describe())
        self._scanned.set()
        self._discovery.store_scan(files, jvm.entry)
        return jvm

    def _ready(self, jvm: Jvm) -> bool:
        """Start Kafka's worker in the process, as often as it takes; return whether the process still runs."""
        attempt = 0
        while jvm.alive and not self._closing.is_set():
            try:
                jvm.entry.start(json.dumps(self._worker), self._standalone, self._silence_ms)
                break
            except Exception as exc:  # noqa: BLE001 - py4j's, whatever it was
                attempt += 1
                self._report_down(f"{self._plugins} wait for Kafka: {_first_line(exc)}")
                log.warning("%s", self._why)
                self._closing.wait(_RESTART_DELAYS_S[min(attempt, len(_RESTART_DELAYS_S) - 1)])
        if not jvm.alive or self._closing.is_set():
            return False
        log.info("%s are ready", self._plugins)
        with self._lock:
            self._jvm, self._down_s, self._reported_why = jvm, None, None
            self._is_up.set()
        _log_errors(self._set_levels)
        for listener in self._all():
            _log_errors(listener.on_up)
        return True

    def _read(self, jvm: Jvm) -> None:
        while not self._closing.is_set():
            self._heard_s = time.monotonic()
            try:
                events = json.loads(jvm.entry.take(TICK_MS))
            except Exception as exc:  # noqa: BLE001 - the process has ended, or is of no use
                jvm.wait(_END_TIMEOUT_S)
                if not self._closing.is_set():
                    log.error("Lost %s: %s", self._jvm_name, jvm.end or _first_line(exc))  # noqa: TRY400
                return
            finally:
                self._heard_s = None
            for event in events:
                with self._lock:
                    listener = self._listeners.get(event["run"])
                if listener is not None:
                    _log_errors(partial(listener.event, event))
            for each in self._all():
                _log_errors(each.tick)

    def _watch(self) -> None:
        """Kill a process that no longer responds."""
        while not self._closing.wait(1.0):
            heard_s = self._heard_s
            if heard_s is not None and time.monotonic() - heard_s > HUNG_TIMEOUT_S:
                self.end_process(f"it has not answered for {HUNG_TIMEOUT_S:g} s")

    def _all(self) -> list[Listener]:
        """Return the listeners, which are called without the lock: they call the host with locks of their own."""
        with self._lock:
            return list(self._listeners.values())

    def _on_lost(self) -> None:
        jvm = self._starting
        if jvm is None:
            return
        jvm.kill()
        with self._lock:
            was_up, self._jvm, self._starting = self._jvm is not None, None, None
            self._is_up.clear()
        if was_up and not self._closing.is_set():
            self._down_s = time.monotonic()
            self._report_down(f"{self._jvm_name} ended ({jvm.end}), and starts again")

    def _report_down(self, why: str) -> None:
        """Store why the process is not up, and pass a new reason on."""
        self._why = why
        if why != self._reported_why:
            self._reported_why = why
            for listener in self._all():
                _log_errors(partial(listener.on_down, why))


def _log_errors(work: Callable[[], object]) -> None:
    try:
        work()
    except Exception:
        log.exception("A call of a Java plugin failed unexpectedly")


def _first_line(error: BaseException) -> str:
    """Return the message of an error, without Java's stack."""
    java = getattr(error, "java_exception", None)
    try:
        return str(error if java is None else java.toString()).partition("\n")[0]
    except Exception:  # noqa: BLE001 - the JVM has ended meanwhile
        return type(error).__name__
