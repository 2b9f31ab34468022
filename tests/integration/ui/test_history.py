"""Tests for history pages: states with causes, log lines, events, and dead letters with their replay."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from kraal.broker.records import read_topic
from tests.integration.ui.stage.scene import BILLING, CAUSE, FAILING_SINK, RUNNING, SECRET, SOURCE, Scene

if TYPE_CHECKING:
    from tests.integration.ui.visitor import Visitor

pytestmark = pytest.mark.ci


def test_task_history_shows_the_cause_of_each_state(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("connectors", FAILING_SINK, "tasks", "0"))
    expect(page.locator("#task")).to_contain_text("failed")
    expect(page.locator("#task")).to_contain_text(CAUSE)
    page.goto(scene.page("connectors", FAILING_SINK, "history"))
    expect(page.locator("#history")).to_contain_text(CAUSE)
    assert SECRET not in page.content()


def test_pause_appears_in_events_and_history_of_open_pages(scene: Scene, visitor: Visitor) -> None:
    events = visitor.open(scene.page("events"))
    history = visitor.open(scene.page("connectors", SOURCE, "history"), beside=events)
    scene.cluster.pause(SOURCE)
    try:
        scene.wait_for_states(SOURCE, "PAUSED", "PAUSED")
        expect(events.locator("#events tbody tr, #events li").filter(has_text=SOURCE).first).to_be_visible()
        expect(history.locator("#history")).to_contain_text("paused")
    finally:
        scene.cluster.resume(SOURCE)
        scene.wait_for_states(SOURCE, *RUNNING)


def test_log_page_shows_failures_and_filters_by_level(scene: Scene, visitor: Visitor) -> None:
    page = visitor.open(scene.page("connectors", FAILING_SINK, "logs"))
    lines = page.locator("#lines li")
    failure = lines.filter(has_text=f"Task {FAILING_SINK}-0 failed: ").first
    expect(failure).to_contain_text(CAUSE)
    expect(failure).to_contain_text("task 0 ·")
    expect(failure).to_contain_text(f"POST /connectors/{FAILING_SINK}/tasks/0/restart")
    assigned_lines = lines.filter(has_text=f"Assigned {BILLING}-0")
    expect(assigned_lines.first).to_contain_text("task 0 ·")
    page.locator("form[role=search] select[name=level]").select_option("ERROR")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(re.compile("[?&]level=ERROR"))
    expect(assigned_lines).to_have_count(0)
    expect(failure).to_contain_text(CAUSE)
    assert set(lines.locator("b.level").all_inner_texts()) == {"ERROR"}
    assert SECRET not in page.content()


@pytest.mark.slow
def test_log_level_is_set_on_all_workers(scene: Scene, visitor: Visitor) -> None:
    path = "/admin/loggers/org.apache.kafka.connect.file"
    page = visitor.open(scene.page("connectors", SOURCE, "logs"))
    page.locator("#levels summary").click()
    form = page.locator("#levels form")
    form.locator("input[name=logger]").fill(path.rpartition("/")[2])
    form.locator("select[name=level]").select_option("DEBUG")
    form.locator("select[name=scope]").select_option("cluster")
    form.get_by_role("button", name="Set level").click()
    expect(page.locator("[data-result]")).to_be_visible()
    try:
        scene.wait_until(
            "the level was set",
            lambda: all(
                worker.ask("GET", path).body.get("level") == "DEBUG" for worker in scene.cluster.workers
            ),
        )
    finally:
        scene.worker.ask("PUT", f"{path}?scope=cluster", {"level": "INFO"})


@pytest.mark.slow
def test_active_topics_are_reset_after_a_confirmation(scene: Scene, visitor: Visitor) -> None:
    path = f"/connectors/{SOURCE}/topics"
    scene.wait_until("the topic was tracked", lambda: bool(scene.get(path)[SOURCE]["topics"]))
    page = visitor.open(scene.page("connectors", SOURCE, "topics"))
    page.get_by_role("link", name="Reset active topics").click()
    page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    expect(page.locator("[data-result]")).to_be_visible()
    assert scene.get(path) == {SOURCE: {"topics": []}}
    scene.write_orders("written after the active topics were reset")
    scene.wait_until("the topic was tracked again", lambda: bool(scene.get(path)[SOURCE]["topics"]))


def read_values(scene: Scene, topic: str) -> list[bytes | None]:
    return [record.value for record in read_topic(scene.bootstrap, topic, timeout_s=30)]


def test_dead_letters_are_shown_and_replayed_into_their_topic(
    scene: Scene, sink_with_letters: str, visitor: Visitor
) -> None:
    page = visitor.open(scene.page("connectors", sink_with_letters, "letters"))
    expect(page.locator("article.letter")).to_have_count(2)
    expect(page.locator("article.letter").filter(has_text="<b>not JSON</b>")).to_contain_text("payments")
    page.get_by_role("link", name=re.compile("Replay")).or_(
        page.get_by_role("button", name=re.compile("Replay"))
    ).click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("payments")
    topic = scene.get(f"/connectors/{sink_with_letters}/config")["topics"]
    values_before = read_values(scene, topic)
    dialog.get_by_role("button", name=re.compile("Replay")).click()
    expect(page.locator("[data-result]")).to_be_visible()
    replayed_values = read_values(scene, topic)[len(values_before) :]
    assert sorted(str(value) for value in replayed_values) == sorted(map(str, [b"<b>not JSON</b>", b"{"]))
