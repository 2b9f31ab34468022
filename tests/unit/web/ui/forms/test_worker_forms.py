"""Tests for the forms of a worker's own dashboard, which show the results of Kraal's validation."""

from __future__ import annotations

import json

import pytest
from typing_extensions import override

from actors.messages.herder import CreateConnector
from kraal.core.errors import RetryableConflict
from kraal.core.ids import Config, TargetState
from kraal.plugins.validation.infos import ConfigInfos
from kraal.plugins.validation.validate import validate_for_rest
from tests.fakes.servers.connect_rest import Connector, FakeConnect
from tests.fakes.workers.worker_config import Defaults
from tests.unit.plugins.shipped import SINK_CLASS, SOURCE_CLASS, registry
from tests.unit.web.api import Api
from tests.unit.web.ui.browser import FORM_HEADERS, Browser, Form, RenderedPage
from web.settings import Settings

EDIT_PATH = "/ui/connectors/orders/edit"
CONFIG = {
    "connector.class": SOURCE_CLASS,
    "topic": "t",
    "file": "/data/x",
    "producer.override.ssl.keystore.password": "geheim",
}


class ValidatingApi(Api):
    """An API that validates configs."""

    @override
    def validate(self, plugin: str, config: Config) -> ConfigInfos:
        return validate_for_rest(registry(), Defaults(), plugin, config)


class WorkerBrowser(Browser):
    """Browser that shows a worker's own dashboard."""

    def __init__(self, api: Api) -> None:
        self.client = api.client
        self.client.follow_redirects = False


@pytest.fixture
def api() -> Api:
    validating_api = ValidatingApi(Settings(advertised_url="http://worker:8083/"), registry=registry())
    validating_api.herder.put("orders", CONFIG, tasks=1)
    return validating_api


@pytest.fixture
def browser(api: Api) -> Browser:
    return WorkerBrowser(api)


def find_config_form(page: RenderedPage) -> Form:
    return next(
        form
        for form in map(page.form, range(9))
        if form.action.endswith(("/edit", f"/create/{SOURCE_CLASS}"))
    )


def stored_config(api: Api) -> Config:
    return api.published.latest.config.connectors["orders"].config  # type: ignore[index]


def test_editing_a_stored_config_keeps_its_secret(api: Api, browser: Browser) -> None:
    page = browser.get(EDIT_PATH)
    assert page.status == 200
    assert "geheim" not in page.text
    assert [title in page.plain for title in ("Common", "Error Handling", "Topic Creation")] == [True] * 3
    preview = browser.submit(find_config_form(page), ("do", "save"), topic="u")
    assert "topic changed t u" in preview.plain
    assert "geheim" not in preview.text
    result_page = browser.submit(find_config_form(preview), ("do", "save"))
    assert "orders: saved (status 200)" in result_page.plain
    assert stored_config(api) == {**CONFIG, "name": "orders", "topic": "u"}


def test_kraal_errors_are_shown_at_their_fields(browser: Browser) -> None:
    page = browser.submit(
        find_config_form(browser.get(EDIT_PATH)),
        ("do", "save"),
        topic="",
        **{"tasks.max": "x", "transforms": "a"},
    )
    assert page.status == 422
    for key in ("topic", "tasks.max", "transforms.a.type"):
        assert f"<code>{key}</code></a>: " in page.text


def test_form_creates_a_connector(api: Api, browser: Browser) -> None:
    page = browser.get(f"/ui/create/{SOURCE_CLASS}")
    assert 'id="errors"' not in page.text
    result_page = browser.submit(
        find_config_form(page), ("do", "save"), name="new", topic="t", initial_state="PAUSED"
    )
    assert "new: created with initial state PAUSED" in result_page.plain
    assert api.published.latest.config.connectors["new"].config["topic"] == "t"  # type: ignore[index]


def test_form_creates_a_connector_with_initial_offsets(api: Api, browser: Browser) -> None:
    fields = find_config_form(browser.get(f"/ui/create/{SOURCE_CLASS}")).with_values(name="new", topic="t")
    config_fields = [(name, value) for name, value in fields if not name.startswith("at.")]
    offset_fields = [
        ("at.partition", '{"filename": "/data/x"}'),
        ("at.offset", '{"position": 7}'),
        ("do", "save"),
    ]
    result_page = browser.post(f"/ui/create/{SOURCE_CLASS}", *config_fields, *offset_fields)
    assert "new: created with initial state RUNNING (status 201) altered" in result_page.plain
    (create_request,) = [request for request in api.herder.requests if isinstance(request, CreateConnector)]
    assert create_request.initial_offsets == [({"filename": "/data/x"}, {"position": 7})]


def test_recommended_values_are_suggested_at_their_field(browser: Browser) -> None:
    page = browser.get(f"/ui/create/{SOURCE_CLASS}").text
    element_id = page.partition(' name="v.value.converter"')[0].rpartition('id="')[2].rstrip('"')
    options = page.partition(f'<datalist id="{element_id}-list">')[2].partition("</datalist>")[0]
    assert '<option value="org.apache.kafka.connect.json.JsonConverter"></option>' in options
    assert f'list="{element_id}-list"' in page


def test_plugin_documentation_comes_from_the_worker(browser: Browser) -> None:
    assert SINK_CLASS in browser.get("/ui/plugins").plain
    page = browser.get(f"/ui/plugins/{SINK_CLASS}")
    example = json.loads(page.plain.partition("angle brackets. ")[2].partition(" Copy as")[0])
    assert example["connector.class"] == SINK_CLASS


def test_in_process_requests_are_retried_during_rebalances(api: Api, browser: Browser) -> None:
    api.herder.error = RetryableConflict("Cannot complete request momentarily due to no known leader URL")
    requests: list[int] = []

    def deliver(message: object) -> bool:
        requests.append(1)
        if len(requests) > 1:
            api.herder.error = None
        return api.herder.deliver(message)

    api.address.bind(deliver)
    page = browser.post("/ui/actions", ("action", "stop"), ("name", "orders"))
    assert "will stop (status 204)" in page.plain
    assert api.published.latest.config.connectors["orders"].target is TargetState.STOPPED  # type: ignore[index]


def test_config_tab_reports_an_unchanged_config(browser: Browser) -> None:
    message = "The config has not changed since this worker started."
    assert message in browser.get("/ui/connectors/orders/config").plain
    java_browser = Browser(FakeConnect({"orders": Connector(config={**CONFIG})}))
    assert message not in java_browser.get("/ui/connectors/orders/config").plain


def test_actions_require_the_origin_of_the_dashboard(api: Api) -> None:
    response = api.client.post(
        "/ui/actions", content="action=delete&name=orders", headers={**FORM_HEADERS, "Origin": "http://evil"}
    )
    assert response.status_code == 403
    assert "orders" in api.published.latest.config.connectors
