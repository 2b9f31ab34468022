"""REST requests that check the shape of the response. All functions raise RequestRejected and SourceUnavailable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from web.ui.sources.api import Caller, Query, Source, SourceUnavailable

_UNEXPECTED_SHAPE_ERROR = (
    "The worker's response has an unexpected shape; check that the URL is that of a Connect worker"
)


async def get_map(source: Source, caller: Caller, *segments: str, query: Query = ()) -> Mapping[str, Any]:
    """GET a JSON object."""
    response = await source.ask("GET", *segments, query=query, caller=caller)
    if not isinstance(response.value, Mapping):
        raise SourceUnavailable(_UNEXPECTED_SHAPE_ERROR)
    return response.value


async def get_list(source: Source, caller: Caller, *segments: str, query: Query = ()) -> list[Any]:
    """GET a JSON array."""
    response = await source.ask("GET", *segments, query=query, caller=caller)
    if not isinstance(response.value, list):
        raise SourceUnavailable(_UNEXPECTED_SHAPE_ERROR)
    return response.value


def expand_query(part: str) -> Query:
    """Return the query for a part of all connectors, with shortened traces; Java workers send full traces."""
    return (("expand", part), *((("traces", "causes"),) if part == "status" else ()))


async def get_expanded(source: Source, caller: Caller, part: str) -> Mapping[str, Any]:
    """GET one part (`status`, `info` or `progress`) of all connectors. Returns the part by connector name."""
    parts_by_name = await get_map(source, caller, "connectors", query=expand_query(part))
    return {
        name: parts[part]
        for name, parts in parts_by_name.items()
        if isinstance(parts, Mapping) and part in parts
    }


async def connector_status(
    source: Source, caller: Caller, name: str, *, parts: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """GET the status of a connector, expanded by `parts`."""
    query = tuple(("expand", part) for part in parts)
    return await get_map(source, caller, "connectors", name, "status", query=query)
