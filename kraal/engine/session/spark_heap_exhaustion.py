"""Determines by elimination which task's batches exhaust the heap of Spark's JVM.

All tasks of a worker share one heap, and when the heap is exhausted, the JVM exits without naming the task. Therefore,
all tasks whose jobs were running become suspects, and from then on suspects run one at a time. An innocent task
finishes its batch when it runs alone, and is cleared. A guilty task kills the JVM again, until the task reaches
`HeapRules.max_deaths`. If suspects ran concurrently, a busy innocent task would be blamed whenever the guilty task is.
Suspects take turns for a while even after they have finished batches, because two tasks may exhaust the heap only
together.

If the JVM ends for another reason, for example because the kernel kills it, no task becomes a suspect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kraal.core.ids import TaskId

_JAVA_OOM_EXIT_CODE: Final = 3
"""The exit code of -XX:+ExitOnOutOfMemoryError."""
_SPARK_OOM_EXIT_CODE: Final = 52
"""SparkExitCode.OOM, for an uncaught OutOfMemoryError."""
_OUT_OF_MEMORY: Final = re.compile(r"java\.lang\.OutOfMemoryError(?:: (?P<message>[^\r\n]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapRules:
    """The limits of the quarantine."""

    max_deaths: int = 3
    """A task is guilty after this many deaths of the JVM without a finished batch in between."""
    quarantine_s: float = 600.0
    """How long after a death the suspects take turns."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A task that was running when the heap was exhausted."""

    deaths: int
    """Number of deaths since the task last finished a batch."""
    latest_s: float
    """The time of the latest death while the task was running, in monotonic seconds."""


Suspects = Mapping[TaskId, Suspect]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a death: the suspects and the guilty tasks."""

    suspects: Suspects
    guilty: frozenset[TaskId] = frozenset()
    """Tasks that must not run again until a restart; they are not suspects."""


def blame_tasks(
    suspects: Suspects, running_tasks: Iterable[TaskId], now_s: float, rules: HeapRules
) -> Verdict:
    """Return the verdict after the heap was exhausted while `running_tasks` had running jobs."""
    current = {
        task: old_suspect
        for task, old_suspect in suspects.items()
        if now_s - old_suspect.latest_s < rules.quarantine_s
    }
    for task in running_tasks:
        suspect = current.get(task)
        current[task] = Suspect(deaths=1 + (suspect.deaths if suspect else 0), latest_s=now_s)
    guilty = frozenset(task for task, suspect in current.items() if suspect.deaths >= rules.max_deaths)
    return Verdict({task: suspect for task, suspect in current.items() if task not in guilty}, guilty)


def clear_deaths(suspects: Suspects, task: TaskId) -> Suspects:
    """Return the suspects after `task` has finished a batch, which resets the number of its deaths."""
    suspect = suspects.get(task)
    return suspects if suspect is None else {**suspects, task: replace(suspect, deaths=0)}


def must_take_turns(suspects: Suspects, task: TaskId, now_s: float, rules: HeapRules) -> bool:
    """Return whether a task may run a job only while no other suspect does."""
    suspect = suspects.get(task)
    return suspect is not None and now_s - suspect.latest_s < rules.quarantine_s


def heap_exhaustion_message(code: int, output: str) -> str | None:
    """Return the error message of a JVM that ran out of memory; None if it ended for another reason.

    `code` is the exit code, which is negative for a signal; `output` is the end of the JVM's output.
    """
    if code not in (_JAVA_OOM_EXIT_CODE, _SPARK_OOM_EXIT_CODE):
        return None
    matches = list(_OUT_OF_MEMORY.finditer(output))
    return (matches[-1]["message"] if matches else None) or "out of memory"


def quarantine_message(rules: HeapRules) -> str:
    """Return the error message for a guilty task."""
    return (
        f"{rules.max_deaths} times in a row, Spark's JVM ran out of memory while a batch of this task was running, and "
        "the task finished no batch in between. Other tasks of the worker continue without it. Increase "
        "spark.driver.memory of the worker, or make the batches smaller; then restart the task."
    )
