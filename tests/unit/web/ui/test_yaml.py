"""Tests for the export of the listed connectors as one YAML file."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import httpx2
import pytest

from kraal.config.yaml_text import convert_config_scalar, read_yaml
from tests.fakes.servers.connect_rest import HIDE_ME, Connector, FakeConnect
from tests.unit.web.ui.browser import Browser
from web.ui.pages import connector, connectors

CONFIG = {"connector.class": "org.example.FileSource", "topic": "t", "passphrase": HIDE_ME}
MASKED_CONFIG = {**CONFIG, "passphrase": "[hidden]"}


@pytest.fixture
def worker() -> FakeConnect:
    return FakeConnect(
        {
            "orders": Connector(config={"name": "orders", **CONFIG}),
            "bills": Connector(config={"name": "bills", **CONFIG}, state="PAUSED"),
            "other": Connector(config={"connector.class": "org.unknown.Sink", "anything": HIDE_ME}),
        }
    )


@pytest.fixture
def browser(worker: FakeConnect) -> Browser:
    return Browser(worker)


def documents(text: str) -> list[Any]:
    """Return the YAML documents of the file shown on a page."""
    area = re.search(r'<textarea [^>]*aria-label="YAML[^>]*>\n(.*?)</textarea>', text, re.DOTALL)
    return read_yaml(unescape(area[1]), convert_config_scalar) if area else []


def test_list_links_to_the_yaml_of_its_connectors(browser: Browser) -> None:
    assert 'href="/ui/yaml?q=ord"' in browser.get("/ui/connectors?q=ord").text
    assert "1 connector as YAML" in browser.get("/ui/connectors?q=ord").plain
    assert "3 connectors as YAML" in browser.get("/ui/connectors").plain


def test_connectors_are_exported_as_one_file_without_secrets(browser: Browser) -> None:
    page = browser.get("/ui/yaml")
    assert page.status == 200
    assert HIDE_ME not in page.text
    assert sorted(documents(page.text), key=lambda document: document["name"]) == [
        {"name": "bills", "config": MASKED_CONFIG, "initial_state": "PAUSED"},
        {"name": "orders", "config": MASKED_CONFIG},
        {"name": "other", "config": {"connector.class": "org.unknown.Sink", "anything": "[hidden]"}},
    ]
    assert "All connectors of the cluster: 3." in page.plain
    assert page.plain.count("which must be filled in before `kraal apply`") == 1
    assert "expand=info" in page.plain


def test_export_applies_the_filters_of_the_list(browser: Browser) -> None:
    page = browser.get("/ui/yaml?state=paused&q=BILL")
    assert [document["name"] for document in documents(page.text)] == ["bills"]
    assert "All connectors in state paused, with a name or class that contains “BILL”: 1." in page.plain
    assert 'href="/ui/connectors?state=paused&amp;q=BILL"' in page.text
    assert documents(browser.get("/ui/yaml?q=nothing").text) == []


def test_keys_of_a_plugin_are_requested_once(browser: Browser, worker: FakeConnect) -> None:
    requests: list[list[str]] = []
    worker.on_request = lambda _method, segments: requests.append(segments)
    browser.get("/ui/yaml")
    plugin_requests = [segments for segments in requests if segments[0] == "connector-plugins"]
    assert sorted(segments[1] for segments in plugin_requests) == [
        "org.example.FileSource",
        "org.unknown.Sink",
    ]


def test_connector_page_includes_its_yaml(browser: Browser) -> None:
    page = browser.get("/ui/connectors/bills")
    assert documents(page.text) == [{"name": "bills", "config": MASKED_CONFIG, "initial_state": "PAUSED"}]
    assert HIDE_ME not in page.text
    assert "Copy as curl" in page.plain


def test_connector_page_limits_the_wait_for_plugin_keys(
    browser: Browser, worker: FakeConnect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connector, "_SECRETS_TIMEOUT_S", 0.0)
    page = browser.get("/ui/connectors/bills")
    assert page.status == 200
    assert documents(page.text) == []
    assert HIDE_ME not in page.text
    monkeypatch.undo()

    def drop_connection(_method: str, segments: list[str]) -> None:
        if segments[0] == "connector-plugins":
            raise httpx2.ReadError("gone")

    worker.on_request = drop_connection
    page = browser.get("/ui/connectors/bills")
    assert page.status == 200
    assert documents(page.text) == []


def test_truncated_list_reports_omitted_entries(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connectors, "MAX_CONNECTORS", 2)
    page = browser.get("/ui/yaml?sort=name")
    assert [document["name"] for document in documents(page.text)] == ["bills", "orders"]
    assert "These are the first 2 of 3 connectors." in page.plain
