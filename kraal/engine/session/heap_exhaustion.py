"""Determines by counts which task's batches exhaust the heap of Spark's JVM. Pure.

All tasks of a worker share one heap, and when it is exhausted the JVM ends without naming the task. So all tasks whose
jobs ran at that moment are suspects, and suspects run one at a time from then on. An innocent task finishes its batch
when it is alone, which clears it; a guilty one ends the JVM again, alone, until it reaches the limit of deaths. Without
the turns, a busy innocent task would be blamed each time together with the guilty one. Suspects take turns for a while
even after they have finished batches, because two tasks may exhaust the heap only together, again and again.

A JVM that something else ended, such as the kernel, makes no task a suspect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kraal.core.ids import TaskId

_ENDED_BY_JAVA: Final = 3
"""The exit code of -XX:+ExitOnOutOfMemoryError."""
_ENDED_BY_SPARK: Final = 52
"""SparkExitCode.OOM: an uncaught exception."""
_OUT_OF_MEMORY: Final = re.compile(r"java\.lang\.OutOfMemoryError(?:: (?P<what>[^\r\n]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapRules:
    """The limits of the memory quarantine."""

    deaths: int = 3
    """After this many deaths of the JVM without a finished batch since the first, a task is guilty."""
    quarantine_s: float = 600.0
    """How long after a death the tasks that ran then take turns."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A task that was running when the heap was exhausted."""

    deaths: int
    """Deaths since it last finished a batch."""
    latest_s: float
    """When the JVM last died while it worked; monotonic seconds."""


Suspects = Mapping[TaskId, Suspect]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The consequences of a death."""

    suspects: Suspects
    guilty: frozenset[TaskId] = frozenset()
    """Tasks that must not run again until a restart; they are no longer suspects."""


def blame(suspects: Suspects, working: Iterable[TaskId], now_s: float, rules: HeapRules) -> Verdict:
    """Count a heap exhaustion while these tasks worked, and return the guilty tasks."""
    current = {task: each for task, each in suspects.items() if now_s - each.latest_s < rules.quarantine_s}
    for task in working:
        suspect = current.get(task)
        current[task] = Suspect(deaths=1 + (suspect.deaths if suspect else 0), latest_s=now_s)
    guilty = frozenset(task for task, suspect in current.items() if suspect.deaths >= rules.deaths)
    return Verdict({task: suspect for task, suspect in current.items() if task not in guilty}, guilty)


def clear_deaths(suspects: Suspects, task: TaskId) -> Suspects:
    """Record that a task has finished a batch, which clears its earlier deaths."""
    suspect = suspects.get(task)
    return suspects if suspect is None else {**suspects, task: replace(suspect, deaths=0)}


def takes_turns(suspects: Suspects, task: TaskId, now_s: float, rules: HeapRules) -> bool:
    """Whether a task may work only while no other suspect does."""
    suspect = suspects.get(task)
    return suspect is not None and now_s - suspect.latest_s < rules.quarantine_s


def heap_death(code: int, output: str) -> str | None:
    """Return the output of a JVM that ended because of lack of memory, or None if it ended otherwise.

    `code` is its exit code, negative for a signal; `output` is the end of its output.
    """
    if code not in (_ENDED_BY_JAVA, _ENDED_BY_SPARK):
        return None
    matches = list(_OUT_OF_MEMORY.finditer(output))
    return (matches[-1]["what"] if matches else None) or "out of memory"


def sentence(rules: HeapRules) -> str:
    """Return the message for people about a guilty task."""
    return (
        f"{rules.deaths} times in a row Spark's JVM ran out of memory while a batch of this task was at "
        "work, and the task has finished none in between. Other tasks of the worker go on without it. Raise "
        "spark.driver.memory of the worker, or make the batches smaller, then restart the task."
    )
