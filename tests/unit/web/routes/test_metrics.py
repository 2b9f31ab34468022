"""Tests for `GET /metrics`: format, methods, and the wait for requested metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest
from starlette.testclient import TestClient

from kraal.plugins.registry import Registry
from tests.unit.web.api import Api
from web.app import create_apps
from web.routes import metrics as module
from web.routes.metrics import Gather, Scrape
from web.settings import Settings

TEXT = ("# HELP a A.\n# TYPE a gauge\na 1\n", "# HELP b B.\n# TYPE b gauge\nb 2\n")


def scrape() -> Iterator[str]:
    return iter(TEXT)


@pytest.fixture
def client(api: Api) -> TestClient:
    """Return a client of an API that serves metrics and whose herder never replies."""
    return create_client(api, scrape)


def create_client(api: Api, scrape: Scrape | None, gather: Gather | None = None) -> TestClient:
    api.herder.is_silent = True
    settings = Settings(advertised_url="http://worker:8083/", version="9.9")
    apps = create_apps(
        api.address, api.published, Registry.of({}), api.validate, settings, scrape=scrape, gather=gather
    )
    return TestClient(apps.main)


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0",
        "application/json",
        "text/html",
    ],
)
def test_metrics_are_always_in_text_format(client: TestClient, accept: str) -> None:
    response = client.get("/metrics", headers={"Accept": accept})
    assert response.status_code == 200
    assert response.text == "".join(TEXT)
    assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert response.headers["Server"] == "kraal/9.9"


def test_scrape_sends_no_request_to_the_herder(api: Api, client: TestClient) -> None:
    api.herder.publish(live=False, ready=False)
    assert client.get("/metrics").status_code == 200, "metrics are served during startup"
    assert api.herder.requests == []


def test_every_scrape_returns_the_complete_text(client: TestClient) -> None:
    assert client.get("/metrics").text == client.get("/metrics").text == "".join(TEXT)


def test_head_and_options_are_supported(client: TestClient) -> None:
    head = client.head("/metrics")
    assert (head.status_code, head.text) == (200, "")
    options = client.options("/metrics")
    assert (options.status_code, options.headers["Allow"]) == (200, "HEAD,GET,OPTIONS")


def test_other_methods_are_rejected(client: TestClient) -> None:
    response = client.post("/metrics", content=b"")
    assert (response.status_code, response.json()["message"]) == (405, "HTTP 405 Method Not Allowed")


def test_metrics_endpoint_can_be_disabled(api: Api) -> None:
    response = create_client(api, None).get("/metrics")
    assert (response.status_code, response.json()["message"]) == (404, "HTTP 404 Not Found")


def test_scrape_waits_for_requested_metrics(api: Api) -> None:
    requests: list[Future[None]] = []

    def gather() -> list[Future[None]]:
        requests.append(Future())
        threading.Timer(0.01, requests[-1].set_result, [None]).start()
        return requests[-1:]

    def scrape_gathered() -> Iterator[str]:
        return iter([f"gathered {sum(request.done() for request in requests)}\n"])

    client = create_client(api, scrape_gathered, gather)
    assert [client.get("/metrics").text for _ in range(2)] == ["gathered 1\n", "gathered 2\n"]


def test_scrape_wait_is_limited(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GATHER_S", 0.01)
    assert create_client(api, scrape, lambda: [Future()]).get("/metrics").text == "".join(TEXT)


def test_scrape_without_pending_metrics_succeeds(api: Api) -> None:
    assert create_client(api, scrape, list).get("/metrics").text == "".join(TEXT)
