"""Numbers that change on other workers: how readers of `GET /changes` hear of them, over real sockets."""

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
from tests.unit.web.workers import members_like, share_session_key, stranger
from web.middleware import shared_answers
from web.requests import relay
from web.requests.relay import End, changed_metrics, pause_after, relay_end, workers_to_read
from web.routes import changes as routes
from web.server import HttpServer, Listener
from web.settings import Settings
from web.streams import METRICS, METRICS_ELSEWHERE

ANN = "Basic YW5uOnNlY3JldA=="
LOGS = "logs"
C = ConnectorName("c")


@dataclass
class Member:
    """A worker of a group, and what it says of the others."""

    api: Api
    port: int
    opened: list[EventStream]

    @property
    def id(self) -> WorkerId:
        return WorkerId(f"127.0.0.1:{self.port}")

    def read(self, query: str = "", **headers: str) -> EventStream:
        """Read its changes, from now on."""
        stream = EventStream(self.port, query, **headers)
        self.opened.append(stream)
        assert stream.next()["event"] == "hello"
        return stream

    def knows(self, *workers: WorkerId) -> None:
        """Have it know one connector with a task on each of the workers, the members of the next generation."""
        generation = Generation(self.api.herder.published.latest.generation + 1)
        self.api.herder.publish(worker_id=self.id, status=statuses(*workers), generation=generation)

    def numbers(self, *names: str) -> None:
        """Have numbers of its own tasks change."""
        self.api.apps.streams.note_all(METRICS, names)

    def is_read_by(self, count: int) -> None:
        wait_until(lambda: self.api.apps.streams.open == count)


def statuses(*workers: WorkerId) -> StatusState:
    tasks = {n: replace(status(State.RUNNING), worker_id=worker) for n, worker in enumerate(workers)}
    connector = replace(status(State.RUNNING), worker_id=workers[0]) if workers else None
    return StatusState(statuses={C: ConnectorStatuses(connector=connector, tasks=tasks)})


@contextmanager
def member(port: int = 0, **settings: object) -> Iterator[Member]:
    server = HttpServer([Listener("127.0.0.1", port)], graceful_s=5)
    bound = server.bound[0].port
    url = f"http://127.0.0.1:{bound}/"
    apis: list[Api] = []
    options = {"members": lambda: members_like(apis[0].published), **settings}
    apis.append(Api(Settings(advertised_url=url, distributed=True, **options)))  # type: ignore[arg-type]
    worker = Member(apis[0], bound, [])
    worker.knows()
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
    """Return two workers that know each other, and look often who there is."""
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    with member() as one, member() as other:
        one.knows(one.id, other.id)
        other.knows(one.id, other.id)
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
    other.numbers("b", "a")
    assert changes(all_kinds) == changes(some) == (["numbers"], ["a", "b"])
    other.api.apps.streams.note(METRICS)
    assert changes(all_kinds) == changes(some) == (["numbers"], None)


def test_a_worker_receives_metric_changes_of_local_tasks_only(group: tuple[Member, Member]) -> None:
    one, other = group
    clients = [one.read(), other.read()]
    as_worker = one.read("?forward=false")
    one.is_read_by(3)
    other.is_read_by(2)
    other.numbers("a")
    assert [changes(each) for each in clients] == [(["numbers"], ["a"])] * 2
    one.api.apps.streams.note(LOGS, "marker")
    assert changes(as_worker) == (["logs"], ["marker"]), "what it knows from other workers is not passed on"
    one.numbers("b")
    assert changes(as_worker) == (["numbers"], ["b"])


@pytest.mark.parametrize("query", ["?forward=false", "?kinds=states,logs"])
def test_other_workers_are_read_only_for_clients_that_want_metrics(
    group: tuple[Member, Member], query: str
) -> None:
    one, other = group
    stream = one.read(query)
    for _ in range(5):  # takes long enough for the other worker to be read
        one.api.apps.streams.note(LOGS)
        assert changes(stream) == (["logs"], None)
    assert other.api.apps.streams.open == 0
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
    other.numbers("a")
    assert changes(second) == (["numbers"], ["a"])
    second.close()
    other.is_read_by(0)
    one.read()
    other.is_read_by(1)


def test_workers_that_come_are_read_and_those_that_go_are_not(group: tuple[Member, Member]) -> None:
    one, other = group
    stream = one.read("?kinds=numbers")
    other.is_read_by(1)
    with member() as third:
        one.knows(one.id, third.id)
        third.is_read_by(1)
        other.is_read_by(0)
        third.numbers("a")
        assert changes(stream) == (["numbers"], ["a"])


