"""Tests for in-process calls of a worker's own REST API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.web.api import Api
from web.settings import Settings
from web.ui.sources.api import Caller, Change, ChangeEvent, RequestRejected, SourceUnavailable
from web.ui.sources.in_process import InProcessSource

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

CALLER = Caller("Basic abc", "10.0.0.9", "https")


class Echo:
    """Application that returns the request in its response."""

    def __init__(self, status: int = 200, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
        self.status = status
        self.headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        message = await receive()
        echo = {
            "method": scope["method"],
            "raw_path": scope["raw_path"].decode(),
            "query": scope["query_string"].decode(),
            "headers": {name.decode(): value.decode() for name, value in scope["headers"]},
            "client": scope["client"][0],
            "scheme": scope["scheme"],
            "body": message["body"].decode(),
        }
        await send({"type": "http.response.start", "status": self.status, "headers": list(self.headers)})
        text = json.dumps(echo).encode()
        await send({"type": "http.response.body", "body": text[:10], "more_body": True})
        await send({"type": "http.response.body", "body": text[10:]})


def create_source(app: ASGIApp, admin: ASGIApp | None = None) -> InProcessSource:
    source = InProcessSource()
    source.bind(app, admin)
    return source


async def test_request_has_credentials_address_scheme_and_raw_path_of_the_caller() -> None:
    response = await create_source(Echo()).ask(
        "PUT", "connectors", "a/b ..", "config", query=(("x", "1&2"),), body={"k": "ü"}, caller=CALLER
    )
    assert response.value == {
        "method": "PUT",
        "raw_path": "/connectors/a%2Fb%20../config",
        "query": "x=1%262",
        "headers": {
            "accept": "application/json",
            "host": "localhost",
            "content-type": "application/json",
            "authorization": "Basic abc",
        },
        "client": "10.0.0.9",
        "scheme": "https",
        "body": '{"k": "\\u00fc"}',
    }


async def test_name_of_dots_cannot_traverse_paths() -> None:
    response = await create_source(Echo()).ask("GET", "connectors", "..", "status", caller=Caller())
    assert response.value["raw_path"] == "/connectors/%2E%2E/status"
    assert "authorization" not in response.value["headers"]


async def test_admin_paths_are_sent_to_the_admin_application() -> None:
    source = create_source(Echo(404), Echo())
    assert (await source.ask("GET", "admin", "assignments", caller=CALLER)).status == 200
    with pytest.raises(RequestRejected):
        await source.ask("GET", "connectors", caller=CALLER)


async def test_error_has_connects_message_and_retry_after() -> None:
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"Retry-After", b"3")]
        await send({"type": "http.response.start", "status": 409, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"error_code":409,"message":"rebalance"}'})

    with pytest.raises(RequestRejected) as error:
        await create_source(app).ask("GET", "x", caller=CALLER)
    assert (error.value.status, error.value.text, error.value.retry_after) == (409, "rebalance", "3")


async def test_source_is_unavailable_before_bind() -> None:
    with pytest.raises(SourceUnavailable, match="not ready"):
        await InProcessSource().ask("GET", caller=CALLER)


async def send_two_changes(scope: Scope, receive: Receive, send: Send) -> None:
    """Send two events, and set the event `disconnected` of the scope when the reader disconnects."""
    await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for chunk in (
        b'event: hello\ndata: {"boot":"b"}\n\nevent: cha',
        b'nged\ndata: {"connectors":["a"],"kinds":[]}\n\n',
    ):
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await receive()
    scope["state"]["disconnected"].set()


async def test_changes_are_streamed_until_the_reader_closes() -> None:
    disconnected = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await send_two_changes({**scope, "state": {"disconnected": disconnected}}, receive, send)
        finally:
            disconnected.set()

    changes: AsyncGenerator[Change] = create_source(app).changes(CALLER)
    assert await anext(changes) == Change(ChangeEvent.CONNECTED, boot="b")
    assert await anext(changes) == Change(ChangeEvent.CHANGED, names=("a",))
    await changes.aclose()
    await asyncio.wait_for(disconnected.wait(), 5)


async def test_rejected_stream_is_an_error() -> None:
    changes = create_source(Echo(503)).changes(CALLER)
    with pytest.raises(RequestRejected) as error:
        await anext(changes)
    assert error.value.status == 503


@pytest.mark.parametrize("is_admin_separate", [False, True])
async def test_features_are_detected(*, is_admin_separate: bool) -> None:
    api = Api(Settings(advertised_url="http://worker:8083/", has_separate_admin=is_admin_separate))
    source = create_source(api.apps.main, api.apps.admin if is_admin_separate else None)
    features = await source.features(Caller())
    flags: dict[str, Any] = {
        name: getattr(features, name) for name in ("kraal", "assignments", "loggers", "changes")
    }
    assert flags == {"kraal": True, "assignments": True, "loggers": True, "changes": True}
    assert features.supervision
    assert features.version == "4.4.0"


async def test_change_on_a_worker_is_streamed() -> None:
    api = Api(Settings(advertised_url="http://worker:8083/"))
    changes = create_source(api.app).changes(Caller())
    async with asyncio.timeout(10):
        assert (await anext(changes)).event is ChangeEvent.CONNECTED
        api.herder.put("orders", {})
        change = await anext(changes)
    assert change.names == ("orders",)
    assert "configs" in change.kinds
    api.apps.streams.close()
    async with asyncio.timeout(10):
        assert [change.event async for change in changes] == [ChangeEvent.CLOSING]
