"""Tests for admission control: limits, rejections, and requests that are never rejected."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from actors.runtime.mailbox import Address, Question
from kraal.core.errors import Unavailable
from kraal.metrics.load import LoadMetrics, load_families
from kraal.metrics.text import render
from kraal.metrics.thread_pools import PoolState, StuckCall
from kraal.plugins.registry import Registry
from kraal.protocol.group import GroupProtocol
from tests.unit.web.api import Api
from web.app import create_apps
from web.health import HealthCheck
from web.middleware.admission import Admission, LimitedResource, Limits, limit_error
from web.settings import Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive

LIMITS = Limits(waiting=2, body_bytes=100)
BUSY_PREFIX = "The worker is too busy: "


@pytest.mark.parametrize(
    ("resource", "used", "amount", "expected"),
    [
        pytest.param(LimitedResource.HERDER, 1, 1, None, id="at the limit"),
        pytest.param(
            LimitedResource.HERDER, 2, 1, f"{BUSY_PREFIX}2 requests are waiting", id="above the limit"
        ),
        pytest.param(
            LimitedResource.WORKERS,
            3,
            1,
            f"{BUSY_PREFIX}3 requests are waiting for other workers",
            id="workers",
        ),
        pytest.param(
            LimitedResource.PLUGINS, 2, 1, f"{BUSY_PREFIX}2 requests are waiting for plugins", id="plugins"
        ),
        pytest.param(LimitedResource.BODIES, 60, 40, None, id="bytes at the limit"),
        pytest.param(
            LimitedResource.BODIES,
            61,
            40,
            f"{BUSY_PREFIX}the bodies of client requests occupy 61 bytes",
            id="too many bytes",
        ),
        pytest.param(LimitedResource.BODIES, 0, 1000, None, id="sole large request"),
        pytest.param(
            LimitedResource.INTERNAL_BODIES,
            90,
            11,
            f"{BUSY_PREFIX}the bodies of worker requests occupy 90 bytes",
            id="between workers",
        ),
    ],
)
def test_limit_error_reports_exceeded_limits(
    resource: LimitedResource, used: int, amount: int, expected: str | None
) -> None:
    assert limit_error(resource, used, amount, LIMITS) == expected


def test_body_bytes_count_until_they_are_released() -> None:
    admission, first, second, internal = Admission(LIMITS), dict[str, object](), dict[str, object](), {"": 0}
    admission.count_body_bytes(first, 50, internal=False)
    admission.count_body_bytes(second, 30, internal=False)
    admission.count_body_bytes(first, 20, internal=False)
    with pytest.raises(Unavailable, match="occupy 70 bytes") as error:
        admission.count_body_bytes(second, 1, internal=False)
    assert error.value.retry_after_s == 1
    admission.count_body_bytes(internal, 100, internal=True)
    assert admission.load_metrics({}).body_bytes == 200
    admission.release_body(first)
    admission.release_body(first)
    admission.count_body_bytes(second, 70, internal=False)
    admission.release_body(second)
    admission.release_body(internal)
    assert admission.load_metrics({}).body_bytes == 0
    assert admission.load_metrics({}).refused == {
        "herder": 0,
        "workers": 0,
        "plugins": 0,
        "bodies": 1,
        "internal_bodies": 0,
        "streams": 0,
        "dead_letters": 0,
    }


def settings(**limits: int) -> Settings:
    return Settings(
        advertised_url="http://worker:8083/", distributed=True, limits=Limits(**limits), health_timeout_s=0.05
    )


async def collect_response(app: ASGIApp, method: str, path: str, *request_messages: Message) -> list[Message]:
    """Send a request to an application; return the ASGI messages of the response."""
    sent_messages: list[Message] = []
    messages = iter(request_messages)

    async def send(message: Message) -> None:
        sent_messages.append(message)

    async def receive() -> Message:
        return next(messages)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "query_string": b""}
    await app({**scope, "headers": [(b"content-type", b"application/json")]}, receive, send)
    return sent_messages


def test_aborted_body_is_released() -> None:
    api, path = Api(settings(body_bytes=100)), "/connectors/a/config"
    half_body: Message = {"type": "http.request", "body": b"x" * 90, "more_body": True}
    for _ in range(3):
        assert (
            asyncio.run(collect_response(api.app, "PUT", path, half_body, {"type": "http.disconnect"})) == []
        )
    assert api.request("PUT", path, json.dumps({"a": "x" * 80}))[0] == 201


def test_concurrent_bodies_share_the_limit() -> None:
    api, path = Api(settings(body_bytes=100)), "/connectors/a/config"
    statuses: list[int] = []

    async def send_both() -> None:
        gate = asyncio.Event()

        async def receive() -> Message:
            if not gate.is_set():
                gate.set()
                return {"type": "http.request", "body": b'{"a":"' + b"x" * 70, "more_body": True}
            second = await collect_response(
                api.app, "PUT", path, {"type": "http.request", "body": b'{"a":"' + b"x" * 70 + b'"}'}
            )
            statuses.append(second[0]["status"])
            assert (b"retry-after", b"1") in second[0]["headers"]
            return {"type": "http.request", "body": b'"}'}

        async def send(message: Message) -> None:
            statuses.append(message.get("status", 0))

        scope = {
            "type": "http",
            "method": "PUT",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
        }
        await api.app({**scope, "headers": [(b"content-type", b"application/json")]}, receive, send)

    asyncio.run(send_both())
    assert statuses[:2] == [503, 201]


def test_dashboard_forms_count_towards_the_body_limit() -> None:
    api = Api(settings(body_bytes=100))
    headers = {
        "host": "worker:8083", "sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"
    }  # fmt: skip
    statuses: list[int] = []

    async def post(receive: Receive) -> None:
        async def send(message: Message) -> None:
            if "status" in message:
                statuses.append(message["status"])

        scope = {
            "type": "http", "method": "POST", "path": "/ui/actions", "raw_path": b"/ui/actions", "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        await api.app(scope, receive, send)

    async def receive_second() -> Message:
        return {"type": "http.request", "body": b"x" * 30}

    async def send_forms() -> None:
        chunks = iter([{"type": "http.request", "body": b"x" * 80, "more_body": True}])

        async def receive_half() -> Message:
            if (chunk := next(chunks, None)) is not None:
                return chunk
            config: Message = {"type": "http.request", "body": b'{"a":"xxxxxxxxxxxxxxxxxxxx"}'}
            response = await collect_response(api.app, "PUT", "/connectors/a/config", config)
            statuses.append(response[0]["status"])
            await post(receive_second)
            return {"type": "http.disconnect"}

        await post(receive_half)
        assert statuses == [503, 503]
        await post(receive_second)
        assert statuses[2:] == [400], "the form is read, but names no action"

    asyncio.run(send_forms())


def test_health_and_connector_reads_bypass_admission() -> None:
    api = Api(settings(waiting=0))
    response = api.client.put("/connectors/a/pause")
    assert (response.status_code, response.headers["Retry-After"]) == (503, "1")
    assert response.json() == {"error_code": 503, "message": f"{BUSY_PREFIX}0 requests are waiting"}
    for path in ("/", "/health", "/connectors", "/connectors?expand=status"):
        assert api.client.get(path).status_code == 200
    assert (
        api.client.get("/connector-plugins").json()["message"]
        == f"{BUSY_PREFIX}0 requests are waiting for plugins"
    )


def test_requests_of_other_workers_are_always_admitted() -> None:
    api = Api(settings(waiting=0))
    api.herder.publish(protocol=GroupProtocol.COMPATIBLE)
    assert api.client.post("/connectors/a/tasks", json=[{}]).status_code == 204
    assert api.client.put("/connectors/a/fence").status_code == 204
    assert api.client.put("/connectors/a/pause").status_code == 503


def test_concurrent_health_checks_share_one_ping() -> None:
    herder, questions = Address("herder"), list[Question]()

    def deliver(message: object) -> bool:
        assert isinstance(message, Question)
        questions.append(message)
        return True

    herder.bind(deliver)
    health_check = HealthCheck(herder)

    async def check_concurrently() -> None:
        canceled_check = asyncio.create_task(health_check.check())
        waiting_checks = [asyncio.create_task(health_check.check()) for _ in range(100)]
        await asyncio.sleep(0)
        canceled_check.cancel()
        await asyncio.sleep(0)
        assert len(questions) == 1
        questions[0].future.set_result(None)
        await asyncio.gather(*waiting_checks)
        later_check = asyncio.create_task(health_check.check())
        await asyncio.sleep(0)
        assert len(questions) == 2, "a later check sends another ping"
        questions[1].future.set_result(None)
        await later_check

    asyncio.run(check_concurrently())


def test_concurrent_scrapes_share_one_response(api: Api) -> None:
    scrapes_started: list[int] = []

    def scrape() -> Iterator[str]:
        scrapes_started.append(1)
        yield from ("a 1\n", "b 2\n")

    app = create_apps(
        api.address, api.published, Registry.of({}), api.validate, settings(), scrape=scrape
    ).main

    async def scrape_concurrently() -> None:
        responses = await asyncio.gather(*(collect_response(app, "GET", "/metrics") for _ in range(50)))
        assert {response[1]["body"] for response in responses} == {b"a 1\nb 2\n"}
        assert scrapes_started == [1]
        await collect_response(app, "GET", "/metrics")
        assert scrapes_started == [1, 1], "a later request starts another scrape"

    asyncio.run(scrape_concurrently())


def test_load_metrics_are_exported_to_prometheus() -> None:
    load_metrics = LoadMetrics(
        mailboxes={"herder": 3, "task a-0": 1, "task b-0": 2, "connector a": 4, "validation-7": 0},
        waiting={"herder": 5},
        refused={"herder": 6, "bodies": 0},
        body_bytes=7,
        open_streams=8,
        pools=[PoolState("kraal-job", 16, (StuckCall("a-0", 1.0),)), PoolState("kraal-poller", 16)],
    )
    text = "".join(map(render, load_families(load_metrics)))
    assert [line for line in text.splitlines() if not line.startswith("#")] == [
        'kraal_mailbox_messages{actor="connectors"} 4',
        'kraal_mailbox_messages{actor="herder"} 3',
        'kraal_mailbox_messages{actor="tasks"} 3',
        'kraal_mailbox_messages{actor="validations"} 0',
        'kraal_rest_waiting_requests{for="herder"} 5',
        'kraal_rest_refused_requests_total{for="herder"} 6',
        'kraal_rest_refused_requests_total{for="bodies"} 0',
        "kraal_rest_body_bytes 7",
        "kraal_rest_open_streams 8",
        'kraal_pool_stuck_threads{pool="kraal-job"} 1',
        'kraal_pool_stuck_threads{pool="kraal-poller"} 0',
    ]


@pytest.mark.parametrize(("connection", "chunk_count"), [("close", 4), ("keep-alive", 1)])
def test_rejected_body_is_drained_only_before_close(connection: str, chunk_count: int) -> None:
    """Closing without draining the body would reset the connection before the client reads the response."""
    shared_admission, receive_calls = Admission(Limits(body_bytes=100)), list[int]()
    shared_admission.count_body_bytes({}, 60, internal=False)
    api = Api(settings(), admission=shared_admission)

    async def receive() -> Message:
        receive_calls.append(1)
        return {"type": "http.request", "body": b"x" * 60, "more_body": len(receive_calls) < 4}

    sent_messages: list[Message] = []

    async def send(message: Message) -> None:
        sent_messages.append(message)

    headers = [(b"content-type", b"application/json"), (b"connection", connection.encode())]
    scope = {
        "type": "http",
        "method": "PUT",
        "path": "/connectors/a/config",
        "query_string": b"",
        "headers": headers,
    }
    asyncio.run(api.app(scope, receive, send))
    assert sent_messages[0]["status"] == 503
    assert len(receive_calls) == chunk_count
    assert shared_admission.load_metrics({}).body_bytes == 60
