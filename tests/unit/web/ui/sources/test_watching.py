"""Tests for the stream of changes that all browsers share, and for workers without a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from tests.unit.web.ui.fake_source import CALLER, FakeSource
from web.ui.features import Features
from web.ui.sources.api import Change, ChangeEvent, RequestRejected, SourceUnavailable
from web.ui.sources.polling import difference, poll_changes
from web.ui.sources.watching import ChangeWatcher

HELLO = Change(ChangeEvent.CONNECTED)
ORDERS = Change(ChangeEvent.CHANGED, frozenset({"states"}), ("orders",))
STREAM_FEATURES = Features(kraal=True, changes=True)


async def wait_until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def close(stream: AsyncGenerator[Change]) -> None:
    await stream.aclose()


async def await_event(stream: AsyncGenerator[Change], event: ChangeEvent) -> Change:
    async with asyncio.timeout(10):
        while True:
            change = await anext(stream)
            if change.event is event:
                return change


async def test_browsers_share_one_stream_until_the_last_one_leaves() -> None:
    source = FakeSource(features=STREAM_FEATURES)
    received_changes: list[Change] = []
    watcher = ChangeWatcher(source, received_changes.append)
    first_browser, second_browser = watcher.listen(CALLER), watcher.listen(CALLER)
    assert [await anext(first_browser), await anext(second_browser)] == [HELLO, HELLO]
    source.feed.put_nowait(ORDERS)
    assert [await anext(first_browser), await anext(second_browser)] == [ORDERS, ORDERS]
    assert received_changes == [HELLO, ORDERS]
    assert source.stream_count == 1
    await close(first_browser)
    source.feed.put_nowait(ORDERS)
    assert await await_event(second_browser, ChangeEvent.CHANGED) == ORDERS
    await close(second_browser)
    assert watcher.listener_count == 0
    third_browser = watcher.listen(CALLER)
    assert await anext(third_browser) == HELLO
    await wait_until_true(lambda: source.stream_count == 2)
    await close(third_browser)


@pytest.mark.parametrize(
    "error", [SourceUnavailable("no response"), RequestRejected(503, "busy"), RuntimeError("bug")]
)
async def test_unavailable_worker_is_reported_once_and_retried(error: Exception) -> None:
    source = FakeSource(features=error)
    watcher = ChangeWatcher(source, lambda _: None, reconnect_s=0)
    stream = watcher.listen(CALLER)
    assert (await await_event(stream, ChangeEvent.UNAVAILABLE)).reason
    second_stream = watcher.listen(CALLER)
    assert (await anext(second_stream)).event is ChangeEvent.UNAVAILABLE
    source.reported_features = STREAM_FEATURES
    async with asyncio.timeout(10):
        assert await anext(stream) == HELLO
        assert await anext(second_stream) == HELLO
    await close(stream)
    await close(second_stream)


async def test_broken_stream_is_reopened() -> None:
    source = FakeSource(features=STREAM_FEATURES)
    watcher = ChangeWatcher(source, lambda _: None, reconnect_s=0)
    stream = watcher.listen(CALLER)
    await anext(stream)
    source.feed.put_nowait(SourceUnavailable("broken"))
    assert (await await_event(stream, ChangeEvent.UNAVAILABLE)).reason == "broken"
    assert await await_event(stream, ChangeEvent.CONNECTED) == HELLO
    assert source.stream_count == 2
    await close(stream)


async def test_slow_browser_receives_one_change_without_names() -> None:
    source = FakeSource(features=STREAM_FEATURES)
    watcher = ChangeWatcher(source, lambda _: None)
    slow_browser, fast_browser = watcher.listen(CALLER), watcher.listen(CALLER)
    assert [await anext(slow_browser), await anext(fast_browser)] == [HELLO, HELLO]
    for _ in range(150):
        source.feed.put_nowait(ORDERS)
        assert await await_event(fast_browser, ChangeEvent.CHANGED) == ORDERS
    await watcher.close()
    queued_changes = [change async for change in slow_browser]
    assert Change(ChangeEvent.CHANGED) in queued_changes
    assert len(queued_changes) < 100


async def test_close_ends_current_and_later_streams() -> None:
    watcher = ChangeWatcher(FakeSource(features=STREAM_FEATURES), lambda _: None)
    stream = watcher.listen(CALLER)
    await anext(stream)
    await watcher.close()
    async with asyncio.timeout(10):
        assert [change.event async for change in stream][-1] is ChangeEvent.CLOSING
        assert [change.event async for change in watcher.listen(CALLER)] == [ChangeEvent.CLOSING]


async def test_worker_shutdown_ends_the_streams() -> None:
    source = FakeSource(features=STREAM_FEATURES)
    watcher = ChangeWatcher(source, lambda _: None)
    stream = watcher.listen(CALLER)
    source.feed.put_nowait(Change(ChangeEvent.CLOSING))
    async with asyncio.timeout(10):
        assert [change.event async for change in stream][-1] is ChangeEvent.CLOSING
        assert [change.event async for change in watcher.listen(CALLER)] == [ChangeEvent.CLOSING], (
            "a stopping worker does not wait for streams"
        )


def statuses(**states: str) -> dict[str, Any]:
    return {name: {"status": {"connector": {"state": state}}} for name, state in states.items()}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (statuses(a="RUNNING"), statuses(a="RUNNING"), None),
        (statuses(a="RUNNING", b="X"), statuses(a="FAILED", b="X"), (("a",), {"states"})),
        (statuses(a="RUNNING"), statuses(b="RUNNING"), (("a", "b"), {"states", "configs", "cluster"})),
        (
            {},
            statuses(**{f"c{number}": "RUNNING" for number in range(101)}),
            (None, {"states", "configs", "cluster"}),
        ),
    ],
)
def test_difference_names_changed_connectors(
    before: Any, after: Any, expected: tuple[Any, set[str]] | None
) -> None:
    change = difference(before, after)
    if expected is None:
        assert change is None
    else:
        assert change == Change(ChangeEvent.CHANGED, frozenset(expected[1]), expected[0])


async def test_worker_without_a_stream_is_polled() -> None:
    source = FakeSource({"/connectors?expand=status&traces=causes": statuses(a="RUNNING")})
    stream = poll_changes(source, CALLER, interval_s=0)
    async with asyncio.timeout(10):
        assert await anext(stream) == HELLO
        source.responses["/connectors?expand=status&traces=causes"] = statuses(a="FAILED")
        assert await anext(stream) == Change(ChangeEvent.CHANGED, frozenset({"states"}), ("a",))
    source.responses["/connectors?expand=status&traces=causes"] = SourceUnavailable("gone")
    with pytest.raises(SourceUnavailable):
        await anext(stream)


async def test_watcher_polls_workers_without_a_stream() -> None:
    source = FakeSource({"/connectors?expand=status&traces=causes": {}}, features=Features())
    stream = ChangeWatcher(source, lambda _: None).listen(CALLER)
    await await_event(stream, ChangeEvent.CONNECTED)
    await wait_until_true(lambda: ("GET", "/connectors?expand=status&traces=causes") in source.requests)
    assert source.stream_count == 0
    await close(stream)
