"""Tests for responses that concurrent and subsequent requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from web.middleware import shared_responses
from web.middleware.shared_responses import SharedResponses


class ResponseFactory:
    """Factory that responds with the number of its calls once `release` is set."""

    def __init__(self) -> None:
        self.count = 0
        self.release = asyncio.Event()
        self.error: Exception | None = None

    async def make(self) -> int:
        self.count += 1
        await self.release.wait()
        if self.error is not None:
            raise self.error
        return self.count


def run_scenario(scenario: Callable[[SharedResponses, ResponseFactory], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(10):
            await scenario(SharedResponses(), ResponseFactory())

    asyncio.run(run())


def test_concurrent_and_subsequent_requests_share_a_response() -> None:
    async def scenario(shared: SharedResponses, factory: ResponseFactory) -> None:
        first, second = (asyncio.create_task(shared.get("x", factory.make)) for _ in range(2))
        other_key_request = asyncio.create_task(shared.get("y", factory.make))
        await asyncio.sleep(0)
        factory.release.set()
        assert (await first, await second, await other_key_request) == (1, 1, 2), "one response per key"
        assert await shared.get("x", factory.make) == 1
        assert factory.count == 2

    run_scenario(scenario)


def test_expired_response_is_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_responses, "REUSE_S", 0.0)

    async def scenario(shared: SharedResponses, factory: ResponseFactory) -> None:
        first = asyncio.create_task(shared.get("x", factory.make))
        await asyncio.sleep(0)
        second = asyncio.create_task(shared.get("x", factory.make))
        await asyncio.sleep(0)
        factory.release.set()
        assert (await first, await second) == (1, 1), "the request was still pending"
        assert await shared.get("x", factory.make) == 2

    run_scenario(scenario)


def test_canceled_request_does_not_cancel_others() -> None:
    async def scenario(shared: SharedResponses, factory: ResponseFactory) -> None:
        first, second = (asyncio.create_task(shared.get("x", factory.make)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        factory.release.set()
        assert await second == 1

    run_scenario(scenario)


def test_all_callers_receive_the_error() -> None:
    async def scenario(shared: SharedResponses, factory: ResponseFactory) -> None:
        factory.error = KeyError("x")
        factory.release.set()
        results = await asyncio.gather(
            *(shared.get("x", factory.make) for _ in range(2)), return_exceptions=True
        )
        assert results == [factory.error, factory.error]

    run_scenario(scenario)


def test_number_of_shared_responses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_responses, "_MAX_RESPONSES", 2)

    async def scenario(shared: SharedResponses, factory: ResponseFactory) -> None:
        factory.release.set()
        for key in (1, 2, 3, 3):
            await shared.get(key, factory.make)
        assert factory.count == 4, "the response for the third key is not shared"
        await shared.get(1, factory.make)
        assert factory.count == 4

    run_scenario(scenario)
