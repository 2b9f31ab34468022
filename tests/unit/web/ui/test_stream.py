"""Tests for the event stream of a browser."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from tests.unit.web.ui.fake_source import FakeSource
from web.aborting import ABORT
from web.ui.app import DashboardApp
from web.ui.features import Features
from web.ui.options import DashboardOptions
from web.ui.rendering import Rendering
from web.ui.routing import Dashboard
from web.ui.sources.api import Change, ChangeEvent, Source
from web.ui.stream import Streams, encode_event

if TYPE_CHECKING:
    from starlette.types import Message

STREAM_FEATURES = Features(kraal=True, changes=True)


@pytest.mark.parametrize(
    ("change", "name", "data"),
    [
        (Change(ChangeEvent.CONNECTED, boot="b"), "hello", {"boot": "b"}),
        (
            Change(ChangeEvent.CHANGED, frozenset({"b", "a"}), ("x",)),
            "changed",
            {"kinds": ["a", "b"], "names": ["x"]},
        ),
        (Change(ChangeEvent.CHANGED), "changed", {"kinds": [], "names": None}),
        (Change(ChangeEvent.UNAVAILABLE, reason="gone"), "away", {"reason": "gone"}),
        (Change(ChangeEvent.CLOSING), "bye", {}),
    ],
)
def test_event_is_one_line_of_json(change: Change, name: str, data: object) -> None:
    lines = encode_event(change).decode("ascii").split("\n")
    assert lines[0] == f"event: {name}"
    assert json.loads(lines[1].removeprefix("data: ")) == data
    assert lines[2:] == ["", ""]


def test_name_cannot_terminate_its_event() -> None:
    event = encode_event(Change(ChangeEvent.CHANGED, names=("a\n\nevent: bye\r\ndata: {}\u2028",)))
    assert event.count(b"\n") == 3


async def events(source: Source, *, ping_s: float = 15.0) -> AsyncGenerator[bytes]:
    """Yield the chunks of the response to `GET /stream`."""
    dashboard = Dashboard(source, DashboardOptions(worker="w:1"), Rendering(str, {}))
    request = Request({"type": "http", "method": "GET", "headers": [], "client": ("127.0.0.1", 1)})
    response = await Streams(dashboard, ping_s=ping_s).respond(request)
    assert isinstance(response, StreamingResponse)
    assert response.media_type == "text/event-stream"
    body = response.body_iterator
    try:
        async for chunk in body:
            yield chunk.encode() if isinstance(chunk, str) else bytes(chunk)
    finally:
        await body.aclose()  # type: ignore[attr-defined]


async def test_changes_are_sent_as_events_until_closing() -> None:
    source = FakeSource(features=STREAM_FEATURES)
    app = DashboardApp(source, DashboardOptions(worker="w:1"))
    for change in (Change(ChangeEvent.CHANGED, names=("a",)), Change(ChangeEvent.CLOSING)):
        source.feed.put_nowait(change)
    async with asyncio.timeout(10):
        output = b"".join([chunk async for chunk in events(app.source)])
    assert output.startswith(b"retry: 1000\n\nevent: hello\n")
    assert b'event: changed\ndata: {"kinds": [], "names": ["a"]}' in output
    assert output.endswith(b"event: bye\ndata: {}\n\n")


async def test_idle_stream_is_pinged() -> None:
    stream = events(FakeSource(features=STREAM_FEATURES), ping_s=0.01)
    async with asyncio.timeout(10):
        async for chunk in stream:
            if chunk == b": ping\n\n":
                break
    await stream.aclose()


async def test_disconnected_browser_ends_its_stream() -> None:
    app = DashboardApp(FakeSource(features=STREAM_FEATURES), DashboardOptions(worker="w:1"))
    stream = events(app.source)
    async with asyncio.timeout(10):
        assert await anext(stream) == b"retry: 1000\n\n"
        await anext(stream)
        assert app.source.listener_count == 1
        await stream.aclose()
    assert app.source.listener_count == 0


async def test_stalled_browser_is_disconnected() -> None:
    connection_aborted, sent_count = asyncio.Event(), 0

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        nonlocal sent_count
        sent_count += 1
        if message["type"] == "http.response.body" and sent_count > 2:
            await asyncio.Event().wait()

    scope = {
        "type": "http", "method": "GET", "headers": [], "client": ("127.0.0.1", 1), "asgi": {"spec_version": "2.3"},
        "extensions": {ABORT: {"call": connection_aborted.set}},
    }  # fmt: skip
    app = DashboardApp(FakeSource(features=STREAM_FEATURES), DashboardOptions(worker="w:1"))
    dashboard = Dashboard(app.source, DashboardOptions(worker="w:1"), Rendering(str, {}))
    streams = Streams(dashboard, ping_s=0.01, send_timeout_s=0.02)
    response = await streams.respond(Request(scope))
    async with asyncio.timeout(5):
        await response(scope, receive, send)
    assert connection_aborted.is_set()
    assert app.source.listener_count == 0
