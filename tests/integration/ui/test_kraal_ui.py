"""`kraal ui`: the dashboard in front of a Java worker, and read-only in front of Kraal's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from playwright.sync_api import expect

from kraal.broker.broker import Broker
from scripts.harness.workers import Worker, java_distributed
from tests.integration.ui.axe import violations
from tests.integration.ui.stage.remote import kraal_ui
from tests.integration.ui.stage.scene import FAILING, SOURCE, Scene, page_url
from tests.integration.ui.stage.screens import of_connector, of_dashboard

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci
UPDATE_MS = 5_000
"""Java tells no changes: it is asked every two seconds."""


@pytest.fixture
def java(kafka: Broker, tmp_path: Path) -> Iterator[Worker]:
    """A Java worker in a group of its own."""
    made = java_distributed(kafka.bootstrap, tmp_path)
    try:
        made.wait_until_up()
        yield made
    finally:
        made.rest.close()
        made.process.stop(1.0)  # alone, it takes its time to leave the group


def test_a_java_worker_is_seen_and_steered(java: Worker, visitor: Visitor, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("one\n", encoding="utf-8")
    source = {
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(lines),
        "topic": "java-lines",
    }
    sink = {"connector.class": "FileStreamSink", "tasks.max": "1", "topics": "java-lines"}
    java.rest.create("java-source", source)
    java.rest.create("java-sink", sink | {"file": str(tmp_path / "missing" / "out")})
    java.wait_until_running("java-source")
    with kraal_ui(tmp_path / "ui", java.rest.url) as url:
        page = visitor.open(page_url(url))
        failed = page.locator("tr[data-row]").filter(has_text="java-sink")
        expect(failed.locator(".state")).to_have_text("failed", timeout=UPDATE_MS)
        assert page.locator("tr[data-row] th a").all_inner_texts()[0] == "java-sink"
        expect(failed.locator(".cause")).to_contain_text(str(tmp_path / "missing"))
        expect(page.get_by_role("columnheader", name="Records/s")).to_have_count(0)
        screens = of_dashboard(page)
        page.goto(page_url(url, "connectors", "java-source"))
        screens += of_connector(page)
        for screen in dict.fromkeys(screens):
            page.goto(screen)
            expect(page.get_by_role("heading", level=1)).not_to_have_text("Not found")
            assert violations(page) == []
        page.goto(page_url(url, "connectors", "java-source"))
        page.locator("#connector-actions").get_by_role("link", name="Stop", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        expect(page.locator(".facts")).to_contain_text("stopped", timeout=UPDATE_MS)
        status = java.rest.status("java-source")
        assert status is not None
        assert (status["connector"]["state"], status["tasks"]) == ("STOPPED", [])
        page.locator("#connector-actions").get_by_role("link", name="Delete", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Connectors")
        assert java.rest.connectors() == ["java-sink"]


def test_a_read_only_dashboard_has_no_actions_and_refuses_them(
    scene: Scene, visitor: Visitor, tmp_path: Path
) -> None:
    with kraal_ui(tmp_path, scene.worker.url, "--read-only") as url:
        page = visitor.open(page_url(url))
        expect(page.get_by_text("read-only")).to_be_visible()
        screens = of_dashboard(page)
        page.goto(page_url(url, "connectors", FAILING))
        for screen in dict.fromkeys([*screens, page.url, *of_connector(page)]):
            page.goto(screen)
            assert page.locator("form[method=post], a[data-confirm]").count() == 0, screen
            assert page.get_by_role("link", name="Edit").count() == 0, screen
        refused = httpx2.post(
            page_url(url, "actions"),
            data={"action": "pause", "name": SOURCE},
            headers={"Origin": url},
            trust_env=False,
        )
        assert refused.status_code == 403
        assert scene.worker.states(SOURCE)[0] == "RUNNING"
