"""Scrapes of a worker's metrics: render the published values in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from kraal.metrics.connect_families import Identity, families
from kraal.metrics.load import LoadNumbers, load_families
from kraal.metrics.text import render

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Published
    from kraal.metrics.registry import MetricsRegistry


@dataclass(frozen=True, slots=True)
class Scrape:
    """A callable that performs one scrape. Any thread; sends no messages."""

    published: Published
    metrics: MetricsRegistry
    identity: Identity
    class_of: Callable[[str], str]
    """Returns the full name of a connector's class for the name in its config."""
    load: Callable[[], LoadNumbers] | None = None
    """Returns the worker's load; None if it is not measured."""

    def __call__(self) -> Iterator[str]:
        """Yield the text in pieces that describe one moment, each rendered in a few milliseconds; some are empty."""
        metrics = self.metrics
        found = families(
            self.published.latest,
            metrics.current(),
            self.identity,
            self.class_of,
            metrics.time.now(),
            metrics.stall_s,
        )
        busy = () if self.load is None else load_families(self.load())
        return map(render, chain(found, busy))
