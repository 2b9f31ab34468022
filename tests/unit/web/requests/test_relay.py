"""Tests that metric changes on other workers are relayed to readers of `GET /changes`, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

import httpx2
import pytest

from kraal.broker.broker import free_port
from kraal.cluster.state.statuses import ConnectorStatuses, StatusState
from kraal.cluster.views.changes import Names
from kraal.cluster.views.snapshot import Snapshot
from kraal.config.values import Password
from kraal.config.worker.basic_auth import BasicAuth
from kraal.core.ids import ConnectorName, Generation, State, WorkerId
from kraal.core.server_sent_events import Event
from tests.unit.web.api import Api, status
from tests.unit.web.event_stream import EventStream, wait_until
from tests.unit.web.workers import look_up_members, publish_session_key, serve_fake_peer
from web.middleware import shared_responses
from web.requests import relay
from web.requests.relay import (
    StreamEnd,
    changed_metrics,
    retry_delay_s,
    stream_end_for_status,
    workers_to_read,
)
from web.routes import changes as routes
from web.server import HttpServer, Listener
from web.settings import Settings
from web.streams import METRICS, METRICS_ELSEWHERE

ANNS_CREDENTIALS = "Basic YW5uOnNlY3JldA=="
LOGS = "logs"
CONNECTOR = ConnectorName("c")


@dataclass
class Member:
    """Worker at a local port, with the streams that the test has opened to it."""

    api: Api
    port: int
    open_streams: list[EventStream]

    @property
    def id(self) -> WorkerId:
        return WorkerId(f"127.0.0.1:{self.port}")

    def read(self, query: str = "", **headers: str) -> EventStream:
        """Open a stream of the worker's changes; return the stream after its `hello` event."""
        stream = EventStream(self.port, query, **headers)
        self.open_streams.append(stream)
        assert stream.next()["event"] == "hello"
        return stream

    def publish_group(self, *workers: WorkerId) -> None:
        """Start a new generation with these workers, and publish a connector with one task on each of them."""
        generation = Generation(self.api.herder.published.latest.generation + 1)
        self.api.herder.publish(worker_id=self.id, status=statuses(*workers), generation=generation)

    def change_metrics(self, *names: str) -> None:
        """Report changed metrics of local tasks."""
        self.api.apps.streams.notify_all(METRICS, names)

    def wait_for_readers(self, count: int) -> None:
        wait_until(lambda: self.api.apps.streams.reader_count == count)


def statuses(*workers: WorkerId) -> StatusState:
    tasks = {n: replace(status(State.RUNNING), worker_id=worker) for n, worker in enumerate(workers)}
    connector = replace(status(State.RUNNING), worker_id=workers[0]) if workers else None
    return StatusState(statuses={CONNECTOR: ConnectorStatuses(connector=connector, tasks=tasks)})


@contextmanager
def member(port: int = 0, **settings: object) -> Iterator[Member]:
    server = HttpServer([Listener("127.0.0.1", port)], graceful_s=5)
    actual_port = server.bound_listeners[0].port
    url = f"http://127.0.0.1:{actual_port}/"
    apis: list[Api] = []
    options = {"members": lambda: look_up_members(apis[0].published), **settings}
    apis.append(Api(Settings(advertised_url=url, distributed=True, **options)))  # type: ignore[arg-type]
    worker = Member(apis[0], actual_port, [])
    worker.publish_group()
    server.start(worker.api.app)
    try:
        yield worker
    finally:
        worker.api.apps.streams.close()
        server.stop()
        for stream in worker.open_streams:
            stream.close()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Member, Member]]:
    """Return two workers of a group, which refresh their list of workers frequently."""
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    with member() as first, member() as second:
        first.publish_group(first.id, second.id)
        second.publish_group(first.id, second.id)
        yield first, second


def changes(stream: EventStream) -> tuple[list[str], list[str] | None]:
    """Return the kinds and connector names of the next event."""
    event = stream.next()
    assert event["event"] == "changed"
    return event["kinds"], event["connectors"]


def test_readers_are_notified_of_metrics_on_other_workers(group: tuple[Member, Member]) -> None:
    first, second = group
    unfiltered_stream, filtered_stream = first.read(), first.read("?kinds=states,numbers")
    second.wait_for_readers(1)
    second.change_metrics("b", "a")
    assert changes(unfiltered_stream) == changes(filtered_stream) == (["numbers"], ["a", "b"])
    second.api.apps.streams.notify(METRICS)
    assert changes(unfiltered_stream) == changes(filtered_stream) == (["numbers"], None)


