"""Tests for protection against cross-site requests, and for the security headers of responses."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

import pytest
from starlette.testclient import TestClient

from tests.unit.web.api import Api
from tests.unit.web.ui.activity import FORM_HEADERS, NAME, canned_responses
from tests.unit.web.ui.canned import CannedSource, browser
from tests.unit.web.ui.fake_source import FakeSource, dashboard
from web.settings import Settings
from web.ui.options import DashboardOptions
from web.ui.pages import PAGES
from web.ui.safety import HEADERS, rejection

HOST = "worker:8083"
POST_HEADERS = {"host": HOST, "content-type": "application/x-www-form-urlencoded", "content-length": "10"}
OPTIONS = DashboardOptions(worker=HOST)
PATH_PARAMETERS = {"connector": NAME, "task": "0", "plugin": "org.acme.Sink"}
ACTION_PATHS = ["/ui" + page.path.format(**PATH_PARAMETERS) for page in PAGES if page.method == "POST"]
PAGE_PATHS = ["/ui" + page.path.format(**PATH_PARAMETERS) for page in PAGES if page.method == "GET"]
ALL_FIELDS = (
    f"action=delete&name={NAME}&do=save&do=apply&v.name={NAME}&v.connector.class=org.acme.Sink&limit=1"
)


def status(method: str, headers: Mapping[str, str], options: DashboardOptions = OPTIONS) -> int:
    refusal = rejection(method, headers, options)
    return 200 if refusal is None else int(refusal[0])


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_reads_require_no_origin(method: str) -> None:
    assert status(method, {"host": HOST}) == 200


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"origin": f"http://{HOST}"}, 200),
        ({"origin": f"https://{HOST}"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": f"http://{HOST}"}, 200),
        ({}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil:8083"}, 403),
        ({"origin": "http://worker"}, 403),
        ({"origin": "http://worker:8084"}, 403),
        ({"origin": f"http://user@{HOST}"}, 403),
        ({"origin": f"file://{HOST}"}, 403),
        ({"origin": "http://["}, 403),
        ({"origin": f"http://{HOST}/"}, 403),
        ({"origin": f"http://{HOST}, http://evil"}, 403),
        ({"origin": ""}, 403),
        ({"sec-fetch-site": "cross-site", "origin": f"http://{HOST}"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"sec-fetch-site": "same-origin, cross-site"}, 403),
        ({"sec-fetch-site": "same-origin", "origin": "https://proxy-that-changes-host"}, 200),
    ],
)
def test_posts_require_the_same_origin(headers: dict[str, str], expected: int) -> None:
    assert status("POST", POST_HEADERS | headers) == expected


def test_post_with_empty_host_and_origin_is_rejected() -> None:
    assert status("POST", POST_HEADERS | {"host": "", "origin": "http://"}) == 403


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "POSTS"])
def test_methods_other_than_get_head_and_post_are_not_allowed(method: str) -> None:
    assert status(method, POST_HEADERS | {"origin": f"http://{HOST}"}) == 405


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"content-type": "application/x-www-form-urlencoded; charset=utf-8"}, 200),
        ({"content-type": "text/plain"}, 415),
        ({"content-type": "multipart/form-data; boundary=x"}, 415),
        ({"content-type": "application/json"}, 415),
        ({"content-type": ""}, 415),
        ({"content-length": "1000000"}, 200),
        ({"content-length": "1000001"}, 413),
        ({"content-length": "-1"}, 413),
    ],
)
def test_content_type_and_size_of_forms_are_checked(headers: dict[str, str], expected: int) -> None:
    assert status("POST", POST_HEADERS | {"origin": f"http://{HOST}"} | headers) == expected


def test_read_only_dashboard_rejects_same_origin_posts() -> None:
    options = DashboardOptions(worker=HOST, read_only=True)
    assert status("POST", POST_HEADERS | {"origin": f"http://{HOST}"}, options) == 403
    assert status("GET", {"host": HOST}, options) == 200


@pytest.mark.parametrize("path", ACTION_PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "null"},
        {"Origin": "http://evil"},
        {
            "Origin": "http://evil",
            "X-Forwarded-Host": "evil",
            "X-Forwarded-Proto": "http",
            "Forwarded": "host=evil",
        },
        {"Origin": "http://testserver", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_cross_site_actions_are_rejected(path: str, headers: dict[str, str]) -> None:
    source = CannedSource(canned_responses())
    request_headers = {"Content-Type": POST_HEADERS["content-type"], **headers}
    assert browser(source).post(path, content=ALL_FIELDS, headers=request_headers).status_code == 403
    assert source.requests == []


@pytest.mark.parametrize("path", ACTION_PATHS)
def test_read_only_dashboard_performs_no_action(path: str) -> None:
    source = CannedSource(canned_responses())
    response = browser(source, read_only=True).post(path, content=ALL_FIELDS, headers=FORM_HEADERS)
    assert (response.status_code, response.text) == (403, "This dashboard is read-only.\n")
    assert source.requests == []


@pytest.mark.parametrize("path", PAGE_PATHS)
def test_pages_of_a_read_only_dashboard_have_no_actions(path: str) -> None:
    text = (
        browser(CannedSource(canned_responses()), read_only=True)
        .get(f"{path}?action=pause&name={NAME}&limit=1")
        .text
    )
    assert 'method="post"' not in text
    assert "data-confirm" not in text


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("path", PAGE_PATHS)
def test_reading_pages_causes_no_changes(path: str, method: str) -> None:
    source = CannedSource(canned_responses())
    override_headers = {"X-HTTP-Method-Override": "POST", "X-Method-Override": "POST"}
    browser(source).request(method, f"{path}?{ALL_FIELDS}&_method=POST", headers=override_headers)
    writing_requests = [
        (method, target)
        for method, target, _, body in source.requests
        if method != "GET"
        and not target.endswith("/config/validate")
        and body != {"limit": 1, "dry_run": True}
    ]
    assert writing_requests == []


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_action_path_cannot_be_read(method: str) -> None:
    source = CannedSource(canned_responses())
    action_only_paths = sorted({*ACTION_PATHS} - {*PAGE_PATHS})
    assert action_only_paths == ["/ui/actions", f"/ui/connectors/{NAME}/logs/level"]
    for path in action_only_paths:
        assert browser(source).request(method, f"{path}?{ALL_FIELDS}").status_code == 405
    assert [method for method, *_ in source.requests if method != "GET"] == []


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost:8090", 200),
        ("LOCALHOST:8090", 200),
        ("localhost", 200),
        ("localhost.:8090", 200),
        ("127.0.0.1:8090", 200),
        ("[::1]:8090", 200),
        ("[::1]", 200),
        ("evil.example:8090", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("", 421),
        ("localhost, evil", 421),
    ],
)
def test_only_allowed_hosts_are_accepted(host: str, expected: int) -> None:
    options = DashboardOptions(worker=HOST, allowed_hosts=frozenset({"localhost", "127.0.0.1", "::1"}))
    assert status("GET", {"host": host}, options) == expected


@pytest.mark.parametrize(
    "path", ["/ui/", "/ui/connectors?part=list", "/ui/connectors/none", "/ui/nothing", "/ui/stream"]
)
def test_every_response_has_the_security_headers(path: str) -> None:
    response = Api(Settings(advertised_url="http://worker:8083/")).client.head(path)
    assert {name.decode(): value.decode() for name, value in HEADERS}.items() <= dict(
        response.headers
    ).items()
    assert response.headers["cache-control"] == "no-store"
    policy = response.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy


def test_referrer_policy_keeps_the_origin_of_forms() -> None:
    """With `no-referrer`, browsers would send `Origin: null` even with same-origin forms."""
    assert dict(HEADERS)[b"referrer-policy"] == b"same-origin"


def test_rejection_has_security_headers() -> None:
    client = TestClient(dashboard())
    response = client.post("/ui/connectors", headers={"Origin": "http://evil"})
    assert response.status_code == HTTPStatus.FORBIDDEN
    assert response.headers["x-frame-options"] == "DENY"


def test_repeated_headers_are_rejected() -> None:
    client = TestClient(dashboard())
    headers = [
        ("Origin", "http://testserver"),
        ("Origin", "http://evil"),
        ("Content-Type", POST_HEADERS["content-type"]),
    ]
    assert client.post("/ui/connectors", headers=headers).status_code == HTTPStatus.FORBIDDEN


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_scheme_of_the_browser_is_passed_to_the_worker(scheme: str) -> None:
    source = FakeSource()
    TestClient(dashboard(source), base_url=f"{scheme}://testserver").get("/ui/")
    assert {caller.scheme for caller in source.callers} == {scheme}


@pytest.mark.parametrize("path", PAGE_PATHS)
def test_pages_hide_secrets_of_configs(path: str) -> None:
    secret = "hunter2-of-the-sink"  # noqa: S105 - a test value
    config = {
        "connector.class": "org.acme.Sink",
        "db.passphrase": secret,
        "url": f"pg://me:{secret}@h/d",
        "jdbc": f"jdbc:x;password={secret};user=me",
        "headers": f"Authorization: Bearer {secret}",
    }
    responses = {
        f"/connectors/{NAME}/config": config,
        f"/connectors/{NAME}/tasks": [{"id": {"connector": NAME, "task": 0}, "config": config}],
        "/connectors": {NAME: {"info": {"name": NAME, "config": config, "tasks": [], "type": "sink"}}},
        "PUT /connector-plugins/org.acme.Sink/config/validate": {
            "name": "x",
            "error_count": 1,
            "groups": [],
            "configs": [
                {
                    "definition": {"name": key, "type": "STRING"},
                    "value": {
                        "name": key,
                        "value": value,
                        "errors": [f"Invalid value {value}"],
                        "visible": True,
                    },
                }
                for key, value in config.items()
            ],
        },
        "/connector-plugins/org.acme.Sink/config": [],
    }
    response = browser(CannedSource(canned_responses() | responses)).get(
        f"{path}?action=pause&name={NAME}&limit=1"
    )
    assert secret not in response.text
