"""Responses shared by requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from web.middleware import shared_answers
from web.middleware.shared_answers import SharedResponses


class ResponseFactory:
    """Creates responses on command of the test, and counts them."""

    def __init__(self) -> None:
        self.count = 0
        self.goes_on = asyncio.Event()
        self.error: Exception | None = None

    async def make(self) -> int:
        self.count += 1
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error
        return self.count


def run_story(story: Callable[[SharedResponses, ResponseFactory], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(10):
            await story(SharedResponses(), ResponseFactory())

    asyncio.run(run())


def test_concurrent_and_subsequent_requests_share_a_response() -> None:
    async def story(shared: SharedResponses, computation: ResponseFactory) -> None:
        first, second = (asyncio.create_task(shared.get("x", computation.make)) for _ in range(2))
        other = asyncio.create_task(shared.get("y", computation.make))
        await asyncio.sleep(0)
        computation.goes_on.set()
        assert (await first, await second, await other) == (1, 1, 2), "once for each key"
        assert await shared.get("x", computation.make) == 1
        assert computation.count == 2

    run_story(story)


def test_expired_response_is_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "REUSE_S", 0.0)

    async def story(shared: SharedResponses, computation: ResponseFactory) -> None:
        slow = asyncio.create_task(shared.get("x", computation.make))
        await asyncio.sleep(0)
        joined = asyncio.create_task(shared.get("x", computation.make))
        await asyncio.sleep(0)
        computation.goes_on.set()
        assert (await slow, await joined) == (1, 1), "it was still under way"
        assert await shared.get("x", computation.make) == 2

    run_story(story)


def test_canceled_request_does_not_cancel_others() -> None:
    async def story(shared: SharedResponses, computation: ResponseFactory) -> None:
        first, second = (asyncio.create_task(shared.get("x", computation.make)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        computation.goes_on.set()
        assert await second == 1

    run_story(story)


def test_error_is_raised_to_all_callers() -> None:
    async def story(shared: SharedResponses, computation: ResponseFactory) -> None:
        computation.error = KeyError("x")
        computation.goes_on.set()
        results = await asyncio.gather(
            *(shared.get("x", computation.make) for _ in range(2)), return_exceptions=True
        )
        assert results == [computation.error, computation.error]

    run_story(story)


def test_number_of_shared_responses_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "_MAX_RESPONSES", 2)

    async def story(shared: SharedResponses, computation: ResponseFactory) -> None:
        computation.goes_on.set()
        for key in (1, 2, 3, 3):
            await shared.get(key, computation.make)
        assert computation.count == 4, "the third is not shared"
        await shared.get(1, computation.make)
        assert computation.count == 4

    run_story(story)