def test_a_worker_that_comes_back_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    monkeypatch.setattr(relay, "_MIN_RETRY_S", 0.05)
    port = free_port()
    with member() as one:
        with member(port) as other:
            one.knows(one.id, other.id)
            stream = one.read("?kinds=numbers")
            other.is_read_by(1)
            other.numbers("a")
            assert changes(stream) == (["numbers"], ["a"])
        with member(port) as other:
            assert changes(stream) == (["numbers"], None), "it was away: any may have changed"
            other.numbers("b")
            assert changes(stream) == (["numbers"], ["b"])


def test_java_workers_and_frozen_ones_delay_no_other(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(relay, "READ_TIMEOUT_S", 1.0)
    monkeypatch.setattr(relay, "_MIN_RETRY_S", 0.05)
    monkeypatch.setattr(routes, "PING_INTERVAL_S", 0.05)
    one, other = group
    with stranger() as (url, java), socket.create_server(("127.0.0.1", 0)) as frozen:
        java.status, java.body = 404, b'{"error_code":404,"message":"HTTP 404 Not Found"}'
        frozen_id = WorkerId(f"127.0.0.1:{frozen.getsockname()[1]}")
        one.knows(other.id, WorkerId(urlsplit(url).netloc), frozen_id, WorkerId("no address"))
        stream = one.read()
        frozen.settimeout(10)
        with ExitStack() as accepted:
            for _ in range(2):  # it is asked again when it has sent nothing for a while
                accepted.enter_context(frozen.accept()[0])
        other.is_read_by(1)
        other.numbers("a")
        assert changes(stream) == (["numbers"], ["a"])
        [seen] = java.seen  # not again soon
        assert (seen.method, seen.target) == ("GET", "/changes?forward=false&kinds=numbers")
        assert seen.headers["accept"] == "text/event-stream"
    assert not [record for record in caplog.records if record.levelname not in ("DEBUG", "INFO")]


def test_a_java_worker_is_retried_later(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "UNSUPPORTED_RETRY_S", 0.05)
    one, _ = group
    with stranger() as (url, java):
        java.status, java.headers = 200, {"Content-Type": "text/html"}
        one.knows(one.id, WorkerId(urlsplit(url).netloc))
        one.read()
        wait_until(lambda: len(java.seen) > 1)


def test_a_burst_of_other_workers_is_one_change(
    group: tuple[Member, Member], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = group
    stream = one.read()
    other.is_read_by(1)
    monkeypatch.setattr(relay, "NOTIFY_INTERVAL_S", 1.0)
    monkeypatch.setattr("web.streams.COMPARE_INTERVAL_S", 0.01)
    for number in range(1, 4):
        other.numbers(f"n{number}")
        wait_until(lambda wanted=number: other.api.apps.streams.seq == wanted)  # type: ignore[misc]
    assert [changes(stream), changes(stream)] == [(["numbers"], ["n1"]), (["numbers"], ["n2", "n3"])]


def test_workers_with_passwords_are_read_by_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    auth = BasicAuth({"ann": Password("secret")})
    with member(basic_auth=auth) as one, member(basic_auth=auth) as other:
        share_session_key(one.api, other.api)
        one.knows(one.id, other.id)
        stream = one.read(Authorization=ANN)
        other.is_read_by(1)
        other.numbers("a")
        assert changes(stream) == (["numbers"], ["a"])


@pytest.mark.parametrize("kind", [METRICS, METRICS_ELSEWHERE])
@pytest.mark.parametrize(
    "path",
    ["/connectors?expand=progress", "/connectors/c/status?expand=progress", "/connectors/c/series"],
)
def test_metrics_change_invalidates_shared_answers(
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
            one.api.apps.streams.note(kind)
            assert changes(stream) == (["numbers"], None)


# -- decisions ---------------------------------------------------------------------------------------------


def test_an_unavailable_worker_is_retried_with_backoff() -> None:
    pauses = [0.0]
    for _ in range(7):
        pauses.append(pause_after(End.UNAVAILABLE, pauses[-1]))
    assert pauses[1:] == [1, 2, 4, 8, 10, 10, 10]
    assert pause_after(End.BROKEN, 10) == 1
    assert pause_after(End.UNSUPPORTED, 1) == relay.UNSUPPORTED_RETRY_S
    assert pause_after(End.UNAVAILABLE, relay.UNSUPPORTED_RETRY_S) == 10


@pytest.mark.parametrize(
    ("code", "end"),
    [
        (200, End.UNSUPPORTED), (302, End.UNSUPPORTED), (404, End.UNSUPPORTED), (405, End.UNSUPPORTED),
        (401, End.UNAVAILABLE), (403, End.UNAVAILABLE), (500, End.UNAVAILABLE), (503, End.UNAVAILABLE),
    ],
)  # fmt: skip
def test_an_answer_without_a_stream_is_for_now_or_for_long(code: int, end: End) -> None:
    assert relay_end(code) is end


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
