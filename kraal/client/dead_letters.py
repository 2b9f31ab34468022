"""Dead letters over a worker's REST API, for machines without access to Kafka. Kraal's own; Java workers have none."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kraal.client.rest import Refused, Rest
from kraal.core.errors import KraalError

MOST_SHOWN: Final = 100
MOST_REPLAYED: Final = 10_000
"""Limits of one request; see web/openapi/dead_letters.py."""


class NotOverRest(KraalError):
    """The worker does not serve dead letters."""


def shown(rest: Rest, connector: str, limit: int) -> dict[str, Any]:
    """Return the counts and the latest letters of a connector. Raises NotOverRest, and what `Rest.ask` raises."""
    with _served(rest):
        return dict(rest.get("connectors", connector, "dead-letters", query=[("limit", str(limit))]))


def replays(rest: Rest, connector: str, left: int, *, dry_run: bool) -> Iterator[dict[str, Any]]:
    """Replay `left` letters, in as many requests as it takes, and yield the answer to each.

    With `left_to_replay` of `shown`, letters that arrive meanwhile are left for the next replay. Raises like `shown`.
    """
    while left > 0:
        body = {"limit": min(left, MOST_REPLAYED), "dry_run": dry_run}
        with _served(rest):
            answer = rest.ask("POST", "connectors", connector, "dead-letters", "replay", body=body)
        yield answer
        written = sum(answer["written"].values())
        if dry_run or not written:
            return
        left = min(left - written, answer["left_to_replay"])


@contextmanager
def _served(rest: Rest) -> Iterator[None]:
    """Raise NotOverRest if the worker has no such endpoints."""
    try:
        yield
    except Refused as exc:
        if exc.no_such_path:
            raise NotOverRest(
                f"{rest.target.url} does not serve dead letters; specify --bootstrap-servers to read them from Kafka"
            ) from exc
        raise
