"""Answers that requests share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from web.middleware import shared_answers
from web.middleware.shared_answers import SharedAnswers


class Made:
    """Counts how often an answer was made; it is made when a test says so."""

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


def run_story(story: Callable[[SharedAnswers, Made], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(10):
            await story(SharedAnswers(), Made())

    asyncio.run(run())


def test_requests_at_the_same_time_and_soon_after_share_an_answer() -> None:
    async def story(shared: SharedAnswers, computation: Made) -> None:
        first, second = (asyncio.create_task(shared.get("x", computation.make)) for _ in range(2))
        other = asyncio.create_task(shared.get("y", computation.make))
        await asyncio.sleep(0)
        computation.goes_on.set()
        assert (await first, await second, await other) == (1, 1, 2), "once for each key"
        assert await shared.get("x", computation.make) == 1
        assert computation.count == 2

    run_story(story)


def test_an_expired_answer_is_computed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "REUSE_S", 0.0)

    async def story(shared: SharedAnswers, computation: Made) -> None:
        slow = asyncio.create_task(shared.get("x", computation.make))
        await asyncio.sleep(0)
        joined = asyncio.create_task(shared.get("x", computation.make))
        await asyncio.sleep(0)
        computation.goes_on.set()
        assert (await slow, await joined) == (1, 1), "it was still under way"
        assert await shared.get("x", computation.make) == 2

    run_story(story)


def test_a_canceled_request_does_not_cancel_others() -> None:
    async def story(shared: SharedAnswers, computation: Made) -> None:
        first, second = (asyncio.create_task(shared.get("x", computation.make)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        computation.goes_on.set()
        assert await second == 1

    run_story(story)


def test_an_error_is_raised_to_all() -> None:
    async def story(shared: SharedAnswers, computation: Made) -> None:
        computation.error = KeyError("x")
        computation.goes_on.set()
        results = await asyncio.gather(
            *(shared.get("x", computation.make) for _ in range(2)), return_exceptions=True
        )
        assert results == [computation.error, computation.error]

    run_story(story)


def test_the_number_of_shared_answers_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_answers, "_MAX_ANSWERS", 2)

    async def story(shared: SharedAnswers, computation: Made) -> None:
        computation.goes_on.set()
        for key in (1, 2, 3, 3):
            await shared.get(key, computation.make)
        assert computation.count == 4, "the third is not shared"
        await shared.get(1, computation.make)
        assert computation.count == 4

    run_story(story)
