"""Changes of a worker that has no stream of them: its statuses are compared every two seconds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from web.ui.sources.api import Away, Caller, Change, Source, Word
from web.ui.sources.requests import query_of

EVERY_S: Final = 2.0
_MOST_NAMES: Final = 100


async def polled(source: Source, caller: Caller, *, every_s: float = EVERY_S) -> AsyncGenerator[Change]:
    """Return the changes between answers; errors and the end of the waiting are left to the caller."""
    known = await _statuses(source, caller)
    yield Change(Word.HELLO)
    while True:
        await asyncio.sleep(every_s)
        found = await _statuses(source, caller)
        change = difference(known, found)
        known = found
        if change is not None:
            yield change


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> Change | None:
    """Return which connectors two answers tell differently; None if they are equal. Pure."""
    if before == after:
        return None
    names = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    kinds = frozenset({"states"} if before.keys() == after.keys() else {"states", "configs", "cluster"})
    return Change(Word.CHANGED, kinds=kinds, names=tuple(names) if len(names) <= _MOST_NAMES else None)


async def _statuses(source: Source, caller: Caller) -> Mapping[str, Any]:
    answer = await source.ask("GET", "connectors", query=query_of("status"), caller=caller)
    if not isinstance(answer.value, Mapping):
        raise Away("The worker's answer is not a map of connectors")
    return answer.value
