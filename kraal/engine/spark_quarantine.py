"""Applies the decisions of `kraal.engine.session.spark_heap_exhaustion`: which tasks run, wait, or must not run again.

The quarantine is a layer between a run and its executor: a poll for a suspect task returns no job until the task has
its turn.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kraal.core.ids import TaskId
from kraal.engine.api import BatchDone
from kraal.engine.executor import Executor, JobLauncher, JobResult
from kraal.engine.failure_trace import is_bridge_failure, is_context_lost
from kraal.engine.session.session import SparkUnavailable
from kraal.engine.session.spark_heap_exhaustion import (
    HeapRules,
    Suspects,
    blame_tasks,
    clear_deaths,
    must_take_turns,
    quarantine_message,
)
from kraal.plugins.api import RetriableError

log = logging.getLogger(__name__)


class HeapExhausted(Exception):
    """The task exhausted Spark's heap too often. `kraal.cluster.decisions.failures` refers to this name."""


class SparkQuarantine:
    """Decides which tasks of an engine may run jobs after Spark's heap was exhausted. Thread-safe; does not block."""

    def __init__(self, rules: HeapRules | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._rules = rules or HeapRules()
        self._now = now
        self._lock = threading.Lock()
        self._suspects: Suspects = {}
        self._executors: dict[TaskId, Executor] = {}
        """The executors of tasks with a running job. When Spark ends, they are kept until the cause is known."""
        self._turn: tuple[TaskId, Executor] | None = None
        """The suspect that may run a job, and its executor: an abandoned run must not release a later run's turn."""
        self._guilty_tasks: set[TaskId] = set()

    def check(self, task: TaskId) -> None:
        """Raise HeapExhausted if the task must not run again."""
        with self._lock:
            is_guilty = task in self._guilty_tasks
        if is_guilty:
            raise HeapExhausted(quarantine_message(self._rules))

    def poll(self, task: TaskId, executor: Executor, *, requested: bool) -> JobLauncher | None:
        """Poll an executor for a job if its task may run one. Raises HeapExhausted, and the executor's errors."""
        if not requested:
            return executor.poll(requested=False)
        if not (self._suspects or self._guilty_tasks or self._turn):  # the common case, without the lock
            return executor.poll(requested=True)
        self.check(task)
        if not self._may_work(task, executor):
            return executor.poll(requested=False) if executor.polls_when_idle else None
        job = None
        try:
            job = executor.poll(requested=True)
        finally:
            if job is None:
                self.release_turn(executor)
        return job

    def begin(self, task: TaskId, executor: Executor) -> RetriableError | None:
        """Record that a job is launched or relaunched.

        Return an error if the task has become a suspect meanwhile and must wait for its turn.
        """
        if not self._may_work(task, executor):
            return RetriableError(
                "Spark's heap was exhausted while this task was running; waiting to run it alone"
            )
        with self._lock:
            self._executors[task] = executor
        return None

    def end(self, task: TaskId, executor: Executor, outcome: JobResult) -> None:
        """Record the result of a job."""
        if isinstance(outcome, BaseException) and _is_spark_end(outcome):
            return
        with self._lock:
            if self._executors.get(task) is executor:
                del self._executors[task]
                if isinstance(outcome, BatchDone):
                    self._suspects = clear_deaths(self._suspects, task)
        self.release_turn(executor)

    def release_turn(self, executor: Executor) -> None:
        """Release the turn if the task of this executor has it."""
        with self._lock:
            if self._turn is not None and self._turn[1] is executor:
                self._turn = None

    def spark_ended(self, *, out_of_memory: bool) -> frozenset[TaskId]:
        """Record that the JVM has ended; return the tasks that must not run again because they exhausted its heap."""
        with self._lock:
            tasks, self._executors, self._turn = frozenset(self._executors), {}, None
            if not out_of_memory:
                return frozenset()
            verdict = blame_tasks(self._suspects, tasks, self._now(), self._rules)
            self._suspects = verdict.suspects
            self._guilty_tasks |= verdict.guilty
        names = ", ".join(sorted(map(str, tasks)))
        log.error("Spark's heap was exhausted while these tasks were running: %s", names or "no task")
        for task in verdict.guilty:
            log.error("%s stays FAILED. %s", task, quarantine_message(self._rules))
        return verdict.guilty

    def clear(self, task: TaskId) -> None:
        """Clear the history of a task that is restarted."""
        with self._lock:
            self._guilty_tasks.discard(task)
            self._suspects = {name: suspect for name, suspect in self._suspects.items() if name != task}

    def _may_work(self, task: TaskId, executor: Executor) -> bool:
        """Return whether a task may run a job now; give a suspect the turn if the turn is free."""
        with self._lock:
            now_s = self._now()
            if not must_take_turns(self._suspects, task, now_s, self._rules):
                return True
            turn = None if self._turn is None else self._turn[0]
            is_taken = turn is not None and must_take_turns(self._suspects, turn, now_s, self._rules)
            if is_taken and turn != task:
                return False
            self._turn = (task, executor)
            return True


def _is_spark_end(error: BaseException) -> bool:
    return is_bridge_failure(error) or is_context_lost(error) or isinstance(error, SparkUnavailable)
