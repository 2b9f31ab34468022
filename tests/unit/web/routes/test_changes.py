"""Tests for `GET /changes` over real sockets: events, resuming, limits, and the end of streams."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kraal.cluster.views.changes import Changes
from tests.unit.web.api import Api
from tests.unit.web.event_stream import EventStream, wait_until
from web.middleware.admission import Admission, Limits
from web.routes import changes
from web.server import HttpServer, Listener
from web.settings import Settings
from web.streams import Broadcaster, Reader

SETTINGS = Settings(advertised_url="http://worker:8083/")
OPEN_STREAMS: list[Stream] = []
"""Streams of the current test, which `serving` closes."""


@contextmanager
def serving(api: Api, graceful_s: int = 5) -> Iterator[HttpServer]:
    server = HttpServer([Listener("127.0.0.1", 0)], graceful_s=graceful_s)
    server.start(api.app)
    try:
        yield server
    finally:
        api.apps.streams.close()
        server.stop()
        while OPEN_STREAMS:
            OPEN_STREAMS.pop().close()


@pytest.fixture
def server(api: Api) -> Iterator[HttpServer]:
    with serving(api) as http_server:
        yield http_server


class Stream(EventStream):
    """Client of a server in this process, closed at the end of the test."""

    def __init__(self, server: HttpServer, query: str = "", **headers: str) -> None:
        super().__init__(server.bound_listeners[0].port, query, **headers)
        OPEN_STREAMS.append(self)


def wait_for_readers(api: Api, count: int) -> None:
    wait_until(lambda: api.apps.streams.reader_count == count)


def test_stream_starts_with_hello_followed_by_changes(api: Api, server: HttpServer) -> None:
    stream = Stream(server)
    assert stream.response.status == 200
    assert stream.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert stream.response.headers["Cache-Control"] == "no-store"
    boot = api.apps.streams.boot
    hello = stream.next()
    assert hello == {
        "event": "hello", "id": f"{boot}-0", "boot": boot, "seq": 0, "worker_id": "worker:8083", "number": 0
    }  # fmt: skip
    api.herder.put("a\nb", {})
    assert stream.next() == {
        "event": "changed", "id": f"{boot}-1", "seq": 1, "connectors": ["a\nb"],
        "kinds": ["configs", "states", "topics"],
    }  # fmt: skip
    stream.close()
    wait_for_readers(api, 0)


def test_kinds_are_grouped_by_names_and_the_last_event_has_the_id(
    api: Api, server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.streams.COMPARE_INTERVAL_S", 3600)
    stream, streams = Stream(server), api.apps.streams
    stream.next()
    streams.notify_all("logs", ["b", "a"])  # this change and the following ones are merged
    streams.notify_all("events", ["a", "b"])
    streams.notify("numbers")
    api.herder.publish(is_leader=True)
    assert Stream(server, "?wait_ms=0").next()["seq"] == 1, "a new stream starts at the current position"
    events = [stream.next() for _ in range(3)]
    assert [(event["kinds"], event["connectors"]) for event in events] == [
        (["cluster"], []),
        (["events", "logs"], ["a", "b"]),
        (["numbers"], None),
    ]
    assert [event["seq"] for event in events] == [1, 1, 1]
    assert [event["id"] for event in events] == [None, None, f"{streams.boot}-1"]
    stream.close()


def test_only_requested_kinds_are_sent(api: Api, server: HttpServer) -> None:
    filtered_stream, empty_stream = (
        Stream(server, "?kinds=logs,states&kinds=future"),
        Stream(server, "?kinds=future"),
    )
    filtered_stream.next(), empty_stream.next()
    api.herder.put("a", {})
    assert filtered_stream.next()["kinds"] == ["states"]
    api.apps.streams.notify("numbers")
    api.apps.streams.notify("logs", "a")
    assert filtered_stream.next()["kinds"] == ["logs"]
    api.apps.streams.close()
    assert [event["event"] for event in empty_stream.remaining_events()] == ["bye"]


def test_wait_ms_ends_a_stream(api: Api, server: HttpServer) -> None:
    assert [event["event"] for event in Stream(server, "?wait_ms=0").remaining_events()] == ["hello"]
    start_s = time.monotonic()
    stream = Stream(server, "?wait_ms=300")
    assert [event["event"] for event in stream.remaining_events()] == ["hello"]
    assert time.monotonic() - start_s >= 0.29
    wait_for_readers(api, 0)
    stream = Stream(server, "?wait_ms=60000")
    stream.next()
    api.herder.put("a", {})
    assert "states" in stream.next()["kinds"]
    stream.close()


@pytest.mark.parametrize("wait", ["", "-1", "1.5", "x", "٣", "1000000000"])
def test_invalid_wait_ms_is_rejected(api: Api, wait: str) -> None:
    response = api.client.get("/changes", params={"wait_ms": wait})
    assert (response.status_code, response.json()["message"]) == (
        400,
        f"Invalid wait_ms '{wait}'; expected a whole number from 0 to 999999999.",
    )


def test_head_returns_immediately(api: Api, server: HttpServer) -> None:
    client = http.client.HTTPConnection("127.0.0.1", server.bound_listeners[0].port, timeout=10)
    for _ in range(2):  # the connection can be reused
        client.request("HEAD", "/changes")
        response = client.getresponse()
        assert (response.status, response.read()) == (200, b"")
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    client.close()
    assert api.apps.streams.reader_count == 0


def test_reconnecting_client_receives_missed_changes(api: Api, server: HttpServer) -> None:
    stream = Stream(server)
    stream.next()
    api.herder.put("a", {})
    last_id = stream.next()["id"]
    stream.close()
    wait_for_readers(api, 0)
    api.herder.put("b", {})
    api.herder.put("c", {})
    missed_events = Stream(server, "?wait_ms=0", Last_Event_ID=last_id).remaining_events()
    assert [(event["event"], event["seq"]) for event in missed_events] == [("hello", 2), ("changed", 2)]
    assert missed_events[1]["connectors"] == ["b", "c"]
    newest_events = Stream(
        server, "?wait_ms=0", Last_Event_ID=f"{api.apps.streams.boot}-2"
    ).remaining_events()
    assert [event["event"] for event in newest_events] == ["hello"]


@pytest.mark.parametrize(
    "last_id",
    [
        "",
        "x",
        "0123456789ab-0",
        "{boot}-1",
        "{boot}--1",
        "{boot}-0x",
        "{boot}-" + "9" * 99,
    ],
)
def test_unknown_last_event_id_causes_a_reset(api: Api, server: HttpServer, last_id: str) -> None:
    header_value = last_id.format(boot=api.apps.streams.boot)
    events = Stream(server, "?wait_ms=0", Last_Event_ID=header_value).remaining_events()
    assert [(event["event"], event["seq"]) for event in events] == [("hello", 0), ("reset", 0)]


def test_idle_stream_is_pinged(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "PING_INTERVAL_S", 0.2)
    with serving(api) as server:
        stream = Stream(server, "?kinds=states")
        stream.next()
        boot = api.apps.streams.boot
        assert stream.lines() == [": ping", f"id: {boot}-0"]
        deadline = time.monotonic() + 10
        while (lines := stream.lines()) == [": ping", f"id: {boot}-0"]:
            api.apps.streams.notify("logs", "a")  # not a requested kind, so that the stream stays idle
            assert time.monotonic() < deadline
        assert lines[0] == ": ping"
        stream.close()


def test_too_many_streams_are_rejected() -> None:
    api = Api(SETTINGS, admission=Admission(Limits(streams=2, waiting=1)))
    with serving(api) as server:
        first, second = Stream(server), Stream(server)
        first.next(), second.next()
        third = Stream(server)
        assert (third.response.status, third.response.headers["Retry-After"]) == (503, "1")
        assert json.loads(third.response.read())["message"] == "The worker is too busy: 2 streams are open"
        assert api.request("PUT", "/connectors/a/pause")[0] == 404, "streams do not count as waiting requests"
        first.close()
        wait_for_readers(api, 1)
        assert Stream(server, "?wait_ms=0").response.status == 200
        second.close()


def test_streams_do_not_count_as_waiting_requests(api: Api) -> None:
    admission = Admission(Limits())
    api = Api(SETTINGS, admission=admission)
    with serving(api) as server:
        stream = Stream(server)
        stream.next()
        load_metrics = admission.load_metrics({})
        assert (
            load_metrics.open_streams,
            "streams" in load_metrics.waiting,
            load_metrics.refused["streams"],
        ) == (
            1,
            False,
            0,
        )
        stream.close()


def test_open_streams_do_not_delay_graceful_shutdown() -> None:
    api = Api(SETTINGS)
    with serving(api, graceful_s=30) as server:
        streams = [Stream(server) for _ in range(5)]
        for stream in streams:
            stream.next()
        start_s = time.monotonic()
        api.apps.streams.close()
        server.stop()
        assert time.monotonic() - start_s < 15
        assert [event["event"] for stream in streams for event in stream.remaining_events()] == ["bye"] * 5


def test_unresponsive_client_does_not_delay_shutdown(monkeypatch: pytest.MonkeyPatch) -> None:
    api, sent_positions = Api(SETTINGS), [0]
    streams, take_changes = api.apps.streams, Broadcaster.take_changes

    def record_take_changes(streams: Broadcaster, reader: Reader) -> Changes | None:
        sent_positions.append(streams.seq)
        return take_changes(streams, reader)

    monkeypatch.setattr("web.streams.COMPARE_INTERVAL_S", 0.0)
    monkeypatch.setattr(Broadcaster, "take_changes", record_take_changes)
    names = [f"{number:03}" + "x" * 150 for number in range(100)]
    with serving(api, graceful_s=30) as server:
        Stream(server)
        wait_until(lambda: streams.reader_count == 1)

        def is_stalled() -> bool:
            """Return whether the buffers between worker and client are full, so that the stream is stalled."""
            streams.notify_all("logs", names)
            return streams.seq > sent_positions[-1] + 5

        wait_until(is_stalled, pause_s=0.001)
        start_s = time.monotonic()
        streams.close()
        server.stop()
        assert time.monotonic() - start_s < 15


def test_streams_are_rejected_during_shutdown(api: Api, server: HttpServer) -> None:
    api.apps.streams.close()
    rejected_stream = Stream(server)
    assert (rejected_stream.response.status, rejected_stream.response.headers["Retry-After"]) == (503, "1")
