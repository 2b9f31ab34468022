"""Many clients at once: each opens a connection, asks once, and reads the answer to its end."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType

ANSWER_S = 120.0
NO_RESPONSE = 0
"""The status of a request that was not answered."""


@dataclass(slots=True)
class Answers:
    """What came back for many requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    took: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Answers of a kind that no worker may give: none at all, or 503 without saying when to come back."""

    def line(self) -> str:
        """Return it in one line."""
        codes = ", ".join(f"{code or 'none'}: {count}" for code, count in sorted(self.statuses.items()))
        return f"{codes}; longest {max(self.took, default=0):.2f} s"


async def ask_all(port: int, requests: Iterable[bytes], *, at_once: int = 1_000_000) -> Answers:
    """Send all of them, a limited number at once, and take the answers."""
    answers, gate = Answers(), asyncio.Semaphore(at_once)

    async def one(message: bytes) -> None:
        async with gate:
            begun = time.monotonic()
            try:
                async with asyncio.timeout(ANSWER_S):
                    status, head = await _exchange(port, message)
            except (OSError, TimeoutError, asyncio.IncompleteReadError) as error:
                status, head = NO_RESPONSE, repr(error)
            answers.statuses[status] += 1
            answers.took.append(time.monotonic() - begun)
            if status == NO_RESPONSE or (
                status == HTTPStatus.SERVICE_UNAVAILABLE and "retry-after" not in head.lower()
            ):
                answers.wrong.append(head[:200])

    await asyncio.gather(*(one(message) for message in requests))
    return answers


async def _exchange(port: int, message: bytes) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(message)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        await reader.read()  # the request says that the connection ends with the answer
        return int(head[9:12]), head
    finally:
        writer.close()


def request(
    method: str, path: str, body: bytes = b"", headers: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Return the bytes of a request after whose answer the connection ends."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


def in_turns(count: int, *kinds: Sequence[bytes]) -> list[bytes]:
    """Return the given number of requests, one of each kind after the other."""
    return [
        kinds[number % len(kinds)][number // len(kinds) % len(kinds[number % len(kinds)])]
        for number in range(count)
    ]
