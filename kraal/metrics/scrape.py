"""Scrapes of a worker's metrics, which render the published values in pieces."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from kraal.metrics.connect_families import Identity, families
from kraal.metrics.delivery import delivery_families
from kraal.metrics.java_plugins import JvmMetrics, state_families
from kraal.metrics.load import LoadMetrics, load_families
from kraal.metrics.proofs import ProofMetrics, proof_families
from kraal.metrics.tables import table_families
from kraal.metrics.text import Family, render

if TYPE_CHECKING:
    from kraal.cluster.views.snapshot import Published
    from kraal.core.ids import Instance, TaskId
    from kraal.ledger.totals import TaskTotals
    from kraal.metrics.registry import MetricsRegistry

GATHER_S: Final = 1.0
"""Timeout of a scrape for metrics of another process, in seconds."""


@dataclass(frozen=True, slots=True)
class Scrape:
    """A callable that performs one scrape. Thread-safe; sends no messages."""

    published: Published
    metrics: MetricsRegistry
    identity: Identity
    find_class_name: Callable[[str], str]
    """Returns the qualified class name for the name in a connector's config."""
    load: Callable[[], LoadMetrics] | None = None
    """Returns the worker's load; None if it is not measured."""
    java: Callable[[Container[Instance]], JvmMetrics] | None = None
    """Returns the metrics of the plugins' JVMs for these instances; None if the worker has no Java plugins."""
    proofs: Callable[[], Sequence[ProofMetrics]] | None = None
    """Returns the latest proofs of delivery; None if the worker runs no proofs."""
    delivery: Callable[[], Mapping[TaskId, TaskTotals]] | None = None
    """Returns what the tasks have delivered; None without a ledger."""

    def __call__(self) -> Iterator[str]:
        """Yield the text of one consistent view in pieces, each rendered within milliseconds; pieces may be empty."""
        metrics, current = self.metrics, self.metrics.current()
        java = None if self.java is None else self.java(current.plugin_versions)
        metric_families = families(
            self.published.latest,
            current,
            self.identity,
            self.find_class_name,
            metrics.time.now(),
            metrics.stall_timeout_s,
            java={} if java is None else java.tasks,
        )
        worker_load = () if self.load is None else load_families(self.load())
        proofs = () if self.proofs is None else self._proof_families(self.proofs, current.instance_states)
        delivery = () if self.delivery is None else delivery_families(self.delivery())
        tables = table_families(current, metrics.time)
        pieces = map(render, chain(metric_families, worker_load, proofs, delivery, tables))
        if java is None:
            return pieces
        return chain(pieces, map(render, state_families(java)), (java.text,))

    def _proof_families(
        self, proofs: Callable[[], Sequence[ProofMetrics]], instances: Container[Instance]
    ) -> Iterator[Family]:
        """Yield the families of the proofs of connectors that run on this worker."""
        return proof_families([proof for proof in proofs() if proof.connector in instances])
