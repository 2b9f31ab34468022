"""Relaying of metric changes on other workers to readers of `GET /changes`, over real sockets."""

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
from tests.unit.web.workers import look_up_members, publish_session_key, stranger
from web.middleware import shared_answers
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

ANN = "Basic YW5uOnNlY3JldA=="
LOGS = "logs"
C = ConnectorName("c")


@dataclass
class Member:
    """Worker of a group, with its view of the other workers."""

    api: Api
    port: int
    opened: list[EventStream]

    @property
    def id(self) -> WorkerId:
        return WorkerId(f"127.0.0.1:{self.port}")

    def read(self, query: str = "", **headers: str) -> EventStream:
        """Open a stream of the worker's changes."""
        stream = EventStream(self.port, query, **headers)
        self.opened.append(stream)
        assert stream.next()["event"] == "hello"
        return stream

    def publish_group(self, *workers: WorkerId) -> None:
        """Publish a connector with a task on each of the workers, which are the members of the next generation."""
        generation = Generation(self.api.herder.published.latest.generation + 1)
        self.api.herder.publish(worker_id=self.id, status=statuses(*workers), generation=generation)

    def change_metrics(self, *names: str) -> None:
        """Report changed metrics of local tasks."""
        self.api.apps.streams.notify_all(METRICS, names)

    def is_read_by(self, count: int) -> None:
        wait_until(lambda: self.api.apps.streams.reader_count == count)


def statuses(*workers: WorkerId) -> StatusState:
    tasks = {n: replace(status(State.RUNNING), worker_id=worker) for n, worker in enumerate(workers)}
    connector = replace(status(State.RUNNING), worker_id=workers[0]) if workers else None
    return StatusState(statuses={C: ConnectorStatuses(connector=connector, tasks=tasks)})


@contextmanager
def member(port: int = 0, **settings: object) -> Iterator[Member]:
    server = HttpServer([Listener("127.0.0.1", port)], graceful_s=5)
    bound = server.bound_listeners[0].port
    url = f"http://127.0.0.1:{bound}/"
    apis: list[Api] = []
    options = {"members": lambda: look_up_members(apis[0].published), **settings}
    apis.append(Api(Settings(advertised_url=url, distributed=True, **options)))  # type: ignore[arg-type]
    worker = Member(apis[0], bound, [])
    worker.publish_group()
    server.start(worker.api.app)
    try:
        yield worker
    finally:
        worker.api.apps.streams.close()
        server.stop()
        for stream in worker.opened:
            stream.close()


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Member, Member]]:
    """Return two workers of a group, which refresh their list of workers frequently."""
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    with member() as one, member() as other:
        one.publish_group(one.id, other.id)
        other.publish_group(one.id, other.id)
        yield one, other


def changes(stream: EventStream) -> tuple[list[str], list[str] | None]:
    """Return the kinds and names of the next event."""
    event = stream.next()
    assert event["event"] == "changed"
    return event["kinds"], event["connectors"]


def test_readers_are_notified_of_metrics_on_other_workers(group: tuple[Member, Member]) -> None:
    one, other = group
    all_kinds, some = one.read(), one.read("?kinds=states,numbers")
    other.is_read_by(1)
    other.change_metrics("b", "a")
    assert changes(all_kinds) == changes(some) == (["numbers"], ["a", "b"])
    other.api.apps.streams.notify(METRICS)
    assert changes(all_kinds) == changes(some) == (["numbers"], None)


def test_workers_receive_metric_changes_of_local_tasks_only(group: tuple[Member, Member]) -> None:
    one, other = group
    clients = [one.read(), other.read()]
    as_worker = one.read("?forward=false")
    one.is_read_by(3)
    other.is_read_by(2)
    other.change_metrics("a")
    assert [changes(each) for each in clients] == [(["numbers"], ["a"])] * 2
    one.api.apps.streams.notify(LOGS, "marker")
    assert changes(as_worker) == (["logs"], ["marker"]), "what it knows from other workers is not passed on"
    one.change_metrics("b")
    assert changes(as_worker) == (["numbers"], ["b"])


@pytest.mark.parametrize("query", ["?forward=false", "?kinds=states,logs"])
def test_other_workers_are_read_only_for_clients_of_metrics(group: tuple[Member, Member], query: str) -> None:
    one, other = group
    stream = one.read(query)
    for _ in range(5):  # takes long enough for the other worker's stream to be read
        one.api.apps.streams.notify(LOGS)
        assert changes(stream) == (["logs"], None)
    assert other.api.apps.streams.reader_count == 0
    one.read()
    other.is_read_by(1)


def test_other_workers_are_read_while_a_client_reads(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "RETENTION_S", 0.0)
    one, other = group
    first, second = one.read(), one.read()
    other.is_read_by(1)
    first.close()
    one.is_read_by(1)
    other.change_metrics("a")
    assert changes(second) == (["numbers"], ["a"])
    second.close()
    other.is_read_by(0)
    one.read()
    other.is_read_by(1)


def test_readers_follow_joining_and_leaving_workers(group: tuple[Member, Member]) -> None:
    one, other = group
    stream = one.read("?kinds=numbers")
    other.is_read_by(1)
    with member() as third:
        one.publish_group(one.id, third.id)
        third.is_read_by(1)
        other.is_read_by(0)
        third.change_metrics("a")
        assert changes(stream) == (["numbers"], ["a"])


