"""Tests for configured response headers (KIP-577)."""

from __future__ import annotations

import http.client
from email.utils import parsedate_to_datetime

import pytest

from kraal.config.worker.response_headers import parse_header_rules, sets_date
from tests.unit.web.api import Api
from web.server import HttpServer, Listener
from web.settings import Settings


def api(rules: str) -> Api:
    return Api(Settings(advertised_url="http://worker:8083/", response_headers=parse_header_rules(rules)))


def fetch_headers(api: Api, path: str, method: str = "GET") -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in api.client.request(method, path).headers.multi_items()]


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/connectors"), ("GET", "/connectors/x"), ("GET", "/nowhere"), ("PATCH", "/"), ("OPTIONS", "/")],
)
def test_every_response_has_the_configured_headers(method: str, path: str) -> None:
    api_with_rules = api('set X-Frame-Options: DENY,"add Cache-Control: no-cache, no-store"')
    for _ in range(2):
        headers = fetch_headers(api_with_rules, path, method)
        assert ("x-frame-options", "DENY") in headers
        assert ("cache-control", "no-cache, no-store") in headers


def test_rules_are_applied_in_order() -> None:
    headers = fetch_headers(api("add X-A: 1,add X-A: 2"), "/connectors")
    assert [value for name, value in headers if name == "x-a"] == ["1", "2"]
    headers = fetch_headers(api("add X-A: 1,set x-a: 3"), "/connectors")
    assert [value for name, value in headers if name == "x-a"] == ["3"]


def test_response_headers_override_configured_headers() -> None:
    api_with_rules = api("set Content-Type: text/html,add Location: zz")
    assert dict(fetch_headers(api_with_rules, "/connectors"))["content-type"] == "application/json"
    assert dict(fetch_headers(api_with_rules, "/nowhere"))["content-type"] == "text/html"
    assert dict(fetch_headers(api_with_rules, "/connectors"))["location"] == "zz"
    response = api_with_rules.client.post("/connectors", json={"name": "a", "config": {}})
    assert response.headers.get_list("location") == ["http://worker:8083/connectors/a"]


def test_server_header_can_be_replaced() -> None:
    headers = fetch_headers(api("set Server: x"), "/connectors")
    assert [value for name, value in headers if name == "server"] == ["x"]


@pytest.mark.parametrize(
    "rules", ["setDate Date: 3600000", "addDate Date: 3600000", "setDate Expires: 3600000"]
)
def test_date_headers_are_relative_to_the_current_time(rules: str) -> None:
    parsed_rules = parse_header_rules(rules)
    server = HttpServer([Listener("127.0.0.1", 0)], graceful_s=1, date_header=not sets_date(parsed_rules))
    server.start(api(rules).app)
    try:
        client = http.client.HTTPConnection("127.0.0.1", server.bound_listeners[0].port, timeout=10)
        client.request("GET", "/connectors")
        headers = client.getresponse().headers
        client.close()
    finally:
        server.stop()
    dates = [parsedate_to_datetime(value) for value in headers.get_all("Date", [])]
    shifted_dates = [*dates[1:], *map(parsedate_to_datetime, headers.get_all("Expires", []))]
    if rules.startswith("setDate Date"):
        assert (len(dates), shifted_dates) == (1, [])
    else:
        assert 3590 <= (shifted_dates[0] - dates[0]).total_seconds() <= 3610
