"""Tests that GETs between workers are signed, need no password, and are sent only to group members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pytest

from kraal.cluster.state.statuses import ConnectorStatuses
from kraal.config.values import Password
from kraal.config.worker.basic_auth import BasicAuth
from kraal.core.ids import State, WorkerId
from kraal.protocol.signature import SIGNATURE_HEADER, generate_key, sign_get, signature_headers
from tests.unit.web.api import Api, status
from tests.unit.web.event_stream import wait_until
from tests.unit.web.workers import FakePeer, Worker, look_up_members, publish_session_key, worker
from web.requests import relay
from web.settings import Settings

ANNS_CREDENTIALS = "Basic YW5uOnNlY3JldA=="
AUTH = BasicAuth({"ann": Password("secret")})
LOGS_PATH = "/connectors/c/logs"
READ_PATHS = (
    LOGS_PATH,
    "/connectors/c/status?expand=progress",
    "/connectors/c/status?expand=supervision",
    "/connectors?expand=progress",
    "/connectors/c/series",
    "/connectors/c/explain",
)
TARGET = f"{LOGS_PATH}?forward=false&limit=5"
URL = "http://worker:8083/"
KEY = generate_key(0)


def publish_worker(worker: Worker, url: str) -> WorkerId:
    """Publish a connector whose instances run on the worker at `url`; return the id of that worker."""
    worker_id = WorkerId(urlsplit(url).netloc)
    instance_status = replace(status(State.RUNNING), worker_id=worker_id)
    statuses = ConnectorStatuses(connector=instance_status, tasks={0: instance_status})
    worker.api.herder.put("c", {}, tasks=1, statuses=statuses)
    return worker_id


@pytest.mark.parametrize("path", READ_PATHS)
def test_requests_to_workers_carry_a_signature_and_no_password(
    follower: Worker, peer: tuple[str, FakePeer], path: str
) -> None:
    publish_worker(follower, peer[0])
    publish_session_key(follower.api)
    assert follower.ask("GET", path, Authorization=ANNS_CREDENTIALS).status_code == 200
    (request,) = peer[1].requests
    assert "authorization" not in request.headers
    assert SIGNATURE_HEADER.lower() in request.headers


def test_worker_streams_send_no_password(peer: tuple[str, FakePeer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "REFRESH_INTERVAL_S", 0.01)
    with worker(basic_auth=AUTH) as first:
        publish_worker(first, peer[0])
        with first.client.stream("GET", "/changes", headers={"Authorization": ANNS_CREDENTIALS}):
            wait_until(lambda: bool(peer[1].requests))
    assert all("authorization" not in request.headers for request in peer[1].requests)


@pytest.mark.parametrize("path", READ_PATHS)
def test_addresses_outside_the_group_receive_no_request(peer: tuple[str, FakePeer], path: str) -> None:
    empty_group = Api(Settings(advertised_url=URL)).published
    with worker(members=lambda: look_up_members(empty_group)) as first:
        worker_id = publish_worker(first, peer[0])
        response = first.ask("GET", path, Authorization=ANNS_CREDENTIALS)
        assert response.status_code == 200
        assert peer[1].requests == []
        if path == LOGS_PATH:
            assert response.json()["silent"] == [worker_id]


def test_workers_with_passwords_accept_signed_requests() -> None:
    with worker(basic_auth=AUTH) as first, worker(basic_auth=AUTH) as second:
        for group_worker in (first, second):
            publish_worker(group_worker, second.url)
        assert first.ask("GET", LOGS_PATH, Authorization=ANNS_CREDENTIALS).json()["silent"], (
            "no session key has been published yet"
        )
        publish_session_key(first.api, second.api)
        assert first.ask("GET", LOGS_PATH, Authorization=ANNS_CREDENTIALS).json()["silent"] == []


# -- verification of signatures ----------------------------------------------------------------------------


def ask(method: str, path: str, headers: Mapping[str, str], **settings: Any) -> int:
    """Send a request to a worker that requires basic authentication; return the status code of the response."""
    api = Api(Settings(advertised_url=URL, distributed=True, basic_auth=AUTH, **settings))
    api.herder.put("c", {})
    api.herder.publish(config=replace(api.published.latest.config, session_key=KEY))
    code: int = api.client.request(method, path, headers=dict(headers)).status_code
    return code


def test_signed_get_needs_no_password() -> None:
    assert ask("GET", TARGET, sign_get(KEY.key, URL, TARGET.encode())) == 200
    assert ask("GET", TARGET, sign_get(KEY.key, URL.upper(), TARGET.encode())) == 200
    assert ask("GET", TARGET, {}) == 401


@pytest.mark.parametrize(
    "headers",
    [
        sign_get(KEY.key, "http://elsewhere:8083/", TARGET.encode()),
        sign_get(KEY.key, URL, LOGS_PATH.encode()),
        sign_get(generate_key(0).key, URL, TARGET.encode()),
        sign_get(KEY.key, URL, TARGET.encode(), "HmacSHA1"),
        signature_headers(KEY.key, b""),
        {**sign_get(KEY.key, URL, TARGET.encode()), SIGNATURE_HEADER: "!"},
    ],
    ids=[
        "other worker",
        "other query",
        "other key",
        "algorithm not allowed",
        "signature of a body",
        "not base64",
    ],
)
def test_get_with_an_invalid_signature_is_unauthorized(headers: Mapping[str, str]) -> None:
    assert ask("GET", TARGET, headers) == 401


@pytest.mark.parametrize("method", ["DELETE", "POST", "PUT"])
def test_signature_of_a_get_does_not_authorize_writes(method: str) -> None:
    assert ask(method, TARGET, sign_get(KEY.key, URL, TARGET.encode())) == 401


def test_signature_of_a_get_is_invalid_for_a_body() -> None:
    headers = sign_get(KEY.key, URL, b"/")
    assert ask("PUT", "/connectors/c/fence", headers) == 403
