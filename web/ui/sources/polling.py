"""Detects changes on a worker without `GET /changes` by comparing its statuses every two seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from web.ui.sources.api import Caller, Change, ChangeEvent, Source, SourceUnavailable
from web.ui.sources.requests import expand_query

POLL_INTERVAL_S: Final = 2.0
_MAX_NAMES: Final = 100


async def poll_changes(
    source: Source, caller: Caller, *, interval_s: float = POLL_INTERVAL_S
) -> AsyncGenerator[Change]:
    """Yield the changes between polls until cancelled; errors propagate to the caller."""
    previous_statuses = await _fetch_statuses(source, caller)
    yield Change(ChangeEvent.CONNECTED)
    while True:
        await asyncio.sleep(interval_s)
        current_statuses = await _fetch_statuses(source, caller)
        change = difference(previous_statuses, current_statuses)
        previous_statuses = current_statuses
        if change is not None:
            yield change


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    """Return a change that names the connectors whose statuses differ; None if no statuses differ. Pure."""
    if before == after:
        return None
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    kinds = frozenset({"states"} if before.keys() == after.keys() else {"states", "configs", "cluster"})
    return Change(ChangeEvent.CHANGED, kinds=kinds, names=tuple(names) if len(names) <= _MAX_NAMES else None)


async def _fetch_statuses(source: Source, caller: Caller) -> Mapping[str, Any]:
    response = await source.ask("GET", "connectors", query=expand_query("status"), caller=caller)
    if not isinstance(response.value, Mapping):
        raise SourceUnavailable("The worker's response is not a map of connectors")
    return response.value
