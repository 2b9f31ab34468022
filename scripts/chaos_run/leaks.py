"""Compares the resources that workers hold before and after a run. Pure.

Pools grow when they are first used, so an additional thread is not necessarily a leak. Resources with a limit are
therefore compared with this limit, and all other resources with their number before the run.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

MAX_THREADS_BY_KIND: Final[Mapping[str, int]] = {
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
    "ThreadPoolExecutor": min(32, (os.cpu_count() or 1) + 4),
}
"""Maximum number of threads of each kind in a worker, regardless of the number before the run.

`_OwnThread` threads belong to actors other than connectors and tasks; some of these actors exist for one request.
`ThreadPoolExecutor` is pyiceberg's pool, which has Python's default size."""
MAX_ADDITIONAL_THREADS: Final = 1
"""Maximum number of additional threads of each other kind, per worker."""
MAX_ADDITIONAL_NATIVE_THREADS: Final = 8
"""Maximum number of additional non-Python threads (librdkafka, Arrow, Spark's bridge), per worker."""
MAX_ADDITIONAL_FILES: Final = 24
"""Maximum number of additional open files and sockets, per worker, for idle connections to the JVM and to Kafka."""


_NATIVE: Final = "non-Python threads"


@dataclass(frozen=True, slots=True)
class Resources:
    """The resources of the process of a worker."""

    names: tuple[str, ...]
    """Names of the Python threads."""
    threads: tuple[str, ...]
    """Names of all threads of the process, as reported by the kernel."""
    files: int
    processes: int
    """Number of processes, including the worker and its child processes."""


def get_thread_kind(name: str) -> str:
    """Return a thread's name without its number."""
    return re.sub(r"[-_ ]*\(?\d.*$", "", name) or name


def count_thread_kinds(resources: Sequence[Resources]) -> Counter[str]:
    """Count threads by kind over all workers."""
    return Counter(get_thread_kind(name) for worker in resources for name in worker.names)


def find_leaks(before: Sequence[Resources], after: Sequence[Resources]) -> list[str]:
    """Return a message for each resource that exceeds its limit."""
    workers = len(after)
    errors = []
    before_kinds, after_kinds = count_thread_kinds(before), count_thread_kinds(after)
    for name, count in sorted(after_kinds.items()):
        limit = max(
            before_kinds[name] + MAX_ADDITIONAL_THREADS * workers, MAX_THREADS_BY_KIND.get(name, 0) * workers
        )
        if count > limit:
            errors.append(
                f"{count} threads {name} in {workers} workers, before {before_kinds[name]}, at most {limit}"
            )
    native = [
        sum(len(worker.threads) - len(worker.names) for worker in resources) for resources in (before, after)
    ]
    files = [sum(worker.files for worker in resources) for resources in (before, after)]
    processes = [sum(worker.processes for worker in resources) for resources in (before, after)]
    for resource, (initial, final), tolerance in (
        (_NATIVE, native, MAX_ADDITIONAL_NATIVE_THREADS),
        ("open files", files, MAX_ADDITIONAL_FILES),
    ):
        if final > initial + tolerance * workers:
            errors.append(
                f"{final} {resource} in {workers} workers, before {initial}, at most {tolerance} more in each"
            )
            if resource == _NATIVE:
                errors[-1] += f": {_describe_additional_threads(before, after)}"
    if processes[1] > processes[0]:
        errors.append(f"{processes[1]} processes of the workers, before {processes[0]}")
    return errors


def _describe_additional_threads(before: Sequence[Resources], after: Sequence[Resources]) -> str:
    """Describe additional threads by name and number."""
    counts_before, counts_after = (
        Counter(name for worker in resources for name in worker.threads) for resources in (before, after)
    )
    return ", ".join(f"{count} more {name}" for name, count in (counts_after - counts_before).most_common())
