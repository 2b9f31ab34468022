"""Traces of a worker's batches, which require optional packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kraal.core.errors import ConfigInvalid

if TYPE_CHECKING:
    from kraal.config.worker.config import WorkerConfig
    from kraal.metrics.tracing import Traces


def worker_traces(config: WorkerConfig) -> Traces | None:
    """Return the worker's traces; None if tracing is disabled. Raises ConfigInvalid if packages are missing."""
    if not config.tracing:
        return None
    try:
        from kraal.metrics.tracing import open_traces  # noqa: PLC0415 - its packages are optional
    except ModuleNotFoundError as exc:
        reason = f"tracing.enabled=true requires a package that is not installed ({exc.name}); install kraal[otel]."
        raise ConfigInvalid(reason, [reason]) from exc
    return open_traces(config.worker_id)
