"""Metric families of a worker's load: queued messages, and waiting or rejected requests.

Pure. Connect has no such metrics, so their names start with `kraal_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kraal.metrics.stalls.down_parts import DownPart
from kraal.metrics.text import Family, labels
from kraal.metrics.thread_pools import PoolState

_KIND_BY_PREFIX: Final = {
    "connector ": "connectors",
    "task ": "tasks",
    "validation-": "validations",
    "publication-": "publications",
    "fencing-": "fencings",
    "offsets of ": "offset requests",
}
"""Name prefixes of actors that are aggregated because they are numerous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMetrics:
    """The load of a worker."""

    mailboxes: Mapping[str, int]
    """Number of queued messages by actor name."""
    waiting: Mapping[str, int]
    """Number of waiting requests by resource."""
    refused: Mapping[str, int]
    """Number of rejected requests by exhausted resource."""
    body_bytes: int
    open_streams: int = 0
    pools: Sequence[PoolState] = ()
    down: Sequence[DownPart] = ()


def load_families(metrics: LoadMetrics) -> Iterator[Family]:
    """Yield the families; actors of connectors, tasks and requests are aggregated by kind."""
    depths: Counter[str] = Counter()
    for name, depth in metrics.mailboxes.items():
        depths[_format_actor(name)] += depth
    yield Family(
        "kraal_mailbox_messages",
        "gauge",
        "Queued messages of an actor; the messages of all connectors and of all tasks are summed.",
        [(labels(("actor", name)), depths[name]) for name in sorted(depths)],
    )
    yield Family(
        "kraal_rest_waiting_requests",
        "gauge",
        "REST requests that wait, by resource.",
        [(labels(("for", resource)), count) for resource, count in metrics.waiting.items()],
    )
    yield Family(
        "kraal_rest_refused_requests_total",
        "counter",
        "REST requests rejected with 503 because the worker was overloaded, by resource.",
        [(labels(("for", resource)), count) for resource, count in metrics.refused.items()],
    )
    yield Family(
        "kraal_rest_body_bytes",
        "gauge",
        "Total size of the bodies of all pending requests, in bytes.",
        [("", metrics.body_bytes)],
    )
    yield Family(
        "kraal_rest_open_streams",
        "gauge",
        "Open event streams, which are not counted as waiting requests.",
        [("", metrics.open_streams)],
    )
    yield Family(
        "kraal_pool_stuck_threads",
        "gauge",
        "Threads of a pool that are blocked by calls that do not return.",
        [(labels(("pool", pool.name)), len(pool.stuck)) for pool in metrics.pools],
    )
    yield Family(
        "kraal_part_down",
        "gauge",
        "1 for a component of the worker that tasks require and that is down: spark, lane, group, plugins-jvm.",
        [(labels(("part", part.name)), 1) for part in metrics.down],
    )


def _format_actor(name: str) -> str:
    return next((kind for start, kind in _KIND_BY_PREFIX.items() if name.startswith(start)), name)