def test_workers_receive_metric_changes_of_local_tasks_only(group: tuple[Member, Member]) -> None:
    first, second = group
    client_streams = [first.read(), second.read()]
    worker_stream = first.read("?forward=false")
    first.wait_for_readers(3)
    second.wait_for_readers(2)
    second.change_metrics("a")
    assert [changes(stream) for stream in client_streams] == [(["numbers"], ["a"])] * 2
    first.api.apps.streams.notify(LOGS, "marker")
    assert changes(worker_stream) == (["logs"], ["marker"]), (
        "metric changes of other workers are not relayed to workers"
    )
    first.change_metrics("b")
    assert changes(worker_stream) == (["numbers"], ["b"])


@pytest.mark.parametrize("query", ["?forward=false", "?kinds=states,logs"])
def test_local_or_metric_free_streams_do_not_read_other_workers(
    group: tuple[Member, Member], query: str
) -> None:
    first, second = group
    stream = first.read(query)
    for _ in range(5):  # enough time to open a stream to the other worker
        first.api.apps.streams.notify(LOGS)
        assert changes(stream) == (["logs"], None)
    assert second.api.apps.streams.reader_count == 0
    first.read()
    second.wait_for_readers(1)


def test_other_workers_are_read_while_a_client_reads(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "RETENTION_S", 0.0)
    reading_worker, other_worker = group
    first, second = reading_worker.read(), reading_worker.read()
    other_worker.wait_for_readers(1)
    first.close()
    reading_worker.wait_for_readers(1)
    other_worker.change_metrics("a")
    assert changes(second) == (["numbers"], ["a"])
    second.close()
    other_worker.wait_for_readers(0)
    reading_worker.read()
    other_worker.wait_for_readers(1)


def test_readers_follow_joining_and_leaving_workers(group: tuple[Member, Member]) -> None:
    first, second = group
    stream = first.read("?kinds=numbers")
    second.wait_for_readers(1)
    with member() as third:
        first.publish_group(first.id, third.id)
        third.wait_for_readers(1)
        second.wait_for_readers(0)
        third.change_metrics("a")
        assert changes(stream) == (["numbers"], ["a"])


def test_restarted_worker_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    monkeypatch.setattr(relay, "_MIN_RETRY_S", 0.05)
    port = free_port()
    with member() as first:
        with member(port) as second:
            first.publish_group(first.id, second.id)
            stream = first.read("?kinds=numbers")
            second.wait_for_readers(1)
            second.change_metrics("a")
            assert changes(stream) == (["numbers"], ["a"])
        with member(port) as second:
            assert changes(stream) == (["numbers"], None), "any connector may have changed during the outage"
            second.change_metrics("b")
            assert changes(stream) == (["numbers"], ["b"])


