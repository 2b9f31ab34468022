"""Tests for `kraal ui`: the dashboard of a Java worker, and a read-only dashboard of a Kraal worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from playwright.sync_api import expect

from kraal.broker.broker import Broker
from scripts.harness.processes import wait_until
from scripts.harness.workers import START_TIMEOUT_S, Worker, java_distributed
from tests.integration.ui.stage.axe import violations
from tests.integration.ui.stage.remote import kraal_ui
from tests.integration.ui.stage.scene import FAILING_SINK, SOURCE, Scene, page_url
from tests.integration.ui.stage.screens import list_navigation_urls, list_tab_urls, set_checked

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci
SOURCE_CLASS = "org.apache.kafka.connect.file.FileStreamSourceConnector"
NAME = "java-made"


@pytest.fixture
def java(kafka: Broker, tmp_path: Path) -> Iterator[Worker]:
    """Run a Java worker in a separate group."""
    worker = java_distributed(kafka.bootstrap, tmp_path)
    try:
        worker.wait_until_up()
        yield worker
    finally:
        worker.rest.close()
        worker.process.stop(1.0)  # the only member of a group takes long to leave it


@pytest.fixture
def java_ui(java: Worker, tmp_path: Path) -> Iterator[str]:
    """Run `kraal ui` for the Java worker, and yield its URL.

    Tests must request this fixture and `read_only_ui` before `visitor`, so that no open page requests a stopped server.
    """
    with kraal_ui(tmp_path / "ui", java.rest.url) as url:
        yield url


@pytest.fixture
def read_only_ui(scene: Scene, tmp_path: Path) -> Iterator[str]:
    """Run a read-only `kraal ui` for a Kraal worker, and yield its URL."""
    with kraal_ui(tmp_path / "ui", scene.worker.url, "--read-only") as url:
        yield url


def wait_until_states(worker: Worker, name: str, *states: str) -> None:
    """Wait until the worker reports these states for a connector and its tasks."""

    def has_states() -> bool:
        status = worker.rest.status(name)
        instances = [] if status is None else [status["connector"], *status["tasks"]]
        return [instance["state"] for instance in instances] == list(states)

    wait_until(
        f"{name} had the states {states}", has_states, timeout_s=START_TIMEOUT_S, program=worker.process
    )


def test_java_worker_can_be_monitored_and_controlled(
    java: Worker, java_ui: str, visitor: Visitor, tmp_path: Path
) -> None:
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
    wait_until_states(java, "java-sink", "RUNNING", "FAILED")
    page = visitor.open(page_url(java_ui))
    failed_row = page.locator("tr[data-row]").filter(has_text="java-sink")
    expect(failed_row.locator(".state")).to_have_text("failed")
    assert page.locator("tr[data-row] th a").all_inner_texts()[0] == "java-sink"
    expect(failed_row.locator(".cause")).to_contain_text(str(tmp_path / "missing"))
    expect(page.get_by_role("columnheader", name="Records/s")).to_have_count(0)
    screens = list_navigation_urls(page)
    page.goto(page_url(java_ui, "connectors", "java-source"))
    screens += list_tab_urls(page)
    for screen in dict.fromkeys(screens):
        page.goto(screen)
        expect(page.get_by_role("heading", level=1)).not_to_have_text("Not found")
        assert violations(page) == []
    page.goto(page_url(java_ui, "connectors", "java-source"))
    page.locator("#connector-actions").get_by_role("link", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    wait_until_states(java, "java-source", "STOPPED")
    expect(page.locator(".facts")).to_contain_text("stopped")
    page.locator("#connector-actions").get_by_role("link", name="Delete", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Connectors")
    assert java.rest.connectors() == ["java-sink"]


@dataclass(frozen=True)
class JavaConnector:
    """A connector on a Java worker, and its pages."""

    java: Worker
    page: Page
    url: str

    def open(self, *segments: str) -> None:
        self.page.goto(page_url(self.url, "connectors", NAME, *segments))

    def confirm(self, link: str, button: str) -> None:
        """Click a link that requires confirmation, confirm, and wait for the result."""
        self.page.get_by_role("link", name=link).click()
        self.page.get_by_role("dialog").get_by_role("button", name=button).click()
        expect(self.page.locator("[data-result]")).to_be_visible()

    def fill(self, **values: str) -> None:
        for key, value in values.items():
            self.page.locator(f'[name="v.{key.replace("_", ".")}"]').fill(value)

    def get_json(self, path: str) -> Any:
        return httpx2.get(f"{self.java.rest.url}/connectors/{NAME}/{path}", trust_env=False).json()

    def wait_for(self, state: str, tasks: int = 1) -> None:
        """Wait until the worker reports this state for the connector and this number of tasks."""
        wait_until_states(self.java, NAME, *[state] * (1 + tasks))


@pytest.fixture
def java_connector(java: Worker, java_ui: str, visitor: Visitor) -> JavaConnector:
    return JavaConnector(java, visitor.open(page_url(java_ui)), java_ui)


@pytest.mark.slow
def test_forms_and_buttons_work_on_a_java_worker(
    java_connector: JavaConnector, visitor: Visitor, tmp_path: Path
) -> None:
    page, lines = java_connector.page, tmp_path / "lines"
    lines.write_text("one\n", encoding="utf-8")
    visitor.expect("422")
    page.goto(page_url(java_connector.url, "create", SOURCE_CLASS))
    java_connector.fill(name=NAME, file=str(lines), tasks_max="many")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("alert")).to_contain_text("2 problems")
    assert java_connector.java.rest.connectors() == []
    java_connector.fill(tasks_max="1", topic="java-made-lines")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
    java_connector.wait_for("RUNNING")
    java_connector.confirm("Pause", "Pause")
    java_connector.wait_for("PAUSED")
    page.locator("#connector-actions").get_by_role("button", name="Resume").click()
    java_connector.wait_for("RUNNING")
    java_connector.open()
    page.locator("tr[data-row]").get_by_role("link", name="Restart").click()
    page.get_by_role("dialog").get_by_role("button", name="Restart").click()
    expect(page.locator("[data-result]")).to_contain_text(f"{NAME}, task 0")
    java_connector.wait_for("RUNNING")
    java_connector.open("edit")
    java_connector.fill(batch_size="7")
    page.get_by_role("button", name="Save…").click()
    expect(page.locator("#changes tbody tr")).to_contain_text("7")
    page.get_by_role("button", name="Save these changes").click()
    expect(page.locator("[data-result]")).to_be_visible()
    assert java_connector.get_json("config")["batch.size"] == "7"


@pytest.mark.slow
def test_restart_recovers_a_failed_connector_on_a_java_worker(
    java_connector: JavaConnector, tmp_path: Path
) -> None:
    page, rest, directory = java_connector.page, java_connector.java.rest, tmp_path / "missing"
    (tmp_path / "lines").write_text("one\n", encoding="utf-8")
    source = {"connector.class": SOURCE_CLASS, "file": str(tmp_path / "lines"), "topic": "java-restarts"}
    sink = {"connector.class": "FileStreamSink", "topics": "java-restarts", "file": str(directory / "out")}
    rest.create("java-feed", source)
    page.goto(page_url(java_connector.url, "create"))
    page.locator("#json").fill(json.dumps({"name": NAME, **sink}))
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(NAME)
    assert java_connector.get_json("config") == {"name": NAME, **sink}
    expect(page.locator(".cause").first).to_contain_text(str(directory), timeout=START_TIMEOUT_S * 1000)
    tabs = page.locator("nav.tabs a").all_inner_texts()
    assert tabs == ["Overview", "Config", "Offsets", "Topics"]
    directory.mkdir()
    java_connector.confirm("Restart failed", "Restart")
    java_connector.wait_for("RUNNING")
    out = directory / "out"
    wait_until(
        "the line was written", lambda: out.exists() and out.read_text() == "one\n", timeout_s=START_TIMEOUT_S
    )
    actions = page.locator("#connector-actions")
    for link in ("Restart", "Restart connector only"):
        java_connector.open()
        if link == "Restart connector only":
            actions.locator("summary").click()
        actions.get_by_role("link", name=link, exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Restart").click()
        expect(page.locator("[data-result]")).to_contain_text(NAME)
        expect(page.locator("[data-result]")).not_to_contain_text("failed")
        java_connector.wait_for("RUNNING")
    page.goto(page_url(java_connector.url, "connectors"))
    for name in (NAME, "java-feed"):
        set_checked(page.get_by_label(f"Select {name}", exact=True))
    page.locator("#bulk").get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause (2)").click()
    expect(page.locator("[data-result]")).to_contain_text("2 done")
    java_connector.wait_for("PAUSED")
    expect(page.locator("#away")).to_be_hidden()
    java_connector.java.process.stop(1.0)
    expect(page.locator("#away")).to_contain_text("No response from")
    expect(page.get_by_role("link", name=NAME)).to_be_visible()  # the last content stays readable


@pytest.mark.slow
def test_offsets_and_topics_of_a_java_worker_can_be_changed(
    java_connector: JavaConnector, tmp_path: Path
) -> None:
    page, lines = java_connector.page, tmp_path / "lines"
    lines.write_text("one\n", encoding="utf-8")
    config = {"connector.class": SOURCE_CLASS, "file": str(lines), "topic": "java-made-lines"}
    java_connector.java.rest.create(NAME, config)
    wait_until(
        "the topic was tracked",
        lambda: bool(java_connector.get_json("topics")[NAME]["topics"]),
        timeout_s=START_TIMEOUT_S,
    )
    java_connector.open()
    java_connector.confirm("Stop", "Stop")
    java_connector.wait_for("STOPPED", tasks=0)
    wait_until(
        "the connector had an offset",
        lambda: bool(java_connector.get_json("offsets")["offsets"]),
        timeout_s=START_TIMEOUT_S,
    )
    java_connector.open("offsets")
    page.locator("textarea[name^='o.']").fill('{"position": 0}')
    page.get_by_role("button", name="Preview changes").click()
    page.get_by_role("button", name="Change 1 offset").click()
    expect(page.locator("[data-result]")).to_be_visible()
    assert [entry["offset"] for entry in java_connector.get_json("offsets")["offsets"]] == [{"position": 0}]
    java_connector.confirm("Delete all", "Delete")
    assert java_connector.get_json("offsets") == {"offsets": []}
    java_connector.open("topics")
    java_connector.confirm("Reset active topics", "Reset")
    assert java_connector.get_json("topics") == {NAME: {"topics": []}}
    page.goto(page_url(java_connector.url, "connectors"))
    set_checked(page.get_by_label(f"Select {NAME}", exact=True))
    page.locator("#bulk").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator("[data-result]")).to_contain_text(NAME)
    assert java_connector.java.rest.connectors() == []


def test_read_only_dashboard_has_no_actions_and_rejects_them(
    scene: Scene, read_only_ui: str, visitor: Visitor
) -> None:
    page = visitor.open(page_url(read_only_ui))
    expect(page.get_by_text("read-only")).to_be_visible()
    screens = list_navigation_urls(page)
    page.goto(page_url(read_only_ui, "connectors", FAILING_SINK))
    for screen in dict.fromkeys([*screens, page.url, *list_tab_urls(page)]):
        page.goto(screen)
        assert page.locator("form[method=post], a[data-confirm]").count() == 0, screen
        assert page.get_by_role("link", name="Edit").count() == 0, screen
    response = httpx2.post(
        page_url(read_only_ui, "actions"),
        data={"action": "pause", "name": SOURCE},
        headers={"Origin": read_only_ui},
        trust_env=False,
    )
    assert response.status_code == 403
    assert scene.worker.states(SOURCE)[0] == "RUNNING"
