"""Tests for CORS, as implemented by Jetty's CrossOriginHandler in Connect 4.3.0."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kraal.config.patterns import Pattern
from kraal.config.worker.keys import allowed_origins
from tests.unit.web.api import Api
from tests.unit.web.workers import worker
from web.middleware.cors import CorsRules
from web.settings import Settings

URL = "http://worker:8083/"
CORS_PREFIX = "access-control-"


def api(origins: str, methods: str = "") -> Api:
    return Api(Settings(advertised_url=URL, cors=CorsRules.from_config(allowed_origins(origins), methods)))


def fetch_cors_headers(
    api: Api,
    method: str,
    path: str = "/connectors",
    origin: str | None = "http://a.com",
    **headers_by_name: str,
) -> dict[str, str]:
    request_headers = {name.replace("_", "-"): value for name, value in headers_by_name.items()}
    if origin is not None:
        request_headers["Origin"] = origin
    headers = api.client.request(method, path, headers=request_headers).headers
    return {name: value for name, value in headers.items() if name == "vary" or name.startswith(CORS_PREFIX)}


@pytest.mark.parametrize("path", ["/connectors", "/connectors/none", "/nowhere"])
def test_origins_are_ignored_without_rules(path: str) -> None:
    assert fetch_cors_headers(api(""), "GET", path) == {}
    assert fetch_cors_headers(api(" , "), "OPTIONS", path, Access_Control_Request_Method="PUT") == {}


@pytest.mark.parametrize("path", ["/connectors", "/connectors/none", "/nowhere"])
def test_response_names_allowed_origin_and_varies_by_origin(path: str) -> None:
    expected = {"vary": "Origin", "access-control-allow-origin": "http://a.com"}
    assert fetch_cors_headers(api("*"), "GET", path) == expected
    assert fetch_cors_headers(api("*"), "GET", path) == expected
    assert fetch_cors_headers(api("*"), "GET", path, origin=None) == {"vary": "Origin"}


@pytest.mark.parametrize("path", ["/ui", "/ui/", "/ui/connectors", "/ui/stream", "/ui/nothing"])
def test_dashboard_has_no_cors_headers(path: str) -> None:
    for method in ("HEAD", "OPTIONS"):
        response = fetch_cors_headers(api("*"), method, path, Access_Control_Request_Method="POST")
        assert not [name for name in response if name.startswith(CORS_PREFIX)]
    assert "access-control-allow-origin" in fetch_cors_headers(api("*"), "GET", "/uix")


@pytest.mark.parametrize(
    ("origin_patterns", "origin", "is_allowed"),
    [
        ("http://a.com", "http://a.com", True),
        ("http://a.com", "HTTP://A.com", True),
        ("http://a.com", "http://a.com.evil", False),
        ("http://b.com, https://.*\\.a\\.com", "https://x.a.com", True),
        ("https://.*\\.a\\.com", "https://xa.com", False),
        ("http://a.com", "http://b.com http://a.com", True),
        ("http://b.com,*", "null", True),
        ("http://a.com", "null", False),
    ],
)
def test_origin_patterns_match_full_origins(origin_patterns: str, origin: str, *, is_allowed: bool) -> None:
    response = fetch_cors_headers(api(origin_patterns), "GET", origin=origin)
    assert response.get("access-control-allow-origin") == (origin if is_allowed else None)
    assert response["vary"] == "Origin"


def test_preflight_response_lists_allowed_methods_and_headers() -> None:
    cors_api = api("*", "GET, PUT,,POST")
    response = cors_api.client.options(
        "/connectors", headers={"Origin": "http://a.com", "Access-Control-Request-Method": "PUT"}
    )
    assert (response.status_code, response.headers["allow"]) == (200, "HEAD,POST,GET,OPTIONS")
    cors_headers = {name: value for name, value in response.headers.items() if name.startswith(CORS_PREFIX)}
    assert cors_headers == {
        "access-control-allow-origin": "http://a.com",
        "access-control-allow-methods": "GET,PUT,POST",
        "access-control-allow-headers": "Content-Type",
        "access-control-max-age": "60",
    }


def test_allowed_methods_default_to_jettys_defaults() -> None:
    response = fetch_cors_headers(api("*"), "OPTIONS", Access_Control_Request_Method="PUT")
    assert response["access-control-allow-methods"] == "GET,POST,HEAD"


def test_options_without_a_requested_method_is_not_a_preflight() -> None:
    assert set(fetch_cors_headers(api("*"), "OPTIONS")) == {"vary", "access-control-allow-origin"}


SLOW_PATTERN = "http://(a|aa)+X"
"""Pattern with catastrophic backtracking in Python's `re`."""
SLOW_ORIGIN = "http://" + "a" * 100 + "-X"


def test_slow_origin_pattern_rejects_the_origin_and_caches_the_result(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api_with_slow_pattern = api(f"{SLOW_PATTERN},http://b.com")
    for _ in range(2):
        assert fetch_cors_headers(api_with_slow_pattern, "GET", origin=SLOW_ORIGIN) == {"vary": "Origin"}
    assert len([line for line in caplog.messages if "took longer than 500 ms" in line]) == 1
    assert (
        fetch_cors_headers(api_with_slow_pattern, "GET", origin="http://b.com")["access-control-allow-origin"]
        == "http://b.com"
    )


def test_matching_an_origin_does_not_block_other_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    matching_started, release = threading.Event(), threading.Event()

    def fullmatch(_pattern: Pattern, _text: str) -> object:
        matching_started.set()
        assert release.wait(30)
        return None

    monkeypatch.setattr(Pattern, "fullmatch", fullmatch)
    rules = CorsRules.from_config(allowed_origins(SLOW_PATTERN), "")
    with worker(cors=rules) as cors_api, ThreadPoolExecutor(1) as executor:
        slow_response = executor.submit(cors_api.ask, "GET", "/", Origin=SLOW_ORIGIN)
        try:
            assert matching_started.wait(30)
            assert cors_api.client.get("/", timeout=10).status_code == 200
        finally:
            release.set()
        assert slow_response.result(30).status_code == 200


def test_oversized_origin_is_not_matched() -> None:
    assert fetch_cors_headers(api("*"), "GET", origin="http://" + "a" * 1_000) == {"vary": "Origin"}
