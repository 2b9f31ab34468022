"""Reads and replays dead letters over a worker's REST API, for machines without access to Kafka.

Java workers do not support these requests.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from kraal.client.rest import RequestRejected, Rest
from kraal.core.errors import KraalError

MAX_SHOWN: Final = 100
MAX_REPLAYED: Final = 10_000
"""Limits per request; see web/openapi/dead_letters.py."""


class DeadLettersNotServed(KraalError):
    """Raised if the worker does not serve dead letters."""


def get_letters(rest: Rest, connector: str, limit: int) -> dict[str, Any]:
    """Return a connector's counts and latest letters. Raises DeadLettersNotServed, and the errors of `Rest.ask`."""
    with _map_errors(rest):
        return dict(rest.get("connectors", connector, "dead-letters", query=[("limit", str(limit))]))


def replay_in_requests(
    rest: Rest, connector: str, remaining: int, *, dry_run: bool
) -> Iterator[dict[str, Any]]:
    """Replay up to `remaining` letters in one or more requests, and yield each response. A dry run is one request.

    If `remaining` is the `left_to_replay` of `get_letters`, letters that arrive in the meantime are not replayed.
    Raises the same errors as `get_letters`.
    """
    while remaining > 0:
        body = {"limit": min(remaining, MAX_REPLAYED), "dry_run": dry_run}
        with _map_errors(rest):
            response = rest.ask("POST", "connectors", connector, "dead-letters", "replay", body=body)
        yield response
        written_count = sum(response["written"].values())
        if dry_run or not written_count:
            return
        remaining = min(remaining - written_count, response["left_to_replay"])


@contextmanager
def _map_errors(rest: Rest) -> Iterator[None]:
    """Raise DeadLettersNotServed in place of the error for an unknown endpoint."""
    try:
        yield
    except RequestRejected as exc:
        if exc.is_unknown_endpoint:
            raise DeadLettersNotServed(
                f"{rest.target.url} does not serve dead letters; specify --bootstrap-servers to read them from Kafka"
            ) from exc
        raise
