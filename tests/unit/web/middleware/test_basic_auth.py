"""Tests for basic authentication as in Connect's JaasBasicAuthFilter. Internal requests need no password."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from actors.messages import herder as messages
from kraal.config.values import Password
from kraal.config.worker.basic_auth import BasicAuth
from kraal.core.ids import ConnectorName
from kraal.protocol.group import GroupProtocol
from tests.unit.web.api import Api
from web.settings import Settings

ANNS_CREDENTIALS = "Basic " + base64.b64encode(b"ann:secret").decode()
EVES_CREDENTIALS = "Basic " + base64.b64encode(b"eve:secret").decode()
UNAUTHORIZED_BODY = '{"error_code":401,"message":"User cannot access the resource."}'


def create_api(**settings: Any) -> Api:
    auth = BasicAuth({"ann": Password("secret")})
    return Api(Settings(advertised_url="http://worker:8083/", distributed=True, basic_auth=auth, **settings))


@pytest.fixture
def api() -> Api:
    return create_api()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/health"),
        ("GET", "/connectors"),
        ("HEAD", "/connectors"),
        ("OPTIONS", "/connectors"),
        ("POST", "/connectors"),
        ("PUT", "/connectors/x/config"),
        ("GET", "/connectors/x/tasks"),
        ("PUT", "/connectors/x/tasks"),
        ("POST", "/connectors/x/fence"),
        ("POST", "/connectors/x/tasks/0/restart"),
        ("POST", "/connectors/x%2Ftasks"),
        ("GET", "/connector-plugins"),
        ("GET", "/openapi.json"),
        ("GET", "/nowhere"),
    ],
)
def test_requests_without_a_valid_password_are_unauthorized(api: Api, method: str, path: str) -> None:
    for headers in ({}, {"Authorization": EVES_CREDENTIALS}, {"Authorization": "Bearer x"}):
        response = api.client.request(method, path, headers=headers)
        assert response.status_code == 401
        assert response.text == ("" if method == "HEAD" else UNAUTHORIZED_BODY)
        assert response.headers["www-authenticate"] == 'Basic realm="Kafka Connect"'
        assert response.headers["server"].startswith("kraal/")
        assert response.headers["content-type"] == "application/json"
    assert api.herder.requests == []
    assert api.request(method, path, Authorization=ANNS_CREDENTIALS)[0] != 401


def test_cached_responses_require_authentication(api: Api) -> None:
    assert api.request("GET", "/connectors", Authorization=ANNS_CREDENTIALS) == (200, "[]")
    assert api.request("GET", "/connectors", Authorization=ANNS_CREDENTIALS) == (200, "[]")
    assert api.request("GET", "/connectors") == (401, UNAUTHORIZED_BODY)


def test_two_authorization_headers_are_unauthorized(api: Api) -> None:
    headers = [("Authorization", ANNS_CREDENTIALS), ("Authorization", ANNS_CREDENTIALS)]
    assert api.client.request("GET", "/connectors", headers=headers).status_code == 401


INTERNAL_REQUESTS = [
    ("POST", "/connectors/x/tasks", b"[]"),
    ("POST", "/connectors/a%2Fb/tasks/", b"[]"),
    ("PUT", "/connectors/x/fence", b""),
    ("PUT", "/connectors/x/fence/", b""),
]


@pytest.mark.parametrize(("method", "path", "body"), INTERNAL_REQUESTS)
def test_internal_requests_require_a_signature_instead_of_a_password(
    api: Api, method: str, path: str, body: bytes
) -> None:
    api.herder.publish(protocol=GroupProtocol.SESSIONED)
    response = api.client.request(method, path, content=body)
    assert (response.status_code, response.json()["message"]) == (
        400,
        "Internal request missing required signature",
    )
    assert api.herder.requests == []


@pytest.mark.parametrize(("method", "path", "body"), INTERNAL_REQUESTS)
@pytest.mark.parametrize("protocol", [GroupProtocol.DEFAULT, GroupProtocol.COMPATIBLE])
def test_unsigned_internal_requests_are_rejected_unless_allowed(
    protocol: GroupProtocol, method: str, path: str, body: bytes
) -> None:
    strict_api = create_api(allow_unsigned_internal=False)
    strict_api.herder.publish(protocol=protocol)
    response = strict_api.client.request(method, path, content=body)
    assert response.status_code == 400
    assert response.json()["message"] == (
        "Internal request missing required signature: this worker requires passwords, but the group's protocol has "
        "no signatures. Set connect.protocol to sessioned or static on all workers, or set "
        "internal.requests.unsigned=allow on this worker."
    )
    assert strict_api.herder.requests == []

    lenient_api = create_api(allow_unsigned_internal=True)
    lenient_api.herder.publish(protocol=protocol)
    assert lenient_api.client.request(method, path, content=body).status_code == 204


def test_unsigned_task_configs_are_accepted_by_default(api: Api) -> None:
    api.herder.publish(protocol=GroupProtocol.COMPATIBLE)
    api.client.request("POST", "/connectors/x/tasks", content=b'[{"a":"b"}]')
    assert api.herder.requests == [messages.PutTaskConfigs(name=ConnectorName("x"), configs=[{"a": "b"}])]
