"""Tests for remote workers: retries, errors, streams, and protection of credentials."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

import httpx2
import pytest
from typing_extensions import override

from tests.fakes.servers.refusing import refusing_address
from tests.unit.web.ui.fake_source import CALLER
from tests.unit.web.workers import Worker
from web.ui.sources.api import Caller, Change, ChangeEvent, RequestRejected, SourceUnavailable
from web.ui.sources.remote import RemoteSource, RemoteTarget

Handler = Callable[[httpx2.Request], httpx2.Response]


def remote(handler: Handler, *, retry_s: float = 0.0) -> RemoteSource:
    worker = RemoteTarget(url="http://worker:8083", auth=("ann", "secret"), retry_s=retry_s)
    return RemoteSource(worker, transport=httpx2.MockTransport(handler))


async def test_remote_source_sends_only_its_own_credentials() -> None:
    requests: list[httpx2.Request] = []

    def handler(request: httpx2.Request) -> httpx2.Response:
        requests.append(request)
        return httpx2.Response(200, json={})

    caller = Caller("Basic browser", "10.0.0.1")
    await remote(handler).ask("PUT", "connectors", "a/b", query=(("x", "y z"),), body=["ü"], caller=caller)
    assert str(requests[0].url) == "http://worker:8083/connectors/a%2Fb?x=y+z"
    assert requests[0].headers["authorization"].startswith("Basic ")
    assert "browser" not in requests[0].headers["authorization"]
    assert requests[0].content == b'["\\u00fc"]'


async def test_redirect_is_not_followed() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        assert request.url.host == "worker"
        return httpx2.Response(307, headers={"Location": "http://evil/"})

    with pytest.raises(RequestRejected) as error:
        await remote(handler).ask("GET", caller=CALLER)
    assert error.value.status == 307


@pytest.mark.parametrize(("method", "request_count"), [("GET", 2), ("POST", 1)])
async def test_only_gets_are_retried_during_a_rebalance(method: str, request_count: int) -> None:
    count = 0

    def handler(_request: httpx2.Request) -> httpx2.Response:
        nonlocal count
        count += 1
        if count == 1:
            return httpx2.Response(409, json={"message": "rebalance"}, headers={"Retry-After": "0"})
        return httpx2.Response(200, json={})

    source = remote(handler, retry_s=30)
    if method == "GET":
        assert (await source.ask(method, caller=CALLER)).value == {}
    else:
        with pytest.raises(RequestRejected) as error:
            await source.ask(method, caller=CALLER)
        assert error.value.retry_after == "0"
    assert count == request_count


async def test_unreachable_worker_is_unavailable() -> None:
    with refusing_address() as address:
        source = RemoteSource(RemoteTarget(url=f"http://{address}"))
        with pytest.raises(SourceUnavailable, match="does not respond"):
            await source.ask("GET", caller=CALLER)
        await source.close()


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (httpx2.Response(500, html="<html>broken</html>"), "HTTP 500 Internal Server Error"),
        (httpx2.Response(502, text="bad gateway\n"), "bad gateway"),
        (httpx2.Response(400, json={"error_code": 400, "message": "no\nname"}), "no\nname"),
        (httpx2.Response(404, json={"message": None}), "HTTP 404 Not Found"),
        (httpx2.Response(999), "HTTP 999"),
        (httpx2.Response(500, text="x" * 10_000), "x" * 500),
    ],
)
async def test_error_text_is_the_message_the_body_or_the_status(response: httpx2.Response, text: str) -> None:
    with pytest.raises(RequestRejected) as error:
        await remote(lambda _: response).ask("GET", caller=CALLER)
    assert error.value.text == text


async def test_invalid_json_response_fails_on_use() -> None:
    response = await remote(lambda _: httpx2.Response(200, text="<html>")).ask("GET", caller=CALLER)
    with pytest.raises(SourceUnavailable, match="not JSON"):
        _ = response.value


async def test_java_worker_is_detected_by_its_missing_openapi_document() -> None:
    def handler(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/":
            return httpx2.Response(200, json={"version": "4.3.0", "commit": "c", "kafka_cluster_id": "k"})
        return httpx2.Response(404, json={"error_code": 404, "message": "HTTP 404 Not Found"})

    features = await remote(handler).features(CALLER)
    assert (features.kraal, features.version) == (False, "4.3.0")


async def test_features_are_detected_again_after_an_outage() -> None:
    version = "4.2.0"

    def handler(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/away":
            raise httpx2.ReadError("gone")
        return httpx2.Response(200, json={"version": version, "paths": {}})

    source = remote(handler)
    assert (await source.features(CALLER)).version == "4.2.0"
    version = "4.3.0"
    assert (await source.features(CALLER)).version == "4.2.0"
    with pytest.raises(SourceUnavailable):
        await source.ask("GET", "away", caller=CALLER)
    assert (await source.features(CALLER)).version == "4.3.0"


class TrailingStream(httpx2.AsyncByteStream):
    """Stream that continues after the worker has announced its shutdown."""

    @override
    async def __aiter__(self) -> AsyncGenerator[bytes]:
        yield b'event: hello\ndata: {"boot":"b"}\n\n'
        yield b"event: bye\ndata: {}\n\nevent: hello\ndata: {}\n\n"


async def test_stream_ends_without_closing_event_when_the_worker_stops() -> None:
    """A `bye` of the worker is not passed on to browsers, because `kraal ui` continues and reconnects."""
    source = remote(lambda _: httpx2.Response(200, stream=TrailingStream()))
    assert [change async for change in source.changes(CALLER)] == [Change(ChangeEvent.CONNECTED, boot="b")]


async def test_broken_stream_raises_source_unavailable() -> None:
    def handler(_request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ReadError("reset")

    with pytest.raises(SourceUnavailable, match="reset"):
        await anext(remote(handler).changes(CALLER))


async def test_remote_source_reads_a_real_worker(follower: Worker) -> None:
    follower.api.herder.put("orders", {"connector.class": "x"}, tasks=1)
    source = RemoteSource(RemoteTarget(url=follower.url.rstrip("/")))
    try:
        response = await source.ask("GET", "connectors", query=(("expand", "status"),), caller=CALLER)
        assert response.value["orders"]["status"]["tasks"][0]["state"] == "RUNNING"
        assert (await source.features(CALLER)).kraal
    finally:
        await source.close()
