"""Scrapes the metrics of a worker inside a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.core.connect_version import CONNECT_VERSION
from kraal.metrics.connect_families import Identity
from kraal.metrics.scrape import Scrape

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.assembly import Assembly
    from kraal.core.ids import WorkerId
    from kraal.metrics.load import LoadMetrics


def scrape(assembly: Assembly, worker: WorkerId) -> str:
    """Return the response of a worker's `GET /metrics`; `worker` is the worker id."""
    return "".join(create_scrape(assembly, worker)())


def create_scrape(assembly: Assembly, name: str, load: Callable[[], LoadMetrics] | None = None) -> Scrape:
    """Return the scrape of `GET /metrics` for `web.app.create_apps`; `name` is the worker id."""
    identity = Identity(client_id=name, version=CONNECT_VERSION, commit="test", started_ms=0)
    return Scrape(assembly.published, assembly.metrics, identity, str, load)
