"""Keeps what `kraal.spark.heap` decides: who is at work, who waits for a turn, and who is not to run again.

It stands between a run and its work: a suspect whose turn has not come finds nothing to do, and looks again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from functools import partial

from kraal.ids import TaskId
from kraal.plugins.api import RetriableError
from kraal.spark.api import BatchDone
from kraal.spark.heap import HeapRules, Suspects, exhausted, finished, sentence, takes_turns
from kraal.spark.session import SparkAway
from kraal.spark.trace import is_bridge_failure, lost_context
from kraal.spark.work import Launch, Outcome, Work

log = logging.getLogger(__name__)


class HeapExhausted(Exception):
    """The task has exhausted Spark's heap too often. `kraal.cluster.failures` knows the name."""


class Probation:
    """Of all tasks of one engine. Any thread; nothing here waits."""

    def __init__(self, rules: HeapRules | None = None, *, now: Callable[[], float] = time.monotonic) -> None:
        self._rules = rules or HeapRules()
        self._now = now
        self._lock = threading.Lock()
        self._suspects: Suspects = {}
        self._working: set[TaskId] = set()
        """Whose jobs Spark has, or had when it ended: what its end left behind stays until that is known."""
        self._turn: TaskId | None = None
        """The suspect that may work."""
        self._guilty: set[TaskId] = set()

    def check(self, task: TaskId) -> None:
        """Raise HeapExhausted if the task is not to run."""
        with self._lock:
            guilty = task in self._guilty
        if guilty:
            raise HeapExhausted(sentence(self._rules))

    def poll(self, task: TaskId, work: Work, *, asked: bool) -> Launch | None:
        """Poll `work` for a job, if its task may have one. Raises HeapExhausted, and what `work` raises."""
        if not asked:
            return work.poll(asked=False)
        self.check(task)
        if not self._may_work(task):
            return work.poll(asked=False) if work.polls_idle else None
        found = None
        try:
            found = work.poll(asked=True)
        finally:
            if found is None:
                self.yields(task)
        return None if found is None else partial(self._launch, task, found)

    def yields(self, task: TaskId) -> None:
        """A task does not use its turn."""
        with self._lock:
            if self._turn == task:
                self._turn = None

    def spark_ended(self, *, out_of_memory: bool) -> frozenset[TaskId]:
        """The JVM has ended; return the tasks that are guilty of it, and are not to run again."""
        with self._lock:
            working, self._working, self._turn = self._working, set(), None
            if not out_of_memory:
                return frozenset()
            verdict = exhausted(self._suspects, working, self._now(), self._rules)
            self._suspects = verdict.suspects
            self._guilty |= verdict.guilty
        names = ", ".join(sorted(map(str, working)))
        log.error("Spark's heap was exhausted; at work: %s", names or "no task")
        for task in verdict.guilty:
            log.error("%s stays FAILED. %s", task, sentence(self._rules))
        return verdict.guilty

    def forget(self, task: TaskId) -> None:
        """Somebody starts the task anew: it begins without a past."""
        with self._lock:
            self._guilty.discard(task)
            self._suspects = {each: known for each, known in self._suspects.items() if each != task}

    def _may_work(self, task: TaskId) -> bool:
        """Whether a task may work now; a suspect takes its turn by this."""
        with self._lock:
            now_s = self._now()
            if not takes_turns(self._suspects, task, now_s, self._rules):
                return True
            taken = self._turn is not None and takes_turns(self._suspects, self._turn, now_s, self._rules)
            if taken and self._turn != task:
                return False
            self._turn = task
            return True

    def _launch(self, task: TaskId, launch: Launch, done: Callable[[Outcome], None]) -> None:
        """Start a job, also again after an error; who did not keep its turn meanwhile may have to wait for it."""
        if not self._may_work(task):
            done(
                RetriableError(
                    "Spark's heap was exhausted while this task was at work: it waits for its turn"
                )
            )
            return
        with self._lock:
            self._working.add(task)
        launch(lambda outcome: done(self._noted(task, outcome)))

    def _noted(self, task: TaskId, outcome: Outcome) -> Outcome:
        if isinstance(outcome, BaseException) and _says_that_spark_ended(outcome):
            return outcome
        with self._lock:
            self._working.discard(task)
            if isinstance(outcome, BatchDone):
                self._suspects = finished(self._suspects, task)
        self.yields(task)
        return outcome


def _says_that_spark_ended(error: BaseException) -> bool:
    return is_bridge_failure(error) or lost_context(error) or isinstance(error, SparkAway)
