"""Tests for `/`, `/health`, timeouts, content negotiation, and disconnected clients."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from starlette.requests import ClientDisconnect

from actors.messages import herder as messages
from kraal.cluster.views.snapshot import Snapshot, Stage
from kraal.core.errors import Unavailable
from kraal.metrics.stalls.down_parts import DownPart
from kraal.metrics.thread_pools import PoolState, StuckCall
from tests.unit.web.api import Api
from web.settings import Settings

if TYPE_CHECKING:
    from starlette.types import Message

SHORT_TIMEOUT_SETTINGS = Settings(
    advertised_url="http://worker:8083/",
    version="9.9",
    commit="abc",
    request_timeout_s=0.05,
    health_timeout_s=0.05,
)
BUSY_STAGE = Stage(what="stopping connector x", began_ms=1_700_000_000_120)
IDLE_STAGE = Stage(what="shutting down", began_ms=0, completed_ms=1_700_000_000_000)
BUSY_TEXT = "The worker is currently stopping connector x, which began at 2023-11-14T22:13:20.120Z."
IDLE_TEXT = (
    "The last operation the worker completed was shutting down, which began at 1970-01-01T00:00:00Z "
    "and completed at 2023-11-14T22:13:20Z."
)


def test_root_identifies_the_worker() -> None:
    api = Api(SHORT_TIMEOUT_SETTINGS)
    response = api.client.get("/")
    assert response.text == '{"version":"4.4.0","commit":"abc","kafka_cluster_id":null}'
    assert response.headers["Server"] == "kraal/9.9"
    api.herder.publish(kafka_cluster_id="k")
    assert api.client.get("/").json()["kafka_cluster_id"] == "k"
    assert api.client.get("/", headers={"Content-Type": "text/plain"}).status_code == 200


def test_health_pings_the_herder(api: Api) -> None:
    assert api.request("GET", "/health") == (
        200,
        '{"status":"healthy","message":"Worker has completed startup and is ready to handle requests."}',
    )
    assert api.herder.requests == [messages.Ping()]


@pytest.mark.parametrize(
    ("is_ready", "stage", "code", "status", "message"),
    [
        (False, None, 503, "starting", "Worker is still starting up."),
        (False, BUSY_STAGE, 503, "starting", f"Worker is still starting up. {BUSY_TEXT}"),
        (
            True,
            None,
            500,
            "unhealthy",
            "Worker was unable to handle this request and may be unable to handle other requests.",
        ),
        (
            True,
            IDLE_STAGE,
            500,
            "unhealthy",
            f"Worker was unable to handle this request and may be unable to handle other requests. {IDLE_TEXT}",
        ),
    ],
)
def test_worker_with_an_unresponsive_herder_is_starting_or_unhealthy(
    stage: Stage | None, code: int, status: str, message: str, *, is_ready: bool
) -> None:
    api = Api(SHORT_TIMEOUT_SETTINGS)
    api.herder.is_silent = True
    api.herder.publish(ready=is_ready, stage=stage)
    assert api.request("GET", "/health") == (code, f'{{"status":"{status}","message":"{message}"}}')


def test_health_during_startup_names_the_failed_component() -> None:
    api = Api(SHORT_TIMEOUT_SETTINGS)
    api.herder.is_silent = True
    api.herder.publish(ready=False)
    reason = "Java plugins are not available: exit code 1, after: Unrecognized VM option"
    api.down_parts = [DownPart("plugins-jvm", api.metrics.time.now() - 90, reason)]
    response = api.client.get("/health")
    assert (response.status_code, response.json()["status"]) == (503, "starting")
    assert response.json()["message"] == f"Worker is still starting up. plugins-jvm is down: {reason}."
    assert [part["part"] for part in response.json()["down"]] == ["plugins-jvm"]


def test_blocked_startup_reports_the_reason() -> None:
    problems: list[str | None] = ["Topic 'c' has 'cleanup.policy=delete'. Change it: kafka-configs.sh …"]
    api = Api(Settings(advertised_url="http://worker:8083/", start_problem=lambda: problems[0]))
    api.herder.publish(live=False, ready=False)
    assert api.request("GET", "/health") == (
        503,
        f'{{"status":"starting","message":"Worker is still starting up. {problems[0]}"}}',
    )
    for method, path in [
        ("GET", "/connectors"),
        ("GET", "/connectors/c/status"),
        ("DELETE", "/connectors/c"),
    ]:
        response = api.client.request(method, path)
        assert (response.status_code, response.json()["message"]) == (503, problems[0])
        assert response.headers["Retry-After"] == "10"
    assert api.client.get("/").status_code == 200
    assert api.herder.requests == []
    problems[0] = None
    assert api.client.get("/connectors").status_code == 200


def test_health_fails_while_stuck_calls_exhaust_a_thread_pool(api: Api) -> None:
    began_s = datetime(2026, 1, 31, 12, 0, tzinfo=UTC).timestamp()
    calls = [StuckCall(f"numbers-{number}", began_s + number) for number in range(12)]
    api.pools = [PoolState("kraal-control", 8), PoolState("kraal-job", 16, tuple(calls))]
    assert api.request("GET", "/health")[0] == 200, "four threads are free"
    api.pools = [PoolState("kraal-control", 8), PoolState("kraal-job", 12, tuple(calls))]
    names = ", ".join(sorted(call.owner for call in calls)[:10])
    message = (
        "All 12 threads of the pool kraal-job are blocked by calls that do not return. The first call started at "
        f"2026-01-31T12:00:00+00:00. Callers: {names} and 2 more. Restart the worker."
    )
    assert api.request("GET", "/health") == (500, f'{{"status":"unhealthy","message":"{message}"}}')


def test_herder_error_fails_the_health_check(api: Api) -> None:
    api.herder.error = Unavailable("The worker is shutting down")
    assert api.request("GET", "/health") == (
        503,
        '{"error_code":503,"message":"The worker is shutting down"}',
    )


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (None, "Request timed out"),
        (BUSY_STAGE, f"Request timed out. {BUSY_TEXT}"),
        (IDLE_STAGE, f"Request timed out. {IDLE_TEXT}"),
    ],
)
def test_timeout_reports_the_current_stage(stage: Stage | None, message: str) -> None:
    api = Api(SHORT_TIMEOUT_SETTINGS)
    api.herder.is_silent = True
    api.herder.publish(stage=stage)
    code, text = api.request("DELETE", "/connectors/a")
    assert (code, json.loads(text)) == (500, {"error_code": 500, "message": message})


def test_gets_succeed_while_the_herder_hangs() -> None:
    api = Api(SHORT_TIMEOUT_SETTINGS)
    api.herder.is_silent = True
    api.herder.put("a", {})
    assert api.client.get("/connectors/a/status").status_code == 200


@pytest.mark.parametrize(
    ("accept", "code"),
    [
        ("", 200),
        ("*/*", 200),
        ("*", 200),
        ("application/json", 200),
        ("APPLICATION/JSON;q=0.3", 200),
        ("application/*", 200),
        ("text/html, application/json;q=0", 200),
        ("text/html", 406),
        ("text/*", 406),
        ("application/xml, text/plain", 406),
        ("foo", 406),
    ],
)
@pytest.mark.parametrize("path", ["/", "/connectors", "/connector-plugins", "/health"])
def test_accept_without_json_is_rejected(api: Api, path: str, accept: str, code: int) -> None:
    assert api.request("GET", path, Accept=accept)[0] == code


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/connectors"),
        ("POST", "/connectors/a"),
        ("GET", "/connectors/a/pause"),
        ("POST", "/connectors/a/stop"),
        ("PUT", "/connectors/a/restart"),
        ("HEAD", "/connectors/a/tasks/0/restart"),
        ("POST", "/connector-plugins/a/config/validate"),
        ("DELETE", "/health"),
    ],
)
def test_unsupported_method_response_has_no_allow_header(api: Api, method: str, path: str) -> None:
    response = api.client.request(method, path)
    assert response.status_code == 405
    assert "Allow" not in response.headers
    assert "Content-Type" not in response.headers


async def test_disconnected_client_gets_no_response(api: Api) -> None:
    sent_messages: list[Message] = []

    async def send(message: Message) -> None:
        sent_messages.append(message)

    async def receive() -> Message:
        raise ClientDisconnect

    path = "/connectors/a/config"
    scope = {"type": "http", "method": "PUT", "path": path, "raw_path": path.encode()}
    await api.app({**scope, "query_string": b"", "headers": []}, receive, send)
    assert sent_messages == []


async def test_requests_without_raw_path_are_supported(api: Api) -> None:
    sent_messages: list[Message] = []

    async def send(message: Message) -> None:
        sent_messages.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    api.herder.put("a b", {})
    scope = {"type": "http", "method": "GET", "path": "/connectors/a b", "query_string": b"", "headers": []}
    await api.app(scope, receive, send)
    assert sent_messages[0]["status"] == 200


def test_connector_list_waits_until_the_worker_is_live(api: Api) -> None:
    api.herder.put("c", {})
    latest = api.published.latest
    api.published.publish(Snapshot(worker_id=latest.worker_id))
    api.herder.on_wait_until_live = lambda: api.published.publish(latest)
    assert api.request("GET", "/")[0] == 200
    assert api.herder.requests == []
    assert api.request("GET", "/connectors") == (200, '["c"]')
    assert api.herder.requests == [messages.WaitUntilLive()]