def test_java_and_frozen_workers_do_not_delay_others(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(relay, "READ_TIMEOUT_S", 3.0)
    monkeypatch.setattr(relay, "_MIN_RETRY_S", 0.05)
    monkeypatch.setattr(routes, "PING_INTERVAL_S", 0.05)
    first, second = group
    with serve_fake_peer() as (url, java), socket.create_server(("127.0.0.1", 0)) as frozen_server:
        java.status, java.body = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
        frozen_id = WorkerId(f"127.0.0.1:{frozen_server.getsockname()[1]}")
        first.publish_group(second.id, WorkerId(urlsplit(url).netloc), frozen_id, WorkerId("no address"))
        stream = first.read()
        frozen_server.settimeout(10)
        with ExitStack() as connections:
            for _ in range(2):  # the frozen worker is retried after the read timeout
                connections.enter_context(frozen_server.accept()[0])
        second.wait_for_readers(1)
        second.change_metrics("a")
        assert changes(stream) == (["numbers"], ["a"])
        [request] = java.requests  # not retried until UNSUPPORTED_RETRY_S has passed
        assert (request.method, request.target) == ("GET", "/changes?forward=false&kinds=numbers")
        assert request.headers["accept"] == "text/event-stream"
    assert not [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]


def test_java_worker_is_retried_later(group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "UNSUPPORTED_RETRY_S", 0.05)
    first, _ = group
    with serve_fake_peer() as (url, java):
        java.status, java.headers = 200, {"Content-Type": "text/html"}
        first.publish_group(first.id, WorkerId(urlsplit(url).netloc))
        first.read()
        wait_until(lambda: len(java.requests) > 1)


def test_changes_within_the_notify_interval_are_merged(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = group
    stream = first.read()
    second.wait_for_readers(1)
    monkeypatch.setattr(relay, "NOTIFY_INTERVAL_S", 2.0)
    monkeypatch.setattr("web.streams.COMPARE_INTERVAL_S", 0.01)
    second.change_metrics("n1")
    assert changes(stream) == (["numbers"], ["n1"])
    for number in (2, 3):
        second.change_metrics(f"n{number}")
        wait_until(lambda expected=number: second.api.apps.streams.seq == expected)  # type: ignore[misc]
    assert changes(stream) == (["numbers"], ["n2", "n3"])


def test_workers_with_passwords_are_read_with_signed_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    auth = BasicAuth({"ann": Password("secret")})
    with member(basic_auth=auth) as first, member(basic_auth=auth) as second:
        publish_session_key(first.api, second.api)
        first.publish_group(first.id, second.id)
        stream = first.read(Authorization=ANNS_CREDENTIALS)
        second.wait_for_readers(1)
        second.change_metrics("a")
        assert changes(stream) == (["numbers"], ["a"])


@pytest.mark.parametrize("kind", [METRICS, METRICS_ELSEWHERE])
@pytest.mark.parametrize(
    "path",
    ["/connectors?expand=progress", "/connectors/c/status?expand=progress", "/connectors/c/series"],
)
def test_metric_changes_invalidate_shared_responses(
    monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    monkeypatch.setattr(shared_responses, "REUSE_S", 60)
    with member() as first, serve_fake_peer() as (url, other_worker):
        other_worker.status, other_worker.body = 200, b"{}"
        connector_statuses = statuses(WorkerId(urlsplit(url).netloc)).statuses[CONNECTOR]
        first.api.herder.put(CONNECTOR, {}, tasks=1, statuses=connector_statuses)
        stream = first.read("?kinds=numbers")
        for count in (1, 2):
            for _ in range(2):
                assert httpx2.get(f"http://{first.id}{path}", trust_env=False).status_code == 200
                targets = [
                    request.target
                    for request in other_worker.requests
                    if not request.target.startswith("/changes")
                ]
                assert len(targets) == count, "the response is shared until metrics change"
            first.api.apps.streams.notify(kind)
            assert changes(stream) == (["numbers"], None)


# -- decisions ---------------------------------------------------------------------------------------------


def test_unavailable_worker_is_retried_with_backoff() -> None:
    delays = [0.0]
    for _ in range(7):
        delays.append(retry_delay_s(StreamEnd.UNAVAILABLE, delays[-1]))
    assert delays[1:] == [1, 2, 4, 8, 10, 10, 10]
    assert retry_delay_s(StreamEnd.BROKEN, 10) == 1
    assert retry_delay_s(StreamEnd.UNSUPPORTED, 1) == relay.UNSUPPORTED_RETRY_S
    assert retry_delay_s(StreamEnd.UNAVAILABLE, relay.UNSUPPORTED_RETRY_S) == 10


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (200, StreamEnd.UNSUPPORTED), (302, StreamEnd.UNSUPPORTED),
        (404, StreamEnd.UNSUPPORTED), (405, StreamEnd.UNSUPPORTED),
        (401, StreamEnd.UNAVAILABLE), (403, StreamEnd.UNAVAILABLE),
        (500, StreamEnd.UNAVAILABLE), (503, StreamEnd.UNAVAILABLE),
    ],
)  # fmt: skip
def test_http_status_of_a_rejected_stream_maps_to_a_stream_end(code: int, end: StreamEnd) -> None:
    assert stream_end_for_status(code) is end


@pytest.mark.parametrize(
    ("event", "names"),
    [
        (Event("hello", '{"boot":"a"}'), frozenset()),
        (Event("changed", '{"connectors":["a","b"],"kinds":["numbers"]}'), frozenset({"a", "b"})),
        (Event("changed", '{"connectors":["a",7],"kinds":["logs","numbers"]}'), frozenset({"a"})),
        (Event("changed", '{"connectors":null,"kinds":["numbers"]}'), None),
        (Event("changed", '{"connectors":["a"],"kinds":["states"]}'), frozenset()),
        (Event("changed", '{"connectors":"a","kinds":["numbers"]}'), frozenset()),
        (Event("changed", "nonsense"), frozenset()),
        (Event("changed", "[" * 100_000), frozenset()),
        (Event("reset", "{}"), None),
        (Event("bye", "{}"), frozenset()),
    ],
)
def test_changed_metrics_returns_the_connectors_of_an_event(event: Event, names: Names) -> None:
    assert changed_metrics(event) == names


def test_other_workers_with_tasks_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def list_workers_to_read(*workers: str) -> Iterable[str]:
        me = WorkerId("me:1")
        return workers_to_read(Snapshot(worker_id=me, status=statuses(*map(WorkerId, workers))))

    assert list_workers_to_read("me:1", "b:1", "a:1", "a:1") == {"a:1", "b:1"}
    monkeypatch.setattr(relay, "MAX_WORKERS", 1)
    assert list_workers_to_read("me:1", "b:1", "a:1") == {"a:1"}
