"""Tests for the readability of pages with deleted connectors, long names, and windows of any width."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from tests.integration.ui.stage.axe import violations_in_both_schemes
from tests.integration.ui.stage.dashboard import dashboard
from tests.integration.ui.stage.scene import page_url
from tests.unit.web.api import Api
from tests.unit.web.ui.activity import canned_responses
from tests.unit.web.ui.canned import CannedSource

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci

LONG_TEXT: Final = "a" * 240
WIDTHS: Final = (390, 640, 900, 1280)
"""Widths of a phone, 1280 pixels at 200 %, a tablet and a desktop."""
OVERFLOW_PX: Final = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


def test_open_pages_report_a_deleted_connector_until_it_is_recreated(
    api_and_url: tuple[Api, str], visitor: Visitor
) -> None:
    visitor.expect("404")
    api, url = api_and_url
    api.herder.put("orders", {"connector.class": "x"})
    first_page = visitor.open(page_url(url, "connectors", "orders"))
    tabs = ("history", "edit", "config")
    pages = [
        first_page,
        *(visitor.open(page_url(url, "connectors", "orders", tab), beside=first_page) for tab in tabs),
    ]
    for page in pages:
        expect(page.locator("#old")).to_be_hidden()
    api.herder.remove("orders")
    for page in pages:
        expect(page.locator("#old")).to_have_text(
            "This page is not up to date. The connector orders no longer exists."
        )
    assert violations_in_both_schemes(first_page) == []
    api.herder.put("orders", {"connector.class": "x", "added.key": "1"})
    for page in pages:
        expect(page.locator("#old")).to_be_hidden()
    expect(pages[-1].locator("#config table").first).to_contain_text("added.key")


@pytest.fixture
def long_names_url() -> Iterator[str]:
    """Serve a dashboard on which every name and text is long and has no spaces. Yield the dashboard's URL."""
    responses = canned_responses(LONG_TEXT, LONG_TEXT)
    responses["/events"]["events"][0]["kind"] = "config"  # workers write only short kinds
    reason = {
        "generation": 7,
        "completed_ms": 5,
        "leader": "http://w:1/",
        "reason": f"new: {LONG_TEXT}",
        "delay_ms": None,
    }
    assignment = {
        "url": "http://w:1/",
        "kind": "wildcard",
        "connectors": [LONG_TEXT],
        "tasks": [f"{LONG_TEXT}-0"],
    }
    waiting = {"connector": LONG_TEXT, "task": 0, "state": "lost", "reason": LONG_TEXT}
    responses["/admin/assignments"] = {
        "protocol": "sessioned", "generation": 7, "leader": "http://w:1/", "note": None, "rebalance": reason,
        "rebalances": [reason], "workers": [assignment], "waiting": [waiting],
    }  # fmt: skip
    info = {"config": responses[f"/connectors/{LONG_TEXT}/config"], "type": "sink"}
    responses["/connectors"] = {
        LONG_TEXT: {"status": responses[f"/connectors/{LONG_TEXT}/status"], "info": info}
    }
    with dashboard(CannedSource(responses)) as url:
        yield url


def test_pages_fit_the_window_width(long_names_url: str, visitor: Visitor) -> None:
    visitor.expect("ERR_CONNECTION_REFUSED")
    page = visitor.open("about:blank")
    tabs = ((), ("charts",), ("history",), ("logs",), ("config",), ("topics",), ("letters",), ("tasks", "0"))
    overflowing_pages = []
    for path in [(), ("cluster",), ("events",), *(("connectors", LONG_TEXT, *tab) for tab in tabs)]:
        page.goto(page_url(long_names_url, *path))
        expect(page.locator("main")).to_contain_text(LONG_TEXT)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 700})
            if page.evaluate(OVERFLOW_PX) > 0:
                overflowing_pages.append((*path[:1], *path[2:], width))
    assert overflowing_pages == []
