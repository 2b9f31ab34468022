"""Reads the numbers of the plugins' JVM for scrapes: one call at a time, on a thread of its own, and only when asked.

The call returns a JSON object: `tasks`, pairs of a run's number and its values by Connect's attributes; `jvm`, see
`Measurements.java`; `own`, see `PluginNumbers.java`, null if code of a plugin did not return in time.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from kraal.java_plugins.jvm import PluginsAway
from kraal.metrics.java_plugins import JavaNumbers, jvm_families, plugin_families
from kraal.metrics.scrape import GATHER_S
from kraal.metrics.text import render

if TYPE_CHECKING:
    from kraal.core.ids import Instance, TaskId
    from kraal.java_plugins.host import PluginHost
    from kraal.metrics.java_plugins import TaskValues

log = logging.getLogger(__name__)

PLUGINS_MS: Final = 500
"""How long code of plugins may compute their metrics; less than a scrape waits."""


@dataclass(slots=True)
class _Run:
    """The last run of a task."""

    number: int
    values: TaskValues | None = None
    is_last: bool = False
    """Whether `values` are those with which the run failed."""
    is_over: bool = False


class JavaMetrics:
    """The latest numbers of the plugins' JVM. Any thread; `gather` and `numbers` return at once."""

    def __init__(self, host: PluginHost) -> None:
        self._host = host
        self._thread = ThreadPoolExecutor(1, "kraal-java-metrics")
        self._lock = threading.Lock()
        self._runs: dict[TaskId, _Run] = {}
        self._text = ""
        self._text_of = 0
        """The start of the JVM that gave `_text`."""
        self._under_way: Future[bool] | None = None
        self._asked_s = 0.0

    # --- runs -----------------------------------------------------------------------------------------------

    def opened(self, task: TaskId, number: int) -> None:
        """Follow a new run of a task; nothing is known of it yet."""
        with self._lock:
            self._runs[task] = _Run(number)

    def measured(self, task: TaskId, number: int, values: TaskValues) -> None:
        """Keep the values with which a run has failed, until the task runs again."""
        with self._lock:
            run = self._runs.get(task)
            if run is not None and run.number == number:
                run.values, run.is_last = _numbers(values), True

    def over(self, task: TaskId, number: int) -> None:
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

    def gather(self) -> Future[bool] | None:
        """Ask the JVM for its numbers, unless it has not answered an earlier scrape.

        Return what to wait for, at most `GATHER_S`; None if there is nothing to wait for.
        """
        if self._host.why_away is not None:
            return None
        with self._lock:
            now_s = time.monotonic()
            if self._under_way is None or self._under_way.done():
                try:
                    self._under_way = self._thread.submit(self._ask)
                except RuntimeError:  # the worker ends
                    return None
                self._asked_s = now_s
            return self._under_way if now_s - self._asked_s < GATHER_S else None

    def numbers(self, living: Container[Instance]) -> JavaNumbers:
        """Return what is known; runs that are over are dropped unless their tasks are among the `living`."""
        is_up, starts = self._host.why_away is None, self._host.starts
        with self._lock:
            for task in [task for task, run in self._runs.items() if run.is_over and task not in living]:
                del self._runs[task]
            asked = self._under_way
            return JavaNumbers(
                tasks={task: run.values for task, run in self._runs.items()},
                up=is_up and asked is not None and asked.done() and not asked.cancelled() and asked.result(),
                starts=starts,
                text=self._text if is_up and self._text_of == starts else "",
            )

    def close(self) -> None:
        """Ask no more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> bool:
        """Ask the JVM, and keep its answer; return whether it has answered."""
        try:
            start = self._host.starts
            answer = json.loads(self._host.ask("measure", PLUGINS_MS))
            own = answer["own"]
            found = chain(jvm_families(answer["jvm"]), () if own is None else plugin_families(own))
            text = "".join(map(render, found))
        except PluginsAway:
            return False
        except Exception:
            log.warning("Failed to read the metrics of the JVM of Java plugins", exc_info=True)
            return False
        with self._lock:
            self._text, self._text_of = text, start
            self._keep(answer["tasks"])
        return True

    def _keep(self, answered: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        by_number = dict(answered)
        for run in self._runs.values():
            if not run.is_over and not run.is_last and run.number in by_number:
                run.values = _numbers(by_number[run.number])


def _numbers(values: Mapping[str, Any]) -> TaskValues:
    """Return numbers; Java writes those that are not finite as text."""
    return {name: float(value) for name, value in values.items()}
