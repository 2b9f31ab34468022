"""Metric families of how busy a worker is: messages that wait for its parts, and requests that wait or were refused.

Pure. Connect has no such numbers, so their names begin with `kraal_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from kraal.metrics.text import Family, labels

_KINDS: Final = {
    "connector ": "connectors",
    "task ": "tasks",
    "validation-": "validations",
    "publication-": "publications",
    "fencing-": "fencings",
    "offsets of ": "offset requests",
}
"""How the names of actors begin of which there are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadNumbers:
    """How busy a worker is at one moment."""

    mailboxes: Mapping[str, int]
    """Messages that wait, by the actor's name."""
    waiting: Mapping[str, int]
    """Requests that wait, by what they wait for."""
    refused: Mapping[str, int]
    """Requests that were refused, by what was scarce."""
    body_bytes: int


def load_families(numbers: LoadNumbers) -> Iterator[Family]:
    """Make the families; connectors, tasks and what lives for one request are each shown as one."""
    depths: Counter[str] = Counter()
    for name, depth in numbers.mailboxes.items():
        depths[_shown(name)] += depth
    yield Family(
        "kraal_mailbox_messages",
        "gauge",
        "Messages that wait for a part of the worker; of connectors and of tasks, for all of them.",
        [(labels(("actor", name)), depths[name]) for name in sorted(depths)],
    )
    yield Family(
        "kraal_rest_waiting_requests",
        "gauge",
        "Requests over REST that wait, by what they wait for.",
        [(labels(("for", what)), count) for what, count in numbers.waiting.items()],
    )
    yield Family(
        "kraal_rest_refused_requests_total",
        "counter",
        "Requests over REST that were answered 503 because the worker was too busy, by what was scarce.",
        [(labels(("for", what)), count) for what, count in numbers.refused.items()],
    )
    yield Family(
        "kraal_rest_body_bytes",
        "gauge",
        "Bytes of the bodies of all requests that are not answered yet.",
        [("", numbers.body_bytes)],
    )


def _shown(name: str) -> str:
    return next((kind for start, kind in _KINDS.items() if name.startswith(start)), name)
