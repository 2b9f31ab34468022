"""Creates the scrape of `GET /metrics` from the parts of a worker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from kraal.metrics.connect_families import Identity
from kraal.metrics.scrape import Scrape
from kraal.metrics.stalls.down_parts import find_group_outage

if TYPE_CHECKING:
    from actors.assembly import Assembly
    from kraal.engine.api import Engine
    from kraal.metrics.progress import JavaMetrics
    from kraal.plugins.registry import Registry
    from kraal.worker.proofs import Proofs
    from web.middleware.admission import Admission
    from web.settings import Settings


def make_identity(client_id: str, settings: Settings, started_ms: int) -> Identity:
    """Return the identity of a worker in its metrics."""
    return Identity(
        client_id=client_id, version=settings.connect_version, commit=settings.commit, started_ms=started_ms
    )


def make_scrape(
    assembly: Assembly,
    registry: Registry,
    identity: Identity,
    admission: Admission,
    engine: Engine,
    java: JavaMetrics | None,
    proofs: Proofs | None,
    mailboxes: Callable[[], Mapping[str, int]],
) -> Scrape:
    """Return the scrape; `mailboxes` returns the number of queued messages by actor."""
    return Scrape(
        assembly.published,
        assembly.metrics,
        identity,
        lambda name: registry.resolve(name) or name,
        lambda: replace(
            admission.load_metrics(mailboxes()),
            pools=engine.pools(),
            down=[*engine.down(), *find_group_outage(assembly.metrics)],
        ),
        None if java is None else java.current,
        None if proofs is None else proofs.metrics,
        None if assembly.ledger is None else assembly.delivery.current,
    )
