"""Compares the resources that workers hold after a run with those before it. Pure.

Pools grow when they are first used, so an additional thread is not necessarily a leak: bounded resources are compared
with their bound, and others with the number before.
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
"""Number of threads of each kind that a worker may always have; `_OwnThread` are those of actors other than
connectors and tasks, some of which exist for one request."""
MORE_THREADS: Final = 1
"""Additional threads of each other kind, per worker."""
MORE_NATIVE: Final = 8
"""Additional non-Python threads (librdkafka, Arrow, Spark's bridge), per worker."""
MORE_FILES: Final = 24
"""Additional open files and sockets, per worker, for idle connections to the JVM and to Kafka."""


_NATIVE: Final = "threads that are not Python's"


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of the process of one worker."""

    names: tuple[str, ...]
    threads: tuple[str, ...]
    """Names of all its threads, as known to the kernel."""
    files: int
    processes: int
    """Number of processes, including the worker and its child processes."""


def kind(name: str) -> str:
    """Return a thread's name without its number."""
    return re.sub(r"[-_ ]*\(?\d.*$", "", name) or name


def kinds(resources: Sequence[Resources]) -> Counter[str]:
    """Count threads by kind over all workers."""
    return Counter(kind(name) for each in resources for name in each.names)


def leaks(before: Sequence[Resources], after: Sequence[Resources]) -> list[str]:
    """Return a message for each resource that exceeds its limit."""
    workers = len(after)
    errors = []
    was, now = kinds(before), kinds(after)
    for name, count in sorted(now.items()):
        most = max(was[name] + MORE_THREADS * workers, BOUNDS.get(name, 0) * workers)
        if count > most:
            errors.append(f"{count} threads {name} in {workers} workers, before {was[name]}, at most {most}")
    native = [sum(len(each.threads) - len(each.names) for each in resources) for resources in (before, after)]
    files = [sum(each.files for each in resources) for resources in (before, after)]
    processes = [sum(each.processes for each in resources) for resources in (before, after)]
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


def _more(before: Sequence[Resources], after: Sequence[Resources]) -> str:
    """Return the names and numbers of additional threads."""
    was, now = (Counter(name for each in resources for name in each.threads) for resources in (before, after))
    return ", ".join(f"{count} more {name}" for name, count in (now - was).most_common())
