"""The runs of an engine by task. A new run of a task starts once the older ones, whose actors have died, are over."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kraal.core.ids import TaskId

if TYPE_CHECKING:
    from kraal.engine.task_run import TaskRun


class Runs:
    """All runs that are not over. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[TaskId, set[TaskRun]] = {}
        self._blocked_by: dict[TaskRun, set[TaskRun]] = {}
        """For each run that has not started, the older runs of its task."""

    def list_all(self) -> list[TaskRun]:
        """Return all runs."""
        with self._lock:
            return [run for runs in self._runs.values() for run in runs]

    def list_by_task(self, task: TaskId) -> list[TaskRun]:
        """Return the runs of a task."""
        with self._lock:
            return list(self._runs.get(task, ()))

    def add(self, run: TaskRun) -> None:
        """Add a run, cancel the older runs of its task, and start the new run once they are over."""
        task = run.spec.task
        with self._lock:
            older_runs = self._runs.get(task, set())
            self._runs[task] = older_runs | {run}
            if older_runs:
                self._blocked_by[run] = set(older_runs)
        for older_run in older_runs:
            older_run.cancel()
        if not older_runs:
            run.start()

    def remove(self, task: TaskId, run: object) -> None:
        """Remove a run that is over; start the runs that are no longer blocked."""
        with self._lock:
            remaining_runs = self._runs.pop(task, set()) - {run}
            if remaining_runs:
                self._runs[task] = remaining_runs
            for blockers in self._blocked_by.values():
                blockers.difference_update({run})
            ready_runs = [blocked for blocked, blockers in self._blocked_by.items() if not blockers]
            for ready_run in ready_runs:
                del self._blocked_by[ready_run]
        for ready_run in ready_runs:
            ready_run.start()
