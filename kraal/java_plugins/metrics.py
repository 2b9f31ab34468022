"""Fetches the metrics of the plugins' JVMs for scrapes, with one call at a time per JVM, on a thread for each JVM.

A call returns a JSON object. `tasks` contains pairs of a run's number and the run's values, by the names of Connect's
MBean attributes. For `jvm`, see `Measurements.java`; for `own`, see `PluginNumbers.java`. `own` is null if plugin code
did not return in time.
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

from kraal.java_plugins.jvm import PluginsUnavailable
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

PLUGIN_TIMEOUT_MS: Final = 500
"""How long plugin code may compute its metrics, in milliseconds; less than the timeout of a scrape."""

StoreTasks = Callable[[Iterable[tuple[int, Mapping[str, Any]]]], None]
"""Stores the values of tasks, given as pairs of a run's number and the run's values."""


@dataclass(slots=True)
class _Run:
    """The last run of a task."""

    number: int
    values: TaskValues | None = None
    has_final_values: bool = False
    """Whether `values` are the final values of a failed run."""
    is_over: bool = False


class JavaMetrics:
    """The latest metrics of the plugins' JVMs. Thread-safe; `gather` and `current` do not block."""

    def __init__(self, hosts: PluginHosts) -> None:
        self._hosts = hosts
        self._lock = threading.Lock()
        self._runs: dict[TaskId, _Run] = {}
        self._jvms: dict[PluginHost, _Jvm] = {}
        """The JVMs at the last scrape, by host."""
        self._is_closed = False

    # --- runs -----------------------------------------------------------------------------------------------

    def add_run(self, task: TaskId, number: int) -> None:
        """Register a task's new run, which has no metrics yet."""
        with self._lock:
            self._runs[task] = _Run(number)

    def store_values(self, task: TaskId, number: int, values: TaskValues) -> None:
        """Store the final values of a failed run until the task runs again."""
        with self._lock:
            run = self._runs.get(task)
            if run is not None and run.number == number:
                run.values, run.has_final_values = _to_floats(values), True

    def on_end(self, task: TaskId, number: int) -> None:
        """Drop the values of an ended run, unless it has failed."""
        with self._lock:
            run = self._runs.get(task)
            if run is not None and run.number == number:
                run.is_over = True
                if not run.has_final_values:
                    run.values = None

    def remove_task(self, task: TaskId) -> None:
        """Remove a task whose connector is no longer a Java connector."""
        with self._lock:
            self._runs.pop(task, None)

    # --- scrapes --------------------------------------------------------------------------------------------

    def gather(self) -> Sequence[Future[bool]]:
        """Request the metrics of each JVM, unless an earlier request is still pending.

        Return the futures of the requests; callers wait for up to `GATHER_S`.
        """
        with self._lock:
            if self._is_closed:
                return []
            hosts = {host: connector for connector, host in self._hosts.all().items()}
            for host in self._jvms.keys() - hosts.keys():
                self._jvms.pop(host).close()
            for host, connector in hosts.items():
                if host not in self._jvms:
                    self._jvms[host] = _Jvm(host, connector, self._store_tasks)
            jvms = list(self._jvms.values())
        return [future for jvm in jvms if (future := jvm.gather()) is not None]

    def current(self, instances: Container[Instance]) -> JvmMetrics:
        """Return the latest metrics; drop the metrics of ended runs whose task is not in `instances`."""
        with self._lock:
            for task in [task for task, run in self._runs.items() if run.is_over and task not in instances]:
                del self._runs[task]
            jvms = sorted(self._jvms.values(), key=lambda jvm: jvm.connector)
            return JvmMetrics(
                tasks={task: run.values for task, run in self._runs.items()},
                jvms=[JvmState(connector=jvm.connector, is_up=jvm.is_up, starts=jvm.starts) for jvm in jvms],
                text=merge(jvm.families for jvm in jvms),
            )

    def close(self) -> None:
        """Stop requesting metrics."""
        with self._lock:
            self._is_closed = True
            for jvm in self._jvms.values():
                jvm.close()

    def _store_tasks(self, tasks: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Store the values of tasks, by the numbers of their runs."""
        with self._lock:
            runs_by_number = {run.number: run for run in self._runs.values()}
            for number, values in tasks:
                run = runs_by_number.get(number)
                if run is not None and not run.is_over and not run.has_final_values:
                    run.values = _to_floats(values)


class _Jvm:
    """The latest metrics of one JVM. Thread-safe."""

    def __init__(self, host: PluginHost, connector: str, store_tasks: StoreTasks) -> None:
        """Create an object without metrics; `connector` is the JVM's only connector, empty for the shared JVM."""
        self.connector = connector
        self._host, self._store_tasks = host, store_tasks
        self._executor = ThreadPoolExecutor(1, "kraal-java-metrics")
        self._lock = threading.Lock()
        self._families: Rendered = {}
        self._families_start = 0
        """The number of the JVM start that returned `_families`."""
        self._request: Future[bool] | None = None
        self._request_start_s = 0.0

    @property
    def starts(self) -> int:
        """How many times the JVM was started."""
        return self._host.starts

    @property
    def is_up(self) -> bool:
        """Whether the JVM has responded to the last scrape."""
        future = self._request
        if self._host.down_reason is not None or future is None or not future.done() or future.cancelled():
            return False
        return future.result()

    @property
    def families(self) -> Rendered:
        """The metrics of the last response; empty if the JVM is down or has been restarted since then."""
        with self._lock:
            is_current = self._host.down_reason is None and self._families_start == self._host.starts
            return self._families if is_current else {}

    def gather(self) -> Future[bool] | None:
        """Request the metrics; return None if no response can be expected in time."""
        if self._host.down_reason is not None:
            return None
        with self._lock:
            now_s = time.monotonic()
            if self._request is None or self._request.done():
                try:
                    self._request = self._executor.submit(self._fetch)
                except RuntimeError:  # closed meanwhile
                    return None
                self._request_start_s = now_s
            return self._request if now_s - self._request_start_s < GATHER_S else None

    def close(self) -> None:
        """Stop requesting metrics."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _fetch(self) -> bool:
        """Fetch and store the metrics of the JVM; return whether it has responded."""
        try:
            start = self._host.starts
            response = json.loads(self._host.ask("measure", PLUGIN_TIMEOUT_MS))
            own_metrics = response["own"]
            own_families = () if own_metrics is None else plugin_families(own_metrics)
            families = render_jvm(chain(jvm_families(response["jvm"], self.connector), own_families))
            self._store_tasks(response["tasks"])
        except PluginsUnavailable:
            return False
        except Exception:
            log.warning("Failed to read the metrics of a JVM of Java plugins", exc_info=True)
            return False
        with self._lock:
            self._families, self._families_start = families, start
        return True


def _to_floats(values: Mapping[str, Any]) -> TaskValues:
    """Convert values to floats; Java writes values that are not finite as text."""
    return {name: float(value) for name, value in values.items()}
