"""Reads the metrics of the plugins' JVMs for scrapes: one call at a time per JVM, on its own thread, on request.

A call returns a JSON object: `tasks`, pairs of a run's number and its values by Connect's attributes; `jvm`, see
`Measurements.java`; `own`, see `PluginNumbers.java`, null if code of a plugin did not return in time.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kraal.java_plugins.jvm import PluginsAway
from kraal.metrics.java_plugins import (
    JvmMetrics,
    JvmState,
    Rendered,
    jvm_families,
    merge,
    plugin_families,
    render_jvm,
)
from kraal.metrics.scrape import GATHER_S

if TYPE_CHECKING:
    from kraal.core.ids import Instance, TaskId
    from kraal.java_plugins.host import PluginHost
    from kraal.java_plugins.hosts import PluginHosts
    from kraal.metrics.java_plugins import TaskValues

log = logging.getLogger(__name__)

PLUGINS_MS: Final = 500
"""How long code of plugins may compute their metrics; less than a scrape waits."""

Keep = Callable[[Iterable[tuple[int, Mapping[str, Any]]]], None]


@dataclass(slots=True)
class _Run:
    """The last run of a task."""

    number: int
    values: TaskValues | None = None
    is_last: bool = False
    """Whether `values` are those with which the run failed."""
    is_over: bool = False


class JavaMetrics:
    """The latest numbers of the plugins' JVMs. Any thread; `gather` and `current` return at once."""

    def __init__(self, hosts: PluginHosts) -> None:
        self._hosts = hosts
        self._lock = threading.Lock()
        self._runs: dict[TaskId, _Run] = {}
        self._jvms: dict[PluginHost, _Jvm] = {}
        """Those that were there at the last scrape, by their hosts."""
        self._is_closed = False

    # --- runs -----------------------------------------------------------------------------------------------

    def follow_run(self, task: TaskId, number: int) -> None:
        """Follow a new run of a task, which has no metrics yet."""
        with self._lock:
            self._runs[task] = _Run(number)

    def store_values(self, task: TaskId, number: int, values: TaskValues) -> None:
        """Keep the values with which a run has failed, until the task runs again."""
        with self._lock:
            run = self._runs.get(task)
            if run is not None and run.number == number:
                run.values, run.is_last = _numbers(values), True

    def on_end(self, task: TaskId, number: int) -> None:
        """Drop the values of a run, unless it has failed."""
        with self._lock:
            run = self._runs.get(task)
            if run is not None and run.number == number:
                run.is_over = True
                if not run.is_last:
                    run.values = None

    def forget(self, task: TaskId) -> None:
        """Follow a task no more: its connector is no longer Java's."""
        with self._lock:
            self._runs.pop(task, None)

    # --- scrapes --------------------------------------------------------------------------------------------

    def gather(self) -> Sequence[Future[bool]]:
        """Ask each JVM for its numbers, unless it has not answered an earlier scrape.

        Return what to wait for, at most `GATHER_S`.
        """
        with self._lock:
            if self._is_closed:
                return []
            hosts = {host: connector for connector, host in self._hosts.all().items()}
            for host in self._jvms.keys() - hosts.keys():
                self._jvms.pop(host).close()
            for host, connector in hosts.items():
                if host not in self._jvms:
                    self._jvms[host] = _Jvm(host, connector, self._keep)
            jvms = list(self._jvms.values())
        return [future for jvm in jvms if (future := jvm.gather()) is not None]

    def current(self, living: Container[Instance]) -> JvmMetrics:
        """Return the latest metrics; ended runs are dropped unless their tasks are among the `living`."""
        with self._lock:
            for task in [task for task, run in self._runs.items() if run.is_over and task not in living]:
                del self._runs[task]
            jvms = sorted(self._jvms.values(), key=lambda jvm: jvm.connector)
            return JvmMetrics(
                tasks={task: run.values for task, run in self._runs.items()},
                jvms=[JvmState(connector=jvm.connector, up=jvm.is_up, starts=jvm.starts) for jvm in jvms],
                text=merge(jvm.families for jvm in jvms),
            )

    def close(self) -> None:
        """Ask no more."""
        with self._lock:
            self._is_closed = True
            for jvm in self._jvms.values():
                jvm.close()

    def _keep(self, answered: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Keep the values of tasks, by the numbers of their runs."""
        with self._lock:
            by_number = {run.number: run for run in self._runs.values()}
            for number, values in answered:
                run = by_number.get(number)
                if run is not None and not run.is_over and not run.is_last:
                    run.values = _numbers(values)


class _Jvm:
    """The latest numbers of one JVM. Any thread."""

    def __init__(self, host: PluginHost, connector: str, keep: Keep) -> None:
        """`connector`: the only one in the JVM, or empty; `keep` takes values of tasks."""
        self.connector = connector
        self._host, self._keep = host, keep
        self._thread = ThreadPoolExecutor(1, "kraal-java-metrics")
        self._lock = threading.Lock()
        self._families: Rendered = {}
        self._families_of = 0
        """The start of the JVM that gave `_families`."""
        self._under_way: Future[bool] | None = None
        self._asked_s = 0.0

    @property
    def starts(self) -> int:
        """How often the JVM was started."""
        return self._host.starts

    @property
    def is_up(self) -> bool:
        """Whether it has answered the last scrape."""
        future = self._under_way
        if self._host.why_away is not None or future is None or not future.done() or future.cancelled():
            return False
        return future.result()

    @property
    def families(self) -> Rendered:
        """Its last answer; empty if it was that of an earlier process."""
        with self._lock:
            is_present = self._host.why_away is None and self._families_of == self._host.starts
            return self._families if is_present else {}

    def gather(self) -> Future[bool] | None:
        """Ask for numbers; None if there is nothing to wait for."""
        if self._host.why_away is not None:
            return None
        with self._lock:
            now_s = time.monotonic()
            if self._under_way is None or self._under_way.done():
                try:
                    self._under_way = self._thread.submit(self._ask)
                except RuntimeError:  # closed meanwhile
                    return None
                self._asked_s = now_s
            return self._under_way if now_s - self._asked_s < GATHER_S else None

    def close(self) -> None:
        """Ask no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> bool:
        """Ask the JVM, and keep its answer; return whether it has answered."""
        try:
            start = self._host.starts
            answer = json.loads(self._host.ask("measure", PLUGINS_MS))
            registry = answer["own"]
            of_plugins = () if registry is None else plugin_families(registry)
            families = render_jvm(chain(jvm_families(answer["jvm"], self.connector), of_plugins))
            self._keep(answer["tasks"])
        except PluginsAway:
            return False
        except Exception:
            log.warning("Failed to read the metrics of a JVM of Java plugins", exc_info=True)
            return False
        with self._lock:
            self._families, self._families_of = families, start
        return True


def _numbers(values: Mapping[str, Any]) -> TaskValues:
    """Return numbers; Java writes those that are not finite as text."""
    return {name: float(value) for name, value in values.items()}