def test_restarted_worker_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    monkeypatch.setattr(relay, "_MIN_RETRY_S", 0.05)
    port = free_port()
    with member() as one:
        with member(port) as other:
            one.publish_group(one.id, other.id)
            stream = one.read("?kinds=numbers")
            other.is_read_by(1)
            other.change_metrics("a")
            assert changes(stream) == (["numbers"], ["a"])
        with member(port) as other:
            assert changes(stream) == (["numbers"], None), "it was away: any may have changed"
            other.change_metrics("b")
            assert changes(stream) == (["numbers"], ["b"])


def test_java_and_frozen_workers_do_not_delay_others(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(relay, "READ_TIMEOUT_S", 1.0)
    monkeypatch.setattr(relay, "_MIN_RETRY_S", 0.05)
    monkeypatch.setattr(routes, "PING_INTERVAL_S", 0.05)
    one, other = group
    with stranger() as (url, java), socket.create_server(("127.0.0.1", 0)) as frozen:
        java.status, java.body = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
        frozen_id = WorkerId(f"127.0.0.1:{frozen.getsockname()[1]}")
        one.publish_group(other.id, WorkerId(urlsplit(url).netloc), frozen_id, WorkerId("no address"))
        stream = one.read()
        frozen.settimeout(10)
        with ExitStack() as accepted:
            for _ in range(2):  # the frozen worker is retried after the read timeout
                accepted.enter_context(frozen.accept()[0])
        other.is_read_by(1)
        other.change_metrics("a")
        assert changes(stream) == (["numbers"], ["a"])
        [seen] = java.seen  # not retried soon
        assert (seen.method, seen.target) == ("GET", "/changes?forward=false&kinds=numbers")
        assert seen.headers["accept"] == "text/event-stream"
    assert not [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]


def test_java_worker_is_retried_later(group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "UNSUPPORTED_RETRY_S", 0.05)
    one, _ = group
    with stranger() as (url, java):
        java.status, java.headers = 200, {"Content-Type": "text/html"}
        one.publish_group(one.id, WorkerId(urlsplit(url).netloc))
        one.read()
        wait_until(lambda: len(java.seen) > 1)


def test_burst_of_changes_is_merged_into_one(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = group
    stream = one.read()
    other.is_read_by(1)
    monkeypatch.setattr(relay, "NOTIFY_INTERVAL_S", 1.0)
    monkeypatch.setattr("web.streams.COMPARE_INTERVAL_S", 0.01)
    for number in range(1, 4):
        other.change_metrics(f"n{number}")
        wait_until(lambda wanted=number: other.api.apps.streams.seq == wanted)  # type: ignore[misc]
    assert [changes(stream), changes(stream)] == [(["numbers"], ["n1"]), (["numbers"], ["n2", "n3"])]


def test_workers_with_passwords_are_read_with_signed_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    auth = BasicAuth({"ann": Password("secret")})
    with member(basic_auth=auth) as one, member(basic_auth=auth) as other:
        publish_session_key(one.api, other.api)
        one.publish_group(one.id, other.id)
        stream = one.read(Authorization=ANN)
        other.is_read_by(1)
        other.change_metrics("a")
        assert changes(stream) == (["numbers"], ["a"])


@pytest.mark.parametrize("kind", [METRICS, METRICS_ELSEWHERE])
@pytest.mark.parametrize(
    "path",
    ["/connectors?expand=progress", "/connectors/c/status?expand=progress", "/connectors/c/series"],
)
def test_metric_changes_invalidate_shared_responses(
    monkeypatch: pytest.MonkeyPatch, path: str, kind: str
) -> None:
    monkeypatch.setattr(shared_answers, "REUSE_S", 60)
    with member() as one, stranger() as (url, stub):
        stub.status, stub.body = 200, b"{}"
        options = statuses(WorkerId(urlsplit(url).netloc)).statuses[C]
        one.api.herder.put(C, {}, tasks=1, statuses=options)
        stream = one.read("?kinds=numbers")
        for count in (1, 2):
            for _ in range(2):
                assert httpx2.get(f"http://{one.id}{path}", trust_env=False).status_code == 200
                targets = [seen.target for seen in stub.seen if not seen.target.startswith("/changes")]
                assert len(targets) == count, "an answer is shared until then"
            one.api.apps.streams.notify(kind)
            assert changes(stream) == (["numbers"], None)


# -- decisions ---------------------------------------------------------------------------------------------


def test_unavailable_worker_is_retried_with_backoff() -> None:
    pauses = [0.0]
    for _ in range(7):
        pauses.append(retry_delay_s(StreamEnd.UNAVAILABLE, pauses[-1]))
    assert pauses[1:] == [1, 2, 4, 8, 10, 10, 10]
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
def test_status_of_a_refused_stream_determines_its_end(code: int, end: StreamEnd) -> None:
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
    def options(*workers: str) -> Iterable[str]:
        me = WorkerId("me:1")
        return workers_to_read(Snapshot(worker_id=me, status=statuses(*map(WorkerId, workers))))

    assert options("me:1", "b:1", "a:1", "a:1") == {"a:1", "b:1"}
    monkeypatch.setattr(relay, "MAX_WORKERS", 1)
    assert options("me:1", "b:1", "a:1") == {"a:1"}
