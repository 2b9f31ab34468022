"""Whose batch exhausts the heap of Spark's JVM: a decision by counts. Pure.

One heap serves all tasks of a worker, and when it is exhausted the JVM ends and nobody says whose records they were. So
all tasks whose jobs ran at that moment are suspects, and from then on suspects run one at a time. An innocent one
finishes its batch when it is alone, and nothing counts against it any more; the other one takes the JVM along again,
alone, until its deaths are as many as it may have. Without the turns, a busy innocent task would be blamed each time
with the guilty one. Suspects take turns for a while even when they have finished batches: two tasks may be too much
only together, and would end the JVM again and again.

What is not decided here: a JVM that something else ended, such as the kernel, makes nobody a suspect.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from kraal.ids import TaskId

_ENDED_BY_JAVA: Final = 3
"""The exit code of -XX:+ExitOnOutOfMemoryError."""
_ENDED_BY_SPARK: Final = 52
"""SparkExitCode.OOM: an exception that nobody caught."""
_LAST_WORDS: Final = re.compile(r"java\.lang\.OutOfMemoryError(?:: (?P<what>[^\r\n]*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapRules:
    """How patient a worker is."""

    deaths: int = 3
    """With so many deaths of the JVM, and no batch finished since the first, a task is guilty."""
    probation_s: float = 600.0
    """For how long after a death those that ran then take turns."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A task that was at work when the heap was exhausted."""

    deaths: int
    """Since it last finished a batch."""
    latest_s: float
    """When the JVM died last under it; monotonic seconds."""


Suspects = Mapping[TaskId, Suspect]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What follows from a death."""

    suspects: Suspects
    guilty: frozenset[TaskId] = frozenset()
    """They are not to run again until somebody restarts them; no suspects any more."""


def exhausted(suspects: Suspects, working: Iterable[TaskId], now_s: float, rules: HeapRules) -> Verdict:
    """The heap was exhausted while these tasks worked: count, and say who is guilty."""
    left = {task: known for task, known in suspects.items() if now_s - known.latest_s < rules.probation_s}
    for task in working:
        known = left.get(task)
        left[task] = Suspect(deaths=1 + (known.deaths if known else 0), latest_s=now_s)
    guilty = frozenset(task for task, known in left.items() if known.deaths >= rules.deaths)
    return Verdict({task: known for task, known in left.items() if task not in guilty}, guilty)


def finished(suspects: Suspects, task: TaskId) -> Suspects:
    """A task has finished a batch: no earlier death counts against it."""
    known = suspects.get(task)
    return suspects if known is None else {**suspects, task: replace(known, deaths=0)}


def takes_turns(suspects: Suspects, task: TaskId, now_s: float, rules: HeapRules) -> bool:
    """Whether a task may work only while no other suspect does."""
    known = suspects.get(task)
    return known is not None and now_s - known.latest_s < rules.probation_s


def heap_death(code: int, output: str) -> str | None:
    """Return what a JVM that ended for want of memory said, or None when it ended otherwise.

    `code` is its exit code, negative for a signal; `output` the last of what it printed.
    """
    if code not in (_ENDED_BY_JAVA, _ENDED_BY_SPARK):
        return None
    words = list(_LAST_WORDS.finditer(output))
    return (words[-1]["what"] if words else None) or "out of memory"


def sentence(rules: HeapRules) -> str:
    """Return what people are told of a guilty task."""
    return (
        f"{rules.deaths} times in a row Spark's JVM ran out of memory while a batch of this task was at "
        "work, and the task has finished none in between. Other tasks of the worker go on without it. Raise "
        "spark.driver.memory of the worker, or make the batches smaller, then restart the task."
    )
