"""Tests for responses shared by browsers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.web.ui.fake_source import CALLER, FakeSource
from web.ui.features import Features
from web.ui.sources.api import ApiResponse, SourceUnavailable
from web.ui.sources.cache import ResponseCache
from web.ui.sources.shared import SharedSource

RESPONSES: dict[str, Any] = {"/connectors?expand=status": {"a": {}}, "/connectors/a/status": {}}
QUERY = (("expand", "status"),)


async def test_concurrent_requests_are_merged() -> None:
    source = FakeSource(RESPONSES)
    shared = SharedSource(source)
    responses = await asyncio.gather(
        *(shared.ask("GET", "connectors", query=QUERY, caller=CALLER) for _ in range(5))
    )
    assert len(source.requests) == 1
    assert len({id(response) for response in responses}) == 1


async def test_unchanged_response_is_parsed_once() -> None:
    shared = SharedSource(FakeSource(RESPONSES))
    first = await shared.ask("GET", "connectors", query=QUERY, caller=CALLER)
    second = await shared.ask("GET", "connectors", query=QUERY, caller=CALLER)
    assert second.value is first.value


def test_derived_value_is_computed_once_per_set_of_responses() -> None:
    calls = 0

    def concatenate(*values: list[int]) -> list[int]:
        nonlocal calls
        calls += 1
        return [number for value in values for number in value]

    first_response, second_response, equal_response = (
        ApiResponse(200, b"[1]"),
        ApiResponse(200, b"[2]"),
        ApiResponse(200, b"[2]"),
    )
    assert [first_response.derive(concatenate, second_response) for _ in range(2)] == [[1, 2], [1, 2]]
    assert calls == 1
    assert first_response.derive(concatenate, equal_response) == [1, 2]
    assert first_response.derive(concatenate) == [1]
    assert calls == 3


async def test_changed_response_replaces_the_cached_response() -> None:
    source = FakeSource(RESPONSES)
    shared = SharedSource(source)
    await shared.ask("GET", "connectors", query=QUERY, caller=CALLER)
    source.responses["/connectors?expand=status"] = {"b": {}}
    assert (await shared.ask("GET", "connectors", query=QUERY, caller=CALLER)).value == {"b": {}}


async def test_responses_are_dropped_when_the_last_browser_disconnects() -> None:
    shared = SharedSource(FakeSource(RESPONSES, Features(kraal=True, changes=True)))
    first_stream, second_stream = shared.changes(CALLER), shared.changes(CALLER)
    await anext(first_stream)
    await anext(second_stream)
    response = await shared.ask("GET", "connectors", query=QUERY, caller=CALLER)
    await first_stream.aclose()
    assert await shared.ask("GET", "connectors", query=QUERY, caller=CALLER) is response
    await second_stream.aclose()
    assert await shared.ask("GET", "connectors", query=QUERY, caller=CALLER) is not response


@pytest.mark.parametrize(("keep_s", "count"), [(0.0, 2), (60.0, 1)])
async def test_response_is_cached_for_keep_s(keep_s: float, count: int) -> None:
    source = FakeSource(RESPONSES)
    shared = SharedSource(source, keep_s=keep_s)
    for _ in range(2):
        await shared.ask("GET", "connectors", query=QUERY, caller=CALLER)
        await asyncio.sleep(0)
    assert len(source.requests) == count


async def test_action_invalidates_cached_responses() -> None:
    source = FakeSource(RESPONSES | {"/connectors/a/pause": {}})
    shared = SharedSource(source, keep_s=60)
    await shared.ask("GET", "connectors", query=QUERY, caller=CALLER)
    await shared.ask("PUT", "connectors", "a", "pause", caller=CALLER)
    await shared.ask("GET", "connectors", query=QUERY, caller=CALLER)
    assert [method for method, _ in source.requests] == ["GET", "PUT", "GET"]


async def test_request_after_a_change_does_not_reuse_an_older_request() -> None:
    cache = ResponseCache(keep_s=60)
    gates = [asyncio.Event(), asyncio.Event()]
    sent_events = [asyncio.Event(), asyncio.Event()]
    count = 0

    async def ask() -> ApiResponse:
        nonlocal count
        number, count = count, count + 1
        sent_events[number].set()
        await gates[number].wait()
        return ApiResponse(200, b"%d" % number)

    older_request = asyncio.create_task(cache.get(("x",), ask))
    await sent_events[0].wait()
    cache.invalidate()
    newer_request = asyncio.create_task(cache.get(("x",), ask))
    await sent_events[1].wait()
    gates[1].set()
    assert (await newer_request).body == b"1"
    gates[0].set()
    assert (await older_request).body == b"0"
    assert (await cache.get(("x",), ask)).body == b"1"


async def test_error_reaches_all_waiters_and_is_not_cached() -> None:
    source = FakeSource({"/connectors": SourceUnavailable("gone")})
    shared = SharedSource(source, keep_s=60)
    results = await asyncio.gather(
        *(shared.ask("GET", "connectors", caller=CALLER) for _ in range(3)), return_exceptions=True
    )
    assert [str(result) for result in results] == ["gone"] * 3
    source.responses["/connectors"] = []
    assert (await shared.ask("GET", "connectors", caller=CALLER)).value == []


async def test_disconnected_browser_does_not_cancel_other_requests() -> None:
    gate = asyncio.Event()

    async def ask() -> ApiResponse:
        await gate.wait()
        return ApiResponse(200, b"1")

    cache = ResponseCache()
    canceled_request = asyncio.create_task(cache.get(("x",), ask))
    waiting_request = asyncio.create_task(cache.get(("x",), ask))
    await asyncio.sleep(0)
    canceled_request.cancel()
    gate.set()
    assert (await waiting_request).body == b"1"


async def test_responses_about_one_connector_are_not_shared() -> None:
    source = FakeSource(RESPONSES)
    shared = SharedSource(source, keep_s=60)
    for _ in range(2):
        await shared.ask("GET", "connectors", "a", "status", caller=CALLER)
    assert len(source.requests) == 2


async def test_number_of_cached_responses_is_limited() -> None:
    cache = ResponseCache(keep_s=60)
    count = 0

    async def ask() -> ApiResponse:
        nonlocal count
        count += 1
        return ApiResponse(200, b"x" * (20 * 1024 * 1024))

    for name in ("a", "b", "c", "d", "d"):
        await cache.get((name,), ask)
        await asyncio.sleep(0)
    assert count == 4
    await cache.get(("a",), ask)
    assert count == 5
