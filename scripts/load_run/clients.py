"""Concurrent clients, each of which opens a connection, sends one request, and reads the response."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType

RESPONSE_TIMEOUT_S = 120.0
NO_RESPONSE = 0
"""The status of a request without a response."""


@dataclass(slots=True)
class Responses:
    """The responses to many requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    durations_s: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    """Missing responses, and responses with status 503 without `Retry-After`."""

    def line(self) -> str:
        """Format the numbers of responses by status, and the longest response time, as one line."""
        codes = ", ".join(f"{code or 'none'}: {count}" for code, count in sorted(self.statuses.items()))
        return f"{codes}; longest {max(self.durations_s, default=0):.2f} s"


async def ask_all(port: int, requests: Iterable[bytes], *, max_in_flight: int = 1_000_000) -> Responses:
    """Send all requests, with at most `max_in_flight` at a time, and collect the responses."""
    responses, semaphore = Responses(), asyncio.Semaphore(max_in_flight)

    async def send(message: bytes) -> None:
        async with semaphore:
            start_s = time.monotonic()
            try:
                async with asyncio.timeout(RESPONSE_TIMEOUT_S):
                    status, head = await _exchange(port, message)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                status, head = NO_RESPONSE, repr(error)
            responses.statuses[status] += 1
            responses.durations_s.append(time.monotonic() - start_s)
            if status == NO_RESPONSE or (
                status == HTTPStatus.SERVICE_UNAVAILABLE and "retry-after" not in head.lower()
            ):
                responses.violations.append(head[:200])

    await asyncio.gather(*(send(message) for message in requests))
    return responses


async def _exchange(port: int, message: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(message)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        await reader.read()  # the request has `Connection: close`
        return int(head[9:12]), head
    finally:
        writer.close()


def request(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Return the bytes of a request with `Connection: close`."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def interleave(count: int, *kinds: Sequence[bytes]) -> list[bytes]:
    """Return `count` requests, alternating between the kinds."""
    return [
        kinds[number % len(kinds)][number // len(kinds) % len(kinds[number % len(kinds)])]
        for number in range(count)
    ]
