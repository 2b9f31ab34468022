"""`GET /metrics`: what Prometheus gets, and what it does to others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from kraal.plugins.registry import Registry
from tests.unit.web.api import Api
from web.app import create_apps
from web.routes.metrics import Scrape
from web.settings import Settings

TEXT = ("# HELP a A.\n# TYPE a gauge\na 1\n", "# HELP b B.\n# TYPE b gauge\nb 2\n")


def scrape() -> Iterator[str]:
    return iter(TEXT)


@pytest.fixture
def client(api: Api) -> TestClient:
    """Return a client of an API with metrics, whose herder answers nothing at all."""
    return client_of(api, scrape)


def client_of(api: Api, scrape: Scrape | None) -> TestClient:
    api.herder.silent = True
    settings = Settings(advertised_url="http://worker:8083/", version="9.9")
    app = create_apps(api.address, api.published, Registry.of({}), api.validate, settings, scrape=scrape).main
    return TestClient(app)


@pytest.mark.parametrize(
    "accept",
    [
        "text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0",
        "application/json",
        "text/html",
    ],
)
def test_everybody_gets_the_text_format(client: TestClient, accept: str) -> None:
    answer = client.get("/metrics", headers={"Accept": accept})
    assert answer.status_code == 200
    assert answer.text == "".join(TEXT)
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert answer.headers["Server"] == "kraal/9.9"


def test_nobody_is_asked(api: Api, client: TestClient) -> None:
    api.herder.publish(live=False, ready=False)
    assert client.get("/metrics").status_code == 200, "also while the worker starts"
    assert api.herder.asked == []


def test_it_is_as_new_each_time(client: TestClient) -> None:
    assert client.get("/metrics").text == client.get("/metrics").text == "".join(TEXT)


def test_head_and_options(client: TestClient) -> None:
    head = client.head("/metrics")
    assert (head.status_code, head.text) == (200, "")
    options = client.options("/metrics")
    assert (options.status_code, options.headers["Allow"]) == (200, "HEAD,GET,OPTIONS")


def test_other_methods_are_refused(client: TestClient) -> None:
    answer = client.post("/metrics", content=b"")
    assert (answer.status_code, answer.json()["message"]) == (405, "HTTP 405 Method Not Allowed")


def test_it_can_be_switched_off(api: Api) -> None:
    answer = client_of(api, None).get("/metrics")
    assert (answer.status_code, answer.json()["message"]) == (404, "HTTP 404 Not Found")
