"""Tests for the form of a connector that is deleted while the form is open."""

from __future__ import annotations

import pytest

from tests.fakes.servers.connect_rest import HIDE_ME, Connector, FakeConnect
from tests.unit.web.ui.browser import Browser, Form

CREATE_PATH = "/ui/create/org.example.FileSource"
EDIT_PATH = "/ui/connectors/orders/edit"
STORED_CONFIG: dict[str, str | None] = {
    "name": "orders",
    "connector.class": "org.example.FileSource",
    "topic": "t",
    "passphrase": HIDE_ME,
}


@pytest.fixture
def browser() -> Browser:
    return Browser(FakeConnect({"orders": Connector(config=dict(STORED_CONFIG))}))


def open_and_delete(browser: Browser) -> Form:
    """Open the form, delete the connector, and return the form."""
    form = browser.get(EDIT_PATH).form(action="/edit")
    browser.worker.connectors.clear()
    return form


def test_concurrent_deletion_is_reported(browser: Browser) -> None:
    assert "Connector orders not found" in browser.submit(open_and_delete(browser), ("do", "save")).plain


def test_form_of_a_deleted_connector_can_create_it_again(browser: Browser) -> None:
    page = browser.submit(open_and_delete(browser), ("do", "save"), topic="u")
    assert page.status == 404
    assert "Connector orders not found; nothing was saved. You can create it again" in page.plain
    assert browser.worker.requests == []
    create_form = page.form(action=CREATE_PATH)
    assert ("v.topic", "u") in create_form.fields
    rejected_page = browser.submit(create_form, ("do", "save"))
    assert rejected_page.status == 422, "the stored secret was deleted with the connector"
    secret = {"passphrase": "p"}
    result_page = browser.submit(rejected_page.form(action=CREATE_PATH), ("do", "save"), **secret)
    assert "orders: created with initial state RUNNING" in result_page.plain
    assert browser.worker.connectors["orders"].config["topic"] == "u"


def test_json_of_a_deleted_connector_is_preserved(browser: Browser) -> None:
    form = open_and_delete(browser)
    text = '{"connector.class": "org.example.FileSource", "topic": "u"'
    page = browser.post(EDIT_PATH, ("seal", dict(form.fields)["seal"]), ("json", text), ("do", "save"))
    assert page.status == 404
    assert ("json", text) in page.form(action="/ui/create").fields
