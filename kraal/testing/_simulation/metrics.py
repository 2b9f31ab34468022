"""A scrape of a worker inside a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.metrics.families import Identity
from kraal.metrics.scrape import Scrape

if TYPE_CHECKING:
    from collections.abc import Callable

    from actors.assembly import Assembly
    from kraal.core.ids import WorkerId
    from kraal.metrics.load import LoadNumbers


def scrape(assembly: Assembly, worker: WorkerId) -> str:
    """Return what `GET /metrics` of this worker answers now; it calls itself by its worker id."""
    return "".join(scrape_of(assembly, worker)())


def scrape_of(assembly: Assembly, name: str, load: Callable[[], LoadNumbers] | None = None) -> Scrape:
    """Return what makes the answer to `GET /metrics`, for `web.app.create_apps`; `name` is what it calls itself."""
    identity = Identity(client_id=name, version="4.3.0", commit="test", started_ms=0)
    return Scrape(assembly.published, assembly.board, identity, str, load)
