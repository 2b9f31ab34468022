"""Metric families of a worker's load: waiting messages, and requests that wait or were refused.

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

_KINDS: Final = {
    "connector ": "connectors",
    "task ": "tasks",
    "validation-": "validations",
    "publication-": "publications",
    "fencing-": "fencings",
    "offsets of ": "offset requests",
}
"""Name prefixes of actors that exist in large numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadMetrics:
    """The load of a worker at one moment."""

    mailboxes: Mapping[str, int]
    """Number of waiting messages by actor name."""
    waiting: Mapping[str, int]
    """Number of waiting requests by resource."""
    refused: Mapping[str, int]
    """Number of refused requests by exhausted resource."""
    body_bytes: int
    open_streams: int = 0
    pools: Sequence[PoolState] = ()
    down: Sequence[DownPart] = ()


def load_families(metrics: LoadMetrics) -> Iterator[Family]:
    """Yield the families; connectors, tasks and actors of single requests are each aggregated."""
    depths: Counter[str] = Counter()
    for name, depth in metrics.mailboxes.items():
        depths[_format(name)] += depth
    yield Family(
        "kraal_mailbox_messages",
        "gauge",
        "Messages that wait for a part of the worker; of connectors and of tasks, for all of them.",
        [(labels(("actor", name)), depths[name]) for name in sorted(depths)],
    )
    yield Family(
        "kraal_rest_waiting_requests",
        "gauge",
        "Requests over REST that wait, by resource.",
        [(labels(("for", what)), count) for what, count in metrics.waiting.items()],
    )
    yield Family(
        "kraal_rest_refused_requests_total",
        "counter",
        "Requests over REST that were answered 503 because the worker was too busy, by resource.",
        [(labels(("for", what)), count) for what, count in metrics.refused.items()],
    )
    yield Family(
        "kraal_rest_body_bytes",
        "gauge",
        "Bytes of the bodies of all requests that are not answered yet.",
        [("", metrics.body_bytes)],
    )
    yield Family(
        "kraal_rest_open_streams",
        "gauge",
        "Open streams of changes, which count as no waiting requests.",
        [("", metrics.open_streams)],
    )
    yield Family(
        "kraal_pool_stuck_threads",
        "gauge",
        "Threads of a pool that are held by calls that do not return.",
        [(labels(("pool", pool.name)), len(pool.stuck)) for pool in metrics.pools],
    )
    yield Family(
        "kraal_part_down",
        "gauge",
        "1 for a part of the worker that tasks need and that is down: spark, lane, plugins-jvm.",
        [(labels(("part", part.name)), 1) for part in metrics.down],
    )


def _format(name: str) -> str:
    return next((kind for start, kind in _KINDS.items() if name.startswith(start)), name)
