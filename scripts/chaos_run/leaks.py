"""What workers hold after all is over, next to what they held before. Pure.

Pools grow when they are first used, so that a thread more is no leak by itself: what is bounded by design is judged
by its bound, and the rest by what there was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

BOUNDS: Final[Mapping[str, int]] = {
    "kraal-job": 8,
    "kraal-control": 4,
    "kraal-cancel": 1,
    "kraal-poller": 1,
    "kraal-lane-push": 1,
    "kraal-lane-results": 1,
    "http": 1,
    "plugin-check": 4,
    "asyncio": 4,
    "clock": 1,
    "kafka-token": 1,
    "kraal-actors": 4,
    "kraal-wait": 16,
    "_OwnThread": 24,
}
"""Threads of each kind that a worker may have whatever it had before; `_OwnThread` are those of actors but for
connectors and tasks, some of which are there for one request."""
MORE_THREADS: Final = 1
"""Of each other kind, for each worker."""
MORE_NATIVE: Final = 8
"""Threads that are not Python's (librdkafka's, Arrow's, Spark's bridge), for each worker."""
MORE_FILES: Final = 24
"""Open files and sockets, for each worker: idle connections to the JVM and to Kafka come and go."""


_NATIVE: Final = "threads that are not Python's"


@dataclass(frozen=True, slots=True)
class Held:
    """What the process of one worker holds: its Python threads by name, all its threads, its open files."""

    names: tuple[str, ...]
    threads: tuple[str, ...]
    """All its threads, as the kernel calls them."""
    files: int
    processes: int
    """The worker, and all below it."""


def kind(name: str) -> str:
    """Return a thread's name without what numbers it."""
    return re.sub(r"[-_ ]*\(?\d.*$", "", name) or name


def kinds(held: Sequence[Held]) -> Counter[str]:
    """Count threads by kind over all workers."""
    return Counter(kind(name) for each in held for name in each.names)


def leaks(before: Sequence[Held], after: Sequence[Held]) -> list[str]:
    """Return a sentence for each thing of which there is more than there should be."""
    workers = len(after)
    errors = []
    was, now = kinds(before), kinds(after)
    for name, count in sorted(now.items()):
        most = max(was[name] + MORE_THREADS * workers, BOUNDS.get(name, 0) * workers)
        if count > most:
            errors.append(f"{count} threads {name} in {workers} workers, before {was[name]}, at most {most}")
    native = [sum(len(each.threads) - len(each.names) for each in held) for held in (before, after)]
    files = [sum(each.files for each in held) for held in (before, after)]
    processes = [sum(each.processes for each in held) for held in (before, after)]
    for what, (first, last), more in (
        (_NATIVE, native, MORE_NATIVE),
        ("open files", files, MORE_FILES),
    ):
        if last > first + more * workers:
            errors.append(f"{last} {what} in {workers} workers, before {first}, at most {more} more in each")
            if what == _NATIVE:
                errors[-1] += f": {_more(before, after)}"
    if processes[1] > processes[0]:
        errors.append(f"{processes[1]} processes of the workers, before {processes[0]}")
    return errors


def _more(before: Sequence[Held], after: Sequence[Held]) -> str:
    """Name the threads, all of them, that have become more."""
    was, now = (Counter(name for each in held for name in each.threads) for held in (before, after))
    return ", ".join(f"{count} more {name}" for name, count in (now - was).most_common())
